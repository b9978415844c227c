// One run of a statement: a line for each item before anything is asked again, and no wait for a row that it does not name.
import { v7 as uuid } from 'uuid';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Statement } from '../../lambdas/store/statement.ts';
import { cancel } from '../../lambdas/store/statements/cancel.ts';
import { enqueue } from '../../lambdas/store/statements/enqueue.ts';
import { open } from '../../lambdas/store/statements/open.ts';
import { reschedule } from '../../lambdas/store/statements/reschedule.ts';
import { schedule } from '../../lambdas/store/statements/schedule.ts';
import { settle } from '../../lambdas/store/statements/settle.ts';
import { bystander, live, name } from './bystander.ts';
import { empty, ledgerTables } from './ledger-rows.ts';
import { failure, rowOf, settleAll } from './one-reminder.ts';
import { type Arranged, arrange, claimToken, inSeconds, openToken, producer } from './situations.ts';
import { newReminder, outcome, startTestLedger, type TestLedger, worker } from './test-ledger.ts';

let ledger: TestLedger;
let tables: string[];
beforeAll(async () => {
  ledger = await startTestLedger();
  tables = await ledgerTables(ledger);
});
beforeEach(() => empty(ledger, tables));
afterAll(() => ledger.stop());

const receipt = ({ deliveryId }: Pick<Arranged, 'deliveryId'>, messageId: string) => ({
  deliveryId,
  messageId,
  queue: 'invitations',
  delaySeconds: 0,
});
const move = (row: Pick<Arranged, 'deliveryId'>, item: number, seconds = 7200) => ({
  item,
  name: { deliveryId: row.deliveryId },
  dueAt: inSeconds(seconds).toISOString(),
});
const receiptsOf = async (token: string) =>
  (await ledger.sql('SELECT item FROM command_receipt WHERE token = $1 ORDER BY item', [token])).map(
    ({ item }) => item,
  );

describe('answers each item with one line', () => {
  test('cancel', async () => {
    const [queued, over] = [await arrange(ledger, 'queued'), await arrange(ledger, 'delivered')];
    const reminders = [name(queued), { deliveryId: uuid() }, name(over)].map((one, item) => ({ item, name: one }));
    const command = { token: uuid(), producer, reminders };
    const lines = [
      { item: 0, answer: 'cancelled', delivery_id: queued.deliveryId },
      { item: 1, answer: 'not_found' },
      { item: 2, answer: 'finished', delivery_id: over.deliveryId },
    ];
    expect(await ledger.database.run(cancel, command)).toMatchObject(lines);
    expect(await ledger.database.run(cancel, command)).toMatchObject(lines);
  });

  test('reschedule', async () => {
    const [queued, over] = [await arrange(ledger, 'queued'), await arrange(ledger, 'delivered')];
    const command = {
      token: uuid(),
      producer,
      reminders: [queued, { deliveryId: uuid() }, over].map((row, item) => move(row, item)),
    };
    const lines = [
      { item: 0, answer: 'rescheduled', delivery_id: queued.deliveryId },
      { item: 1, answer: 'not_found' },
      { item: 2, answer: 'finished', delivery_id: over.deliveryId },
    ];
    expect(await ledger.database.run(reschedule, command)).toMatchObject(lines);
    expect(await ledger.database.run(reschedule, command)).toMatchObject(lines);
    const more = await arrange(ledger, 'queued');
    expect(await ledger.database.run(reschedule, { ...command, reminders: [move(more, 3)] })).toMatchObject([
      { item: 3, answer: 'rescheduled' },
    ]);
  });

  test('enqueue, also of two messages for one reminder and of one message for two', async () => {
    const [first, second] = [await arrange(ledger, 'dispatching'), await arrange(ledger, 'dispatching')];
    const later = await arrange(ledger, 'delivered');
    const receipts = [
      receipt(first, 'm1'),
      receipt(first, 'm2'),
      receipt(second, 'm1'),
      receipt(second, 'm3'),
      receipt(later, 'm4'),
    ];
    const command = {
      claimToken,
      receipts: [...receipts, receipt({ deliveryId: 'ffffffff-0000-7000-8000-000000000000' }, 'm5')],
    };
    const lines = [
      { message_id: 'm1', answer: 'queued' },
      { message_id: 'm2', answer: 'queued' },
      { message_id: 'm1', answer: 'queued' },
      { message_id: 'm3', answer: 'queued' },
      { message_id: 'm4', answer: 'receipt_kept' },
      { message_id: 'm5', answer: 'not_found' },
    ];
    expect(await ledger.database.run(enqueue, command)).toEqual(lines);
    expect(await ledger.database.run(enqueue, command)).toEqual(lines);
  });

  test('settle, of attempts that were opened under one token and of one that was not', async () => {
    const [first, second] = [await arrange(ledger, live), await arrange(ledger, live)];
    const outcomes = [
      outcome(first.deliveryId, openToken(1)),
      outcome(first.deliveryId, openToken(1), { attemptNo: 2 }),
      outcome(second.deliveryId, openToken(1), failure),
    ];
    const command = { token: uuid(), outcomes };
    const lines = [
      { delivery_id: first.deliveryId, attempt_no: 1, answer: 'moved', state: 'delivered' },
      { delivery_id: first.deliveryId, attempt_no: 2, answer: 'not_opened' },
      { delivery_id: second.deliveryId, attempt_no: 1, answer: 'moved', state: 'scheduled' },
    ];
    expect(await ledger.database.run(settle, command)).toMatchObject(lines);
    expect(await ledger.database.run(settle, command)).toMatchObject(lines);
  });

  test('schedule, beside a key that is taken', async () => {
    await ledger.destination('to');
    const [taken, fresh] = [newReminder('to', 600), newReminder('to', 600)];
    const items = [taken, fresh].map((one, item) => ({ ...one, item, fingerprint: 'v1.a' }));
    const run = (...some: typeof items) => ledger.database.run(schedule, { token: uuid(), producer, items: some });
    expect(await run(...items.slice(0, 1))).toMatchObject([{ item: 0, answer: 'scheduled' }]);
    // Another command, though with the same id: the key is taken.
    expect(await run(...items)).toMatchObject([
      { item: 0, answer: 'taken' },
      { item: 1, answer: 'scheduled' },
    ]);
  });
});

describe('reschedule says how the reminder stands then', () => {
  const run = async (row: Arranged, seconds: number, more: object = {}) =>
    (
      await ledger.database.run(reschedule, {
        token: uuid(),
        producer,
        reminders: [{ ...move(row, 0, seconds), ...more }],
      })
    )[0];

  test('scheduled again, near its due time or far from it, with its new expiry', async () => {
    const expiresAt = inSeconds(9000).toISOString();
    const answer = await run(await arrange(ledger, 'queued'), 7200, { expiresAt });
    expect(answer).toMatchObject({ answer: 'rescheduled', state: 'scheduled', near_due: false });
    expect(new Date(String(answer && 'expires_at' in answer ? answer.expires_at : '')).toISOString()).toBe(expiresAt);
    expect(await run(await arrange(ledger, 'queued'), 5)).toMatchObject({ state: 'scheduled', near_due: true });
  });

  test('a shadow stays one, and is never near', async () => {
    expect(await run(await arrange(ledger, 'shadow'), 5)).toMatchObject({
      answer: 'rescheduled',
      state: 'shadow',
      near_due: false,
    });
  });

  test('another expiry alone is a change', async () => {
    const row = await arrange(ledger, 'scheduled', { dueIn: 600, wakeIn: 420 });
    const { dueAt } = row;
    expect(await run(row, 0, { dueAt, expiresAt: inSeconds(9000).toISOString() })).toMatchObject({
      answer: 'rescheduled',
    });
  });
});

test('reschedule, sent twice with another command between: what the first run answered is not done again', async () => {
  await ledger.destination('to');
  const [named, later] = [await arrange(ledger, 'scheduled'), newReminder('to', 600)];
  const reminders = [named.deliveryId, later.deliveryId].map((id, item) => ({
    ...move(named, item, 3600),
    name: { deliveryId: id },
  }));
  const command = { token: uuid(), producer, reminders };
  const [other, twin] = await ledger.behind(
    (session) => session.run(reschedule, command),
    async () => {
      const between = ledger.database.run(reschedule, { token: uuid(), producer, reminders: [move(named, 0, 9000)] });
      await ledger.waitFor(1);
      // Named by the command, and there only when its twin runs: so the twin has an answer of its own to write.
      const items = [{ ...later, item: 0, fingerprint: 'v1.a' }];
      await ledger.database.run(schedule, { token: uuid(), producer, items });
      return Promise.all([between, ledger.database.run(reschedule, command)]);
    },
    'COMMIT',
    2,
  );
  expect(other).toMatchObject([{ answer: 'rescheduled' }]);
  expect(twin).toMatchObject([{ answer: null }, { answer: 'rescheduled' }]);
  const { due_at: dueAt, version } = await rowOf(ledger, named.deliveryId);
  expect(version).toBe(3);
  expect(Number(dueAt)).toBeGreaterThan(Number(inSeconds(8000)));
});

describe('waits for no row that it does not name', () => {
  const commands: Readonly<Record<string, (row: Arranged) => Promise<readonly object[]>>> = {
    cancel: (row) => run(cancel, { token: uuid(), producer, reminders: [{ item: 0, name: name(row) }] }),
    reschedule: (row) => run(reschedule, { token: uuid(), producer, reminders: [move(row, 0)] }),
    enqueue: (row) => run(enqueue, { claimToken, receipts: [receipt(row, 'm1')] }),
    settle: (row) => run(settle, { token: uuid(), outcomes: [outcome(row.deliveryId, openToken(1))] }),
    open: (row) => run(open, { token: uuid(), worker, deliveryIds: [row.deliveryId] }),
  };
  const run = <Input, Line extends object>(statement: Statement<Input, Line>, input: Input) =>
    ledger.database.run(statement, input);

  test.each(Object.entries(commands))('%s', async (_, command) => {
    const named = await arrange(ledger, 'queued');
    const other = await bystander(ledger, 'queued');
    const session = await ledger.session();
    await session.sql('BEGIN');
    await session.sql('SELECT FROM reminder_delivery WHERE delivery_id = $1 FOR UPDATE', [other.deliveryId]);
    try {
      expect(await command(named)).toHaveLength(1);
    } finally {
      await session.close();
    }
  });
});

describe('open', () => {
  const run = (token: string, ...rows: Arranged[]) =>
    ledger.database.run(open, { token, worker, deliveryIds: rows.map(({ deliveryId }) => deliveryId) });
  /** Its last sender never reported. */
  const suspect = async () => {
    const row = await arrange(ledger, 'queued', { attempts: 1, columns: { attempt_no: 1, failures: 1 } });
    await ledger.sql(
      `INSERT INTO attempt_outcome (delivery_id, attempt_no, token, recorded_by, recorded_at, outcome)
       VALUES ($1, 1, $2, 'recover', now(), 'unknown')`,
      [row.deliveryId, uuid()],
    );
    return row;
  };

  test("another sender's lease says nothing of the batch's own token", async () => {
    const [leased, queued] = [await arrange(ledger, live), await arrange(ledger, 'queued')];
    expect(await run(uuid(), leased, queued)).toMatchObject([{ answer: 'leased' }, { answer: 'opened' }]);
  });

  test('run again late, once the row is due, a token that opened nothing opens nothing', async () => {
    const row = await arrange(ledger, 'queued', { dueIn: 30 });
    const token = uuid();
    expect(await run(token, row)).toMatchObject([{ answer: 'not_due' }]);
    await ledger.sql('UPDATE reminder_delivery SET next_attempt_at = now()');
    expect(await run(token, row)).toMatchObject([{ answer: 'token_used' }]);
    expect((await rowOf(ledger, row.deliveryId)).state).toBe('queued');
  });

  test('leaves a receipt when it opened nothing or left one for later, and none when all were opened', async () => {
    const [all, nothing, some] = [uuid(), uuid(), uuid()];
    await run(all, await arrange(ledger, 'queued'), await arrange(ledger, 'queued'));
    await run(nothing, await arrange(ledger, 'queued', { dueIn: 30 }));
    await run(some, await suspect(), await arrange(ledger, 'queued'));
    expect(await Promise.all([all, nothing, some].map(receiptsOf))).toEqual([[], [0], [0]]);
  });

  test('of a row that must be opened alone brings forward no other', async () => {
    const other = await bystander(ledger, 'queued', { wakeIn: 600 });
    expect(await run(uuid(), await suspect(), await arrange(ledger, 'queued'))).toMatchObject([
      { answer: 'alone' },
      { answer: 'opened' },
    ]);
    await other.untouched();
  });
});

describe('settle', () => {
  test('a success keeps when it was first invited and what failed before', async () => {
    const columns = { last_error: 'http_503', first_invited_at: inSeconds(-40) };
    const row = await arrange(ledger, live, { columns });
    await settleAll(ledger, outcome(row.deliveryId, openToken(1)));
    expect(await rowOf(ledger, row.deliveryId)).toMatchObject(columns);
  });

  test('faults of ours wait longer with each attempt, though they are no failures', async () => {
    const rows = await Promise.all(Array.from({ length: 12 }, () => arrange(ledger, live, { attempts: 6 })));
    const notSent = { outcome: 'not_sent', attemptNo: 6, status: null } as const;
    await settleAll(ledger, ...rows.map((row) => outcome(row.deliveryId, openToken(6), notSent)));
    // Full jitter up to 960 s: that all twelve lie within the first pause of 30 s has a chance of 32 to the power of -12.
    const waits = await ledger.sql(
      `SELECT failures FROM reminder_delivery WHERE next_attempt_at > now() + interval '31 s' AND failures = 0`,
    );
    expect(waits.length).toBeGreaterThan(0);
  });
});

describe('unpark', () => {
  const parked = { dueIn: 600, columns: { parked: true, wake_at: 'infinity' } };

  test('an earlier destination without parked rows takes no share', async () => {
    await arrange(ledger, 'scheduled', { dueIn: 600, wakeIn: 60 });
    const { destinationId } = await arrange(ledger, 'scheduled', parked);
    await arrange(ledger, 'scheduled', { ...parked, columns: { ...parked.columns, destination_id: destinationId } });
    expect(await ledger.ledger.unpark({ token: uuid(), limit: 2 })).toBe(2);
  });

  test('with nothing to do leaves no receipt', async () => {
    const token = uuid();
    expect(await ledger.ledger.unpark({ token, limit: 2 })).toBe(0);
    expect(await receiptsOf(token)).toEqual([]);
  });
});
