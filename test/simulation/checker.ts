// Checks a run against the promises. It reads tables, the receivers' log and the queue's, and shares no rule with the ledger.

import { checkDecisionAnswers } from './check-decisions.ts';
import { checkAnswers, checkEnds, checkRepeats } from './check-ends.ts';
import { checkMoves } from './check-moves.ts';
import { checkDestinations, checkExclusions } from './check-operators.ts';
import { checkRedrives } from './check-recoveries.ts';
import { checkRetention } from './check-retention.ts';
import { checkSends, type SendCounts } from './check-sends.ts';
import { type Broken, Evidence, instant } from './evidence.ts';
import type { Stage } from './functions.ts';
import { type Met, metIn } from './met.ts';

/** What the checker found. */
export interface Checked {
  readonly broken: readonly Broken[];
  readonly sends: SendCounts;
  /** Reminders by their last state. */
  readonly ends: Readonly<Record<string, number>>;
  /** For each delivered reminder, from its due time to the first request that was answered with a 2xx, milliseconds. */
  readonly lateness: readonly number[];
  readonly met: Met;
}

export async function check(stage: Stage): Promise<Checked> {
  const evidence = new Evidence(stage, await stage.run.database.changes());
  for (const refusal of stage.run.refusals) evidence.report('database', refusal, []);
  checkMoves(evidence);
  const sends = checkSends(evidence);
  await checkEnds(evidence);
  checkRepeats(evidence);
  checkDestinations(evidence);
  checkExclusions(evidence);
  checkRetention(evidence);
  checkAnswers(evidence);
  checkDecisionAnswers(evidence);
  checkRedrives(evidence);

  const ends: Record<string, number> = {};
  const lateness: number[] = [];
  for (const id of evidence.ids) {
    const row = evidence.last(id);
    ends[String(row?.state)] = (ends[String(row?.state)] ?? 0) + 1;
    const success = stage.receivers.sendings.find(
      ({ deliveryId, arrival, status }) => deliveryId === id && arrival !== null && (status === 200 || status === 204),
    );
    if (row?.state === 'delivered' && success?.arrival) lateness.push(success.arrival.at - instant(row.due_at));
  }
  return { broken: evidence.broken, sends, ends, lateness, met: metIn(evidence) };
}
