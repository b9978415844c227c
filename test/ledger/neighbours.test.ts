// One row, name or destination in trouble must not be paid for by its neighbours.
import { v7 as uuid } from 'uuid';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { deliverInvitations, type SenderRun } from '../../lambdas/core/deliver-invitations.ts';
import type { Outcome } from '../../lambdas/core/ports.ts';
import { systemClock } from '../../lambdas/runtime/clock.ts';
import { newReminder, outcome, startTestLedger, type TestLedger, worker } from './test-ledger.ts';

let ledger: TestLedger;
beforeAll(async () => {
  ledger = await startTestLedger('rehearsal');
  await ledger.destination('partner');
});
afterAll(() => ledger.stop());

async function claimedReminders(count: number): Promise<string[]> {
  const reminders = Array.from({ length: count }, () => newReminder('partner', -5));
  await ledger.ledger.schedule({ token: uuid(), producer: 'test', reminders });
  const deliveryIds = reminders.map(({ deliveryId }) => deliveryId);
  await ledger.ledger.claimById({ token: uuid(), worker, deliveryIds });
  return deliveryIds;
}

async function states(ids: readonly string[]): Promise<unknown[]> {
  const rows = await ledger.sql(
    'SELECT state FROM reminder_delivery WHERE delivery_id = ANY($1) ORDER BY delivery_id',
    [ids],
  );
  return rows.map(({ state }) => state);
}

test('a row that somebody holds locked keeps its own answer waiting, and no neighbour is sent again', async () => {
  const ids = await claimedReminders(3);
  const [held = ''] = ids;
  const other = await ledger.pool.connect();
  const run: SenderRun = {
    worker,
    signal: new AbortController().signal,
    remainingMs: () => 5000,
    log: { info: () => undefined, warn: () => undefined, error: () => undefined },
    meter: { count: () => undefined, milliseconds: () => undefined, percent: () => undefined },
  };
  const settled: Outcome[][] = [];
  const watched = {
    open: ledger.ledger.open.bind(ledger.ledger),
    async settle(command: Parameters<typeof ledger.ledger.settle>[0]) {
      settled.push([...command.outcomes]);
      return ledger.ledger.settle(command);
    },
  };
  let locked: Promise<unknown> | undefined;
  const failed = deliverInvitations(
    {
      ledger: watched,
      webhook: {
        prepare: async () => ({
          async post({ deliveryId }) {
            locked ??= other
              .query('BEGIN')
              .then(() => other.query('SELECT FROM reminder_delivery WHERE delivery_id = $1 FOR UPDATE', [held]));
            await locked;
            return outcome(deliveryId, '');
          },
          close: async () => undefined,
        }),
      },
      clock: systemClock,
      settings: ledger.settings,
      newToken: () => uuid(),
    },
    run,
    ids.map((deliveryId) => ({ deliveryId, notBefore: 0 })),
  );
  await expect.poll(() => states(ids), { timeout: 20_000 }).toEqual(['delivering', 'delivered', 'delivered']);
  await other.query('COMMIT');
  other.release();
  expect([...(await failed)]).toEqual([]);
  expect(await states(ids)).toEqual(['delivered', 'delivered', 'delivered']);
  expect(settled.some((group) => group.length === 3)).toBe(true);
  // One outcome an attempt, however often it was tried.
  const [count] = await ledger.sql('SELECT count(*)::int AS n FROM attempt_outcome WHERE delivery_id = ANY($1)', [ids]);
  expect(count).toEqual({ n: 3 });
});

test('faults of ours wait longer each time, so that they do not use up the attempts', async () => {
  const reminder = newReminder('partner', -5);
  const { deliveryId } = reminder;
  await ledger.ledger.schedule({ token: uuid(), producer: 'test', reminders: [reminder] });
  const notSent = { outcome: 'not_sent', status: null, phase: 'none' } as const;
  let longest = 0;
  for (let attemptNo = 1; attemptNo <= 16; attemptNo += 1) {
    await ledger.ledger.claimById({ token: uuid(), worker, deliveryIds: [deliveryId] });
    await ledger.sql(`UPDATE reminder_delivery SET next_attempt_at = now() WHERE delivery_id = $1`, [deliveryId]);
    const openToken = uuid();
    const [opened] = await ledger.ledger.open({ token: openToken, worker, deliveryIds: [deliveryId] });
    expect(opened).toMatchObject({ answer: 'opened', attemptNo });
    await ledger.ledger.settle({
      token: uuid(),
      outcomes: [outcome(deliveryId, openToken, { ...notSent, attemptNo })],
    });
    const [row] = await ledger.sql<{ pause: number; failures: number }>(
      `SELECT extract(epoch FROM next_attempt_at - state_since)::float8 AS pause, failures FROM reminder_delivery
       WHERE delivery_id = $1`,
      [deliveryId],
    );
    expect(row?.failures).toBe(0);
    longest = Math.max(longest, row?.pause ?? 0);
  }
  // Full jitter up to 8 s from the fourth attempt on: that thirteen draws stay below 1 s, the base, is one in 8^13.
  expect(longest).toBeGreaterThan(ledger.settings.retryBaseSeconds);
});

test('a small destination gets its share when a large one is unparked beside it', async () => {
  await ledger.destination('large', { state: 'paused' });
  await ledger.destination('small', { state: 'paused' });
  const reminders = [
    ...Array.from({ length: 60 }, () => newReminder('large', -5)),
    ...Array.from({ length: 3 }, () => newReminder('small', -5)),
  ];
  await ledger.ledger.schedule({ token: uuid(), producer: 'test', reminders });
  await ledger.ledger.claim({ token: uuid(), worker, limit: 100, lowWater: null });
  await ledger.sql(`UPDATE destination SET state = 'active' WHERE name IN ('large', 'small')`);
  expect(await ledger.ledger.unpark({ token: uuid(), limit: 20 })).toBe(13);
  const [left] = await ledger.sql(
    `SELECT count(*)::int AS n FROM reminder_delivery JOIN destination USING (destination_id)
     WHERE name = 'small' AND parked`,
  );
  expect(left).toEqual({ n: 0 });
});

test('a call that names one reminder many times is answered name by name', async () => {
  const reminder = newReminder('partner', 3600);
  await ledger.ledger.schedule({ token: uuid(), producer: 'test', reminders: [reminder] });
  const names = Array.from({ length: 20 }, () => ({ key: reminder.key }));
  const answers = await ledger.ledger.cancel({ token: uuid(), producer: 'test', reminders: names });
  expect(answers.map(({ answer }) => answer)).toEqual(names.map(() => 'cancelled'));
});

test('without its row the gate is shut', async () => {
  const [deliveryId = ''] = await claimedReminders(1);
  await ledger.sql('DELETE FROM dispatch_gate');
  const [refused] = await ledger.ledger.open({ token: uuid(), worker, deliveryIds: [deliveryId] });
  expect(refused?.answer).toBe('paused');
  expect((await ledger.ledger.claim({ token: uuid(), worker, limit: 10, lowWater: null })).claimed).toEqual([]);
  await ledger.sql('INSERT INTO dispatch_gate (paused) VALUES (false)');
});

test.each([
  [
    `INSERT INTO destination SELECT gen_random_uuid(), 'bad', 'HTTPS://Example.com/x', 'me', 'none', 'active', now()`,
    'https_url',
  ],
  [`UPDATE destination SET policy = '{"maxFailures": "5.5"}'`, 'policy_is_readable'],
  [`UPDATE destination SET policy = '{"maxFailures": 99999999999}'`, 'policy_is_readable'],
])('a destination that would stop the tick for everybody is refused: %s', async (statement, constraint) => {
  const sql = statement.includes('SELECT gen') ? `${statement}, NULL, NULL, '{}', now()` : statement;
  await expect(ledger.sql(sql)).rejects.toMatchObject({ constraint });
});
