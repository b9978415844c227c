// Commands that name several reminders among others: each gets what is its own, and what is not named stays as it is.
import { v7 as uuid } from 'uuid';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { bystander, claimAll, ends, ids, live, name, past, stateOf } from './bystander.ts';
import { empty, ledgerTables } from './ledger-rows.ts';
import { failure, rowOf, settleAll } from './one-reminder.ts';
import { type Arranged, arrange, claimToken, inSeconds, openToken, producer } from './situations.ts';
import { outcome, startTestLedger, type TestLedger, worker } from './test-ledger.ts';

let ledger: TestLedger;
let tables: string[];
beforeAll(async () => {
  ledger = await startTestLedger();
  tables = await ledgerTables(ledger);
});
beforeEach(() => empty(ledger, tables));
afterAll(() => ledger.stop());

describe('cancel', () => {
  test('of several at once answers each by its own state, and calls off no other', async () => {
    const waiting = await arrange(ledger, 'queued');
    const other = await bystander(ledger, 'queued');
    const sending = await arrange(ledger, live);
    const over = await arrange(ledger, 'delivered');
    const reminders = [over, waiting, sending].map(name);
    // Another command's receipts stand under the same item numbers.
    await ledger.ledger.cancel({ token: uuid(), producer, reminders: [{ key: 'nothing' }, name(over), name(over)] });
    expect(await ledger.ledger.cancel({ token: uuid(), producer, reminders })).toMatchObject([
      { answer: 'finished', deliveryId: over.deliveryId, state: 'delivered' },
      { answer: 'cancelled', deliveryId: waiting.deliveryId, state: 'cancelled' },
      { answer: 'too_late', deliveryId: sending.deliveryId, state: 'delivering' },
    ]);
    expect(await Promise.all([over, waiting, sending].map((row) => stateOf(ledger, row)))).toEqual([
      'delivered',
      'cancelled',
      'delivering',
    ]);
    expect((await rowOf(ledger, over.deliveryId)).cancel_requested_at).toBeNull();
    expect(await ends(ledger)).toEqual([`${waiting.deliveryId} cancelled`]);
    await other.untouched();
  });

  test('of one that is being sent asks for no other to be stopped', async () => {
    const sending = await arrange(ledger, live);
    const other = await bystander(ledger, live);
    await ledger.ledger.cancel({ token: uuid(), producer, reminders: [{ key: sending.key }] });
    expect((await rowOf(ledger, sending.deliveryId)).cancel_requested_at).not.toBeNull();
    await other.untouched();
  });

  test('of one by its key names no other', async () => {
    const other = await bystander(ledger, 'queued');
    const one = await arrange(ledger, 'queued');
    expect(await ledger.ledger.cancel({ token: uuid(), producer, reminders: [{ key: one.key }] })).toMatchObject([
      { answer: 'cancelled', deliveryId: one.deliveryId },
    ]);
    await other.untouched();
  });
});

describe('reschedule', () => {
  test('of several at once answers each by its own state, and moves no other', async () => {
    const waiting = await arrange(ledger, 'queued');
    const other = await bystander(ledger, 'queued');
    const sending = await arrange(ledger, live);
    const moves = [
      { name: { key: waiting.key }, dueAt: inSeconds(600).toISOString() },
      { name: { key: sending.key }, dueAt: inSeconds(700).toISOString() },
      { name: { key: 'nothing' }, dueAt: inSeconds(800).toISOString() },
    ];
    await ledger.ledger.reschedule({ token: uuid(), producer, reminders: moves.toReversed().slice(0, 2) });
    expect(await ledger.ledger.reschedule({ token: uuid(), producer, reminders: moves })).toMatchObject([
      { answer: 'rescheduled', deliveryId: waiting.deliveryId, dueAt: moves[0]?.dueAt },
      { answer: 'too_late', deliveryId: sending.deliveryId },
      { answer: 'not_found' },
    ]);
    await other.untouched();
  });

  test("another reminder's known failures say nothing of an attempt whose end is unknown", async () => {
    const unknown = await arrange(ledger, live);
    const known = await arrange(ledger, live);
    await settleAll(
      ledger,
      outcome(unknown.deliveryId, openToken(1), { outcome: 'unknown' }),
      outcome(known.deliveryId, openToken(1), failure),
    );
    const reminders = [unknown, known].map((row) => ({ name: name(row), dueAt: inSeconds(600).toISOString() }));
    expect(await ledger.ledger.reschedule({ token: uuid(), producer, reminders })).toMatchObject([
      { answer: 'too_late' },
      { answer: 'rescheduled' },
    ]);
  });

  test('with no word on the expiry keeps it, with null takes it away', async () => {
    const row = await arrange(ledger, 'scheduled', { expiresIn: 9000 });
    const move = async (more: object, seconds: number) => {
      const reminders = [{ name: name(row), dueAt: inSeconds(seconds).toISOString(), ...more }];
      await ledger.ledger.reschedule({ token: uuid(), producer, reminders });
      return (await rowOf(ledger, row.deliveryId)).expires_at;
    };
    expect(await move({}, 600)).not.toBeNull();
    expect(await move({ expiresAt: null }, 700)).toBeNull();
  });
});

describe('claim', () => {
  test('moves each row by its own verb and destination, and none whose wake_at lies ahead', async () => {
    const later = { dueIn: 600, wakeIn: 60 };
    const others = [await bystander(ledger, 'scheduled', later), await bystander(ledger, 'queued', { wakeIn: 60 })];
    const due = await arrange(ledger, 'scheduled');
    const paused = await arrange(ledger, 'scheduled', { destination: { state: 'paused' } });
    const over = await arrange(ledger, 'scheduled', { dueIn: -60, expiresIn: -1 });
    const silent = await arrange(ledger, past);
    const silentAtNone = await arrange(ledger, past, { destination: { contract: 'none' } });
    const answer = await claimAll(ledger);
    expect(answer.claimed.map(({ deliveryId }) => deliveryId)).toEqual(ids(due));
    expect(answer).toMatchObject({
      recovered: ids(silent, silentAtNone).sort(),
      expired: ids(over),
      parked: ids(paused),
    });
    expect(await Promise.all([due, paused, over, silent, silentAtNone].map((row) => stateOf(ledger, row)))).toEqual([
      'dispatching',
      'scheduled',
      'expired',
      'scheduled',
      'held',
    ]);
    expect(await ends(ledger)).toEqual([`${over.deliveryId} expired`]);
    for (const other of others) await other.untouched();
  });

  test.each([
    ['recovers', past, {}],
    ['expires', 'scheduled', { dueIn: -60, expiresIn: -1 }],
    ['parks', 'scheduled', { destination: { state: 'paused' } }],
    ['claims', 'scheduled', {}],
  ] as const)('%s one and leaves the one that wakes later', async (_, situation, circumstances) => {
    const other = await bystander(ledger, 'scheduled', { dueIn: 600, wakeIn: 60 });
    const sending = await bystander(ledger, live, { wakeIn: 60 });
    await arrange(ledger, situation, circumstances);
    await claimAll(ledger);
    await other.untouched();
    await sending.untouched();
  });

  test('of the named alone leaves what else is due', async () => {
    const named = await arrange(ledger, 'scheduled');
    const other = await bystander(ledger, 'scheduled');
    const answer = await ledger.ledger.claim({ token: uuid(), worker, limit: 10, lowWater: null, only: ids(named) });
    expect(answer.claimed.map(({ deliveryId }) => deliveryId)).toEqual(ids(named));
    await other.untouched();
  });

  test('under a pause recovers and expires beside what it must not claim', async () => {
    const silent = await arrange(ledger, past, { paused: true });
    const held = await arrange(ledger, 'held', { dueIn: -60, expiresIn: -1 });
    const other = await bystander(ledger, 'scheduled');
    expect(await claimAll(ledger)).toMatchObject({ claimed: [], recovered: ids(silent), expired: ids(held) });
    await other.untouched();
  });
});

describe('claim by id', () => {
  const byId = (...rows: Arranged[]) => ledger.ledger.claimById({ token: uuid(), worker, deliveryIds: ids(...rows) });

  test('takes the named alone, each by its own destination', async () => {
    const named = await arrange(ledger, 'scheduled');
    const paused = await bystander(ledger, 'scheduled', { destination: { state: 'paused' } });
    const other = await bystander(ledger, 'scheduled');
    const before = await byId(await arrange(ledger, 'scheduled'));
    expect(before.claimed.length).toBe(1);
    expect((await byId(named, paused)).claimed.map(({ deliveryId }) => deliveryId)).toEqual(ids(named));
    await paused.untouched();
    await other.untouched();
  });

  test.each(['dispatching', 'queued', live, past] as const)('leaves a named row that is %s', async (situation) => {
    const row = await bystander(ledger, situation);
    expect((await byId(row)).claimed).toEqual([]);
    await row.untouched();
  });

  test('takes a row that expires later', async () => {
    const row = await arrange(ledger, 'scheduled', { expiresIn: 60 });
    expect((await byId(row)).claimed.length).toBe(1);
  });
});

describe('enqueue and release', () => {
  const receipt = ({ deliveryId }: Arranged, messageId: string) => ({
    deliveryId,
    messageId,
    queue: 'q',
    delaySeconds: 0,
  });

  test('enqueue marks the rows of its receipts alone, and keeps the receipt of what has gone on', async () => {
    const accepted = await arrange(ledger, 'dispatching');
    const sending = await bystander(ledger, live);
    const other = await bystander(ledger, 'dispatching');
    const earlier = await arrange(ledger, 'dispatching');
    await ledger.ledger.enqueue({ claimToken, receipts: [receipt(earlier, 'm1')] });
    const receipts = [receipt(accepted, 'm1'), receipt(sending, 'm2'), receipt(earlier, 'm3')];
    expect(await ledger.ledger.enqueue({ claimToken, receipts })).toBe(1);
    expect(await ledger.sql('SELECT delivery_id AS id, message_id AS m, moved FROM handoff ORDER BY 1, 2')).toEqual([
      { id: accepted.deliveryId, m: 'm1', moved: true },
      { id: sending.deliveryId, m: 'm2', moved: false },
      { id: earlier.deliveryId, m: 'm1', moved: true },
      { id: earlier.deliveryId, m: 'm3', moved: false },
    ]);
    expect(await stateOf(ledger, accepted)).toBe('queued');
    await other.untouched();
    await sending.untouched();
  });

  test('release gives back the named rows of its claim alone', async () => {
    const refused = await arrange(ledger, 'dispatching');
    const other = await bystander(ledger, 'dispatching');
    const rival = await bystander(ledger, 'dispatching', { columns: { lease_owner: uuid() } });
    const release = (...rows: Arranged[]) =>
      ledger.ledger.release({ token: uuid(), claimToken, deliveryIds: ids(...rows) });
    expect(await release()).toBe(0);
    expect(await release(refused, rival)).toBe(1);
    expect(await stateOf(ledger, refused)).toBe('scheduled');
    await other.untouched();
    await rival.untouched();
  });
});

describe('unpark', () => {
  const parked = { columns: { parked: true, wake_at: 'infinity' } };

  test('a destination without parked rows takes no share, and its rows stay', async () => {
    const first = await arrange(ledger, 'scheduled', { dueIn: 600, ...parked });
    const second = { ...parked, columns: { ...parked.columns, destination_id: first.destinationId } };
    await arrange(ledger, 'scheduled', { dueIn: 600, ...second });
    const beside = { dueIn: 600, wakeIn: 60, columns: { destination_id: first.destinationId } };
    const others = [
      await bystander(ledger, 'scheduled', beside),
      await bystander(ledger, 'scheduled', { dueIn: 600, wakeIn: 60 }),
    ];
    expect(await ledger.ledger.unpark({ token: uuid(), limit: 2 })).toBe(2);
    for (const other of others) await other.untouched();
  });

  test('goes from destination to destination, past one that is not active', async () => {
    const first = await arrange(ledger, 'scheduled', parked);
    const paused = await bystander(ledger, 'scheduled', { ...parked, destination: { state: 'paused' } });
    const last = await arrange(ledger, 'scheduled', parked);
    expect(await ledger.ledger.unpark({ token: uuid(), limit: 10 })).toBe(2);
    expect((await rowOf(ledger, first.deliveryId)).parked).toBe(false);
    expect((await rowOf(ledger, last.deliveryId)).parked).toBe(false);
    await paused.untouched();
  });
});
