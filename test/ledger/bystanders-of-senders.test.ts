// Commands of senders, products and operators that name several reminders: each by its own row, and no other touched.
import { v7 as uuid } from 'uuid';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { addDestination } from '../../lambdas/store/statements/add-destination.ts';
import { bystander, claimAll, ends, ids, live, name, stateOf } from './bystander.ts';
import { empty, ledgerTables } from './ledger-rows.ts';
import { failure, outcomesOf, recover, settleAll } from './one-reminder.ts';
import { type Arranged, arrange, inSeconds, openToken, producer } from './situations.ts';
import { newReminder, outcome, startTestLedger, type TestLedger, worker } from './test-ledger.ts';

let ledger: TestLedger;
let tables: string[];
beforeAll(async () => {
  ledger = await startTestLedger();
  tables = await ledgerTables(ledger);
});
beforeEach(() => empty(ledger, tables));
afterAll(() => ledger.stop());

describe('open', () => {
  const open = (token: string, ...rows: Arranged[]) => ledger.ledger.open({ token, worker, deliveryIds: ids(...rows) });

  test('answers each of a batch by its own row and destination, and opens no other', async () => {
    const due = await arrange(ledger, 'queued');
    const other = await bystander(ledger, 'queued');
    const later = await bystander(ledger, 'queued', { dueIn: 60 });
    const paused = await bystander(ledger, 'queued', { destination: { state: 'paused' } });
    const over = await arrange(ledger, 'queued', { dueIn: -60, expiresIn: -1 });
    expect(await open(uuid(), due, later, paused, over)).toMatchObject([
      { answer: 'opened', deliveryId: due.deliveryId, key: due.key, url: `https://to-${due.deliveryId}.example/hook` },
      { answer: 'not_due', deliveryId: later.deliveryId },
      { answer: 'paused', deliveryId: paused.deliveryId },
      { answer: 'expired', deliveryId: over.deliveryId },
    ]);
    for (const row of [other, later, paused]) await row.untouched();
    expect(await ends(ledger)).toEqual([`${over.deliveryId} expired`]);
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
    await claimAll(ledger);
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
    expect(await stateOf(ledger, later)).toBe('queued');
  });
});

describe('settle', () => {
  test('decides each by its own outcome, and touches neither another reminder nor another destination', async () => {
    const failing = await arrange(ledger, live);
    const sent = await arrange(ledger, live);
    const gone = await arrange(ledger, live);
    const other = await bystander(ledger, live);
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
    expect((await ends(ledger)).sort()).toEqual([`${sent.deliveryId} delivered`, `${gone.deliveryId} dead`].sort());
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
    expect(await stateOf(ledger, second)).toBe('delivered');
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
