// One look at a ledger, as the observer takes it, and what to compare it with.
import type { Measure, Observation } from '../../lambdas/core/observe-ledger.ts';
import { postgresObservations } from '../../lambdas/store/observations.ts';
import { type Columns, inSeconds } from './situations.ts';
import type { TestLedger } from './test-ledger.ts';

/** All that one look sees. */
export const lookAt = ({ database }: TestLedger): Promise<Observation> => postgresObservations(database).look();

/** The measures that are not zero; in_calendar is left out, an estimate that follows in its own time. */
export async function seenIn(ledger: TestLedger): Promise<Partial<Record<Measure, number>>> {
  const { in_calendar: _, ...measured } = (await lookAt(ledger)).measured;
  return Object.fromEntries(Object.entries(measured).filter(([, value]) => value !== 0));
}

/** So many seconds in milliseconds, or a little more: the test itself takes time. */
export const about = (seconds: number) => ({
  asymmetricMatch: (value: unknown) =>
    typeof value === 'number' && value >= seconds * 1000 - 5 && value < seconds * 1000 + 60_000,
});

/** The row is in its state for so many seconds. */
export const since = (seconds: number): Columns => ({ state_since: inSeconds(-seconds) });
