// Attempts that cross: what a late answer, a recovery, a second invitation and a repeated token do to each other.
import { v7 as uuid } from 'uuid';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { open } from '../../lambdas/store/statements/open.ts';
import { settle } from '../../lambdas/store/statements/settle.ts';
import { empty, ledgerTables } from './ledger-rows.ts';
import { claimNow, failure, openOne, outcomesOf, recover, rowOf, settleAll } from './one-reminder.ts';
import { type Arranged, arrange, openToken } from './situations.ts';
import { outcome, startTestLedger, type TestLedger, worker } from './test-ledger.ts';

let ledger: TestLedger;
let tables: string[];
beforeAll(async () => {
  ledger = await startTestLedger();
  tables = await ledgerTables(ledger);
});
beforeEach(() => empty(ledger, tables));
afterAll(() => ledger.stop());

/** A reminder whose first attempt was given up and whose second is under way. */
async function secondAttempt(): Promise<Arranged> {
  const row = await arrange(ledger, 'queued');
  expect(await openOne(ledger, row.deliveryId, openToken(1))).toBe('opened');
  await recover(ledger, row.deliveryId);
  await claimNow(ledger, row.deliveryId);
  expect(await openOne(ledger, row.deliveryId, openToken(2))).toBe('opened');
  return row;
}

test('a stale failure is kept and moves nothing', async () => {
  const { deliveryId } = await secondAttempt();
  const before = await rowOf(ledger, deliveryId);
  expect(await settleAll(ledger, outcome(deliveryId, openToken(1), failure))).toMatchObject([
    { answer: 'recorded', state: 'delivering' },
  ]);
  expect(await rowOf(ledger, deliveryId)).toEqual(before);
  expect(await outcomesOf(ledger, deliveryId)).toEqual(['1 unknown by recover', '1 retry by sender']);
});

test('a stale success wins, and closes the attempt that is under way as overtaken', async () => {
  const { deliveryId } = await secondAttempt();
  expect(await settleAll(ledger, outcome(deliveryId, openToken(1)))).toMatchObject([
    { answer: 'moved', state: 'delivered' },
  ]);
  expect(await outcomesOf(ledger, deliveryId)).toEqual([
    '1 unknown by recover',
    '1 delivered by sender',
    '2 overtaken by sender',
  ]);
  const own = { ...failure, attemptNo: 2 };
  expect(await settleAll(ledger, outcome(deliveryId, openToken(2), own))).toMatchObject([
    { answer: 'recorded', state: 'delivered' },
  ]);
});

test('a stale success that waited while the next attempt was opened overtakes that one too', async () => {
  const { deliveryId } = await arrange(ledger, 'queued', { attempts: 1 });
  const settled = await ledger.behind(
    (session) => session.run(open, { token: openToken(2), worker, deliveryIds: [deliveryId] }),
    () => settleAll(ledger, outcome(deliveryId, openToken(1))),
  );
  expect(settled).toMatchObject([{ answer: 'moved', state: 'delivered' }]);
  expect(await outcomesOf(ledger, deliveryId)).toEqual(['1 delivered by sender', '2 overtaken by sender']);
});

test('a stale success that waited while the next attempt failed leaves that failure as it is known', async () => {
  const { deliveryId } = await arrange(ledger, 'delivering, lease live', { attempts: 2 });
  const own = outcome(deliveryId, openToken(2), { ...failure, attemptNo: 2 });
  await ledger.behind(
    (session) => session.run(settle, { token: uuid(), outcomes: [own] }),
    () => settleAll(ledger, outcome(deliveryId, openToken(1))),
  );
  expect(await outcomesOf(ledger, deliveryId)).toEqual(['1 delivered by sender', '2 retry by sender']);
});

test('a success settled in one call with the failure of the next attempt wins', async () => {
  const { deliveryId } = await secondAttempt();
  const settled = await settleAll(
    ledger,
    outcome(deliveryId, openToken(2), { ...failure, attemptNo: 2 }),
    outcome(deliveryId, openToken(1)),
  );
  expect(settled).toMatchObject([
    { attemptNo: 2, answer: 'recorded' },
    { attemptNo: 1, answer: 'moved', state: 'delivered' },
  ]);
  expect(await rowOf(ledger, deliveryId)).toMatchObject({ state: 'delivered' });
});

test('an open token used again after a recovery opens nothing', async () => {
  const { deliveryId } = await arrange(ledger, 'queued');
  expect(await openOne(ledger, deliveryId, openToken(1))).toBe('opened');
  await recover(ledger, deliveryId);
  await claimNow(ledger, deliveryId);
  expect(await openOne(ledger, deliveryId, openToken(1))).toBe('token_used');
  expect(await rowOf(ledger, deliveryId)).toMatchObject({ state: 'dispatching', attempt_no: 1 });
});

test('a token opens once: what comes due while its twin waits is left to another', async () => {
  const ids = [await arrange(ledger, 'queued'), await arrange(ledger, 'queued', { dueIn: 60 })].map(
    ({ deliveryId }) => deliveryId,
  );
  const command = { token: uuid(), worker, deliveryIds: ids };
  const twin = await ledger.behind(
    async (session) => {
      await session.run(open, command);
      await session.sql('UPDATE reminder_delivery SET next_attempt_at = now() WHERE delivery_id = $1', [ids[1]]);
    },
    () => ledger.ledger.open(command),
  );
  expect(twin).toMatchObject([
    { answer: 'opened', attemptNo: 1 },
    { answer: 'token_used', state: 'queued' },
  ]);
});

test('a batch that names a reminder twice opens it once', async () => {
  const { deliveryId } = await arrange(ledger, 'queued');
  const answers = await ledger.ledger.open({ token: uuid(), worker, deliveryIds: [deliveryId, deliveryId] });
  expect(answers).toMatchObject([{ answer: 'opened', deliveryId, attemptNo: 1 }]);
  expect(await ledger.sql('SELECT attempt_no FROM delivery_attempt')).toEqual([{ attempt_no: 1 }]);
});

test('an outcome of an attempt that was never opened is refused, and named', async () => {
  const { deliveryId } = await arrange(ledger, 'queued');
  await expect(settleAll(ledger, outcome(deliveryId, uuid()))).rejects.toThrow(
    `attempt 1 of ${deliveryId} was never opened`,
  );
});
