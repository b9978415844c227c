// Migrations outside a transaction: beyond a call's time, interrupted, at once, and written down only when they hold.
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import type { Settings } from '../../lambdas/core/settings.ts';
import type { DataApi } from '../../lambdas/store/data-api.ts';
import { migrateSchema, migrationTime, readMigrations } from '../../lambdas/store/migrations.ts';
import { type DataApi as LocalDataApi, startDataApi } from '../../lib/local/data-api.ts';
import { eventually } from '../functions/running-ledger.ts';
import { migrationFiles, startTestLedger, type TestLedger } from './test-ledger.ts';

/** How long a call of the Data API may take here. */
const callMs = 500;
let ledger: TestLedger;
let api: LocalDataApi;
beforeAll(async () => {
  ledger = await startTestLedger();
  const { user, password } = ledger.postgres;
  api = await startDataApi({
    postgres: ledger.postgres,
    accounts: () => ({ user, password }),
    limits: { statementMs: callMs },
  });
  process.env.AWS_ENDPOINT_URL_RDS_DATA = api.endpoint;
});
const sessions: pg.Client[] = [];
afterEach(async () => {
  for (const session of sessions.splice(0)) await session.end();
});
afterAll(async () => {
  await api.close();
  await ledger.stop();
});

const name = '9001_index_created.sql';
const index = 'CREATE INDEX CONCURRENTLY IF NOT EXISTS reminder_delivery_created ON reminder_delivery (created_at);';
const files = (statement = index) => [
  ...migrationFiles(),
  ...readMigrations([[name, `-- runs outside a transaction: reminders of a user.\n${statement}\n`]]),
];

interface Schema {
  readonly database: DataApi;
  readonly settings: Settings;
  sql(text: string): Promise<Record<string, unknown>[]>;
}

/** A database with the schema as the release before left it. A statement of a function ends sooner there than a call. */
async function schema(of: string): Promise<Schema> {
  const settings = { ...ledger.settings, statementTimeoutMs: callMs / 5, lockTimeoutMs: callMs / 10 };
  await ledger.postgres.createDatabase(of);
  const database = ledger.openDatabase(of);
  await migrateSchema(database, migrationFiles(), settings);
  const session = await sessionOf(of);
  return { database, settings, sql: async (text) => (await session.query(text)).rows };
}

async function sessionOf(database: string): Promise<pg.Client> {
  const client = new pg.Client(ledger.postgres.url(database));
  client.on('error', () => undefined);
  await client.connect();
  sessions.push(client);
  return client;
}

/** A transaction that has written to the table: an index being built waits for it. Answers how to end it. */
async function holdTable(database: string): Promise<() => Promise<unknown>> {
  const session = await sessionOf(database);
  await session.query('BEGIN; LOCK TABLE reminder_delivery IN ROW EXCLUSIVE MODE');
  return () => session.query('COMMIT');
}

const building = `SELECT pid FROM pg_stat_activity
  WHERE datname = current_database() AND state = 'active' AND query LIKE '/* migration%INDEX%' AND pid <> pg_backend_pid()`;
const recorded = 'SELECT name FROM schema_migration WHERE version = 9001';
const valid = `SELECT indisvalid, indexrelid::integer AS id FROM pg_index WHERE indexrelid = to_regclass('reminder_delivery_created')`;

test('what takes longer than a call goes on, and is written down once it holds', async () => {
  const { database, settings, sql } = await schema('long');
  const release = await holdTable('long');
  const run = migrateSchema(database, files(), settings);
  const [first] = await eventually('the index is being built', async () => {
    const found = await sql(building);
    return found.length > 0 && found;
  });
  await sleep(4 * callMs);
  // The first statement still, and neither the call's limit nor the commands' has ended it.
  expect(await sql(building)).toEqual([first]);
  expect(await sql(recorded)).toEqual([]);
  expect(await sql(valid)).toMatchObject([{ indisvalid: false }]);
  await release();
  expect(await run).toEqual({ applied: 1, schemaVersion: 9001 });
  expect(await sql(valid)).toMatchObject([{ indisvalid: true }]);
  expect(await migrateSchema(database, files(), settings)).toEqual({ applied: 0, schemaVersion: 9001 });
});

test('an index that an interrupted run left invalid is dropped and made anew', async () => {
  const { database, settings, sql } = await schema('interrupted');
  const release = await holdTable('interrupted');
  const session = await sessionOf('interrupted');
  await session.query('SET statement_timeout = 300');
  await expect(session.query(index)).rejects.toThrow(/statement timeout/);
  await release();
  const [left] = await sql(valid);
  expect(left).toMatchObject({ indisvalid: false });
  expect(await migrateSchema(database, files(), settings)).toMatchObject({ applied: 1 });
  const [made] = await sql(valid);
  expect(made).toMatchObject({ indisvalid: true });
  expect(made?.id).not.toBe(left?.id);
});

test('a build whose session is ended under it is begun again by the same run', async () => {
  const { database, settings, sql } = await schema('ended');
  const release = await holdTable('ended');
  const run = migrateSchema(database, files(), settings);
  const pid = await eventually('the index is being built', async () => (await sql(building))[0]?.pid);
  await sql(`SELECT pg_terminate_backend(${pid})`);
  await release();
  expect(await run).toMatchObject({ applied: 1 });
  expect(await sql(valid)).toMatchObject([{ indisvalid: true }]);
});

test('an error of the call counts for nothing once the index holds, and for all while it does not', async () => {
  const fault = { error: 'DatabaseErrorException', message: 'Database returned SQL Exception', naming: 'CONCURRENTLY' };
  const refused = await schema('refused');
  api.faults.next({ kind: 'error-before', ...fault });
  await expect(migrateSchema(refused.database, files(), refused.settings)).rejects.toThrow('9001_index_created.sql');
  expect(await refused.sql(recorded)).toEqual([]);
  const built = await schema('built');
  api.faults.next({ kind: 'error-after', ...fault });
  expect(await migrateSchema(built.database, files(), built.settings)).toMatchObject({ applied: 1 });
  expect(await built.sql(valid)).toMatchObject([{ indisvalid: true }]);
  expect(await built.sql(recorded)).toHaveLength(1);
});

test('a run that has waited long enough says so; the next one finds the statement at work and waits for it', async () => {
  const { database, settings, sql } = await schema('late');
  const release = await holdTable('late');
  const time = { ...migrationTime, wholeMs: 4 * callMs };
  await expect(migrateSchema(database, files(), settings, time)).rejects.toThrow(/9001_index_created\.sql.*goes on/);
  const [first] = await sql(building);
  expect(first).toBeDefined();
  // The release before, rolled back to, neither waits for it nor minds.
  expect(await migrateSchema(database, migrationFiles(), settings)).toMatchObject({ applied: 0 });
  const next = migrateSchema(database, files(), settings);
  await sleep(2 * callMs);
  expect(await sql(building)).toEqual([first]);
  await release();
  expect(await next).toMatchObject({ applied: 1 });
});

test('two runs at once build it once', async () => {
  const { database, settings, sql } = await schema('twins');
  const release = await holdTable('twins');
  const runs = [1, 2, 3].map(() => migrateSchema(database, files(), settings));
  await eventually('the index is being built', async () => (await sql(building)).length > 0);
  await sleep(3 * callMs);
  expect(await sql(building)).toHaveLength(1);
  await release();
  const answers = await Promise.all(runs);
  expect(answers.reduce((sum, { applied }) => sum + applied, 0)).toBe(1);
  expect(await sql(valid)).toMatchObject([{ indisvalid: true }]);
});

test('one that fails ends the run with its name and SQLSTATE, and is not written down', async () => {
  const { database, settings, sql } = await schema('wrong');
  const unknown = index.replace('created_at', 'nobody_at');
  await expect(migrateSchema(database, files(unknown), settings)).rejects.toThrow(/9001_index_created\.sql.*42703/);
  expect(await sql(recorded)).toEqual([]);
});

test('it holds one statement, which can be run again', () => {
  const read = (sql: string) => () => readMigrations([[name, `-- runs outside a transaction: x\n${sql}`]]);
  expect(read(`${index} SELECT 1`)).toThrow(/got 2 statements/);
  expect(read('-- nothing')).toThrow(/got 0 statements/);
  expect(read('CREATE INDEX CONCURRENTLY a ON b (c)')).toThrow(/IF NOT EXISTS/);
  expect(read('CREATE UNIQUE INDEX CONCURRENTLY ON b (c)')).toThrow(/IF NOT EXISTS/);
  expect(read('ALTER TABLE a VALIDATE CONSTRAINT b')).not.toThrow();
});
