// A migration outside a transaction: started once, waited for beyond a call's time, done again when it was interrupted.
import { setTimeout as sleep } from 'node:timers/promises';
import { LedgerError } from '../core/errors.ts';
import { indexBuiltBy, type Migration, MigrationError } from './migration-files.ts';
import { inTurn, isApplied, type Run, record, type SchemaWork } from './migration-turns.ts';

/** How often the outcome of its statement may be lost: one that fails late, each time, would go on for ever. */
const mostLost = 3;
const pauseMs = 500;

/**
 * Runs the migration's statement until one run of it succeeds, and only then writes it down. A run whose call ended goes
 * on in the database, also without us: whoever comes next finds it there and waits.
 * @returns false when it was applied before
 * @throws {MigrationError} when it has not succeeded in time; what runs then goes on
 */
export async function applyOutsideTransaction(work: SchemaWork, migration: Migration): Promise<boolean> {
  const { name } = migration;
  const [statement = ''] = migration.statements;
  const index = indexBuiltBy(statement);
  for (let lost = 0; ; await sleep(pauseMs)) {
    if (performance.now() > work.until)
      throw new MigrationError('has not ended in time and goes on; deploy again later');
    const found = await inTurn(work, name, async (run) => {
      if (await isApplied(run, migration)) return { applied: true };
      if (await isRunning(work, name)) return {};
      // Left by a run that was interrupted. IF NOT EXISTS would take it for done.
      if (index && (await isUnfinished(run, index)))
        await start(work, name, `DROP INDEX CONCURRENTLY IF EXISTS ${index}`);
      return { call: await started(work, name, statement) };
    });
    if (found.applied) return false;
    if (found.call === undefined) continue;
    try {
      await found.call.ended;
    } catch (error) {
      if (!(error instanceof LedgerError)) throw error;
      // The call may fail though its index was built, even with an error that tells no SQLSTATE: the database knows.
      const built = index && (await inTurn(work, name, (run) => isFinished(run, index)));
      if (!built) {
        if (error.retry === 'never') throw error;
        if (error.ran !== 'no') lost += 1;
        if (lost > mostLost) throw error;
        continue;
      }
    }
    const applied = await inTurn(work, name, async (run) => {
      if (await isApplied(run, migration)) return { byUs: false };
      if (index && (await isUnfinished(run, index))) return undefined;
      await record(run, migration);
      return { byUs: true };
    });
    if (applied) return applied.byUs;
  }
}

/** Starts the statement and answers as soon as it is seen to run: from then on another migrate sees it too. */
async function started(work: SchemaWork, name: string, statement: string): Promise<{ ended: Promise<unknown> }> {
  const ended = start(work, name, statement);
  let over = false;
  const end = () => {
    over = true;
  };
  void ended.then(end, end);
  while (!over && !(await isRunning(work, name))) await sleep(20);
  return { ended };
}

/** The comment in front is how its session is told from others. */
const markOf = (name: string) => `/* migration ${name} */`;

function start({ database }: SchemaWork, name: string, statement: string): Promise<unknown> {
  return database.executeBeyondCall(name, `${markOf(name)} ${statement}`);
}

/** Asked outside the turn: within one transaction PostgreSQL shows the sessions as they were at the first look. */
async function isRunning({ database }: SchemaWork, name: string): Promise<boolean> {
  const running = await database.execute(
    name,
    `SELECT '' FROM pg_stat_activity
     WHERE datname = current_database() AND state = 'active' AND starts_with(query, CAST(:mark AS text))`,
    { mark: markOf(name) },
  );
  return running.length > 0;
}

const isFinished = (run: Run, index: string) => isThere(run, index, true);
const isUnfinished = (run: Run, index: string) => isThere(run, index, false);

async function isThere(run: Run, index: string, valid: boolean): Promise<boolean> {
  const found = await run(
    `SELECT '' FROM pg_index
     WHERE indexrelid = to_regclass(CAST(:index AS text)) AND indisvalid = CAST(:valid AS boolean)`,
    { index, valid: String(valid) },
  );
  return found.length > 0;
}
