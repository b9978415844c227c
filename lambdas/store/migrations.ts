// Brings a schema to the newest version: files in order, each in one transaction or by itself, checksummed, forward only.
import { setTimeout as sleep } from 'node:timers/promises';
import { LedgerError } from '../core/errors.ts';
import type { Settings } from '../core/settings.ts';
import type { DataApi } from './data-api.ts';
import { type Migration, MigrationError } from './migration-files.ts';
import { applyOutsideTransaction } from './migration-outside.ts';
import { inTurn, isApplied, record, type SchemaWork } from './migration-turns.ts';

export { MigrationError, readMigrations } from './migration-files.ts';

/** How long a run may wait, in milliseconds. */
export interface MigrationTime {
  /** For a cluster to resume, or to let its credentials be read. */
  readonly resumeMs: number;
  /** In all: for the cluster, for another migrate, and for what runs outside a transaction. */
  readonly wholeMs: number;
}

/** Leaves the function time for its last call and for the logins. */
export const migrationTime: MigrationTime = { resumeMs: 5 * 60_000, wholeMs: 12 * 60_000 };

/**
 * Applies what is missing and answers how much that was. A schema that is ahead of these files is accepted: a rolled-back
 * deployment runs the older files on it. Safe to run twice, also at once.
 * @throws {MigrationError} naming the file, when one was changed after it was applied or fails
 */
export async function migrateSchema(
  database: DataApi,
  migrations: readonly Migration[],
  settings: Settings,
  time: MigrationTime = migrationTime,
): Promise<{ applied: number; schemaVersion: number }> {
  const work = { database, until: performance.now() + time.wholeMs };
  await waitForDatabase(database, time.resumeMs);
  // What is applied stays applied: one question for all of it, and a turn for each that is missing or has another text.
  const applied = await inTurn(work, 'prepare schema', async (run) => {
    await run(`CREATE TABLE IF NOT EXISTS schema_migration (
      version integer PRIMARY KEY, name text NOT NULL, checksum text NOT NULL, applied_at timestamptz NOT NULL)`);
    // The limits are meant for commands, and SET LOCAL lifts them in a transaction alone. Only sessions to come are free:
    // hence always, not when a migration needs it.
    for (const limit of ['statement_timeout', 'lock_timeout']) {
      await run(`DO $$ BEGIN
        EXECUTE format('ALTER ROLE %I IN DATABASE %I SET ${limit} = 0', current_user, current_database());
      END $$`);
    }
    const rows = await run('SELECT CAST(version AS text), checksum FROM schema_migration');
    return new Map(rows.map(([version, checksum]) => [version, checksum]));
  });
  let count = 0;
  for (const migration of migrations.toSorted((one, other) => one.version - other.version)) {
    const isKnown = applied.get(String(migration.version)) === migration.checksum;
    if (!isKnown && (await applyOnce(work, migration))) count += 1;
  }
  await inTurn(work, 'limit statements', async (run) => {
    await run('SELECT CAST(limit_statements(CAST(:statement_ms AS integer), CAST(:lock_ms AS integer)) AS text)', {
      statement_ms: settings.statementTimeoutMs,
      lock_ms: settings.lockTimeoutMs,
    });
  });
  const [newest] = await database.execute(
    'schema version',
    'SELECT CAST(COALESCE(max(version), 0) AS text) FROM schema_migration',
  );
  return { applied: count, schemaVersion: Number(newest?.[0] ?? 0) };
}

async function applyOnce(work: SchemaWork, migration: Migration): Promise<boolean> {
  const { name } = migration;
  try {
    return await (migration.outsideTransaction ? applyOutsideTransaction : applyInTransaction)(work, migration);
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    throw message.startsWith(name) && error instanceof MigrationError
      ? error
      : new MigrationError(`${name}: ${message}`, { cause: error });
  }
}

function applyInTransaction(work: SchemaWork, migration: Migration): Promise<boolean> {
  return inTurn(work, migration.name, async (run) => {
    if (await isApplied(run, migration)) return false;
    for (const statement of migration.statements) await run(statement);
    await record(run, migration);
    return true;
  });
}

/** A cluster that was just made answers with many errors for a while, also with such as never pass later on. */
async function waitForDatabase(database: DataApi, patienceMs: number): Promise<void> {
  const until = performance.now() + patienceMs;
  for (;;) {
    try {
      await database.execute('wait for database', 'SELECT CAST(1 AS text)');
      return;
    } catch (error) {
      const passes = error instanceof LedgerError && ['unavailable', 'busy', 'misconfigured'].includes(error.fault);
      if (!passes || performance.now() > until) throw error;
      await sleep(Math.min(2000, patienceMs));
    }
  }
}
