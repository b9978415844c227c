// Commands that name several reminders among others: each gets what is its own, and what is not named stays as it is.
import { v7 as uuid } from 'uuid';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Situation } from '../../lambdas/core/delivery-states.ts';
import { addDestination } from '../../lambdas/store/statements/add-destination.ts';
import { empty, ledgerTables } from './ledger-rows.ts';
import { failure, outcomesOf, recover, rowOf, settleAll } from './one-reminder.ts';
import {
  type Arranged,
  arrange,
  type Circumstances,
  claimToken,
  inSeconds,
  openToken,
  producer,
} from './situations.ts';
import { newReminder, outcome, startTestLedger, type TestLedger, worker } from './test-ledger.ts';

let ledger: TestLedger;
let tables: string[];
beforeAll(async () => {
  ledger = await startTestLedger();
  tables = await ledgerTables(ledger);
});
beforeEach(() => empty(ledger, tables));
afterAll(() => ledger.stop());

/** A row that no command of the test names, and what says later that nothing touched it. */
async function bystander(situation: Situation, circumstances: Circumstances = {}) {
  const row = await arrange(ledger, situation, circumstances);
  const before = await rowOf(ledger, row.deliveryId);
  return { ...row, untouched: async () => expect(await rowOf(ledger, row.deliveryId)).toEqual(before) };
}

const name = ({ deliveryId }: Arranged) => ({ deliveryId });
const ids = (...rows: Arranged[]) => rows.map(({ deliveryId }) => deliveryId);
const stateOf = async ({ deliveryId }: Arranged) => (await rowOf(ledger, deliveryId)).state;
const claimAll = (limit = 10) => ledger.ledger.claim({ token: uuid(), worker, limit, lowWater: null });
const live = 'delivering, lease live';
const past = 'delivering, lease past';
const ends = async () =>
  (await ledger.sql<{ id: string; state: string }>('SELECT delivery_id AS id, state FROM lifecycle_event')).map(
    ({ id, state }) => `${id} ${state}`,
  );

describe('cancel', () => {
  test('of several at once answers each by its own state, and calls off no other', async () => {
    const waiting = await arrange(ledger, 'queued');
    const other = await bystander('queued');
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
    expect(await Promise.all([over, waiting, sending].map(stateOf))).toEqual(['delivered', 'cancelled', 'delivering']);
    expect((await rowOf(ledger, over.deliveryId)).cancel_requested_at).toBeNull();
    expect(await ends()).toEqual([`${waiting.deliveryId} cancelled`]);
    await other.untouched();
  });

  test('of one that is being sent asks for no other to be stopped', async () => {
    const sending = await arrange(ledger, live);
    const other = await bystander(live);
    await ledger.ledger.cancel({ token: uuid(), producer, reminders: [{ key: sending.key }] });
    expect((await rowOf(ledger, sending.deliveryId)).cancel_requested_at).not.toBeNull();
    await other.untouched();
  });

  test('of one by its key names no other', async () => {
    const other = await bystander('queued');
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
    const other = await bystander('queued');
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
    const others = [await bystander('scheduled', later), await bystander('queued', { wakeIn: 60 })];
    const due = await arrange(ledger, 'scheduled');
    const paused = await arrange(ledger, 'scheduled', { destination: { state: 'paused' } });
    const over = await arrange(ledger, 'scheduled', { dueIn: -60, expiresIn: -1 });
    const silent = await arrange(ledger, past);
    const silentAtNone = await arrange(ledger, past, { destination: { contract: 'none' } });
    const answer = await claimAll();
    expect(answer.claimed.map(({ deliveryId }) => deliveryId)).toEqual(ids(due));
    expect(answer).toMatchObject({
      recovered: ids(silent, silentAtNone).sort(),
      expired: ids(over),
      parked: ids(paused),
    });
    expect(await Promise.all([due, paused, over, silent, silentAtNone].map(stateOf))).toEqual([
      'dispatching',
      'scheduled',
      'expired',
      'scheduled',
      'held',
    ]);
    expect(await ends()).toEqual([`${over.deliveryId} expired`]);
    for (const other of others) await other.untouched();
  });

  test.each([
    ['recovers', past, {}],
    ['expires', 'scheduled', { dueIn: -60, expiresIn: -1 }],
    ['parks', 'scheduled', { destination: { state: 'paused' } }],
    ['claims', 'scheduled', {}],
  ] as const)('%s one and leaves the one that wakes later', async (_, situation, circumstances) => {
    const other = await bystander('scheduled', { dueIn: 600, wakeIn: 60 });
    const sending = await bystander(live, { wakeIn: 60 });
    await arrange(ledger, situation, circumstances);
    await claimAll();
    await other.untouched();
    await sending.untouched();
  });

  test('of the named alone leaves what else is due', async () => {
    const named = await arrange(ledger, 'scheduled');
    const other = await bystander('scheduled');
    const answer = await ledger.ledger.claim({ token: uuid(), worker, limit: 10, lowWater: null, only: ids(named) });
    expect(answer.claimed.map(({ deliveryId }) => deliveryId)).toEqual(ids(named));
    await other.untouched();
  });

  test('under a pause recovers and expires beside what it must not claim', async () => {
    const silent = await arrange(ledger, past, { paused: true });
    const held = await arrange(ledger, 'held', { dueIn: -60, expiresIn: -1 });
    const other = await bystander('scheduled');
    expect(await claimAll()).toMatchObject({ claimed: [], recovered: ids(silent), expired: ids(held) });
    await other.untouched();
  });
});

describe('claim by id', () => {
  const byId = (...rows: Arranged[]) => ledger.ledger.claimById({ token: uuid(), worker, deliveryIds: ids(...rows) });

  test('takes the named alone, each by its own destination', async () => {
    const named = await arrange(ledger, 'scheduled');
    const paused = await bystander('scheduled', { destination: { state: 'paused' } });
    const other = await bystander('scheduled');
    const before = await byId(await arrange(ledger, 'scheduled'));
    expect(before.claimed.length).toBe(1);
    expect((await byId(named, paused)).claimed.map(({ deliveryId }) => deliveryId)).toEqual(ids(named));
    await paused.untouched();
    await other.untouched();
  });

  test.each(['dispatching', 'queued', live, past] as const)('leaves a named row that is %s', async (situation) => {
    const row = await bystander(situation);
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
    const sending = await bystander(live);
    const other = await bystander('dispatching');
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
    expect(await stateOf(accepted)).toBe('queued');
    await other.untouched();
    await sending.untouched();
  });

  test('release gives back the named rows of its claim alone', async () => {
    const refused = await arrange(ledger, 'dispatching');
    const other = await bystander('dispatching');
    const rival = await bystander('dispatching', { columns: { lease_owner: uuid() } });
    const release = (...rows: Arranged[]) =>
      ledger.ledger.release({ token: uuid(), claimToken, deliveryIds: ids(...rows) });
    expect(await release()).toBe(0);
    expect(await release(refused, rival)).toBe(1);
    expect(await stateOf(refused)).toBe('scheduled');
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
    const others = [await bystander('scheduled', beside), await bystander('scheduled', { dueIn: 600, wakeIn: 60 })];
    expect(await ledger.ledger.unpark({ token: uuid(), limit: 2 })).toBe(2);
    for (const other of others) await other.untouched();
  });

  test('goes from destination to destination, past one that is not active', async () => {
    const first = await arrange(ledger, 'scheduled', parked);
    const paused = await bystander('scheduled', { ...parked, destination: { state: 'paused' } });
    const last = await arrange(ledger, 'scheduled', parked);
    expect(await ledger.ledger.unpark({ token: uuid(), limit: 10 })).toBe(2);
    expect((await rowOf(ledger, first.deliveryId)).parked).toBe(false);
    expect((await rowOf(ledger, last.deliveryId)).parked).toBe(false);
    await paused.untouched();
  });
});

describe('open', () => {
  const open = (token: string, ...rows: Arranged[]) => ledger.ledger.open({ token, worker, deliveryIds: ids(...rows) });

  test('answers each of a batch by its own row and destination, and opens no other', async () => {
    const due = await arrange(ledger, 'queued');
    const other = await bystander('queued');
    const later = await bystander('queued', { dueIn: 60 });
    const paused = await bystander('queued', { destination: { state: 'paused' } });
    const over = await arrange(ledger, 'queued', { dueIn: -60, expiresIn: -1 });
    expect(await open(uuid(), due, later, paused, over)).toMatchObject([
      { answer: 'opened', deliveryId: due.deliveryId, key: due.key, url: `https://to-${due.deliveryId}.example/hook` },
      { answer: 'not_due', deliveryId: later.deliveryId },
      { answer: 'paused', deliveryId: paused.deliveryId },
      { answer: 'expired', deliveryId: over.deliveryId },
    ]);
    for (const row of [other, later, paused]) await row.untouched();
    expect(await ends()).toEqual([`${over.deliveryId} expired`]);
  });

  test('only a row whose own last attempt was recovered is opened alone', async () => {
    const suspect = await arrange(ledger, 'queued');
    const fresh = await arrange(ledger, 'queued', { attempts: 1 });
    const failedSince = await arrange(ledger, live, { attempts: 2 });
    await ledger.ledger.open({ token: uuid(), worker, deliveryIds: ids(suspect) });
    await recover(ledger, suspect.deliveryId);
    // Its first attempt was recovered, its second failed for sure.
    await ledger.sql(
      `INSERT INTO attempt_outcome (delivery_id, attempt_no, token, recorded_by, recorded_at, outcome)
       VALUES ($1, 1, $2, 'recover', now(), 'unknown')`,
      [failedSince.deliveryId, uuid()],
    );
    await settleAll(
      ledger,
      outcome(failedSince.deliveryId, openToken(2), { ...failure, attemptNo: 2 }),
      outcome(fresh.deliveryId, openToken(1), failure),
    );
    await ledger.sql(`UPDATE reminder_delivery SET next_attempt_at = now(), wake_at = now() WHERE state = 'scheduled'`);
    await claimAll();
    expect((await open(uuid(), suspect, fresh, failedSince)).map(({ answer }) => answer)).toEqual([
      'alone',
      'opened',
      'opened',
    ]);
    expect((await open(uuid(), suspect)).map(({ answer }) => answer)).toEqual(['opened']);
  });

  test('a token used again does not expire what ran out since', async () => {
    const due = await arrange(ledger, 'queued');
    const later = await arrange(ledger, 'queued', { dueIn: 60, expiresIn: 120 });
    const token = uuid();
    await open(token, due, later);
    await ledger.sql(
      `UPDATE reminder_delivery SET due_at = now() - interval '2 s', expires_at = now() - interval '1 s' WHERE delivery_id = $1`,
      [later.deliveryId],
    );
    expect(await open(token, due, later)).toMatchObject([{ answer: 'opened' }, { answer: 'token_used' }]);
    expect(await stateOf(later)).toBe('queued');
  });
});

describe('settle', () => {
  test('decides each by its own outcome, and touches neither another reminder nor another destination', async () => {
    const failing = await arrange(ledger, live);
    const sent = await arrange(ledger, live);
    const gone = await arrange(ledger, live);
    const other = await bystander(live);
    const settled = await settleAll(
      ledger,
      outcome(failing.deliveryId, openToken(1), failure),
      outcome(sent.deliveryId, openToken(1)),
      outcome(gone.deliveryId, openToken(1), { outcome: 'gone', status: 410, errorClass: 'http_410' }),
    );
    expect(settled.map(({ answer, state }) => `${answer} ${state}`)).toEqual([
      'moved scheduled',
      'moved delivered',
      'moved dead',
    ]);
    expect((await ends()).sort()).toEqual([`${sent.deliveryId} delivered`, `${gone.deliveryId} dead`].sort());
    const off = await ledger.sql(`SELECT destination_id AS id FROM destination WHERE state <> 'active'`);
    expect(off).toEqual([{ id: gone.destinationId }]);
    await other.untouched();
  });

  test('a 410 leaves a destination that is paused as it is', async () => {
    const row = await arrange(ledger, live, { destination: { state: 'paused' } });
    await settleAll(ledger, outcome(row.deliveryId, openToken(1), { outcome: 'gone', status: 410 }));
    expect(await ledger.sql('SELECT state FROM destination')).toEqual([{ state: 'paused' }]);
  });

  test('under its token once more, with one outcome besides: that one is recorded', async () => {
    const first = await arrange(ledger, live);
    const second = await arrange(ledger, live);
    const outcomes = [first, second].map(({ deliveryId }) => outcome(deliveryId, openToken(1)));
    const token = uuid();
    await ledger.ledger.settle({ token, outcomes: outcomes.slice(0, 1) });
    expect(await ledger.ledger.settle({ token, outcomes })).toMatchObject([
      { answer: 'moved', state: 'delivered' },
      { answer: 'moved', state: 'delivered' },
    ]);
    expect(await stateOf(second)).toBe('delivered');
  });

  test('of two attempts of one reminder, under one token, each is recorded once', async () => {
    const row = await arrange(ledger, live, { attempts: 2 });
    const [early, present] = [1, 2].map((attemptNo) =>
      outcome(row.deliveryId, openToken(attemptNo), { ...failure, attemptNo }),
    );
    const token = uuid();
    if (early && present) {
      await ledger.ledger.settle({ token, outcomes: [early] });
      await ledger.ledger.settle({ token, outcomes: [early, present] });
    }
    expect(await outcomesOf(ledger, row.deliveryId)).toEqual(['1 retry by sender', '2 retry by sender']);
  });

  test('a late success overtakes the open attempt of its own reminder alone', async () => {
    const late = await arrange(ledger, live, { attempts: 2 });
    const other = await arrange(ledger, live, { attempts: 2 });
    await settleAll(
      ledger,
      outcome(late.deliveryId, openToken(1)),
      outcome(other.deliveryId, openToken(2), { ...failure, attemptNo: 2 }),
    );
    expect(await outcomesOf(ledger, late.deliveryId)).toEqual(['1 delivered by sender', '2 overtaken by sender']);
    expect(await outcomesOf(ledger, other.deliveryId)).toEqual(['2 retry by sender']);
  });

  test('a success of the attempt that is under way overtakes none, and one after the end neither', async () => {
    const row = await arrange(ledger, live, { attempts: 2 });
    await settleAll(ledger, outcome(row.deliveryId, openToken(2), { attemptNo: 2 }));
    await settleAll(ledger, outcome(row.deliveryId, openToken(1)));
    expect(await outcomesOf(ledger, row.deliveryId)).toEqual(['1 delivered by sender', '2 delivered by sender']);
    const ended = await arrange(ledger, 'dead', { attempts: 2 });
    await settleAll(ledger, outcome(ended.deliveryId, openToken(1)));
    expect(await outcomesOf(ledger, ended.deliveryId)).toEqual(['1 delivered by sender']);
  });
});

describe('schedule', () => {
  test('several at once, each to its own destination and by its own key', async () => {
    await ledger.destination('one');
    await ledger.destination('two');
    const taken = newReminder('two', 600);
    await ledger.ledger.schedule({ token: uuid(), producer, reminders: [taken] });
    const [first, second] = [newReminder('one', 600), newReminder('two', 600)];
    const over = newReminder('one', -60, { expiresAt: inSeconds(-1).toISOString() });
    const reminders = [first, second, { ...taken, deliveryId: uuid() }, over, newReminder('nowhere', 60)];
    expect(await ledger.ledger.schedule({ token: uuid(), producer, reminders })).toMatchObject([
      { answer: 'scheduled', deliveryId: first.deliveryId },
      { answer: 'scheduled', deliveryId: second.deliveryId },
      { answer: 'duplicate', deliveryId: taken.deliveryId },
      { answer: 'invalid', path: 'expiresAt' },
      { answer: 'invalid', path: 'destination' },
    ]);
    const rows = await ledger.sql(
      'SELECT delivery_id AS id, d.name FROM reminder_delivery JOIN destination d USING (destination_id) ORDER BY 1',
    );
    expect(rows).toEqual(
      [
        { id: taken.deliveryId, name: 'two' },
        { id: first.deliveryId, name: 'one' },
        { id: second.deliveryId, name: 'two' },
      ].sort((one, other) => (one.id < other.id ? -1 : 1)),
    );
  });
});

test('announce marks the events it names alone', async () => {
  const rows = [await arrange(ledger, 'queued'), await arrange(ledger, 'queued')];
  await ledger.ledger.cancel({ token: uuid(), producer, reminders: rows.map(name) });
  const [first, second] = await ledger.ledger.unannounced({ limit: 10 });
  await ledger.ledger.announce({ eventNos: [first?.eventNo ?? ''] });
  expect(await ledger.ledger.unannounced({ limit: 10 })).toEqual([second]);
});

test('add-destination compares with the destination of its own name', async () => {
  const input = {
    destinationId: uuid(),
    name: 'one',
    url: 'https://one.example/hook',
    owner: 'me',
    contract: 'none',
    deadlineMs: null,
  } as const;
  const add = (more: object) => ledger.database.run(addDestination, { ...input, destinationId: uuid(), ...more });
  await ledger.destination('another');
  expect(await add({})).toEqual([{ answer: 'added', name: 'one' }]);
  expect(await add({})).toMatchObject([{ answer: 'unchanged' }]);
  expect(await add({ owner: 'you' })).toMatchObject([{ answer: 'conflict', name: 'one' }]);
  expect(await ledger.sql('SELECT count(*) AS n FROM destination')).toEqual([{ n: '2' }]);
});
