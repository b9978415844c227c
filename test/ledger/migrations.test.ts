// Migrations: applied once, resumable, refused when changed, accepted when the schema is ahead.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { MigrationError, migrateSchema, readMigrations } from '../../lambdas/store/migrations.ts';
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

test('sessions that begin after it have the time limits of the stage', async () => {
  const [limits] = await ledger.sql(
    `SELECT current_setting('statement_timeout') AS statement, current_setting('lock_timeout') AS lock`,
  );
  expect(limits).toEqual({ statement: '3s', lock: '1s' });
});
