// Retention: what is past its policy is listed with all its evidence, loses it when archived, and its key is never used again.
import { v7 as uuid } from 'uuid';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { NewReminder } from '../../lambdas/core/ports.ts';
import { archive } from '../../lambdas/store/statements/archive.ts';
import {
  type ArchivableQuery,
  type ArchivableRow,
  listArchivable,
} from '../../lambdas/store/statements/list-archivable.ts';
import { listFinishedProducers } from '../../lambdas/store/statements/list-finished-producers.ts';
import { dump, empty, ledgerTables } from './ledger-rows.ts';
import { allAnnounced, archived, as, asRead, day, ended, handedOver, happened, settled } from './long-finished.ts';
import { openOne, rowOf } from './one-reminder.ts';
import { type Arranged, arrange, inSeconds, producer } from './situations.ts';
import { newReminder, startTestLedger, type TestLedger, worker } from './test-ledger.ts';

let ledger: TestLedger;
let tables: string[];
beforeAll(async () => {
  ledger = await startTestLedger();
  tables = await ledgerTables(ledger);
});
beforeEach(() => empty(ledger, tables));
afterAll(() => ledger.stop());

async function list(query: Partial<ArchivableQuery> = {}): Promise<ArchivableRow[]> {
  return ledger.database.run(listArchivable, {
    ...{ producer, retentionSeconds: 90 * day, limit: 100, after: null },
    ...query,
  });
}
const listed = async (query: Partial<ArchivableQuery> = {}) =>
  (await list(query)).flatMap((row) => (row.answer === 'reminder' ? [row.delivery_id] : []));
const ids = (...rows: readonly Arranged[]) => rows.map(({ deliveryId }) => deliveryId);

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
    await settled(ledger, row);
    expect(await listed()).toEqual(ids(row));
  });

  test("is one producer's, whose name the ledger tells as long as something finished is left of it", async () => {
    const other = { columns: { producer: 'other' } };
    const producers = async () =>
      (await ledger.database.run(listFinishedProducers, {})).map(({ producer: one }) => one);
    expect(await producers()).toEqual([]);
    const mine = await arrange(ledger, 'delivered', ended(100));
    const theirs = await arrange(ledger, 'delivered', ended(100, other));
    await arrange(ledger, 'scheduled', { columns: { producer: 'waits' } });
    await arrange(ledger, 'dead', { columns: { producer: 'unreviewed' } });
    expect(await listed()).toEqual(ids(mine));
    expect(await listed({ producer: 'other' })).toEqual(ids(theirs));
    expect(await producers()).toEqual(['other', producer]);
    await archived(ledger, as(theirs));
    expect(await producers()).toEqual([producer]);
  });

  test('has told the bus of its end', async () => {
    const row = await arrange(ledger, 'delivered', ended(91));
    await happened(ledger, row, null);
    expect(await listed()).toEqual([]);
    await allAnnounced(ledger);
    expect(await listed()).toEqual(ids(row));
  });

  test('comes page by page, and what was archived comes no more', async () => {
    const rows = [];
    for (const days of [103, 102, 101]) rows.push(await arrange(ledger, 'delivered', ended(days)));
    const page = await list({ limit: 2 });
    expect(page.map((row) => row.delivery_id)).toEqual(ids(...rows.slice(0, 2)));
    const [, last] = page as Extract<ArchivableRow, { answer: 'reminder' }>[];
    const after = { nextAttemptAt: String(last?.next_attempt_at), deliveryId: String(last?.delivery_id) };
    expect(await listed({ limit: 2, after })).toEqual(ids(...rows.slice(2)));
    await archived(ledger, ...rows.slice(1).map((row) => as(row)));
    expect(await listed()).toEqual(ids(...rows.slice(0, 1)));
  });

  test('is a page that the Data API can carry, with payloads exact', async () => {
    const payload = `"${'\\é'.repeat(10_000)}"`;
    for (let row = 0; row < 40; row += 1) await arrange(ledger, 'delivered', ended(91, { columns: { payload } }));
    const page = await list();
    expect(page.length).toBeGreaterThan(10);
    expect(page.length).toBeLessThan(40);
    for (const row of page) expect(row).toMatchObject({ payload });
  });

  test('has its attempts with their outcomes, and its handoffs', async () => {
    const row = await arrange(ledger, 'delivered', ended(91, { attempts: 1, columns: { last_error: 'http_503' } }));
    await settled(ledger, row, { outcome: 'retry', status: 503, recorded_at: inSeconds(-9) });
    await settled(ledger, row);
    await handedOver(ledger, row);
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
      { answer: 'handoff', delivery_id: row.deliveryId, message_id: 'm1', queue: 'q', moved: true },
    ]);
  });

  test('is found by its own index', async () => {
    const session = await ledger.session();
    await session.sql('SET enable_seqscan = off');
    const query = { producer, retentionSeconds: 1, limit: 1, after: null };
    const page = (await session.run(listArchivable, query, 'EXPLAIN ')).join('\n');
    const producers = (await session.run(listFinishedProducers, {}, 'EXPLAIN ')).join('\n');
    await session.close();
    expect(page).toContain('reminder_delivery_finished');
    expect(page).not.toContain('reminder_delivery_wake');
    expect(producers).toContain('Only Scan using reminder_delivery_finished');
  });
});

describe('what comes late finds the tombstone', () => {
  async function scheduledOnce() {
    await ledger.destination('to');
    const reminder = newReminder('to', 60, { dueAt: '2020-01-01T00:00:00.000Z' });
    await ledger.ledger.schedule({ token: uuid(), producer, reminders: [reminder] });
    await ledger.ledger.cancel({ token: uuid(), producer, reminders: [{ key: reminder.key }] });
    await allAnnounced(ledger);
    return { ...reminder, again: { ...reminder, deliveryId: uuid() } };
  }
  const schedule = (reminder: NewReminder) =>
    ledger.ledger.schedule({ token: uuid(), producer, reminders: [reminder] });

  test('a schedule is a duplicate, or a conflict, and revives nothing', async () => {
    const { again, ...row } = await scheduledOnce();
    expect(await archived(ledger, { deliveryId: row.deliveryId, version: 1, outcomes: 0 })).toEqual(['archived']);
    const rows = (await dump(ledger, tables)).reminder_delivery;
    expect(await schedule(again)).toMatchObject([
      { answer: 'duplicate', deliveryId: row.deliveryId, state: 'cancelled' },
    ]);
    expect(await schedule({ ...again, payload: '{}' })).toMatchObject([{ answer: 'conflict', fields: ['payload'] }]);
    expect((await dump(ledger, tables)).reminder_delivery).toEqual(rows);
  });

  test('so it is for one that waits behind a running archive', async () => {
    const { again, deliveryId } = await scheduledOnce();
    const reminders = await asRead(ledger.database, as({ deliveryId }));
    const answer = await ledger.behind(
      (session) => session.run(archive, { reminders }),
      () => schedule(again),
    );
    expect(answer).toMatchObject([{ answer: 'duplicate', deliveryId, state: 'cancelled' }]);
    expect(await rowOf(ledger, deliveryId)).toMatchObject({ state: 'cancelled', payload: null });
  });

  test('a message is answered, a cancel and a reschedule move nothing', async () => {
    const row = await arrange(ledger, 'delivered', ended(91));
    await archived(ledger, as(row));
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
