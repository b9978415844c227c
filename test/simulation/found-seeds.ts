// Seeds that once broke a promise, each with what was wrong. They run with the fixed ones, for ever.
import type { SimulatedStage } from './simulate.ts';

export interface FoundSeed {
  readonly seed: number;
  readonly stage: SimulatedStage;
  /** What it broke, and why. */
  readonly wasWrong: string;
}

export const foundSeeds: readonly FoundSeed[] = [
  {
    seed: 51,
    stage: 'rehearsal',
    wasWrong: 'an open run again late brought a row forward, or opened it, that a claim had taken since its first run',
  },
  {
    seed: 129,
    stage: 'production',
    wasWrong:
      'the same: its first run had found only rows that were to be opened alone, and left no trace of its token',
  },
  {
    seed: 1075,
    stage: 'production',
    wasWrong: 'the same: its first run had found every row leased or expired, and left no trace of its token',
  },
];
