// Seeds that once broke a promise, each with what was wrong. They run with the fixed ones, for ever.
import type { SimulatedStage } from './simulate.ts';

export interface FoundSeed {
  readonly seed: number;
  readonly stage: SimulatedStage;
  /** What it broke, and why. */
  readonly wasWrong: string;
}

export const foundSeeds: readonly FoundSeed[] = [];
