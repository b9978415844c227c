// One identity a reminder and one effect a command: keys, fingerprints, receipts, cancels.
import { setTimeout as sleep } from 'node:timers/promises';
import { v7 as uuid } from 'uuid';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type Situation, situations, stateOf, verbs } from '../../lambdas/core/delivery-states.ts';
import { type FingerprintField, fingerprintFields } from '../../lambdas/core/fingerprint.ts';
import type { NewReminder, ScheduleAnswer } from '../../lambdas/core/ports.ts';
import { PostgresLedger } from '../../lambdas/store/ledger.ts';
import { open } from '../../lambdas/store/statements/open.ts';
import { reschedule } from '../../lambdas/store/statements/reschedule.ts';
import { settle } from '../../lambdas/store/statements/settle.ts';
import { empty, ledgerTables } from './ledger-rows.ts';
import { failure, openOne, rowOf, settleAll } from './one-reminder.ts';
import { arrange, inSeconds, openToken, producer } from './situations.ts';
import { newReminder, outcome, startTestLedger, type TestLedger, worker } from './test-ledger.ts';

let ledger: TestLedger;
let tables: string[];
beforeAll(async () => {
  ledger = await startTestLedger();
  tables = await ledgerTables(ledger);
});
beforeEach(async () => {
  await empty(ledger, tables);
  await ledger.destination('to');
});
afterAll(() => ledger.stop());

const schedule = (...reminders: NewReminder[]) => ledger.ledger.schedule({ token: uuid(), producer, reminders });
const claimAll = () => ledger.ledger.claim({ token: uuid(), worker, limit: 10, lowWater: null });

describe('one key is one reminder', () => {
  test('50 calls at once for 10 new keys, half of them with another payload, while senders hold the rows', async () => {
    const keys = Array.from({ length: 10 }, (_, place) => `key-${place}`);
    const times = { dueAt: inSeconds(-1).toISOString(), userId: 'user-1' };
    let scheduling = true;
    const holding = Array.from({ length: 3 }, async () => {
      const session = await ledger.session();
      while (scheduling) {
        await session.sql('BEGIN');
        await session.sql('SELECT FROM reminder_delivery ORDER BY delivery_id FOR NO KEY UPDATE');
        await sleep(30);
        await session.sql('COMMIT');
      }
      await session.close();
    });
    const calls = Array.from({ length: 50 }, (_, call) =>
      keys
        .map((key) => newReminder('to', -1, { key, ...times, payload: call % 2 === 0 ? '{"a":1}' : '{"a":2}' }))
        .sort(() => Math.random() - 0.5),
    );
    const answers = await Promise.all(calls.map((reminders) => schedule(...reminders)));
    scheduling = false;
    await Promise.all(holding);

    const rows = await ledger.sql<{ key: string; id: string; payload: string }>(
      'SELECT idempotency_key AS key, delivery_id AS id, payload FROM reminder_delivery',
    );
    expect(rows.map(({ key }) => key).sort()).toEqual(keys);
    const winners = new Map(rows.map((row) => [row.key, row]));
    const expected = calls.map((reminders) =>
      reminders.map(({ key, deliveryId, payload }) => {
        const winner = winners.get(key);
        if (winner?.id === deliveryId) return { answer: 'scheduled', deliveryId };
        if (winner?.payload === payload) return { answer: 'duplicate', deliveryId: winner.id };
        return { answer: 'conflict', fields: ['payload'], deliveryId: winner?.id };
      }),
    );
    expect(answers).toMatchObject(expected);
  });

  test('calls with the same new keys in any order wait for each other, and never in a circle', async () => {
    // Tried once: a deadlock would be an error here.
    const once = () => new PostgresLedger(ledger.openDatabase('ledger', ledger.settings, { tries: 1 }));
    for (let round = 0; round < 5; round += 1) {
      const keys = Array.from({ length: 100 }, (_, place) => `round-${round}-${place}`);
      const orders = [keys, keys.toReversed(), keys, keys.toReversed()];
      const calls = orders.map((order) => {
        const reminders = order.map((key) => newReminder('to', 60, { key }));
        return once().schedule({ token: uuid(), producer, reminders });
      });
      const answers = (await Promise.all(calls)).flat();
      expect(answers.filter(({ answer }) => answer === 'scheduled').length).toBe(keys.length);
    }
  });

  test('a key twice in one call: the first is scheduled, the second told so or told the difference', async () => {
    const [one, two] = [newReminder('to', 60), newReminder('to', 60)];
    const answers = await schedule(one, { ...one, deliveryId: uuid() }, two, {
      ...two,
      deliveryId: uuid(),
      payload: '{}',
    });
    expect(answers).toMatchObject([
      { answer: 'scheduled', deliveryId: one.deliveryId },
      { answer: 'duplicate', deliveryId: one.deliveryId },
      { answer: 'scheduled', deliveryId: two.deliveryId },
      { answer: 'conflict', deliveryId: two.deliveryId, fields: ['payload'] },
    ]);
  });

  test("another producer's key: a conflict, and nothing more is told or touched", async () => {
    const mine = newReminder('to', 60);
    await schedule(mine);
    const before = await rowOf(ledger, mine.deliveryId);
    const rival = { token: uuid(), producer: 'rival' };
    const repeat = { ...mine, deliveryId: uuid() };
    expect(await ledger.ledger.schedule({ ...rival, reminders: [repeat] })).toEqual([
      { answer: 'conflict', fields: [] },
    ]);
    const names = [{ key: mine.key }, { deliveryId: mine.deliveryId }];
    expect(await ledger.ledger.get({ producer: 'rival', reminders: names })).toEqual([null, null]);
    expect(await ledger.ledger.cancel({ ...rival, reminders: names })).toEqual(
      names.map(() => ({ answer: 'not_found' })),
    );
    const moves = names.map((name) => ({ name, dueAt: mine.dueAt }));
    expect(await ledger.ledger.reschedule({ ...rival, reminders: moves })).toEqual(
      names.map(() => ({ answer: 'not_found' })),
    );
    expect(await rowOf(ledger, mine.deliveryId)).toEqual(before);
  });

  const others: Pick<NewReminder, FingerprintField> = {
    destination: 'elsewhere',
    dueAt: inSeconds(7200).toISOString(),
    expiresAt: null,
    userId: 'user-2',
    payload: '{"text": "pay your bill"}',
  };
  test.each(fingerprintFields)('a repeat with another %s is a conflict that names it', async (field) => {
    const first = newReminder('to', 60, { expiresAt: inSeconds(9000).toISOString() });
    await schedule(first);
    const repeat = { ...first, deliveryId: uuid(), [field]: others[field] };
    const conflict = { answer: 'conflict', fields: [field], deliveryId: first.deliveryId };
    expect(await schedule(repeat)).toEqual([conflict]);
    expect(await schedule({ ...repeat, ...others })).toEqual([{ ...conflict, fields: [...fingerprintFields] }]);
  });

  test('a repeat after a reschedule, a cancel and an end answers duplicate with the present facts', async () => {
    const first = newReminder('to', 60);
    const repeat = async (): Promise<ScheduleAnswer | undefined> =>
      (await schedule({ ...first, deliveryId: uuid() }))[0];
    await schedule(first);
    const facts = { answer: 'duplicate', deliveryId: first.deliveryId, expiresAt: null };
    expect(await repeat()).toEqual({ ...facts, state: 'scheduled', dueAt: first.dueAt, version: 1 });

    const dueAt = inSeconds(900).toISOString();
    const name = { deliveryId: first.deliveryId };
    await ledger.ledger.reschedule({ token: uuid(), producer, reminders: [{ name, dueAt }] });
    expect(await repeat()).toEqual({ ...facts, state: 'scheduled', dueAt, version: 2 });
    await ledger.ledger.cancel({ token: uuid(), producer, reminders: [name] });
    expect(await repeat()).toEqual({ ...facts, state: 'cancelled', dueAt, version: 2 });
    await ledger.sql(`UPDATE reminder_delivery SET state = 'delivered', delivered_at = now()`);
    expect(await repeat()).toEqual({ ...facts, state: 'delivered', dueAt, version: 2 });
  });
});

describe('reschedule', () => {
  test("A, B, then A's retry: it answers as before and does not put A's time back", async () => {
    const { deliveryId } = await arrange(ledger, 'scheduled', { dueIn: 60, wakeIn: -60 });
    const move = (token: string, seconds: number) => {
      const reminders = [{ name: { deliveryId }, dueAt: new Date(1_900_000_000_000 + seconds * 1000).toISOString() }];
      return ledger.ledger.reschedule({ token, producer, reminders });
    };
    const [tokenA, tokenB] = [uuid(), uuid()];
    const answerA = await move(tokenA, 1);
    expect(answerA).toMatchObject([{ answer: 'rescheduled', version: 2 }]);
    await move(tokenB, 2);
    expect(await move(tokenA, 1)).toEqual(answerA);
    expect(await rowOf(ledger, deliveryId)).toMatchObject({ version: 3, due_at: new Date(1_900_000_002_000) });
  });

  test("A's twin, having waited while A and B ran, answers as A and leaves B's time", async () => {
    const { deliveryId } = await arrange(ledger, 'scheduled', { dueIn: 60, wakeIn: -60 });
    const move = (seconds: number) => ({
      token: uuid(),
      producer,
      reminders: [{ item: 0, name: { deliveryId }, dueAt: new Date(1_900_000_000_000 + seconds * 1000).toISOString() }],
    });
    const [A, B] = [move(1), move(2)];
    const twin = await ledger.behind(
      async (session) => {
        await session.run(reschedule, A);
        await session.run(reschedule, B);
      },
      () => ledger.ledger.reschedule(A),
    );
    expect(twin).toMatchObject([{ answer: 'rescheduled', dueAt: A.reminders[0]?.dueAt, version: 2 }]);
    expect(await rowOf(ledger, deliveryId)).toMatchObject({ version: 3, due_at: new Date(1_900_000_002_000) });
  });

  const ends = [
    { end: 'is open', outcomes: [], state: 'delivering', later: 'too_late' },
    { end: 'is unknown', outcomes: [{ outcome: 'unknown' }], state: 'scheduled', later: 'too_late' },
    { end: 'failed for sure', outcomes: [failure], state: 'scheduled', later: 'rescheduled' },
  ] as const;
  test.each(ends)(
    'having waited for the lock while an attempt $end: too_late',
    async ({ outcomes: ended, state, later }) => {
      const { deliveryId, dueAt } = await arrange(ledger, 'queued');
      const move = () => {
        const reminders = [{ name: { deliveryId }, dueAt: inSeconds(900).toISOString() }];
        return ledger.ledger.reschedule({ token: uuid(), producer, reminders });
      };
      const token = uuid();
      const answer = await ledger.behind(async (session) => {
        await session.run(open, { token, worker, deliveryIds: [deliveryId] });
        for (const end of ended)
          await session.run(settle, { token: uuid(), outcomes: [outcome(deliveryId, token, end)] });
      }, move);
      expect(answer).toMatchObject([{ answer: 'too_late', state, version: 1 }]);
      expect(await rowOf(ledger, deliveryId)).toMatchObject({ state, version: 1, due_at: new Date(dueAt) });
      expect(await move()).toMatchObject([{ answer: later }]);
    },
  );
});

describe('cancel', () => {
  const parked = { columns: { parked: true, wake_at: 'infinity' } };
  const cases = [
    ...situations.map((situation) => ({ situation, note: '' })),
    { situation: 'scheduled', note: ', parked', more: parked },
  ] as {
    situation: Situation;
    note?: string;
    more?: typeof parked;
  }[];
  test.each(cases)(
    'in $situation answers as the state machine has it, and nothing is sent after it',
    async ({ situation, more }) => {
      const { deliveryId, key } = await arrange(ledger, situation, more);
      const { to, answer } = verbs.cancel.cells[situation];
      const state = to[0] ?? stateOf(situation);
      const ask = (token: string) => ledger.ledger.cancel({ token, producer, reminders: [{ key }] });
      expect(await ask(uuid())).toMatchObject([{ answer, state, deliveryId }]);
      const wish = (await rowOf(ledger, deliveryId)).cancel_requested_at;
      expect(await ask(uuid())).toMatchObject([{ answer, state }]);
      expect((await rowOf(ledger, deliveryId)).cancel_requested_at).toEqual(wish);
      expect(await openOne(ledger, deliveryId)).not.toBe('opened');
      expect((await claimAll()).claimed).toEqual([]);
    },
  );

  test.each([
    { end: failure, state: 'cancelled' },
    { end: { outcome: 'unknown' }, state: 'cancelled' },
    { end: { outcome: 'not_sent' }, state: 'cancelled' },
    { end: { outcome: 'delivered' }, state: 'delivered' },
  ] as const)(
    'asked while it is being sent prevents another attempt: $end.outcome → $state',
    async ({ end, state }) => {
      const { deliveryId } = await arrange(ledger, 'delivering, lease live');
      await ledger.ledger.cancel({ token: uuid(), producer, reminders: [{ deliveryId }] });
      expect(await settleAll(ledger, outcome(deliveryId, openToken(1), end))).toMatchObject([
        { answer: 'moved', state },
      ]);
    },
  );

  test('of one reminder by two names in one call: both are answered', async () => {
    const { deliveryId, key } = await arrange(ledger, 'queued');
    const reminders = [{ key }, { deliveryId }, { key: 'unknown' }];
    expect(await ledger.ledger.cancel({ token: uuid(), producer, reminders })).toMatchObject([
      { answer: 'cancelled', deliveryId },
      { answer: 'cancelled', deliveryId },
      { answer: 'not_found' },
    ]);
  });
});
