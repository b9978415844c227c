// Cases of the Data API: sizes, time limits, and what a client that gave up leaves behind.
import { setTimeout as sleep } from 'node:timers/promises';
import { RDSDataClient } from '@aws-sdk/client-rds-data';
import { expect } from 'vitest';
import type { ContractCase } from './contract-case.ts';
import { failureOf } from './target.ts';

const limitations = 'Amazon Aurora User Guide, "Limitations for the Amazon RDS Data API"';
const store = 'lambdas/store/data-api.ts';
const errors = 'lambdas/store/data-api-errors.ts';

export const limitCases: readonly ContractCase[] = [
  ...(
    [
      ['row-limit', 'A row above 64 KB', "repeat('x', 70000)", 1],
      ['response-limit', 'A response above 1 MiB', "repeat('x', 60000)", 18],
    ] as const
  ).map(
    ([id, what, column, rows]): ContractCase => ({
      id: `data-api/${id}`,
      fact: `${what} is refused as UnsupportedResultException, after the statement ran.`,
      reliedOnBy: errors,
      source: `${limitations}; the error's name is unverified`,
      check: ({ database }) =>
        database.inTransaction('observer', async (transactionId) => {
          await database.execute('SET LOCAL statement_timeout = 0', { transactionId });
          const begun = performance.now();
          // The sleep tells that the statement ran without leaving anything in the account.
          const sql = `SELECT ${column} FROM (SELECT pg_sleep(0.5)) AS ran, generate_series(1, ${rows})`;
          expect((await failureOf(database.execute(sql, { transactionId }))).name).toBe('UnsupportedResultException');
          expect(performance.now() - begun, 'ms until the refusal').toBeGreaterThanOrEqual(495);
        }),
    }),
  ),
  {
    id: 'data-api/largest-answers',
    fact: 'A row of 60,000 bytes and a response of 960,000 come whole.',
    reliedOnBy: 'lambdas/store/statements/show-evidence.ts',
    source: limitations,
    async check({ database }) {
      const { records } = await database.execute("SELECT repeat('x', 60000) FROM generate_series(1, 16)");
      expect(records?.map(([field]) => field?.stringValue?.length)).toEqual(Array(16).fill(60_000));
    },
  },
  {
    id: 'data-api/request-limit',
    fact: 'A request above 4 MiB is refused with a 4xx, and one of 3 MiB is taken.',
    reliedOnBy: 'lambdas/schedule/contract.ts',
    source: 'RDS Data API Reference, BatchExecuteStatement; the status is unverified',
    async check({ database }) {
      const padded = (mebibytes: number) => `SELECT 1 /* ${'x'.repeat(mebibytes * 1024 * 1024)} */`;
      const { status = 0 } = await failureOf(database.execute(padded(4)));
      expect(Math.floor(status / 100), `class of status ${status}`).toBe(4);
      expect(await database.row(padded(3))).toEqual([{ longValue: 1 }]);
    },
  },
  {
    id: 'data-api/client-time-out',
    fact: 'With throwOnRequestTimeout a client that waits too long gets a TimeoutError, and the product takes it for "may have run".',
    reliedOnBy: store,
    source: 'AWS SDK for JavaScript, NodeHttpHandlerOptions',
    async check({ database, settings }) {
      const patience = settings.statementTimeoutMs / 4;
      const requestHandler = { requestTimeout: patience, throwOnRequestTimeout: true };
      const client = new RDSDataClient({ maxAttempts: 1, requestHandler });
      try {
        const sql = `SELECT pg_sleep(${settings.statementTimeoutMs / 1000})`;
        expect((await failureOf(database.execute(sql, { client }))).name).toBe('TimeoutError');
      } finally {
        client.destroy();
      }
    },
  },
  {
    id: 'data-api/abandoned-statement-goes-on',
    fact: 'A statement whose caller broke the connection runs on in the database.',
    reliedOnBy: errors,
    source: 'unverified',
    async check({ database }) {
      const mark = `contract_${crypto.randomUUID().replaceAll('-', '')}`;
      const requestHandler = { requestTimeout: 500, throwOnRequestTimeout: true };
      const client = new RDSDataClient({ maxAttempts: 1, requestHandler });
      // A session sees the queries of its own user.
      const running = `SELECT count(*) FROM pg_stat_activity
        WHERE state = 'active' AND query LIKE '%${mark}%' AND pid <> pg_backend_pid()`;
      try {
        await database.inTransaction('observer', async (transactionId) => {
          await database.execute('SET LOCAL statement_timeout = 0', { transactionId });
          await failureOf(database.execute(`SELECT pg_sleep(5) /* ${mark} */`, { client, transactionId }));
          expect(await database.row(running)).toEqual([{ longValue: 1 }]);
          // Its transaction can be ended once the statement has.
          for (const end = Date.now() + 20_000; Date.now() < end; await sleep(250)) {
            if ((await database.row(running))[0]?.longValue === 0) break;
          }
        });
      } finally {
        client.destroy();
      }
    },
  },
  {
    id: 'data-api/statement-limit-45-s',
    fact: 'A statement ends after 45 s as StatementTimeoutException, 400, when the database sets no shorter limit.',
    reliedOnBy: errors,
    source: 'RDS Data API Reference, StatementTimeoutException',
    slow: true,
    check: ({ withShortLimits }) =>
      withShortLimits({ statementMs: 1000 }, async (database) => {
        await database.inTransaction('observer', async (transactionId) => {
          await database.execute('SET LOCAL statement_timeout = 0', { transactionId });
          const { name, status } = await failureOf(database.execute('SELECT pg_sleep(60)', { transactionId }));
          expect({ name, status }).toEqual({ name: 'StatementTimeoutException', status: 400 });
        });
      }),
  },
  {
    id: 'data-api/continue-after-timeout',
    fact: 'With continueAfterTimeout a statement goes on in the database after the call that began it has timed out.',
    reliedOnBy: 'lambdas/store/migration-outside.ts',
    source: 'Amazon Aurora User Guide, "Controlling Data API timeout behavior"',
    slow: true,
    check: ({ kind, withShortLimits }) =>
      withShortLimits({ statementMs: 1000 }, async (database) => {
        const mark = `contract_${crypto.randomUUID().replaceAll('-', '')}`;
        // The owner's sessions have no time limit of their own; a session sees the queries of its own user.
        const asOwner = { login: 'owner' } as const;
        const running = async () => {
          const sql = `SELECT count(*) FROM pg_stat_activity
            WHERE state = 'active' AND query LIKE '%${mark}%' AND pid <> pg_backend_pid()`;
          return (await database.row(sql, asOwner))[0]?.longValue;
        };
        const sql = `SELECT pg_sleep(${kind === 'local' ? 3 : 60}) /* ${mark} */`;
        const begun = database.execute(sql, { ...asOwner, continueAfterTimeout: true });
        expect((await failureOf(begun)).name).toBe('StatementTimeoutException');
        expect(await running()).toBe(1);
        for (const end = Date.now() + 60_000; Date.now() < end && (await running()) !== 0; await sleep(250));
        expect(await running()).toBe(0);
      }),
  },
  {
    id: 'data-api/transaction-idle-3-min',
    fact: 'A transaction that is not called for three minutes is not found any more.',
    reliedOnBy: 'lambdas/store/migrations.ts',
    source: 'Amazon Aurora User Guide, "Troubleshooting Amazon RDS Data API issues"',
    slow: true,
    check: ({ kind, withShortLimits }) =>
      withShortLimits({ transactionIdleMs: 300 }, async (database) => {
        const transactionId = await database.begin('observer');
        await sleep(kind === 'local' ? 1000 : 200_000);
        const { message } = await failureOf(database.execute('SELECT 1', { transactionId }));
        expect(message).toMatch(/Transaction .* is not found/);
      }),
  },
  {
    id: 'data-api/index-concurrently',
    fact: 'CREATE and DROP INDEX CONCURRENTLY run in a call without a transaction; if the call ends in an error, the index is there and valid all the same.',
    reliedOnBy: 'lambdas/store/migration-outside.ts',
    source:
      'PostgreSQL, "CREATE INDEX"; psd401/aistudio#565 reports an error without a SQLSTATE for an index that was built',
    async check({ database }) {
      const login = 'owner';
      const table = `contract_${crypto.randomUUID().replaceAll('-', '')}`;
      const index = `${table}_index`;
      await database.execute(`CREATE TABLE ${table} (n int)`, { login });
      try {
        const concurrently = (sql: string) => database.execute(sql, { login, continueAfterTimeout: true });
        await concurrently(`CREATE INDEX CONCURRENTLY IF NOT EXISTS ${index} ON ${table} (n)`).catch(() => undefined);
        const valid = () => database.row(`SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('${index}')`);
        await expect.poll(valid, { timeout: 30_000 }).toEqual([{ booleanValue: true }]);
        await concurrently(`DROP INDEX CONCURRENTLY IF EXISTS ${index}`);
        expect(await valid()).toEqual([]);
      } finally {
        await database.execute(`DROP TABLE ${table}`, { login });
      }
    },
  },
];
