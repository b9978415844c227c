// Turns: one migrate at a time works on the schema, and what is applied stands in schema_migration.
import { setTimeout as sleep } from 'node:timers/promises';
import { LedgerError } from '../core/errors.ts';
import type { Column, DataApi } from './data-api.ts';
import { type Migration, MigrationError } from './migration-files.ts';
import type { Parameters } from './statement.ts';

/** Runs SQL in the transaction of a turn. */
export type Run = (sql: string, parameters?: Parameters) => Promise<Column[][]>;

const tries = 5;

/** The schema's database, and until when (`performance.now()`) work on it may take. */
export interface SchemaWork {
  readonly database: DataApi;
  readonly until: number;
}

/**
 * Does a piece of work in one transaction, once nobody else works on the schema.
 * @throws {MigrationError} when another one has not ended in time
 */
export async function inTurn<Result>(
  { database, until }: SchemaWork,
  name: string,
  work: (run: Run) => Promise<Result>,
): Promise<Result> {
  for (let tried = 1; ; tried += 1) {
    try {
      return await database.transaction(name, async (transactionId) => {
        const run: Run = (sql, parameters = {}) => database.execute(name, sql, parameters, transactionId);
        await run('SET LOCAL statement_timeout = 0');
        await run('SET LOCAL lock_timeout = 0');
        // Asked for again and again: waiting inside a statement would hold a snapshot, which a CONCURRENTLY waits for,
        // and would end with the call, before the Data API ends the transaction of a migrate that was killed.
        for (let asked = 1; !(await getsTurn(run)); asked += 1) {
          if (performance.now() > until) throw new MigrationError('another migrate is at work; deploy again later');
          await sleep(Math.min(50 * asked, 2000));
        }
        return work(run);
      });
    } catch (error) {
      // Whether it took effect is found out by running it again: each piece of work asks first.
      if (!(error instanceof LedgerError) || error.retry === 'never' || tried >= tries) throw error;
      await sleep(500 * tried);
    }
  }
}

async function getsTurn(run: Run): Promise<boolean> {
  const [row] = await run(
    `SELECT CAST(pg_try_advisory_xact_lock(hashtextextended('reminder-ledger migrate', 0)) AS text)`,
  );
  return row?.[0] === 'true';
}

/** Whether a migration is applied. @throws {MigrationError} when it was applied with another text */
export async function isApplied(run: Run, { version, name, checksum }: Migration): Promise<boolean> {
  const [known] = await run('SELECT checksum FROM schema_migration WHERE version = CAST(:version AS integer)', {
    version,
  });
  if (known === undefined) return false;
  if (known[0] === checksum) return true;
  throw new MigrationError(`${name} was changed after it was applied: write a new migration instead`);
}

/** Writes down that a migration is applied. */
export async function record(run: Run, { version, name, checksum }: Migration): Promise<void> {
  await run(
    `INSERT INTO schema_migration (version, name, checksum, applied_at)
     VALUES (CAST(:version AS integer), :name, :checksum, now())`,
    { version, name, checksum },
  );
}
