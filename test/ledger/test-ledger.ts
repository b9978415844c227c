// A ledger to test against: real PostgreSQL, the Data API before it, the schema as migrate makes it.
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { v7 as uuid } from 'uuid';
import type { NewReminder, Outcome, Worker } from '../../lambdas/core/ports.ts';
import { type Settings, type Stage, settingsOf } from '../../lambdas/core/settings.ts';
import { DataApi } from '../../lambdas/store/data-api.ts';
import { PostgresLedger } from '../../lambdas/store/ledger.ts';
import { migrateSchema, readMigrations } from '../../lambdas/store/migrations.ts';
import type { Statement } from '../../lambdas/store/statement.ts';
import { startDataApi } from '../../lib/local/data-api.ts';
import { startPostgres } from '../../lib/local/postgres.ts';
import { bindParameters } from '../../lib/local/sql-parameters.ts';

export type TestLedger = Awaited<ReturnType<typeof startTestLedger>>;

const secretArn = 'arn:aws:secretsmanager:us-east-1:000000000000:secret:superuser';
/** Owns the database and migrates it. No superuser, as the owner of an Aurora cluster is none. */
export const owner = {
  secretArn: 'arn:aws:secretsmanager:us-east-1:000000000000:secret:owner',
  user: 'ledger_owner',
  password: 'owner',
};

/** The worker that tests claim and open as. */
export const worker: Worker = { functionVersion: '7', requestId: 'request-1', logStream: '2026/12/02/[7]abc' };

export function migrationFiles() {
  const folder = new URL('../../migrations/', import.meta.url);
  return readMigrations(
    readdirSync(folder).map((name) => [name, readFileSync(new URL(name, folder), 'utf8')] as const),
  );
}

/** Starts a server with a migrated database. `sql` goes to it directly, past the Data API, as its superuser. */
export async function startTestLedger(stage: Stage = 'production') {
  const directory = mkdtempSync(join(tmpdir(), 'reminder-ledger-test-'));
  const postgres = await startPostgres({ directory, fresh: true });
  const api = await startDataApi({
    postgres,
    accounts: [{ secretArn, user: postgres.user, password: postgres.password }, owner],
  });
  process.env.AWS_ENDPOINT_URL_RDS_DATA = api.endpoint;
  process.env.AWS_REGION = 'us-east-1';
  process.env.AWS_ACCESS_KEY_ID = 'test';
  process.env.AWS_SECRET_ACCESS_KEY = 'test';
  const settings = settingsOf(stage);
  const open = (database: string, use: Settings = settings, more: { tries?: number; secretArn?: string } = {}) =>
    new DataApi({ resourceArn: api.resourceArn, secretArn, database, settings: use, ...more });
  const admin = new pg.Pool({ connectionString: postgres.url('postgres'), max: 1 });
  await admin.query(`CREATE ROLE ${owner.user} LOGIN CREATEDB CREATEROLE PASSWORD '${owner.password}'`);
  await admin.query(`CREATE DATABASE ledger OWNER ${owner.user}`);
  await admin.end();
  await migrateSchema(open('ledger', settings, { secretArn: owner.secretArn }), migrationFiles(), settings);
  const pool = new pg.Pool({ connectionString: postgres.url('ledger'), max: 10 });
  pool.on('error', () => undefined);
  const session = () => startSession(postgres.url('ledger'), settings);
  /** Until so many wait for locks; gives up silently: what comes of it is for the test to tell. */
  const waitFor = async (waiters: number) => {
    const count = 'SELECT count(*)::integer AS waiting FROM pg_locks WHERE NOT granted';
    for (let tries = 0; tries < 100; tries += 1) {
      if ((await pool.query(count)).rows[0].waiting >= waiters) break;
      await sleep(5);
    }
  };
  return {
    directory,
    postgres,
    api,
    settings,
    database: open('ledger'),
    ledger: new PostgresLedger(open('ledger')),
    /** Another client of the same ledger. */
    openLedger: (use: Settings = settings) => new PostgresLedger(open('ledger', use)),
    openDatabase: open,
    pool,
    async sql<Row extends Record<string, unknown>>(text: string, values: unknown[] = []): Promise<Row[]> {
      return (await pool.query(text, values)).rows as Row[];
    },
    session,
    waitFor,
    /** Runs `work` in a transaction that ends, one way or the other, once so many of `meanwhile` wait for locks. */
    async behind<Result>(
      work: (session: Awaited<ReturnType<typeof startSession>>) => Promise<unknown>,
      meanwhile: () => Promise<Result>,
      end: 'COMMIT' | 'ROLLBACK' = 'COMMIT',
      waiters = 1,
    ): Promise<Result> {
      const first = await session();
      await first.sql('BEGIN');
      await work(first);
      const waiting = meanwhile();
      await waitFor(waiters);
      await first.sql(end);
      await first.close();
      return waiting;
    },
    /** Registers a destination that is active unless told otherwise. */
    async destination(name: string, more: { contract?: string; state?: string; url?: string; policy?: object } = {}) {
      const id = uuid();
      const { contract = 'honours-key', state = 'active', url = `https://${name}.example/hook`, policy = {} } = more;
      await pool.query(
        `INSERT INTO destination (destination_id, name, url, owner, contract, state, state_since, policy, created_at)
         VALUES ($1, $2, $3, 'test', $4, $5, now(), $6, now())`,
        [id, name, url, contract, state, policy],
      );
      return id;
    },
    async stop() {
      await pool.end();
      await api.close();
      await postgres.stop();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

/** A reminder that is due `dueInSeconds` from now, negative for overdue. */
export function newReminder(destination: string, dueInSeconds: number, more: Partial<NewReminder> = {}): NewReminder {
  const deliveryId = uuid();
  return {
    deliveryId,
    key: `key-${deliveryId}`,
    destination,
    userId: 'user-1',
    dueAt: new Date(Date.now() + dueInSeconds * 1000).toISOString(),
    expiresAt: null,
    payload: '{"text":"pay your bill"}',
    ...more,
  };
}

/** What a sender settles after its first attempt: a 200 unless told otherwise. */
export function outcome(deliveryId: string, openToken: string, more: Partial<Outcome> = {}): Outcome {
  return {
    deliveryId,
    attemptNo: 1,
    openToken,
    outcome: 'delivered',
    phase: 'body',
    status: 200,
    errorClass: null,
    detail: null,
    latencyMs: 12.4,
    retryAfterSeconds: null,
    ...more,
  };
}

/** A session of its own, past the Data API: for transactions that stay open while others wait. */
async function startSession(connectionString: string, settings: Settings) {
  const client = new pg.Client({ connectionString });
  client.on('error', () => undefined);
  await client.connect();
  return {
    async sql<Row extends Record<string, unknown>>(text: string, values: unknown[] = []): Promise<Row[]> {
      return (await client.query(text, values)).rows as Row[];
    },
    /** Runs a statement of the store here. `before` goes before its text, such as EXPLAIN. */
    async run<Input>(statement: Statement<Input, unknown>, input: Input, before = '') {
      const given = Object.entries(statement.parameters(input, settings)).map(([name, value]) => ({
        name,
        value:
          value === null ? { isNull: true } : typeof value === 'number' ? { longValue: value } : { stringValue: value },
      }));
      const { text, values } = bindParameters(before + statement.text, given);
      return (await client.query({ text, values, rowMode: 'array' })).rows.map(([column]) => String(column));
    },
    close: () => client.end(),
  };
}
