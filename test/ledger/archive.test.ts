// What retention takes out of the database: evidence of what is archived, and receipts of commands long over; nothing else.
import { v7 as uuid } from 'uuid';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { archive } from '../../lambdas/store/statements/archive.ts';
import { cancel } from '../../lambdas/store/statements/cancel.ts';
import { forget } from '../../lambdas/store/statements/forget.ts';
import { settle } from '../../lambdas/store/statements/settle.ts';
import { dump, empty, ledgerTables } from './ledger-rows.ts';
import { allAnnounced, archived, as, asRead, day, ended, handedOver, happened, settled } from './long-finished.ts';
import { failure, rowOf } from './one-reminder.ts';
import { type Arranged, arrange, inSeconds, insert, openToken, producer } from './situations.ts';
import { outcome, startTestLedger, type TestLedger } from './test-ledger.ts';

let ledger: TestLedger;
let tables: string[];
beforeAll(async () => {
  ledger = await startTestLedger();
  tables = await ledgerTables(ledger);
});
beforeEach(() => empty(ledger, tables));
afterAll(() => ledger.stop());

describe('archive', () => {
  test('takes payload, error and evidence, leaves all else, and touches no other', async () => {
    const before = { attempts: 1, columns: { last_error: 'http_503' } };
    const row = await arrange(ledger, 'delivered', ended(91, before));
    const other = await arrange(ledger, 'delivered', ended(91, before));
    for (const one of [row, other]) {
      await settled(ledger, one);
      await handedOver(ledger, one);
      await happened(ledger, one, new Date());
    }
    const rows = await dump(ledger, tables);
    const { payload, last_error, archived_at, ...kept } = await rowOf(ledger, row.deliveryId);
    expect({ payload, last_error, archived_at }).toMatchObject({ last_error: 'http_503', archived_at: null });
    expect(await archived(ledger, as(row, { outcomes: 1 }))).toEqual(['archived']);
    const after = await rowOf(ledger, row.deliveryId);
    expect(after).toEqual({ ...kept, payload: null, last_error: null, archived_at: expect.any(Date) });
    const others = (table: string, of = rows) => of[table]?.filter((one) => one.delivery_id === other.deliveryId);
    const now = await dump(ledger, tables);
    for (const table of ['delivery_attempt', 'attempt_outcome', 'handoff', 'lifecycle_event']) {
      expect(now[table], table).toEqual(others(table));
      expect(now[table]?.length, table).toBe(1);
    }
    expect(others('reminder_delivery', now)).toEqual(others('reminder_delivery'));
    expect(await archived(ledger, as(row, { outcomes: 1 }))).toEqual(['archived']);
    expect(await dump(ledger, tables)).toEqual(now);
  });

  test.each([
    ['another version', { version: 2, outcomes: 1 }],
    ['fewer outcomes than there are', { outcomes: 0 }],
  ])('leaves what was written with %s', async (_, more) => {
    const row = await arrange(ledger, 'delivered', ended(91, { attempts: 1 }));
    await settled(ledger, row);
    const rows = await dump(ledger, tables);
    expect(await archived(ledger, as(row, more))).toEqual(['changed']);
    expect(await dump(ledger, tables)).toEqual(rows);
  });

  test('leaves what moved since it was read, also while the statement waited for it', async () => {
    const reviewed = { columns: { reviewed_at: 'infinity' } };
    const rows = [
      await arrange(ledger, 'dead', ended(91, reviewed)),
      await arrange(ledger, 'dead', ended(91, reviewed)),
    ];
    const reminders = await asRead(ledger.database, ...rows.map((row) => as(row)));
    const cancelled = (row?: Arranged) => ({
      ...{ token: uuid(), producer, reminders: [{ item: 0, name: { deliveryId: row?.deliveryId ?? '' } }] },
    });
    await ledger.database.run(cancel, cancelled(rows[0]));
    await allAnnounced(ledger);
    const answers = await ledger.behind(
      (session) => session.run(cancel, cancelled(rows[1])),
      () => ledger.database.run(archive, { reminders }),
    );
    expect(answers.map(({ answer }) => answer)).toEqual(['changed', 'changed']);
  });

  test('leaves what the bus was not told of, and looks at no other reminder for that', async () => {
    const [untold, told] = [
      await arrange(ledger, 'delivered', ended(91)),
      await arrange(ledger, 'delivered', ended(91)),
    ];
    await happened(ledger, untold, null);
    await happened(ledger, told, new Date());
    expect(await archived(ledger, as(untold))).toEqual(['changed']);
    expect(await archived(ledger, as(told))).toEqual(['archived']);
  });

  test('judges each by its own evidence, and waits for no row that it was not given', async () => {
    const [open, half, whole, none] = [
      await arrange(ledger, 'delivered', ended(91, { attempts: 1 })),
      await arrange(ledger, 'delivered', ended(91, { attempts: 2 })),
      await arrange(ledger, 'delivered', ended(91, { attempts: 1 })),
      await arrange(ledger, 'delivered', ended(91)),
    ];
    await settled(ledger, half);
    await settled(ledger, whole);
    const session = await ledger.session();
    await session.sql('BEGIN');
    await session.sql('SELECT FROM reminder_delivery WHERE delivery_id = $1 FOR UPDATE', [open.deliveryId]);
    const answers = archived(ledger, as(half, { outcomes: 1 }), as(whole, { outcomes: 1 }), as(none));
    // A wait for that row would end at the lock's time-out.
    const found = await answers.finally(() => session.close());
    expect(found).toEqual(['changed', 'archived', 'archived']);
    expect(await archived(ledger, as(open), as(none, { outcomes: 7 }))).toEqual(['changed', 'archived']);
    expect((await rowOf(ledger, open.deliveryId)).archived_at).toBeNull();
  });

  test.each([
    ['success finds the row moved', {}, ['changed'], 'delivered'],
    [
      'failure, which moves no row, fails by the evidence it would leave behind',
      failure,
      { sqlState: '23503' },
      'expired',
    ],
  ])('behind a late %s, and loses nothing: the next run has what came', async (_, late, told, state) => {
    const row = await arrange(ledger, 'expired', ended(91, { attempts: 1 }));
    await settled(ledger, row, { outcome: 'unknown', status: null });
    const outcomes = [{ ...outcome(row.deliveryId, openToken(1), late), item: 0 }];
    const waiting = ledger.behind(
      (session) => session.run(settle, { token: uuid(), outcomes }),
      () => archived(ledger, as(row, { outcomes: 1 })).catch((error: unknown) => error),
    );
    expect(await waiting).toMatchObject(told);
    expect(await rowOf(ledger, row.deliveryId)).toMatchObject({ state, archived_at: null });
    await allAnnounced(ledger);
    expect(await archived(ledger, as(row, { outcomes: 1 }))).toEqual(['changed']);
    expect(await archived(ledger, as(row, { outcomes: 2 }))).toEqual(['archived']);
  });
});

describe('the guard of evidence', () => {
  const evidence = ['attempt_outcome', 'delivery_attempt', 'handoff'];
  const refusal = (sql: string) =>
    ledger.sql(sql).then(
      () => null,
      ({ constraint }) => constraint,
    );
  async function arrangeEvidence() {
    const row = await arrange(ledger, 'delivered', { attempts: 1 });
    await settled(ledger, row);
    await handedOver(ledger, row);
    return row;
  }
  const takePayload = ({ deliveryId }: Arranged) =>
    ledger.sql('UPDATE reminder_delivery SET payload = NULL, archived_at = now() WHERE delivery_id = $1', [deliveryId]);

  test.each(evidence)('%s goes only once its own reminder is archived', async (table) => {
    const row = await arrangeEvidence();
    await takePayload(await arrangeEvidence());
    const mine = `DELETE FROM ${table} WHERE delivery_id = '${row.deliveryId}'`;
    expect(await refusal(mine)).toBe('evidence_is_insert_only');
    await takePayload(row);
    if (table === 'delivery_attempt') await ledger.sql('DELETE FROM attempt_outcome');
    expect(await refusal(mine)).toBeNull();
  });

  test.each(evidence)('%s never changes, archived or not', async (table) => {
    const row = await arrangeEvidence();
    await takePayload(row);
    expect(await refusal(`UPDATE ${table} SET ${columnOf(table)} = ${columnOf(table)}`)).toBe(
      'evidence_is_insert_only',
    );
  });
  const columnOf = (table: string) => (table === 'delivery_attempt' ? 'lease_owner' : 'token');

  test('an archived reminder itself is never deleted', async () => {
    await takePayload(await arrange(ledger, 'delivered'));
    expect(await refusal('DELETE FROM reminder_delivery')).toBe('evidence_is_insert_only');
  });
});

describe('forget', () => {
  const run = async (limit = 100) => {
    const [row] = await ledger.database.run(forget, { olderThanSeconds: 90 * day, limit });
    return { claims: row?.claims, receipts: row?.receipts };
  };
  /** The token of a command that ran so many days ago. */
  const tokenOf = (days: number) => uuid({ msecs: Number(inSeconds(-days * day)) });
  const claimed = (token: string, days: number) =>
    insert(ledger, 'claim_batch', {
      ...{ token, claimed: [], recovered: [], expired: [], parked: [] },
      ...{ request_id: 'r', log_stream: 'l', claimed_at: inSeconds(-days * day) },
    });
  const answered = (token: string, days: number, item = 0) =>
    insert(ledger, 'command_receipt', {
      ...{ token, item, verb: 'cancel', answer: {}, answered_at: inSeconds(-days * day) },
    });

  test('deletes claims and receipts older than the span, the oldest first, so many of each', async () => {
    for (const days of [93, 92, 91]) {
      await claimed(tokenOf(days), days);
      await answered(tokenOf(days), days);
    }
    expect(await run(2)).toEqual({ claims: 2, receipts: 2 });
    const left = await ledger.sql(
      "SELECT token FROM claim_batch WHERE claimed_at < now() - interval '91 days 12 hours'",
    );
    expect(left).toEqual([]);
    expect(await run(2)).toEqual({ claims: 1, receipts: 1 });
    expect(await run(2)).toEqual({ claims: 0, receipts: 0 });
  });

  test('leaves what is younger, by its token or by its own time, and takes each item by itself', async () => {
    const [old, young] = [tokenOf(91), tokenOf(89)];
    await claimed(young, 91);
    await claimed(old, 89);
    await answered(young, 91);
    await answered(old, 89, 0);
    await answered(old, 91, 1);
    expect(await run()).toEqual({ claims: 0, receipts: 1 });
    expect(await ledger.sql('SELECT token FROM claim_batch')).toHaveLength(2);
    expect(await ledger.sql('SELECT token, item FROM command_receipt ORDER BY item, token')).toHaveLength(2);
  });

  test('a receipt is never changed, however old it is', async () => {
    await answered(tokenOf(31), 31);
    await expect(ledger.sql(`UPDATE command_receipt SET answer = '{"another": true}'`)).rejects.toMatchObject({
      constraint: 'evidence_is_insert_only',
    });
  });

  test.each([
    [29, 'evidence_is_insert_only'],
    [31, null],
  ])('a receipt of %i days, deleted by hand: %s', async (days, constraint) => {
    await answered(tokenOf(days), days);
    const deleted = ledger.sql('DELETE FROM command_receipt').then(
      () => null,
      (error) => error.constraint,
    );
    expect(await deleted).toBe(constraint);
  });
});
