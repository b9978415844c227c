// A run of retention on a real database and a real bucket: page by page, each producer by its policy, whatever fails between.
import { createHash } from 'node:crypto';
import { gunzipSync } from 'node:zlib';
import { GetObjectCommand, ListObjectsV2Command, S3Client } from '@aws-sdk/client-s3';
import { v7 as uuid } from 'uuid';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { bucketArchive } from '../../lambdas/archive/archive-bucket.ts';
import {
  type Archive,
  archiveFinished,
  type RetentionLedger,
  type RetentionPolicy,
} from '../../lambdas/core/archive-finished.ts';
import { postgresRetention } from '../../lambdas/store/retention.ts';
import { type Bucket, startBucket } from '../../lib/local/bucket.ts';
import { recordedLog } from '../adapters/recorded-log.ts';
import { empty, ledgerTables } from './ledger-rows.ts';
import { rowOf } from './one-reminder.ts';
import { type Arranged, arrange, inSeconds, insert } from './situations.ts';
import { startTestLedger, type TestLedger } from './test-ledger.ts';

const day = 86_400;
let ledger: TestLedger;
let tables: string[];
let bucket: Bucket;
beforeAll(async () => {
  ledger = await startTestLedger();
  tables = await ledgerTables(ledger);
});
afterAll(() => ledger.stop());
beforeEach(async () => {
  await empty(ledger, tables);
  bucket = await startBucket();
  process.env.AWS_ENDPOINT_URL_S3 = bucket.endpoint;
});
afterEach(() => bucket.stop());

const ended = (days: number, producer = 'product') =>
  arrange(ledger, 'delivered', { dueIn: -days * day, columns: { producer, state_since: inSeconds(-days * day) } });

interface Record {
  readonly delivery_id: string;
  readonly payload: string;
  readonly attempts: readonly object[];
}

async function objects(): Promise<Map<string, Buffer>> {
  const s3 = new S3Client({ endpoint: bucket.endpoint });
  const { Contents = [] } = await s3.send(new ListObjectsV2Command({ Bucket: bucket.name }));
  const read = async (Key: string) => {
    const { Body } = await s3.send(new GetObjectCommand({ Bucket: bucket.name, Key }));
    return Buffer.from((await Body?.transformToByteArray()) ?? []);
  };
  return new Map(await Promise.all(Contents.map(async ({ Key = '' }) => [Key, await read(Key)] as const)));
}
const recordsIn = (all: Map<string, Buffer>): Record[] =>
  [...all].flatMap(([key, body]) => (key.endsWith('.jsonl.gz') ? linesOf(body) : []));
const linesOf = (body: Buffer): Record[] =>
  gunzipSync(body)
    .toString('utf8')
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
const isArchived = async ({ deliveryId }: Arranged) => (await rowOf(ledger, deliveryId)).payload === null;

function retain(
  more: {
    policy?: Partial<RetentionPolicy>;
    archive?: Archive;
    remainingMs?: () => number;
    /** Instead of the ledger's own. */
    change?: Partial<RetentionLedger>;
  } = {},
) {
  const log = recordedLog();
  const counts = new Map<string, number>();
  const run = archiveFinished(
    {
      ledger: { ...postgresRetention(ledger.database), ...more.change },
      archive: more.archive ?? bucketArchive({ bucket: bucket.name, requestTimeoutMs: 2000 }),
      policy: { finishedDays: 90, byProducer: {}, ...more.policy },
    },
    {
      log,
      meter: {
        count: (name, value = 1) => void counts.set(name, value),
        milliseconds: () => undefined,
        percent: () => undefined,
      },
      remainingMs: more.remainingMs ?? (() => 900_000),
      signal: new AbortController().signal,
    },
  );
  return { run, log, counts };
}
const nothing = { archived: 0, changed: 0, forgotten: 0, finished: true };

test('what is past its policy leaves the database once it stands in the bucket, with a manifest to check it by', async () => {
  const row = await arrange(ledger, 'delivered', {
    dueIn: -91 * day,
    attempts: 1,
    columns: { state_since: inSeconds(-91 * day), payload: '{"text":"für dich"}' },
  });
  await insert(ledger, 'attempt_outcome', {
    ...{ delivery_id: row.deliveryId, attempt_no: 1, token: uuid(), recorded_by: 'sender', recorded_at: new Date() },
    ...{ outcome: 'delivered', status: 200, detail: 'thanks' },
  });
  const young = await ended(89);
  const { run, counts } = retain();
  expect(await run).toEqual({ ...nothing, archived: 1 });
  expect(Object.fromEntries(counts)).toEqual({ archived: 1, changed: 0, forgotten: 0, unfinished: 0 });
  expect([await isArchived(row), await isArchived(young)]).toEqual([true, false]);

  const all = await objects();
  const [name = '', manifestName = ''] = [...all.keys()].toSorted();
  expect(name).toMatch(/^reminders\/producer=product\/\d{8}T\d{9}Z-[0-9a-f]{64}\.jsonl\.gz$/);
  expect(manifestName).toBe(name.replace('.jsonl.gz', '.manifest.json'));
  expect(linesOf(all.get(name) ?? Buffer.of())).toEqual([
    expect.objectContaining({
      ...{ format: 1, delivery_id: row.deliveryId, key: row.key, state: 'delivered', payload: '{"text":"für dich"}' },
      attempts: [expect.objectContaining({ attempt_no: 1, outcomes: [expect.objectContaining({ status: 200 })] })],
      handoffs: [],
    }),
  ]);
  expect(JSON.parse(String(all.get(manifestName)))).toMatchObject({
    ...{ format: 1, object: name, producer: 'product', reminders: 1, bytes: all.get(name)?.length },
    sha256: createHash('sha256')
      .update(all.get(name) ?? '')
      .digest('hex'),
  });
  expect(await retain().run).toEqual(nothing);
  expect((await objects()).size).toBe(2);
});

test('each producer goes by its policy, longer or shorter than the others', async () => {
  const [long, short, other] = [await ended(100, 'long'), await ended(40, 'short'), await ended(91, 'other')];
  expect(await retain({ policy: { byProducer: { long: 200, short: 30 } } }).run).toMatchObject({ archived: 2 });
  expect(await Promise.all([long, short, other].map(isArchived))).toEqual([false, true, true]);
});

test('more than a page goes in one run, each reminder once', async () => {
  const { destinationId } = await ended(91);
  await ledger.sql(
    `INSERT INTO reminder_delivery (delivery_id, producer, user_id, destination_id, idempotency_key, request_fingerprint,
       payload, payload_sha256, created_by_command, created_at, due_at, next_attempt_at, state_since, state)
     SELECT gen_random_uuid(), 'product', 'user', $1, 'key-' || n, 'v1.a', '{"n":' || n || '}', sha256('x'),
       gen_random_uuid(), now(), at, at, at, 'expired'
     FROM generate_series(1, 1199) n, LATERAL (SELECT now() - interval '91 days' AS at) a`,
    [destinationId],
  );
  expect(await retain().run).toEqual({ ...nothing, archived: 1200 });
  const all = await objects();
  expect(all.size).toBe(6);
  expect(new Set(recordsIn(all).map((record) => record.delivery_id)).size).toBe(1200);
  expect(recordsIn(all)).toHaveLength(1200);
});

describe('what fails', () => {
  test('the bucket: all stays in the database, and the next run has it', async () => {
    const rows = [await ended(91), await ended(92, 'other')];
    const { run, log } = retain({ archive: bucketArchive({ bucket: 'no-such-bucket' }) });
    await expect(run).rejects.toThrow(/^2 pages were not archived, and stay in the database; the first: .*bucket/);
    expect(log.lines.filter(([level, event]) => level === 'warn' && event === 'archive_failed')).toHaveLength(2);
    expect(await Promise.all(rows.map(isArchived))).toEqual([false, false]);
    expect(await retain().run).toMatchObject({ archived: 2 });
  });

  test('again and again: the run ends early, and does not try every page', async () => {
    for (let producer = 1; producer <= 5; producer += 1) await ended(91, `p${producer}`);
    const { run } = retain({ archive: bucketArchive({ bucket: 'no-such-bucket' }) });
    await expect(run).rejects.toThrow(/^3 pages/);
  });

  test('the reading of pages: the others go, and no more than three in a row are tried', async () => {
    const rows = [];
    for (let producer = 1; producer <= 5; producer += 1) rows.push(await ended(91, `p${producer}`));
    const own = postgresRetention(ledger.database);
    const asked: string[] = [];
    const listArchivable: RetentionLedger['listArchivable'] = (query) => {
      asked.push(query.producer);
      return query.producer === 'p1' ? own.listArchivable(query) : Promise.reject(new Error('it is too large'));
    };
    await expect(retain({ change: { listArchivable } }).run).rejects.toThrow(/^3 pages .*it is too large/);
    expect(asked).toEqual(['p1', 'p1', 'p2', 'p3', 'p4']);
    expect(await Promise.all(rows.map(isArchived))).toEqual([true, false, false, false, false]);
  });

  test('one page: the others go', async () => {
    const [first, second] = [await ended(91, 'a'), await ended(91, 'b')];
    const own = bucketArchive({ bucket: bucket.name });
    const write: Archive['write'] = (page) =>
      page.producer === 'a' ? Promise.reject(new Error('not today')) : own.write(page);
    const { run, counts } = retain({ archive: { write } });
    await expect(run).rejects.toThrow('1 pages were not archived, and stay in the database; the first: not today');
    expect([await isArchived(first), await isArchived(second)]).toEqual([false, true]);
    expect(counts.get('unfinished')).toBe(1);
  });

  test('the statement, once the page is written: the next run writes the same page, to the same object', async () => {
    const row = await ended(91);
    const archive = () => Promise.reject(new Error('the connection broke'));
    await expect(retain({ change: { archive } }).run).rejects.toThrow('the connection broke');
    const before = await objects();
    expect([before.size, await isArchived(row)]).toEqual([2, false]);
    expect(await retain().run).toMatchObject({ archived: 1 });
    expect([...(await objects()).keys()]).toEqual([...before.keys()]);
  });

  test('nothing, but a reminder changes once its page is read: it stays for the next run', async () => {
    const row = await ended(91);
    const own = bucketArchive({ bucket: bucket.name });
    const write: Archive['write'] = async (page) => {
      await ledger.sql('UPDATE reminder_delivery SET version = version + 1');
      return own.write(page);
    };
    expect(await retain({ archive: { write } }).run).toEqual({ ...nothing, changed: 1 });
    expect(await isArchived(row)).toBe(false);
    expect(await retain().run).toMatchObject({ archived: 1 });
  });
});

test('no page is begun when the time is nearly up; what is left is told', async () => {
  const rows = [await ended(92, 'a'), await ended(91, 'b')];
  const times = [900_000, 900_000];
  const { run, counts } = retain({ remainingMs: () => times.shift() ?? 29_999 });
  expect(await run).toEqual({ ...nothing, archived: 1, finished: false });
  expect(await Promise.all(rows.map(isArchived))).toEqual([true, false]);
  expect(counts.get('unfinished')).toBe(1);
});

test('claims and receipts as old are forgotten, however many', async () => {
  await ledger.sql(
    `INSERT INTO claim_batch (token, claimed, recovered, expired, parked, request_id, log_stream, claimed_at)
     SELECT CAST(lpad(to_hex(n), 12, '0') || '70008000000000000000' AS uuid), '{}', '{}', '{}', '{}', 'r', 'l',
       now() - interval '91 days'
     FROM generate_series(1, 7000) n`,
  );
  expect(await retain().run).toEqual({ ...nothing, forgotten: 7000 });
});
