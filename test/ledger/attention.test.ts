// Which reminders somebody should look at first: each kind has its own, the longest waiting first, and no others.
import { v7 as uuid } from 'uuid';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { postgresAttention } from '../../lambdas/store/attention.ts';
import { empty, ledgerTables } from './ledger-rows.ts';
import { arrange, type Circumstances, inSeconds, insert } from './situations.ts';
import { startTestLedger, type TestLedger } from './test-ledger.ts';

let ledger: TestLedger;
let tables: string[];
beforeAll(async () => {
  ledger = await startTestLedger();
  tables = await ledgerTables(ledger);
});
afterAll(() => ledger.stop());
beforeEach(() => empty(ledger, tables));

/** What is listed, by kind, in its order. */
async function listed(limit = 10): Promise<Record<string, string[]>> {
  const { readAt, ...kinds } = await postgresAttention(ledger.database).attention(limit);
  expect(Math.abs(Date.parse(readAt) - Date.now())).toBeLessThan(60_000);
  return Object.fromEntries(Object.entries(kinds).map(([kind, lines]) => [kind, lines.map((line) => line.deliveryId)]));
}
const nothing = { forPerson: [], overdue: [], setAside: [] };
const late: Circumstances = { dueIn: -300, wakeIn: -480 };

async function setAside(): Promise<string> {
  const { deliveryId } = await arrange(ledger, 'scheduled', late);
  const columns = {
    delivery_id: deliveryId,
    token: uuid(),
    excluded_at: inSeconds(-9),
    sql_state: 'XX001',
    reason: 'r',
  };
  await insert(ledger, 'claim_exclusion', columns);
  return deliveryId;
}

test('an empty ledger has nobody wait', async () => {
  expect(await listed()).toEqual(nothing);
});

test('held and dead wait for a person until they are reviewed, the longest first, with what was said of them', async () => {
  const held = await arrange(ledger, 'held', { columns: { hold_reason: 'unknown' } });
  const dead = await arrange(ledger, 'dead', { columns: { last_error: 'x'.repeat(500) } });
  await ledger.sql(`UPDATE reminder_delivery SET unreviewed_since = now() - interval '1 h' WHERE delivery_id = $1`, [
    dead.deliveryId,
  ]);
  expect(await listed()).toEqual({ ...nothing, forPerson: [dead.deliveryId, held.deliveryId] });
  expect((await listed(1)).forPerson).toEqual([dead.deliveryId]);
  const { forPerson } = await postgresAttention(ledger.database).attention(10);
  expect(forPerson.map(({ state, why }) => [state, why])).toEqual([
    ['dead', 'x'.repeat(200)],
    ['held', 'unknown'],
  ]);
  await ledger.sql('UPDATE reminder_delivery SET reviewed_at = now()');
  expect(await listed()).toEqual(nothing);
});

test('what a claim should have looked at is overdue, the longest first', async () => {
  const scheduled = await arrange(ledger, 'scheduled', late);
  const queued = await arrange(ledger, 'queued', { dueIn: -900, wakeIn: -700 });
  const abandoned = await arrange(ledger, 'delivering, lease past', { wakeIn: -20 });
  expect(await listed()).toEqual({
    ...nothing,
    overdue: [queued, scheduled, abandoned].map(({ deliveryId }) => deliveryId),
  });
});

test.each<[string, Parameters<typeof arrange>[1], Circumstances]>([
  ['is not due yet', 'scheduled', { dueIn: 60, wakeIn: -120 }],
  ['is invited and may still arrive', 'queued', { dueIn: -5, wakeIn: 100 }],
  ['is paused with everything', 'scheduled', { ...late, paused: true }],
  ['has a destination that takes nothing', 'scheduled', { ...late, destination: { state: 'disabled' } }],
  ['is under a lease', 'delivering, lease live', { wakeIn: 30 }],
  ['has ended', 'delivered', {}],
])('what %s is not listed', async (_, situation, under) => {
  await arrange(ledger, situation, under);
  expect(await listed()).toEqual(nothing);
});

test('what is set aside is listed as that alone, and, once it is readmitted, as overdue', async () => {
  const deliveryId = await setAside();
  expect(await listed()).toEqual({ ...nothing, setAside: [deliveryId] });
  await ledger.sql('UPDATE claim_exclusion SET readmitted_at = now()');
  expect(await listed()).toEqual({ ...nothing, overdue: [deliveryId] });
});
