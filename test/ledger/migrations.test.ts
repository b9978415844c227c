// Migrations: applied once, resumable, refused when changed, accepted when the schema is ahead.
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { migrateFunction } from '../../lambdas/migrate/contract.ts';
import { MigrationError, migrateSchema, migrationTime, readMigrations } from '../../lambdas/store/migrations.ts';
import { migrationFiles, startTestLedger, type TestLedger } from './test-ledger.ts';

let ledger: TestLedger;
beforeAll(async () => {
  ledger = await startTestLedger();
});
afterAll(() => ledger.stop());

async function emptyDatabase(name: string) {
  await ledger.postgres.createDatabase(name);
  return ledger.openDatabase(name);
}

test('a second run applies nothing', async () => {
  const newest = Math.max(...migrationFiles().map(({ version }) => version));
  expect(await migrateSchema(ledger.database, migrationFiles(), ledger.settings)).toEqual({
    applied: 0,
    schemaVersion: newest,
  });
});

test('two runs at once apply each migration once', async () => {
  const database = await emptyDatabase('twins');
  const runs = await Promise.all([1, 2, 3].map(() => migrateSchema(database, migrationFiles(), ledger.settings)));
  expect(runs.reduce((sum, { applied }) => sum + applied, 0)).toBe(migrationFiles().length);
});

test('a migration that fails half way leaves nothing of itself, and the next run goes on from there', async () => {
  const database = await emptyDatabase('broken');
  const good = readMigrations([['9001_create_fine.sql', 'CREATE TABLE fine (id int); INSERT INTO fine VALUES (1)']]);
  const broken = readMigrations([['9002_create_broken.sql', 'CREATE TABLE half (id int); SELECT 1/0']]);
  const files = migrationFiles();
  await expect(migrateSchema(database, [...files, ...good, ...broken], ledger.settings)).rejects.toThrow(
    /9002_create_broken\.sql.*22012/s,
  );
  expect(await database.execute('look', `SELECT CAST(to_regclass('half') AS text)`)).toEqual([[null]]);
  const mended = readMigrations([['9002_create_broken.sql', 'CREATE TABLE half (id int)']]);
  expect(await migrateSchema(database, [...files, ...good, ...mended], ledger.settings)).toEqual({
    applied: 1,
    schemaVersion: 9002,
  });
});

test('an applied migration whose text changed is refused by name; a schema that is ahead is accepted', async () => {
  const database = await emptyDatabase('changed');
  const newer = readMigrations([['9001_create_newer.sql', 'CREATE TABLE newer (id int)']]);
  await migrateSchema(database, [...migrationFiles(), ...newer], ledger.settings);
  expect(await migrateSchema(database, migrationFiles(), ledger.settings)).toEqual({ applied: 0, schemaVersion: 9001 });
  const changed = readMigrations([['9001_create_newer.sql', 'CREATE TABLE newer (id bigint)']]);
  await expect(migrateSchema(database, [...migrationFiles(), ...changed], ledger.settings)).rejects.toThrow(
    /9001_create_newer\.sql was changed/,
  );
});

test('the answer of a commit is lost: the run finds the work done', async () => {
  const database = await emptyDatabase('lost');
  ledger.api.faults.next({ kind: 'reset-after', match: /CREATE TABLE reminder_delivery/ });
  const { applied } = await migrateSchema(database, migrationFiles(), ledger.settings);
  expect(applied).toBe(migrationFiles().length);
});

test('names that do not fit and versions that stand twice are refused', () => {
  expect(() => readMigrations([['1_x.sql', '']])).toThrow(MigrationError);
  expect(() =>
    readMigrations([
      ['0001_create_a.sql', ''],
      ['0001_create_b.sql', ''],
    ]),
  ).toThrow(/same version/);
});

/** What a splitter that looks for semicolons cuts to pieces. */
const tricky = `-- It's a "comment"; with quotes.
CREATE TABLE tricky (id int, note text DEFAULT 'a;b'';c', "odd;name" int); /* don't; stop */
CREATE FUNCTION tricky_count() RETURNS bigint LANGUAGE plpgsql AS $body$
DECLARE
  quoted text = $q$it's; here$q$;
BEGIN
  -- isn't; the end
  EXECUTE $run$ INSERT INTO tricky VALUES (1, ';') $run$;
  RETURN (SELECT count(*) FROM tricky);
END
$body$;
DO $$ BEGIN PERFORM tricky_count(); END $$;
INSERT INTO tricky (id) VALUES (2)
-- The last statement has no semicolon; and here's a comment after it.
`;

test.each([
  ['lines that end with LF', tricky],
  ['lines that end with CRLF', tricky.replaceAll('\n', '\r\n')],
  ['a comment after the last statement', `${tricky.trimEnd()}\n;\n-- the end; of it\n/* ; */\n`],
])('a file is cut into its statements: %s', async (what, sql) => {
  const database = await emptyDatabase(`split ${what}`);
  const [file] = readMigrations([['9001_create_tricky.sql', sql]]);
  expect(file?.statements).toHaveLength(4);
  await migrateSchema(
    database,
    [...migrationFiles(), ...readMigrations([['9001_create_tricky.sql', sql]])],
    ledger.settings,
  );
  const rows = await database.execute('look', 'SELECT CAST(id AS text), note FROM tricky ORDER BY id');
  expect(rows).toEqual([
    ['1', ';'],
    ['2', "a;b';c"],
  ]);
});

test('files that differ in their line ends alone are the same migration', () => {
  const read = (sql: string) => readMigrations([['9001_create_tricky.sql', sql]]);
  expect(read(tricky.replaceAll('\n', '\r\n'))).toEqual(read(tricky));
  expect(read(`${tricky}\n`)[0]?.checksum).not.toBe(read(tricky)[0]?.checksum);
});

test('a cluster that resumes is waited for; an error that does not pass ends the run in time', async () => {
  const database = await emptyDatabase('resuming');
  for (const error of [
    'DatabaseResumingException',
    'DatabaseUnavailableException',
    'SecretsErrorException',
    'HttpEndpointNotEnabledException',
  ]) {
    ledger.api.faults.next({ kind: 'error-before', error, match: /CAST\(1 AS text\)/ });
  }
  const time = { resumeMs: 20_000, wholeMs: 60_000 };
  expect((await migrateSchema(database, migrationFiles(), ledger.settings, time)).applied).toBe(
    migrationFiles().length,
  );
  const denied = ledger.api.faults.next({ kind: 'error-before', error: 'AccessDeniedException', times: 1000 });
  const short = { resumeMs: 300, wholeMs: 60_000 };
  await expect(migrateSchema(database, migrationFiles(), ledger.settings, short)).rejects.toThrow(
    /AccessDeniedException/,
  );
  denied();
});

test('all its waiting ends before the function does, with time for a last call and the logins', () => {
  const call = 46_000;
  const functionMs = migrateFunction.timeoutSeconds(ledger.settings) * 1000;
  expect(migrationTime.resumeMs).toBeLessThan(migrationTime.wholeMs);
  expect(migrationTime.wholeMs + call).toBeLessThan(functionMs - 60_000);
});

test('sessions that begin after it have the time limits of the stage, and those of its own login have none', async () => {
  await ledger.sql(`CREATE ROLE visitor LOGIN PASSWORD 'visitor'`);
  await ledger.sql('GRANT CONNECT ON DATABASE ledger TO visitor');
  await migrateSchema(ledger.database, migrationFiles(), ledger.settings);
  const limitsOf = async (login: string) => {
    const client = new pg.Client(ledger.postgres.url('ledger').replace('postgres:postgres@', `${login}:${login}@`));
    await client.connect();
    const asked = `SELECT current_setting('statement_timeout') AS statement, current_setting('lock_timeout') AS lock`;
    return (await client.query(asked).finally(() => client.end())).rows;
  };
  expect(await limitsOf('visitor')).toEqual([{ statement: '3s', lock: '1s' }]);
  expect(await limitsOf('postgres')).toEqual([{ statement: '0', lock: '0' }]);
});
