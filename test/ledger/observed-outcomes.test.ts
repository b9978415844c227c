// What one look sees of destinations, of attempts and of what waits for a person; by which clock, and how much it reads.
import { v7 as uuid } from 'uuid';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { listAttention } from '../../lambdas/store/statements/list-attention.ts';
import { observeCalendar } from '../../lambdas/store/statements/observe-calendar.ts';
import { observeDestinations } from '../../lambdas/store/statements/observe-destinations.ts';
import { observeOutcomes } from '../../lambdas/store/statements/observe-outcomes.ts';
import { empty, ledgerTables } from './ledger-rows.ts';
import { about, lookAt, seenIn, since } from './one-look.ts';
import { claimNow, failure, openOne, recover, rowOf, settleAll } from './one-reminder.ts';
import { arrange, type Columns, inSeconds, insert } from './situations.ts';
import { outcome, startTestLedger, type TestLedger } from './test-ledger.ts';

let ledger: TestLedger;
let tables: string[];
beforeAll(async () => {
  ledger = await startTestLedger();
  tables = await ledgerTables(ledger);
});
afterAll(() => ledger.stop());
beforeEach(() => empty(ledger, tables));

const look = () => lookAt(ledger);
const seen = () => seenIn(ledger);

/** Another row of the same destination. */
const beside = async (first: Promise<{ destinationId: string }>): Promise<Columns> => ({
  destination_id: (await first).destinationId,
});

describe('destinations', () => {
  const parked = { columns: { parked: true, wake_at: 'infinity' }, destination: { state: 'paused' } };
  const failing = { attempts: 3, columns: { failures: 3 }, dueIn: 60, wakeIn: 60 };

  test('the one with the most parked rows counts, and the log may name each', async () => {
    const first = arrange(ledger, 'scheduled', parked);
    await arrange(ledger, 'scheduled', { columns: { ...parked.columns, ...(await beside(first)) } });
    await arrange(ledger, 'scheduled', parked);
    expect(await seen()).toEqual({ most_parked: 2 });
    const names = [`to-${(await first).deliveryId}`, expect.stringMatching(/^to-/)];
    expect((await look()).destinations).toEqual([
      { name: names[0], state: 'paused', parked: 2, failing: 0 },
      { name: names[1], state: 'paused', parked: 1, failing: 0 },
    ]);
  });

  test('a row that stays parked at an active destination counts from the later of the two', async () => {
    const { destinationId } = await arrange(ledger, 'scheduled', { columns: { ...parked.columns, ...since(900) } });
    const active = (seconds: number) =>
      ledger.sql('UPDATE destination SET state_since = $2 WHERE destination_id = $1', [
        destinationId,
        inSeconds(-seconds),
      ]);
    await active(400);
    expect(await seen()).toMatchObject({ most_parked: 1, parked_active_age: about(400) });
    await active(4000);
    expect(await seen()).toMatchObject({ most_parked: 1, parked_active_age: about(900) });
  });

  test('the active one with the most rows that failed three times counts', async () => {
    const first = arrange(ledger, 'scheduled', failing);
    const there = await beside(first);
    await arrange(ledger, 'queued', { ...failing, attempts: 4, columns: { failures: 4, ...there } });
    await arrange(ledger, 'scheduled', { ...failing, attempts: 2, columns: { failures: 2, ...there } });
    await arrange(ledger, 'scheduled', failing);
    await ledger.sql(`UPDATE destination SET state_since = now() - interval '900 s'`);
    expect((await look()).measured).toMatchObject({ most_failing: 2, most_parked: 0, parked_active_age: 0 });
  });

  test.each([
    ['its destination is paused', 'scheduled', { ...failing, destination: { state: 'paused' } }],
    ['it is dead', 'dead', failing],
    ['it is delivered', 'delivered', failing],
    ['it waits for a person, until it expires', 'held', { ...failing, expiresIn: 600 }],
  ] as const)('a row fails no more when %s', async (_, situation, under) => {
    await arrange(ledger, situation, under);
    expect((await look()).measured.most_failing).toBe(0);
  });
});

describe('what waits for a person', () => {
  const hours = 5 * 3600;

  test.each(['held', 'dead'] as const)(
    '%s counts until it is reviewed, and again when it comes back to it',
    async (state) => {
      const { deliveryId } = await arrange(ledger, state, { columns: since(hours) });
      const expected = { [`${state}_unreviewed`]: 1, [`${state}_unreviewed_age`]: about(hours) };
      expect(await seen()).toEqual(expected);
      await arrange(ledger, state, { columns: since(60) });
      expect(await seen()).toEqual({ ...expected, [`${state}_unreviewed`]: 2 });
      await ledger.sql('UPDATE reminder_delivery SET reviewed_at = now() WHERE delivery_id = $1', [deliveryId]);
      expect(await seen()).toMatchObject({ [`${state}_unreviewed`]: 1, [`${state}_unreviewed_age`]: about(60) });

      const moveTo = (to: string, more: string) =>
        ledger.sql(
          `UPDATE reminder_delivery SET state = '${to}', state_since = now() + interval '1 ms', ${more} WHERE delivery_id = $1`,
          [deliveryId],
        );
      await moveTo('scheduled', 'wake_at = now(), hold_reason = NULL');
      expect(await seen()).toMatchObject({ [`${state}_unreviewed`]: 1 });
      await moveTo('held', "wake_at = NULL, hold_reason = 'again'");
      expect((await look()).measured.held_unreviewed).toBe(state === 'held' ? 2 : 1);
    },
  );

  test('no longer does, once it is called off or turns out to be delivered', async () => {
    const held = await arrange(ledger, 'held');
    const dead = await arrange(ledger, 'dead');
    await ledger.sql(`UPDATE reminder_delivery SET state = 'cancelled', hold_reason = NULL WHERE delivery_id = $1`, [
      held.deliveryId,
    ]);
    await ledger.sql(`UPDATE reminder_delivery SET state = 'delivered', delivered_at = now() WHERE delivery_id = $1`, [
      dead.deliveryId,
    ]);
    expect(await seen()).toEqual({});
    // Nor does it stay in the index, which is read from its beginning up to a limit.
    expect(await ledger.sql('SELECT FROM reminder_delivery WHERE unreviewed_since IS NOT NULL')).toEqual([]);
  });

  test('is found by a migration that comes later than it', async () => {
    await arrange(ledger, 'held', { columns: since(hours) });
    await ledger.sql(
      'BEGIN; SET LOCAL session_replication_role = replica; UPDATE reminder_delivery SET unreviewed_since = NULL; COMMIT',
    );
    expect(await seen()).toEqual({});
    await ledger.sql(`UPDATE reminder_delivery SET reviewed_at = reviewed_at WHERE state IN ('held', 'dead')`);
    expect(await seen()).toEqual({ held_unreviewed: 1, held_unreviewed_age: about(hours) });
  });
});

describe('lately', () => {
  async function opened(dueIn = -1): Promise<{ deliveryId: string; token: string }> {
    const { deliveryId } = await arrange(ledger, 'queued', { dueIn });
    const token = uuid();
    expect(await openOne(ledger, deliveryId, token)).toBe('opened');
    return { deliveryId, token };
  }

  test('attempts count by what became of them, those that a claim closed apart', async () => {
    const [good, bad, dead, lost, unsure] = [
      await opened(),
      await opened(),
      await opened(),
      await opened(),
      await opened(),
    ];
    await settleAll(
      ledger,
      outcome(good.deliveryId, good.token),
      outcome(bad.deliveryId, bad.token, failure),
      outcome(dead.deliveryId, dead.token, { outcome: 'permanent', status: 400 }),
      outcome(unsure.deliveryId, unsure.token, { outcome: 'unknown', status: null, errorClass: 'deadline' }),
    );
    await recover(ledger, lost.deliveryId);
    const recent = { recent_attempts: 5, recent_delivered: 1, recent_dead: 1, recent_unknown: 2, recent_rescued: 1 };
    expect((await look()).measured).toMatchObject(recent);

    // The next attempt of the lost one is still open when the first turns out to have succeeded: that closes it, unsent.
    await claimNow(ledger, lost.deliveryId);
    expect(await openOne(ledger, lost.deliveryId)).toBe('opened');
    await settleAll(ledger, outcome(lost.deliveryId, lost.token));
    expect((await look()).measured).toMatchObject({ recent_attempts: 6, recent_delivered: 2 });
  });

  test('is within five ticks', async () => {
    const { deliveryId, token } = await opened();
    const recorded = (seconds: number) =>
      insert(ledger, 'attempt_outcome', {
        ...{ delivery_id: deliveryId, attempt_no: 1, token: uuid(), recorded_by: 'sender', outcome: 'unknown' },
        recorded_at: inSeconds(-seconds),
      });
    await recorded(5 * ledger.settings.tickSeconds + 1);
    expect((await look()).measured).toMatchObject({ recent_attempts: 0, recent_unknown: 0 });
    await recorded(4 * ledger.settings.tickSeconds);
    expect((await look()).measured).toMatchObject({ recent_attempts: 1, recent_unknown: 1 });
    await settleAll(ledger, outcome(deliveryId, token));
  });

  test('deliveries were late by so much, from their due time', async () => {
    for (const dueIn of [-10, -10, -10, -400]) {
      const { deliveryId, token } = await opened(dueIn);
      await settleAll(ledger, outcome(deliveryId, token));
    }
    expect(await seen()).toMatchObject({ recent_delivered: 4, lateness_p50: about(10), lateness_p99: about(388) });
  });
});

test('all of it goes by now(): under a clock that is an hour ahead every age is an hour more', async () => {
  await arrange(ledger, 'queued', { dueIn: -10 });
  await arrange(ledger, 'dead', { columns: since(10) });
  await arrange(ledger, 'scheduled', { dueIn: 1800, wakeIn: 1620, columns: since(7200) });
  const session = await ledger.session();
  await session.sql(
    `CREATE SCHEMA sim; CREATE FUNCTION sim.now() RETURNS timestamptz STABLE LANGUAGE sql
       AS 'SELECT pg_catalog.now() + interval ''1 hour''';
     SET search_path = public, sim, pg_catalog`,
  );
  const [calendar] = await session.run(observeCalendar, { limit: 10 });
  expect(JSON.parse(calendar ?? '')).toMatchObject({
    ...{ queued_age: about(3601), overdue_age: about(1800), due_next_hour: 0 },
  });
  const [outcomes] = await session.run(observeOutcomes, { limit: 10 });
  expect(JSON.parse(outcomes ?? '')).toMatchObject({ dead_unreviewed_age: about(3610) });
  await session.sql('RESET search_path; DROP SCHEMA sim CASCADE');
  await session.close();
});

test('a look reads no more when the calendar, the past and the backlog are long, and never a whole table', async () => {
  const { destinationId } = await arrange(ledger, 'delivered');
  const session = await ledger.session();
  await session.sql('SET statement_timeout = 0');
  const fill = (count: number, columns: string, values: string) =>
    session.sql(
      `INSERT INTO reminder_delivery (
         delivery_id, producer, user_id, destination_id, idempotency_key, request_fingerprint, payload, payload_sha256,
         created_by_command, created_at, due_at, next_attempt_at, state_since, ${columns})
       SELECT gen_random_uuid(), 'product', 'user', '${destinationId}', gen_random_uuid(), 'v1', '{}', sha256('{}'),
              gen_random_uuid(), now(), now() + n * interval '1 s', now() + n * interval '1 s', now(), ${values}
       FROM generate_series(1, ${count}) AS n`,
    );
  const buffers = async (limit: number) => {
    await session.sql('VACUUM ANALYZE');
    const read: number[] = [];
    for (const statement of [observeCalendar, observeDestinations, observeOutcomes, listAttention]) {
      const plan = await session.run(statement, { limit }, 'EXPLAIN (ANALYZE, BUFFERS) ');
      expect(
        plan.filter((line) => /Seq Scan on (reminder_delivery|attempt_outcome|lifecycle_event)/.test(line)),
      ).toEqual([]);
      const [, hit = '0', missed = '0'] = /shared hit=(\d+)(?: read=(\d+))?/.exec(plan.join('\n')) ?? [];
      read.push(Number(hit) + Number(missed));
    }
    return read;
  };
  const later = () => fill(5000, 'state, wake_at', "'scheduled', now() + (n + 4000) * interval '1 s'");
  const ended = async () => {
    await fill(2000, 'state, delivered_at, attempt_no', "'delivered', now(), 1");
    await session.sql(
      `WITH attempt AS (
         INSERT INTO delivery_attempt
         SELECT delivery_id, 1, 1, gen_random_uuid(), now(), now(), 'host', '1', 'request', 'stream'
         FROM reminder_delivery WHERE state = 'delivered' AND attempt_no = 1
         ON CONFLICT DO NOTHING RETURNING delivery_id
       ), numbered AS (SELECT delivery_id, row_number() OVER () AS n FROM attempt)
       INSERT INTO attempt_outcome (delivery_id, attempt_no, token, recorded_by, recorded_at, outcome, moved_to)
       SELECT delivery_id, 1, gen_random_uuid(), 'sender', now() - n * interval '1 s', 'delivered', 'delivered'
       FROM numbered`,
    );
    await session.sql(
      `INSERT INTO lifecycle_event (delivery_id, version, state, occurred_at, announced_at)
       SELECT delivery_id, 1, state, now(), now() FROM reminder_delivery WHERE state = 'delivered'
       ON CONFLICT DO NOTHING`,
    );
  };
  // Each of what has an index: overdue, in flight, parked, failing, for a person.
  const troubled = async () => {
    await fill(300, 'state, wake_at', "'scheduled', now() - interval '1 s'");
    await fill(300, 'state, wake_at, invitations, first_invited_at', "'queued', now() + interval '1 s', 1, now()");
    await fill(300, 'state, wake_at, parked', "'scheduled', 'infinity', true");
    await fill(300, 'state, wake_at, attempt_no, failures', "'scheduled', now() + interval '1 day', 3, 3");
    await fill(300, 'state', "'dead'");
  };
  await later();
  await ended();
  await troubled();
  const few = await buffers(100);
  await later();
  await later();
  await ended();
  await troubled();
  const many = await buffers(100);
  for (const [place, read] of many.entries()) {
    // The rows that it looks at may lie on as many pages, of each of two kinds.
    expect(read, `few ${few}, many ${many}`).toBeLessThan((few[place] ?? 0) + 2 * 100);
  }
  await session.close();
}, 120_000);

test('a row waits for a person from the moment it dies, and no longer once it is on its way again', async () => {
  const { deliveryId } = await arrange(ledger, 'delivering, lease live');
  const since = async () => (await rowOf(ledger, deliveryId)).unreviewed_since;
  const state = (name: string, more = '') =>
    ledger.sql(
      `UPDATE reminder_delivery SET state = $1, state_since = now(), lease_owner = NULL, lease_until = NULL ${more}`,
      [name],
    );
  await state('dead', ', wake_at = NULL');
  expect(await since()).not.toBeNull();
  await state('scheduled', ', wake_at = now()');
  expect(await since()).toBeNull();
});
