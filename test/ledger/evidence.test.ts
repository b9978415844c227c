// The evidence that commands leave: intents, outcomes, receipts, batches, and what a 410 does to its destination.
import { v7 as uuid } from 'uuid';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Situation } from '../../lambdas/core/delivery-states.ts';
import { type Conditions, failed } from './failure-forks.ts';
import { empty, ledgerTables } from './ledger-rows.ts';
import { arrange, claimToken } from './situations.ts';
import { type DrivenVerb, drives } from './statement-drives.ts';
import { startTestLedger, type TestLedger, worker } from './test-ledger.ts';

let ledger: TestLedger;
let tables: string[];
beforeAll(async () => {
  ledger = await startTestLedger();
  tables = await ledgerTables(ledger);
});
beforeEach(() => empty(ledger, tables));
afterAll(() => ledger.stop());

const token = uuid();

async function run(verb: DrivenVerb, situation: Situation, under: Conditions = {}) {
  const row = await arrange(ledger, situation, under);
  await drives[verb].run({ database: ledger.database, token, row, under });
  return row;
}

describe('a 410', () => {
  const destination = async () => (await ledger.sql('SELECT state, state_reason AS why FROM destination'))[0];

  test('disables the destination', async () => {
    await run('settleFailure', 'delivering, lease live', failed({ outcome: 'gone', status: 410 }));
    expect(await destination()).toEqual({ state: 'disabled', why: 'answered 410 Gone' });
  });

  test('of a stale attempt decides nothing', async () => {
    const under = { attempts: 2, ...failed({ outcome: 'gone', status: 410, attemptNo: 1 }) };
    await run('settleFailure', 'delivering, lease live', under);
    expect(await destination()).toEqual({ state: 'active', why: null });
  });
});

const only = async (table: string) => {
  const rows = await ledger.sql(`SELECT * FROM ${table}`);
  expect(rows.length).toBe(1);
  return rows[0];
};

test('open leaves the intent, and which worker made it', async () => {
  const { deliveryId } = await run('open', 'queued', { columns: { version: 3 } });
  expect(await only('delivery_attempt')).toMatchObject({
    delivery_id: deliveryId,
    attempt_no: 1,
    version: 3,
    lease_owner: token,
    destination_host: `to-${deliveryId}.example`,
    function_version: worker.functionVersion,
    request_id: worker.requestId,
    log_stream: worker.logStream,
  });
});

test('settle leaves what came of the attempt', async () => {
  await run('settleFailure', 'delivering, lease live', failed({ detail: 'busy' }));
  expect(await only('attempt_outcome')).toMatchObject({
    attempt_no: 1,
    token,
    recorded_by: 'sender',
    outcome: 'retry',
    phase: 'headers',
    status: 503,
    error_class: 'http_503',
    detail: 'busy',
    latency_ms: 12,
    moved_to: 'scheduled',
  });
});

test('recover leaves that nothing is known', async () => {
  await run('recover', 'delivering, lease past');
  expect(await only('attempt_outcome')).toMatchObject({
    attempt_no: 1,
    token,
    recorded_by: 'recover',
    outcome: 'unknown',
    moved_to: 'scheduled',
  });
});

test.each([
  { in: 'dispatching', moved: true },
  { in: 'delivering, lease live', moved: false },
] as const)('enqueue leaves the receipt, also when the row had gone on: $in', async ({ in: situation, moved }) => {
  await run('enqueue', situation);
  const receipt = await only('handoff');
  expect(receipt).toMatchObject({ token: claimToken, queue: 'invitations', moved });
  expect(Number(receipt?.visible_from) - Number(receipt?.recorded_at)).toBe(3000);
});

test('claim leaves what it took, under its token', async () => {
  const claimed = await arrange(ledger, 'scheduled', { wakeIn: -40 });
  const parked = await arrange(ledger, 'scheduled', { wakeIn: -30, destination: { state: 'broken' } });
  const expired = await arrange(ledger, 'held', { dueIn: -60, expiresIn: -20 });
  const recovered = await run('claim', 'delivering, lease past', { wakeIn: -10 });
  expect(await only('claim_batch')).toMatchObject({
    token,
    claimed: [claimed.deliveryId],
    parked: [parked.deliveryId],
    expired: [expired.deliveryId],
    recovered: [recovered.deliveryId],
    request_id: worker.requestId,
    log_stream: worker.logStream,
  });
});
