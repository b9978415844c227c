// Retention: what is past its policy is listed with all its evidence, loses it when archived, and its key is never used again.
import { v7 as uuid } from 'uuid';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { NewReminder } from '../../lambdas/core/ports.ts';
import { type ArchivedAs, archive } from '../../lambdas/store/statements/archive.ts';
import {
  type ArchivableQuery,
  type ArchivableRow,
  listArchivable,
} from '../../lambdas/store/statements/list-archivable.ts';
import { settle } from '../../lambdas/store/statements/settle.ts';
import { dump, empty, ledgerTables } from './ledger-rows.ts';
import { openOne, rowOf } from './one-reminder.ts';
import { type Arranged, arrange, type Circumstances, inSeconds, insert, openToken, producer } from './situations.ts';
import { newReminder, outcome, startTestLedger, type TestLedger, worker } from './test-ledger.ts';

const day = 86_400;
let ledger: TestLedger;
let tables: string[];
beforeAll(async () => {
  ledger = await startTestLedger();
  tables = await ledgerTables(ledger);
});
beforeEach(() => empty(ledger, tables));
afterAll(() => ledger.stop());

/** Came to its end so many days ago. */
const ended = (days: number, more: Circumstances = {}): Circumstances => ({
  dueIn: -days * day,
  ...more,
  columns: { state_since: inSeconds(-days * day), ...more.columns },
});

async function list(query: Partial<ArchivableQuery> = {}): Promise<ArchivableRow[]> {
  return ledger.database.run(listArchivable, {
    ...{ retentionSeconds: 90 * day, byProducer: {}, limit: 100, after: null },
    ...query,
  });
}
const listed = async (query: Partial<ArchivableQuery> = {}) =>
  (await list(query)).flatMap((row) => (row.answer === 'reminder' ? [row.delivery_id] : []));
const ids = (...rows: readonly Arranged[]) => rows.map(({ deliveryId }) => deliveryId);
const as = ({ deliveryId }: Arranged, more: Partial<ArchivedAs> = {}): ArchivedAs => ({
  ...{ deliveryId, version: 1, outcomes: 0 },
  ...more,
});
const archived = async (...reminders: ArchivedAs[]) =>
  (await ledger.database.run(archive, { reminders })).map(({ answer }) => answer);

/** Its one attempt ended. */
function settled({ deliveryId }: Arranged, more: object = {}): Promise<void> {
  return insert(ledger, 'attempt_outcome', {
    ...{ delivery_id: deliveryId, attempt_no: 1, token: uuid(), recorded_by: 'sender', recorded_at: new Date() },
    ...{ outcome: 'delivered', status: 200, detail: 'thanks' },
    ...more,
  });
}

function handedOver({ deliveryId }: Arranged): Promise<void> {
  return insert(ledger, 'handoff', {
    ...{ delivery_id: deliveryId, message_id: 'm1', queue: 'q', token: uuid() },
    ...{ visible_from: new Date(), moved: true, recorded_at: new Date() },
  });
}

describe('what is listed', () => {
  test('is finished and past the policy, the longest due first', async () => {
    const cancelled = await arrange(ledger, 'cancelled', ended(93));
    const expired = await arrange(ledger, 'expired', ended(92));
    const delivered = await arrange(ledger, 'delivered', ended(91));
    await arrange(ledger, 'delivered', ended(89));
    expect(await listed()).toEqual(ids(cancelled, expired, delivered));
  });

  test('counts from the later of its end and its last due time', async () => {
    const endedLately = { ...ended(400), columns: { state_since: inSeconds(-day) } };
    await arrange(ledger, 'delivered', endedLately);
    const dueLater = { ...ended(400), dueIn: 400 * day };
    await arrange(ledger, 'cancelled', dueLater);
    expect(await listed()).toEqual([]);
  });

  test.each(['shadow', 'held', 'scheduled', 'queued', 'delivering, lease past'] as const)(
    'is never %s, however old',
    async (situation) => {
      await arrange(ledger, situation, ended(400));
      expect(await listed()).toEqual([]);
    },
  );

  test('is dead only once somebody reviewed it', async () => {
    await arrange(ledger, 'dead', ended(400));
    const reviewed = await arrange(ledger, 'dead', ended(400, { columns: { reviewed_at: new Date() } }));
    expect(await listed()).toEqual(ids(reviewed));
  });

  test('has no attempt without an outcome', async () => {
    const row = await arrange(ledger, 'delivered', ended(400, { attempts: 1 }));
    expect(await listed()).toEqual([]);
    await settled(row);
    expect(await listed()).toEqual(ids(row));
  });

  test('goes by the policy of its producer, longer or shorter than the others', async () => {
    const other = { columns: { producer: 'other' } };
    const mine = await arrange(ledger, 'delivered', ended(100));
    const fromOther = await arrange(ledger, 'delivered', ended(40, other));
    expect(await listed({ byProducer: { [producer]: 200 * day, other: 30 * day } })).toEqual(ids(fromOther));
    expect(await listed({ byProducer: { other: 200 * day } })).toEqual(ids(mine));
  });

  test('comes page by page, and what was archived comes no more', async () => {
    const rows = [];
    for (const days of [103, 102, 101]) rows.push(await arrange(ledger, 'delivered', ended(days)));
    const page = await list({ limit: 2 });
    expect(page.map((row) => row.delivery_id)).toEqual(ids(...rows.slice(0, 2)));
    const after = { nextAttemptAt: String(page[1]?.next_attempt_at), deliveryId: String(page[1]?.delivery_id) };
    expect(await listed({ limit: 2, after })).toEqual(ids(...rows.slice(2)));
    await archived(...rows.slice(1).map((row) => as(row)));
    expect(await listed()).toEqual(ids(...rows.slice(0, 1)));
  });

  test('is a page that the Data API can carry, with payloads exact', async () => {
    const payload = `"${'\\é'.repeat(10_000)}"`;
    for (let row = 0; row < 40; row += 1) await arrange(ledger, 'delivered', ended(91, { columns: { payload } }));
    const page = await list();
    expect(page.length).toBeGreaterThan(10);
    expect(page.length).toBeLessThan(40);
    expect(new Set(page.map((row) => row.payload))).toEqual(new Set([payload]));
  });

  test('has its attempts with their outcomes', async () => {
    const row = await arrange(ledger, 'delivered', ended(91, { attempts: 1, columns: { last_error: 'http_503' } }));
    await settled(row, { outcome: 'retry', status: 503, recorded_at: inSeconds(-9) });
    await settled(row);
    expect(await list()).toMatchObject([
      {
        ...{ answer: 'reminder', delivery_id: row.deliveryId, key: row.key, producer, state: 'delivered' },
        ...{ last_error: 'http_503', request_fingerprint: 'v1.a.b.c.d.e', payload: '{"text":"pay your bill"}' },
      },
      {
        ...{ answer: 'attempt', delivery_id: row.deliveryId, attempt_no: 1, destination_host: 'to.example' },
        outcomes: [
          { outcome: 'retry', status: 503 },
          { outcome: 'delivered', status: 200, detail: 'thanks' },
        ],
      },
    ]);
  });

  test('is found by its own index', async () => {
    const session = await ledger.session();
    await session.sql('SET enable_seqscan = off');
    const query = { retentionSeconds: 1, byProducer: {}, limit: 1, after: null };
    const plan = (await session.run(listArchivable, query, 'EXPLAIN ')).join('\n');
    await session.close();
    expect(plan).toContain('reminder_delivery_finished');
    expect(plan).not.toContain('reminder_delivery_wake');
  });
});

describe('archive', () => {
  test('takes payload, error and evidence, leaves all else, and touches no other', async () => {
    const before = { attempts: 1, columns: { last_error: 'http_503' } };
    const row = await arrange(ledger, 'delivered', ended(91, before));
    const other = await arrange(ledger, 'delivered', ended(91, before));
    for (const one of [row, other]) {
      await settled(one);
      await handedOver(one);
    }
    const rows = await dump(ledger, tables);
    const { payload, last_error, archived_at, ...kept } = await rowOf(ledger, row.deliveryId);
    expect({ payload, last_error, archived_at }).toMatchObject({ last_error: 'http_503', archived_at: null });
    expect(await archived(as(row, { outcomes: 1 }))).toEqual(['archived']);
    const after = await rowOf(ledger, row.deliveryId);
    expect(after).toEqual({ ...kept, payload: null, last_error: null, archived_at: expect.any(Date) });
    const others = (table: string, of = rows) => of[table]?.filter((one) => one.delivery_id === other.deliveryId);
    const now = await dump(ledger, tables);
    for (const table of ['delivery_attempt', 'attempt_outcome', 'handoff']) {
      expect(now[table], table).toEqual(others(table));
      expect(now[table]?.length, table).toBe(1);
    }
    expect(others('reminder_delivery', now)).toEqual(others('reminder_delivery'));
    expect(await archived(as(row, { outcomes: 1 }))).toEqual(['archived']);
    expect(await dump(ledger, tables)).toEqual(now);
  });

  test.each([
    ['another version', { version: 2, outcomes: 1 }],
    ['fewer outcomes than there are', { outcomes: 0 }],
  ])('leaves what was written with %s', async (_, more) => {
    const row = await arrange(ledger, 'delivered', ended(91, { attempts: 1 }));
    await settled(row);
    const rows = await dump(ledger, tables);
    expect(await archived(as(row, more))).toEqual(['changed']);
    expect(await dump(ledger, tables)).toEqual(rows);
  });

  test('judges each by its own evidence, and waits for no row that it was not given', async () => {
    const [open, half, whole, none] = [
      await arrange(ledger, 'delivered', ended(91, { attempts: 1 })),
      await arrange(ledger, 'delivered', ended(91, { attempts: 2 })),
      await arrange(ledger, 'delivered', ended(91, { attempts: 1 })),
      await arrange(ledger, 'delivered', ended(91)),
    ];
    await settled(half);
    await settled(whole);
    const session = await ledger.session();
    await session.sql('BEGIN');
    await session.sql('SELECT FROM reminder_delivery WHERE delivery_id = $1 FOR UPDATE', [open.deliveryId]);
    const answers = archived(as(half, { outcomes: 1 }), as(whole, { outcomes: 1 }), as(none));
    // A wait for that row would end at the lock's time-out.
    const found = await answers.finally(() => session.close());
    expect(found).toEqual(['changed', 'archived', 'archived']);
    expect(await archived(as(open), as(none, { outcomes: 7 }))).toEqual(['changed', 'archived']);
    expect((await rowOf(ledger, open.deliveryId)).archived_at).toBeNull();
  });

  test('behind a late success fails, and loses nothing: the next run has what came', async () => {
    const row = await arrange(ledger, 'expired', ended(91, { attempts: 1 }));
    await settled(row, { outcome: 'unknown', status: null });
    const late = { token: uuid(), outcomes: [{ ...outcome(row.deliveryId, openToken(1)), item: 0 }] };
    const waiting = ledger.behind(
      (session) => session.run(settle, late),
      () => archived(as(row, { outcomes: 1 })).catch((error: unknown) => error),
    );
    expect(await waiting).toMatchObject({ name: 'LedgerError', sqlState: '23503' });
    expect(await rowOf(ledger, row.deliveryId)).toMatchObject({ state: 'delivered', archived_at: null });
    expect(await archived(as(row, { outcomes: 1 }))).toEqual(['changed']);
    expect(await archived(as(row, { outcomes: 2 }))).toEqual(['archived']);
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
    await settled(row);
    await handedOver(row);
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

describe('what comes late finds the tombstone', () => {
  async function scheduledOnce() {
    await ledger.destination('to');
    const reminder = newReminder('to', 60, { dueAt: '2020-01-01T00:00:00.000Z' });
    await ledger.ledger.schedule({ token: uuid(), producer, reminders: [reminder] });
    await ledger.ledger.cancel({ token: uuid(), producer, reminders: [{ key: reminder.key }] });
    return { ...reminder, again: { ...reminder, deliveryId: uuid() } };
  }
  const schedule = (reminder: NewReminder) =>
    ledger.ledger.schedule({ token: uuid(), producer, reminders: [reminder] });

  test('a schedule is a duplicate, or a conflict, and revives nothing', async () => {
    const { again, ...row } = await scheduledOnce();
    expect(await archived({ deliveryId: row.deliveryId, version: 1, outcomes: 0 })).toEqual(['archived']);
    const rows = (await dump(ledger, tables)).reminder_delivery;
    expect(await schedule(again)).toMatchObject([
      { answer: 'duplicate', deliveryId: row.deliveryId, state: 'cancelled' },
    ]);
    expect(await schedule({ ...again, payload: '{}' })).toMatchObject([{ answer: 'conflict', fields: ['payload'] }]);
    expect((await dump(ledger, tables)).reminder_delivery).toEqual(rows);
  });

  test('so it is for one that waits behind a running archive', async () => {
    const { again, deliveryId } = await scheduledOnce();
    const answer = await ledger.behind(
      (session) => session.run(archive, { reminders: [{ deliveryId, version: 1, outcomes: 0 }] }),
      () => schedule(again),
    );
    expect(answer).toMatchObject([{ answer: 'duplicate', deliveryId, state: 'cancelled' }]);
    expect(await rowOf(ledger, deliveryId)).toMatchObject({ state: 'cancelled', payload: null });
  });

  test('a message is answered, a cancel and a reschedule move nothing', async () => {
    const row = await arrange(ledger, 'delivered', ended(91));
    await archived(as(row));
    const before = await rowOf(ledger, row.deliveryId);
    expect(await openOne(ledger, row.deliveryId)).toBe('finished');
    const name = { key: row.key };
    expect(await ledger.ledger.cancel({ token: uuid(), producer, reminders: [name] })).toMatchObject([
      { answer: 'finished', state: 'delivered' },
    ]);
    const dueAt = inSeconds(600).toISOString();
    expect(await ledger.ledger.reschedule({ token: uuid(), producer, reminders: [{ name, dueAt }] })).toMatchObject([
      { answer: 'finished', state: 'delivered' },
    ]);
    await ledger.ledger.claim({ token: uuid(), worker, limit: 10, lowWater: null });
    expect(await rowOf(ledger, row.deliveryId)).toEqual(before);
  });
});
