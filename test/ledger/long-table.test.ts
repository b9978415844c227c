// What a long table costs: 100,000 parked rows beside a claim, and 200,000 rows under an observer's look and a person's status.
import { v7 as uuid } from 'uuid';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Statement } from '../../lambdas/store/statement.ts';
import { claim } from '../../lambdas/store/statements/claim.ts';
import { countStates } from '../../lambdas/store/statements/count-states.ts';
import { observeCalendar } from '../../lambdas/store/statements/observe-calendar.ts';
import { observeDestinations } from '../../lambdas/store/statements/observe-destinations.ts';
import { observeOutcomes } from '../../lambdas/store/statements/observe-outcomes.ts';
import { unpark } from '../../lambdas/store/statements/unpark.ts';
import { startTestLedger, type TestLedger, worker } from './test-ledger.ts';

const due = 500;
const many = 100_000;

let ledger: TestLedger;
let session: Awaited<ReturnType<TestLedger['session']>>;
let alone: Awaited<ReturnType<typeof tick>>;
let beside: Awaited<ReturnType<typeof tick>>;
beforeAll(async () => {
  ledger = await startTestLedger();
  session = await ledger.session();
  await session.sql('SET statement_timeout = 0');
  const active = await ledger.destination('active');
  const paused = await ledger.destination('paused', { state: 'paused' });
  await fill(due, active, 'state, wake_at', `'scheduled', now() - n * interval '1 s'`);
  // A past that makes the indexes as deep as they are later: a row more of any kind costs their depth alone.
  await fill(many, active, 'state, delivered_at, attempt_no', `'delivered', now(), 1`);
  await session.sql(
    `WITH attempt AS (
       INSERT INTO delivery_attempt
       SELECT delivery_id, 1, 1, gen_random_uuid(), now(), now(), 'host', '1', 'request', 'stream'
       FROM reminder_delivery WHERE state = 'delivered' LIMIT ${many / 5} RETURNING delivery_id
     ), numbered AS (SELECT delivery_id, row_number() OVER () AS n FROM attempt)
     INSERT INTO attempt_outcome (delivery_id, attempt_no, token, recorded_by, recorded_at, outcome, moved_to)
     SELECT delivery_id, 1, gen_random_uuid(), 'sender', now() - n * interval '1 s', 'delivered', 'delivered'
     FROM numbered`,
  );
  await session.sql('VACUUM (ANALYZE) attempt_outcome');
  // Once for what a session reads the first time, such as the catalogue.
  await tick();
  alone = await tick();
  await fill(many, paused, 'state, parked, wake_at', `'scheduled', true, 'infinity'`);
  beside = await tick();
}, 120_000);
afterAll(async () => {
  await session.close();
  await ledger.stop();
});

/** Rows that were due a second apart until now, each with a payload as large as reminders have. */
async function fill(count: number, destinationId: string, columns: string, values: string): Promise<void> {
  await session.sql(
    `INSERT INTO reminder_delivery (
       delivery_id, producer, user_id, destination_id, idempotency_key, request_fingerprint, payload, payload_sha256,
       created_by_command, created_at, due_at, next_attempt_at, state_since, ${columns})
     SELECT gen_random_uuid(), 'product', 'user', $1, gen_random_uuid(), 'v1', repeat('x', 300), sha256('x'),
            gen_random_uuid(), now(), now() - n * interval '1 s', now() - n * interval '1 s', now(), ${values}
     FROM generate_series(1, ${count}) AS n`,
    [destinationId],
  );
  await session.sql('VACUUM (ANALYZE) reminder_delivery');
}

async function measured<Input>(statement: Statement<Input, unknown>, input: Input) {
  const plan = (await session.run(statement, input, 'EXPLAIN (ANALYZE, BUFFERS) ')).join('\n');
  const [, hit = '0', missed = '0'] = /shared hit=(\d+)(?: read=(\d+))?/.exec(plan) ?? [];
  return { plan, buffers: Number(hit) + Number(missed) };
}

/** What one claim of a full batch reads, and the unpark before it. Nothing of it stays. */
async function tick(): Promise<{ claim: number; unpark: number }> {
  await session.sql('BEGIN');
  const given = await measured(unpark, { token: uuid(), limit: due });
  const taken = await measured(claim, { token: uuid(), worker, limit: due, lowWater: null });
  const [rows] = await session.sql(`SELECT count(*)::integer AS n FROM reminder_delivery WHERE state = 'dispatching'`);
  await session.sql('ROLLBACK');
  expect(rows).toEqual({ n: due });
  return { claim: taken.buffers, unpark: given.buffers };
}

test('100,000 parked rows that are due cost a claim no more than a fifth of its buffers', () => {
  expect(beside.claim, `${alone.claim} without them`).toBeLessThanOrEqual(1.2 * alone.claim);
});

test('to find that none of them may be given back costs a few buffers', () => {
  expect(beside.unpark, `${alone.unpark} without them`).toBeLessThanOrEqual(50);
});

test.each([observeCalendar, observeDestinations, observeOutcomes])(
  '$name goes by its indexes at 200,000 rows',
  async (statement) => {
    const { plan, buffers } = await measured(statement, { limit: 10_000 });
    expect(plan).not.toMatch(/Seq Scan on (reminder_delivery|attempt_outcome|lifecycle_event)/);
    // Measured 1,200 at most; the table has 22,000 pages.
    expect(buffers).toBeLessThan(3000);
  },
);

test('count-states reads the table once at 200,000 rows, no payload and nothing twice', async () => {
  const [table] = await session.sql<{ pages: number }>(
    `SELECT CAST(pg_relation_size('reminder_delivery') / 8192 AS integer) AS pages`,
  );
  const { plan, buffers } = await measured(countStates, {});
  expect(plan.match(/\w+ Scan on \w+/g)).toEqual(['Seq Scan on reminder_delivery', 'Seq Scan on dispatch_gate']);
  expect(buffers).toBeLessThanOrEqual(Number(table?.pages) + 50);
});
