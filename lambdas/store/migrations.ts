// Brings a schema to the newest version: files in order, each in one transaction, each checksummed, forward only.
import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { postgreSplitterOptions, splitQuery } from 'dbgate-query-splitter';
import { LedgerError } from '../core/errors.ts';
import type { Settings } from '../core/settings.ts';
import type { DataApi } from './data-api.ts';

/** One file, `NNNN_verb_object.sql`. */
export interface Migration {
  readonly version: number;
  readonly name: string;
  readonly sql: string;
}

/** A migration cannot be applied, or one that was applied is not what the bundle holds. */
export class MigrationError extends Error {
  override readonly name = 'MigrationError';
}

/** How long a cluster may take to resume or to let its credentials be read. */
const patienceMs = 5 * 60_000;
const tries = 5;

/**
 * Applies what is missing and answers how much that was. A schema that is ahead of these files is accepted: a rolled-back
 * deployment runs the older files on it. Safe to run twice, also at once.
 * @throws {MigrationError} naming the file, when one was changed after it was applied or fails
 */
export async function migrateSchema(
  database: DataApi,
  migrations: readonly Migration[],
  settings: Settings,
): Promise<{ applied: number; schemaVersion: number }> {
  await waitForDatabase(database);
  await inTurn(database, 'create schema_migration', async (run) => {
    await run(`CREATE TABLE IF NOT EXISTS schema_migration (
      version integer PRIMARY KEY, name text NOT NULL, checksum text NOT NULL, applied_at timestamptz NOT NULL)`);
  });
  let applied = 0;
  for (const migration of [...migrations].sort((one, other) => one.version - other.version)) {
    if (await applyOnce(database, migration)) applied += 1;
  }
  await inTurn(database, 'limit statements', async (run) => {
    await run('SELECT limit_statements(CAST(:statement_ms AS integer), CAST(:lock_ms AS integer))', {
      statement_ms: settings.statementTimeoutMs,
      lock_ms: settings.lockTimeoutMs,
    });
  });
  const [newest] = await database.execute(
    'schema version',
    'SELECT CAST(COALESCE(max(version), 0) AS text) FROM schema_migration',
  );
  return { applied, schemaVersion: Number(newest?.[0] ?? 0) };
}

/** Reads `NNNN_verb_object.sql` files. @throws {MigrationError} when a name does not fit or a version stands twice */
export function readMigrations(files: Iterable<readonly [name: string, sql: string]>): Migration[] {
  const migrations = [...files].map(([name, sql]) => {
    const version = /^(\d{4})_[a-z0-9]+_[a-z0-9_]+\.sql$/.exec(name)?.[1];
    if (version === undefined) throw new MigrationError(`${name}: name it NNNN_verb_object.sql`);
    return { version: Number(version), name, sql };
  });
  const versions = new Set(migrations.map(({ version }) => version));
  if (versions.size < migrations.length) throw new MigrationError('two migrations have the same version');
  return migrations;
}

type Run = (sql: string, parameters?: Readonly<Record<string, string | number | null>>) => Promise<(string | null)[][]>;

/** One migrate at a time works on the schema; another waits here and then finds the work done. */
async function inTurn<Result>(database: DataApi, name: string, work: (run: Run) => Promise<Result>): Promise<Result> {
  for (let tried = 1; ; tried += 1) {
    try {
      return await database.transaction(name, async (transactionId) => {
        const run: Run = (sql, parameters = {}) => database.execute(name, sql, parameters, transactionId);
        await run('SET LOCAL statement_timeout = 0');
        await run('SET LOCAL lock_timeout = 0');
        await run(`SELECT CAST(pg_advisory_xact_lock(hashtextextended('reminder-ledger migrate', 0)) AS text)`);
        return work(run);
      });
    } catch (error) {
      // Whether it took effect is found out by running it again: each piece of work asks first.
      if (!(error instanceof LedgerError) || error.retry === 'never' || tried >= tries) throw error;
      await sleep(500 * tried);
    }
  }
}

async function applyOnce(database: DataApi, { version, name, sql }: Migration): Promise<boolean> {
  const checksum = createHash('sha256').update(sql).digest('hex');
  const statements = splitQuery(sql, postgreSplitterOptions);
  try {
    return await inTurn(database, name, async (run) => {
      const [known] = await run('SELECT checksum FROM schema_migration WHERE version = CAST(:version AS integer)', {
        version,
      });
      if (known?.[0] === checksum) return false;
      if (known) throw new MigrationError(`${name} was changed after it was applied: write a new migration instead`);
      for (const statement of statements) await run(typeof statement === 'string' ? statement : statement.text);
      await run(
        `INSERT INTO schema_migration (version, name, checksum, applied_at)
         VALUES (CAST(:version AS integer), :name, :checksum, now())`,
        { version, name, checksum },
      );
      return true;
    });
  } catch (error) {
    if (error instanceof MigrationError) throw error;
    throw new MigrationError(`${name}: ${error instanceof Error ? error.message : String(error)}`, { cause: error });
  }
}

/** A cluster that was just made answers with many errors for a while, also with such as never pass later on. */
async function waitForDatabase(database: DataApi): Promise<void> {
  const until = performance.now() + patienceMs;
  for (;;) {
    try {
      await database.execute('wait for database', 'SELECT CAST(1 AS text)');
      return;
    } catch (error) {
      const passes = error instanceof LedgerError && ['unavailable', 'busy', 'misconfigured'].includes(error.fault);
      if (!passes || performance.now() > until) throw error;
      await sleep(2000);
    }
  }
}
