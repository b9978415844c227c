// Cases of the Data API: what errors are called and where their SQLSTATE stands, transactions, logins and grants.
import { CreateSecretCommand, DeleteSecretCommand, GetSecretValueCommand } from '@aws-sdk/client-secrets-manager';
import { expect } from 'vitest';
import type { ContractCase } from './contract-case.ts';
import { type Database, failureOf, type Login, logins, type StatementOptions } from './target.ts';

const reliedOnBy = 'lambdas/store/data-api-errors.ts';
const seenOnAws = 'cloud-utils/aurora-data-api#53 and aws/aws-cli#8577: messages from Aurora PostgreSQL';
const troubleshooting = 'Amazon Aurora User Guide, "Troubleshooting Amazon RDS Data API issues"';
const grants = 'migrations/0015_grant_least.sql';

/** A case that runs a statement which PostgreSQL refuses. */
function refuses(sqlState: string, sql: string, options: StatementOptions = {}): ContractCase {
  return {
    id: `data-api/sqlstate-${sqlState}`,
    fact: `DatabaseErrorException, 400, and the message ends with "SQLState: ${sqlState}".`,
    reliedOnBy,
    source: seenOnAws,
    check: ({ database }) => expectSqlState(database.execute(sql, options), sqlState),
  };
}

async function expectSqlState(operation: Promise<unknown>, sqlState: string): Promise<void> {
  const { name, message, status } = await failureOf(operation);
  expect({ name, status }).toEqual({ name: 'DatabaseErrorException', status: 400 });
  expect(message).toMatch(/^(ERROR|FATAL): /);
  expect(message.slice(-'; SQLState: 00000'.length)).toBe(`; SQLState: ${sqlState}`);
}

/** A row that is never committed. */
const destination = (name: string) => `INSERT INTO destination
  (destination_id, name, url, owner, contract, state, state_since, created_at)
  VALUES (gen_random_uuid(), '${name}', 'https://contract.invalid/', 'contract', 'none', 'disabled', now(), now())`;
const raise = (code: string) => `DO $$ BEGIN RAISE EXCEPTION 'raised' USING ERRCODE = '${code}'; END $$`;
const unknownId = 'AAAAAAAAAAAAAAAAAAAAAA==';

export const errorCases: readonly ContractCase[] = [
  refuses('22012', 'SELECT 1 / 0'),
  refuses('23505', `${destination('contract-twin')}, ${destination('contract-twin').split('VALUES')[1]}`, {
    login: 'operator',
  }),
  refuses('42501', 'DELETE FROM destination WHERE false'),
  refuses('42P01', 'SELECT 1 FROM no_such_table'),
  ...['40001', '40P01', '53300', '08006', '57P01'].map((code) => refuses(code, raise(code))),
  {
    ...refuses('42601', 'SELECT 1; SELECT 2'),
    id: 'data-api/one-statement-a-call',
    fact: 'A second statement in one call is refused.',
    source: 'Amazon Aurora User Guide, "Comparing RDS Data API behavior": multistatements; the error is unverified',
    async check({ database }) {
      const { name, status } = await failureOf(database.execute('SELECT 1; SELECT 2'));
      expect(name).toMatch(/^(DatabaseErrorException|BadRequestException|ValidationException)$/);
      expect(status).toBe(400);
    },
  },
  {
    id: 'data-api/statement-timeout',
    fact: 'A login runs under the statement_timeout that is set on the database, and a statement beyond it ends with 57014.',
    reliedOnBy: 'migrations/0013_limit_statements.sql',
    source: 'PostgreSQL, "Client Connection Defaults"; through the Data API unverified',
    async check({ database, settings }) {
      const sql = "SELECT setting::int FROM pg_settings WHERE name = 'statement_timeout'";
      expect(await database.row(sql)).toEqual([{ longValue: settings.statementTimeoutMs }]);
      await expectSqlState(database.execute(`SELECT pg_sleep(${settings.statementTimeoutMs / 1000 + 2})`), '57014');
    },
  },
  {
    id: 'data-api/lock-timeout',
    fact: 'A login runs under the lock_timeout that is set on the database, and a longer wait ends with 55P03.',
    reliedOnBy: 'migrations/0013_limit_statements.sql',
    source: 'PostgreSQL, "Client Connection Defaults"; through the Data API unverified',
    async check({ database, settings }) {
      const sql = "SELECT setting::int FROM pg_settings WHERE name = 'lock_timeout'";
      expect(await database.row(sql)).toEqual([{ longValue: settings.lockTimeoutMs }]);
      const login = 'operator';
      const insert = destination(`contract-lock-${crypto.randomUUID()}`);
      await database.inTransaction(login, async (holder) => {
        await database.execute(insert, { login, transactionId: holder });
        // In a transaction too, so that no row stays if it does not wait.
        await database.inTransaction(login, (waiter) =>
          expectSqlState(database.execute(insert, { login, transactionId: waiter }), '55P03'),
        );
      });
    },
  },
  {
    id: 'data-api/transaction-unknown',
    fact: 'An unknown transaction is TransactionNotFoundException or BadRequestException, and nothing runs.',
    reliedOnBy,
    source: `${troubleshooting}; the error's name for a malformed id is unverified`,
    async check({ database }) {
      const { name } = await failureOf(database.execute('SELECT 1', { transactionId: unknownId }));
      expect(name).toMatch(/^(TransactionNotFoundException|BadRequestException)$/);
    },
  },
  {
    id: 'data-api/transaction-ends-by-error',
    fact: 'A failed statement ends its transaction: the next call does not find it.',
    reliedOnBy: 'lambdas/store/migrations.ts',
    source: troubleshooting,
    check: ({ database }) =>
      database.inTransaction('observer', async (transactionId) => {
        await expectSqlState(database.execute('SELECT 1 / 0', { transactionId }), '22012');
        const { message } = await failureOf(database.execute('SELECT 1', { transactionId }));
        expect(message).toMatch(/Transaction .* is not found/);
      }),
  },
  ...logins.map(
    (login): ContractCase => ({
      id: `data-api/login-${login}`,
      fact: `The secret of the ${login} logs in as its own user, no superuser, on a session in UTC.`,
      reliedOnBy: login === 'owner' ? 'lambdas/migrate/handler.ts' : 'lambdas/core/database-roles.ts',
      source: 'Amazon Aurora User Guide, "Security with Amazon Aurora PostgreSQL"',
      async check({ database }) {
        const sql = `SELECT current_user::text, rolsuper, current_setting('TimeZone'),
          has_schema_privilege('public', 'CREATE') FROM pg_roles WHERE rolname = current_user`;
        const [user, superuser, zone, creates] = await database.row(sql, { login });
        expect([superuser, zone]).toEqual([{ booleanValue: false }, { stringValue: 'UTC' }]);
        if (login === 'owner') return;
        expect(user?.stringValue).toMatch(new RegExp(`^ledger_${login}_[ab]$`));
        expect(creates).toEqual({ booleanValue: false });
      },
    }),
  ),
  ...denials('observer', [destination('contract-denied'), 'CREATE TEMPORARY TABLE contract_denied (n int)']),
  ...denials('operator', [
    'DELETE FROM destination WHERE false',
    'UPDATE reminder_delivery SET attempt_no = attempt_no WHERE false',
    'TRUNCATE attempt_outcome',
  ]),
  {
    id: 'data-api/secret-of-nobody',
    fact: 'A secret that does not exist is refused with a name of its own class, and nothing runs.',
    reliedOnBy,
    source: 'RDS Data API Reference, ExecuteStatement errors; which of them is unverified',
    async check({ database }) {
      const secretArn = `${database.secretArn.observer}-none`;
      const { name } = await failureOf(database.execute('SELECT 1', { secretArn }));
      expect(name).toMatch(
        /^(InvalidSecretException|BadRequestException|AccessDeniedException|SecretsErrorException)$/,
      );
    },
  },
  {
    id: 'data-api/secret-without-a-login',
    fact: 'A secret whose user name or password is missing is refused, and nothing runs.',
    reliedOnBy,
    source: 'RDS Data API Reference, InvalidSecretException',
    async check({ database, outputs }) {
      const { name } = await failureOf(database.execute('SELECT 1', { secretArn: outputs.SigningSecretArn }));
      expect(name).toMatch(/^(InvalidSecretException|BadRequestException|SecretsErrorException)$/);
    },
  },
  {
    id: 'data-api/wrong-password',
    fact: 'A secret with a wrong password is DatabaseErrorException with 28P01 at the end.',
    reliedOnBy,
    source: 'unverified',
    awsOnly: 'local AWS makes no secrets; its wrong passwords are tried in test/local/data-api.test.ts',
    async check({ database, secrets }) {
      const value = await secrets.send(new GetSecretValueCommand({ SecretId: database.secretArn.observer }));
      const { username } = JSON.parse(value.SecretString ?? '{}');
      const SecretString = JSON.stringify({ username, password: 'wrong' });
      const Name = `ledger-contract-${crypto.randomUUID()}`;
      const { ARN: secretArn = '' } = await secrets.send(new CreateSecretCommand({ Name, SecretString }));
      try {
        await expectSqlState(database.execute('SELECT 1', { secretArn }), '28P01');
      } finally {
        await secrets.send(new DeleteSecretCommand({ SecretId: secretArn, ForceDeleteWithoutRecovery: true }));
      }
    },
  },
];

/** Statements that a login must not run, over the Data API; none changes a row if it may after all. */
function denials(login: Login, statements: readonly string[]): ContractCase[] {
  return statements.map((sql) => ({
    id: `data-api/${login}-may-not-${sql.split(/\s+/).slice(0, 1).join('').toLowerCase()}`,
    fact: `The ${login} may not: ${sql.split(/\s+/).slice(0, 3).join(' ')} (42501).`,
    reliedOnBy: grants,
    source: 'PostgreSQL, "Privileges"',
    check: ({ database }) => denied(database, login, sql),
  }));
}

const denied = (database: Database, login: Login, sql: string) =>
  database.inTransaction(login, (transactionId) =>
    expectSqlState(database.execute(sql, { login, transactionId }), '42501'),
  );
