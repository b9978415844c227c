// The statements as text and as plans: static, bound by name, on one clock; HOT updates and the index that is meant.
import { readdirSync, readFileSync } from 'node:fs';
import { v7 as uuid } from 'uuid';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { EvidenceName } from '../../lambdas/core/reminder-evidence.ts';
import { settingsOf } from '../../lambdas/core/settings.ts';
import { claim } from '../../lambdas/store/statements/claim.ts';
import { enqueue } from '../../lambdas/store/statements/enqueue.ts';
import { open } from '../../lambdas/store/statements/open.ts';
import { settle } from '../../lambdas/store/statements/settle.ts';
import { showEvidence } from '../../lambdas/store/statements/show-evidence.ts';
import { statementModules, statementOf } from './statement-modules.ts';
import { newReminder, outcome, startTestLedger, type TestLedger, worker } from './test-ledger.ts';

const lambdas = new URL('../../lambdas/', import.meta.url);
const sources = readdirSync(lambdas, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.ts'));
const migrations = new URL('../../migrations/', import.meta.url);
const read = (path: string, folder = lambdas) => readFileSync(new URL(path, folder), 'utf8');

/** SQL as PostgreSQL reads it: without comments and quoted text. */
const bare = (sql: string) => sql.replaceAll(/--[^\n]*|'(?:[^']|'')*'/g, ' ');

/** now() alone is shadowed by a virtual clock, and is one instant for the whole statement. */
const otherClocks =
  /\b(current_timestamp|current_time|current_date|localtimestamp|localtime|(clock|statement|transaction)_timestamp|timeofday)\b/i;

const token = uuid();
const deliveryIds = [uuid()];
const names = [{ item: 0, name: { key: 'k' } }];
/** One input of each statement, so that its parameters can be listed. */
const inputs: Readonly<Record<string, unknown>> = {
  schedule: { token, producer: 'p', items: [{ ...newReminder('to', 1), item: 0, fingerprint: 'f' }] },
  cancel: { token, producer: 'p', reminders: names },
  reschedule: { token, producer: 'p', reminders: names },
  get: { producer: 'p', reminders: names },
  claim: { token, worker, limit: 1, lowWater: null },
  'claim-by-id': { token, worker, deliveryIds },
  enqueue: { claimToken: token, receipts: [] },
  release: { token, claimToken: token, deliveryIds },
  unpark: { token, limit: 1 },
  open: { token, worker, deliveryIds },
  settle: { token, outcomes: [] },
  unannounced: { limit: 1 },
  announce: { eventNos: ['1'] },
  'count-states': {},
  'observe-calendar': { limit: 1 },
  'observe-destinations': { limit: 1 },
  'observe-outcomes': { limit: 1 },
  'show-evidence': { key: 'k' },
  'add-destination': { destinationId: uuid(), name: 'n', url: 'u', owner: 'o', contract: 'none', deadlineMs: null },
  'list-attention': { limit: 1 },
  'list-due': { limit: 1 },
  'list-archivable': { producer: 'p', retentionSeconds: 1, limit: 1, after: null },
  archive: { reminders: [] },
  'list-finished-producers': {},
  forget: { olderThanSeconds: 1, limit: 1 },
  exclude: { token, deliveryId: token, sqlState: 'XX001', reason: 'r' },
  readmit: { token, deliveryId: token, actor: 'a', reason: 'r', ticket: null },
  decide: {
    ...{ token, verb: 'hold', actor: 'a', reason: 'r', ticket: null, evidence: null, dryRun: false },
    reminders: [{ item: 0, deliveryId: token, versionSeen: 1, attemptsSeen: 0 }],
  },
  reclaim: {
    ...{ token, verb: 'reclaim', actor: 'a', reason: 'r', ticket: null, evidence: null, dryRun: false },
    reminders: [{ item: 0, deliveryId: token, versionSeen: 1, attemptsSeen: 0 }],
  },
  'set-aside': { actor: 'a', reason: 'r', ticket: null, messages: [] },
  'list-poison': { limit: 1 },
  'list-handoffs': { limit: 1, names: 1 },
  'list-exclusions': { after: null, limit: 1 },
  'list-destinations': { after: '', limit: 1, rows: 1 },
  'list-actions': { deliveryId: null, destination: null, before: null, limit: 1 },
  control: {
    ...{ token, verb: 'pause', destination: null, actor: 'a', reason: 'r', ticket: null, dryRun: false },
    seen: { state: 'active', since: null },
  },
  'count-affected': { destination: null, limit: 1 },
  find: {
    source: 'user',
    userId: 'u',
    destination: null,
    state: null,
    dueFrom: null,
    dueTo: null,
    limit: 1,
    after: null,
  },
  forecast: { seconds: 60, count: 1, destination: null },
};

describe.each(statementModules)('%s', async (module) => {
  const statement = await statementOf(module);
  const sql = bare(statement.text);

  test('its text is static: nothing is put into it', () => {
    expect(read(`store/statements/${module}.ts`)).not.toContain('${');
  });

  test('it casts by CAST, and knows no clock but now()', () => {
    expect(sql).not.toContain('::');
    expect(sql).not.toMatch(otherClocks);
  });

  test('it uses every parameter it is given, and is given every parameter it uses', () => {
    const used = new Set([...sql.matchAll(/:([a-z_]+)/g)].map(([, name]) => name));
    const given = Object.keys(statement.parameters(inputs[module], settingsOf('production')));
    expect(given.sort()).toEqual([...used].sort());
  });

  test('each of its reading parts is evaluated once', () => {
    const reading = [...sql.matchAll(/(\w+) AS (MATERIALIZED )?\(\s*SELECT/g)].filter(([, , kept]) => !kept);
    expect(reading.map(([, name]) => name)).toEqual([]);
  });
});

test('no function but migrate opens a transaction, and no migration reads another clock', () => {
  const holding = (text: RegExp) => sources.filter((name) => text.test(read(name)));
  expect(holding(/BeginTransaction/)).toEqual(['store/data-api.ts']);
  expect(holding(/\.transaction\(/)).toEqual(['store/migration-turns.ts']);
  for (const name of readdirSync(migrations)) expect(bare(read(name, migrations)), name).not.toMatch(otherClocks);
});

describe('on PostgreSQL', () => {
  let ledger: TestLedger;
  beforeAll(async () => {
    ledger = await startTestLedger();
    await ledger.destination('to');
  });
  afterAll(() => ledger.stop());

  test('no index of a reminder names its state: neither as a key nor in its predicate', async () => {
    const indexes = await ledger.sql<{ name: string; text: string }>(
      `SELECT indexname AS name, indexdef AS text FROM pg_indexes WHERE tablename = 'reminder_delivery'`,
    );
    expect(indexes.length).toBeGreaterThan(2);
    expect(indexes.filter(({ text }) => /\bstate\b/.test(text)).map(({ name }) => name)).toEqual([]);
  });

  test('of the four updates in a life, marking and opening are HOT', async () => {
    const rows = 200;
    await ledger.ledger.schedule({
      token: uuid(),
      producer: 'product',
      // One in four is due, as where reminders are asked for in another order than they come due.
      reminders: Array.from({ length: 4 * rows }, (_, place) => newReminder('to', place % 4 === 0 ? -1 : 86_400)),
    });
    const due = await ledger.sql<{ id: string }>(
      'SELECT delivery_id AS id FROM reminder_delivery WHERE wake_at < now()',
    );
    const ids = due.map(({ id }) => id);
    const session = await ledger.session();
    const claimToken = uuid();
    await session.run(claim, { token: claimToken, worker, limit: rows, lowWater: null });
    const receipts = ids.map((deliveryId) => ({ deliveryId, messageId: deliveryId, queue: 'q', delaySeconds: 0 }));
    await session.run(enqueue, { claimToken, receipts });
    for (let place = 0; place < rows; place += 10) {
      const deliveryIds = ids.slice(place, place + 10);
      const openToken = uuid();
      await session.run(open, { token: openToken, worker, deliveryIds });
      await session.run(settle, { token: uuid(), outcomes: deliveryIds.map((id) => outcome(id, openToken)) });
    }
    await session.sql('SELECT pg_stat_force_next_flush()');
    const [updates] = await session.sql<{ all: string; hot: string }>(
      `SELECT n_tup_upd AS all, n_tup_hot_upd AS hot FROM pg_stat_user_tables WHERE relname = 'reminder_delivery'`,
    );
    await session.close();
    expect(Number(updates?.all)).toBe(4 * rows);
    expect(Number(updates?.hot) / Number(updates?.all)).toBeGreaterThanOrEqual(0.45);
  });

  test('after many claims, on old statistics, open and show-evidence go by the primary key and claim by wake_at alone', async () => {
    const session = await ledger.session();
    await session.sql('SET statement_timeout = 0');
    await session.sql(
      `INSERT INTO reminder_delivery (
         delivery_id, producer, user_id, destination_id, idempotency_key, request_fingerprint, payload, payload_sha256,
         created_by_command, created_at, due_at, next_attempt_at, wake_at, state, state_since)
       SELECT gen_random_uuid(), 'product', 'user', destination_id, 'many-' || n, 'v1', '{}', sha256('{}'),
              gen_random_uuid(), now(), now() + n * interval '1 s', now() + n * interval '1 s',
              now() + (n - 5000) * interval '1 s', 'scheduled', now()
       FROM destination, generate_series(1, 20000) AS n`,
    );
    await session.sql('ANALYZE reminder_delivery');
    const ids: string[] = [];
    for (let batch = 0; batch < 20; batch += 1) {
      const lines = await session.run(claim, { token: uuid(), worker, limit: 200, lowWater: null });
      for (const line of lines.map((text) => JSON.parse(text)))
        if (line.answer === 'claimed') ids.push(line.delivery_id);
    }
    expect(ids.length).toBe(4000);
    const claimed = await session.run(claim, { token: uuid(), worker, limit: 200, lowWater: null }, 'EXPLAIN ');
    expect(indexesRead(claimed)).toContain('reminder_delivery_wake');
    const opened = await session.run(
      open,
      { token: uuid(), worker, deliveryIds: ids.slice(-10) },
      'EXPLAIN (ANALYZE, BUFFERS) ',
    );
    expect(indexesRead(opened)).toEqual(['reminder_delivery_pkey']);
    // Measured 180 for ten, intents included; a plan by another index reads thousands.
    expect(Number(/shared hit=(\d+)/.exec(opened.join('\n'))?.[1])).toBeLessThan(600);
    const explain = (name: EvidenceName) => session.run(showEvidence, name, 'EXPLAIN ');
    expect(indexesRead(await explain({ deliveryId: uuid() }))).toEqual(['reminder_delivery_pkey']);
    const byKey = await explain({ key: 'many-7', producer: 'product' });
    expect(indexesRead(byKey).sort()).toEqual(['reminder_delivery_idempotency_key_key', 'reminder_delivery_pkey']);
    await session.close();
  });
});

/** The indexes by which a plan reads reminders, and `Seq Scan` where it goes through the table. */
function indexesRead(plan: readonly string[]): string[] {
  const found = plan.flatMap((line) => {
    if (/Seq Scan on reminder_delivery /.test(line)) return ['Seq Scan'];
    return /Index Scan (?:using|on) (reminder_delivery_\w+)/.exec(line)?.[1] ?? [];
  });
  return [...new Set(found)];
}
