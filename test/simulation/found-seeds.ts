// What seeds once found, each as it was: the defect, and a seed that meets its situation. With the defect it must break.
import { both, change } from './planted-defects.ts';
import type { Plant } from './run.ts';
import type { SimulatedStage } from './simulate.ts';

export interface FoundSeed {
  /** Found anew by the defect whenever the draws change: the seed that first found it draws something else since. */
  readonly seed: number;
  readonly stage: SimulatedStage;
  /** What was wrong, and with which seed it was first found. */
  readonly wasWrong: string;
  /** Takes the mend back. */
  readonly defect: Plant;
}

const traced =
  "EXISTS (SELECT FROM judged WHERE verdict = 'alone') OR NOT EXISTS (SELECT FROM judged WHERE verdict = 'open')";
const broughtForwardAgain = change('open', ' AND EXISTS (SELECT FROM noted)', '');

export const foundSeeds: readonly FoundSeed[] = [
  {
    seed: 6,
    stage: 'production',
    wasWrong: 'an open run again late brought a row forward that a claim had taken since its first run (once seed 51)',
    defect: broughtForwardAgain,
  },
  {
    seed: 19,
    stage: 'rehearsal',
    wasWrong:
      'the same: its first run had found only rows that were to be opened alone, and left no trace of its token (once seed 129)',
    defect: both(
      change('open', traced, "NOT EXISTS (SELECT FROM judged WHERE verdict IN ('open', 'alone'))"),
      broughtForwardAgain,
    ),
  },
  {
    seed: 3,
    stage: 'production',
    wasWrong:
      'its first run had found every row leased or expired, and left no trace of its token: run again it opened them (once seed 1075)',
    defect: change('open', traced, "EXISTS (SELECT FROM judged WHERE verdict = 'alone')"),
  },
];
