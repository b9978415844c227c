// The fixed seeds of continuous integration, in two parts that two workers can share.
import { expect } from 'vitest';
import { writingStatements } from '../mutants/mutants.ts';
import { failureText, runSeeds } from './run-seeds.ts';

/** How many seeds of both stages one part runs. */
const seedsOfPart = 125;

/** What a promise is about, and what schedules could easily go without. */
const rare = [
  'cancel too_late',
  'stale failure while a later attempt is under way',
  'late success while a later attempt is under way',
  'settle recorded',
  'claim recovered',
  'claim expired',
  'claim parked',
  'open expired',
  'open token_used',
  'message visible again while its sender has it',
  'add-destination conflict',
  'claim refused',
  'readmit readmitted',
  ...['requeued', 'released', 'held', 'resolved', 'reviewed', 'cancelled', 'evidence_needed', 'stale', 'too_late'].map(
    (answer) => `decide ${answer}`,
  ),
  ...[
    'reclaimed',
    'republished',
    'leased',
    'not_leased',
    'invited',
    'finished',
    'scheduled',
    'evidence_needed',
    'stale',
  ].map((answer) => `reclaim ${answer}`),
  ...['paused', 'resumed', 'already_active', 'already_paused'].map((answer) => `control ${answer}`),
  'archive archived',
  ...['open', 'claim', 'settle', 'cancel', 'reschedule', 'reclaim'].map((statement) => `${statement} run again`),
  ...['open', 'claim', 'settle', 'enqueue', 'release', 'schedule', 'SendMessageBatch', 'PutEvents', 'PutObject'].map(
    (call) => `${call} failed after its effect`,
  ),
];

/** Runs one part of the 500 schedules: each seed once with the numbers of each stage. */
export async function expectSeedsToHold(part: 0 | 1): Promise<void> {
  const failures: string[] = [];
  const report = await runSeeds({
    schedules: seedsOfPart,
    firstSeed: 1 + part * seedsOfPart,
    stages: ['production', 'rehearsal'],
    onSchedule: (simulated) => {
      if (simulated.broken.length > 0) failures.push(failureText(simulated));
    },
  });
  expect(failures.join('\n\n')).toBe('');
  expect(report.schedules).toBe(2 * seedsOfPart);
  // A checker that sees nothing finds nothing: the schedules must have been troubled, and have come to every end.
  expect(Object.keys(report.ends).sort()).toEqual(['cancelled', 'dead', 'delivered', 'expired', 'held']);
  expect(report.requests).toBeGreaterThan(report.ends.delivered ?? 0);
  expect(rare.filter((what) => !report.met[what])).toEqual([]);
  // All that can change the ledger has done so.
  const writing = (await writingStatements()).map(({ subject }) => `${subject} wrote`);
  expect(writing.filter((what) => !report.met[what])).toEqual([]);
  expect(writing.length).toBeGreaterThan(10);
}
