// Follows one reminder: opens it, settles it, lets time pass for it, and reads its row and its outcomes.
import { v7 as uuid } from 'uuid';
import { expect } from 'vitest';
import type { Outcome } from '../../lambdas/core/ports.ts';
import { type TestLedger, worker } from './test-ledger.ts';

/** An answer that is worth another try. */
export const failure = { outcome: 'retry', status: 503, errorClass: 'http_503' } as const;

const claim = ({ ledger }: TestLedger) => ledger.claim({ token: uuid(), worker, limit: 10, lowWater: null });

/** What `open` answers for it. */
export async function openOne({ ledger }: TestLedger, deliveryId: string, token = uuid()) {
  return (await ledger.open({ token, worker, deliveryIds: [deliveryId] }))[0]?.answer;
}

/** Settles outcomes in one command of their own. */
export function settleAll({ ledger }: TestLedger, ...outcomes: Outcome[]) {
  return ledger.settle({ token: uuid(), outcomes });
}

/** Its row, all columns. */
export async function rowOf({ sql }: TestLedger, deliveryId: string): Promise<Record<string, unknown>> {
  const [row] = await sql('SELECT * FROM reminder_delivery WHERE delivery_id = $1', [deliveryId]);
  return row ?? {};
}

/** Its outcomes, such as `1 unknown by recover`, by attempt and then in the order in which they were recorded. */
export async function outcomesOf({ sql }: TestLedger, deliveryId: string): Promise<string[]> {
  const rows = await sql<{ line: string }>(
    `SELECT attempt_no || ' ' || outcome || ' by ' || recorded_by AS line FROM attempt_outcome
     WHERE delivery_id = $1 ORDER BY attempt_no, recorded_at, outcome`,
    [deliveryId],
  );
  return rows.map(({ line }) => line);
}

/** Lets the lease of its open attempt pass, and a claim recover it. */
export async function recover(ledger: TestLedger, deliveryId: string): Promise<void> {
  await ledger.sql(
    `UPDATE reminder_delivery SET lease_until = now() - interval '1 s', wake_at = now() WHERE delivery_id = $1`,
    [deliveryId],
  );
  expect((await claim(ledger)).recovered).toEqual([deliveryId]);
}

/** Ends the pause before its next attempt, and lets a claim take it. */
export async function claimNow(ledger: TestLedger, deliveryId: string): Promise<void> {
  await ledger.sql('UPDATE reminder_delivery SET next_attempt_at = now(), wake_at = now() WHERE delivery_id = $1', [
    deliveryId,
  ]);
  expect((await claim(ledger)).claimed.map((claimed) => claimed.deliveryId)).toEqual([deliveryId]);
}
