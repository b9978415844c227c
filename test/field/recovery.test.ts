// A recovery that saw a reminder stuck, while its sender was only slow: what the sender says in between stands.
import { setTimeout as sleep } from 'node:timers/promises';
import { v7 as uuid } from 'uuid';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Outcome } from '../../lambdas/core/ports.ts';
import { openOne, outcomesOf, rowOf, settleAll } from '../ledger/one-reminder.ts';
import { newReminder, outcome, startTestLedger, type TestLedger, worker } from '../ledger/test-ledger.ts';

let ledger: TestLedger;
beforeAll(async () => {
  ledger = await startTestLedger();
  await ledger.destination('partner');
});
afterAll(() => ledger.stop());

/** A reminder whose sender is at work, and whose lease has passed all the same. */
async function stuck(): Promise<{ deliveryId: string; openToken: string }> {
  const reminder = newReminder('partner', 0);
  const [deliveryId, openToken] = [reminder.deliveryId, uuid()];
  await ledger.ledger.schedule({ token: uuid(), producer: 'test', reminders: [reminder] });
  await ledger.ledger.claimById({ token: uuid(), worker, deliveryIds: [deliveryId] });
  expect(await openOne(ledger, deliveryId, openToken)).toBe('opened');
  await ledger.sql('UPDATE reminder_delivery SET lease_until = now(), wake_at = now() WHERE delivery_id = $1', [
    deliveryId,
  ]);
  return { deliveryId, openToken };
}

/** A claim that has looked at the rows and is held up before it touches them, by the lock of its own token. */
async function recoveryHeldUp() {
  const token = uuid();
  const holder = await ledger.session();
  await holder.sql('BEGIN');
  await holder.sql('SELECT pg_advisory_xact_lock(hashtextextended($1, 0))', [token]);
  const recovery = ledger.ledger.claim({ token, worker, limit: 10, lowWater: null });
  const waiting = `SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted`;
  while ((await ledger.sql(waiting)).length === 0) await sleep(5);
  return async () => {
    await holder.sql('COMMIT');
    await holder.close();
    return recovery;
  };
}

// riverqueue/river#1302: a rescue written from a stale look at the rows put a finished job back among those to run.
test.each<[string, Partial<Outcome>, string]>([
  ['a success', {}, 'delivered'],
  // Later than the lookahead: else the claim takes it at once, as a claim and no recovery.
  ['a failure', { outcome: 'retry', status: 503, errorClass: 'http_503', retryAfterSeconds: 3600 }, 'scheduled'],
  ['a refusal for good', { outcome: 'permanent', status: 422, errorClass: 'http_422' }, 'dead'],
])(
  'the recovery reads a stuck row, the sender settles %s, then the recovery writes: the row stays as settled',
  async (_, end, state) => {
    const { deliveryId, openToken } = await stuck();
    const letGo = await recoveryHeldUp();
    await settleAll(ledger, outcome(deliveryId, openToken, end));
    const settled = await rowOf(ledger, deliveryId);
    expect(settled.state).toBe(state);
    expect(await letGo()).toMatchObject({ recovered: [], claimed: [] });
    expect(await rowOf(ledger, deliveryId)).toEqual(settled);
    expect(await outcomesOf(ledger, deliveryId)).toEqual([`1 ${end.outcome ?? 'delivered'} by sender`]);
  },
);

// timgit/pg-boss#555: a job that had been given up was at work beside its own retry, and the later end won.
test('the recovery writes while the sender waits to settle: a success wins, and nothing is sent again', async () => {
  const { deliveryId, openToken } = await stuck();
  const letGo = await recoveryHeldUp();
  expect((await letGo()).recovered).toEqual([deliveryId]);
  expect(await rowOf(ledger, deliveryId)).toMatchObject({ state: 'scheduled', failures: 1 });
  await settleAll(ledger, outcome(deliveryId, openToken));
  expect(await rowOf(ledger, deliveryId)).toMatchObject({ state: 'delivered', wake_at: null });
  expect(await outcomesOf(ledger, deliveryId)).toEqual(['1 unknown by recover', '1 delivered by sender']);
});
