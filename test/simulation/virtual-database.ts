// The ledger's database under a virtual clock: real PostgreSQL, the migrations and statements as they are, one session.
import { createHash } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { readMigrations } from '../../lambdas/store/migration-files.ts';
import type { Parameters } from '../../lambdas/store/statement.ts';
import { startPostgres } from '../../lib/local/postgres.ts';
import { bindParameters } from '../../lib/local/sql-parameters.ts';

/** One change of one row, as a trigger of the simulation saw it. */
export interface Change {
  /** Which statement made it: the number that it was run under. */
  readonly statement: number;
  /** Virtual milliseconds since the epoch, with fractions. */
  readonly at: number;
  readonly table: string;
  readonly before: Row | null;
  readonly after: Row | null;
}

/** A row as PostgreSQL's JSON gives it. */
export type Row = Readonly<Record<string, unknown>>;

/** What a statement runs under. */
export interface Moment {
  /** Virtual milliseconds since the epoch, with up to three digits of a fraction. */
  readonly at: number;
  readonly statement: number;
  /** Seeds `random()`, -1 to 1. */
  readonly chance: number;
}

/**
 * `sim` comes before `pg_catalog`, so that `now()` in unchanged statements, triggers and functions is `sim.now()`: STABLE,
 * and a plain setting once it is inlined, so that an index serves `wake_at <= now()` as before.
 */
const virtualClock = `
CREATE SCHEMA sim;
CREATE FUNCTION sim.now() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE
  AS $$ SELECT CAST(pg_catalog.current_setting('sim.now') AS pg_catalog.timestamptz) $$;`;

/** Every change of every row, with the statement that made it. */
const history = `
CREATE UNLOGGED TABLE sim.history (
  place bigint GENERATED ALWAYS AS IDENTITY, statement integer NOT NULL, at timestamptz NOT NULL, about text NOT NULL,
  before jsonb, after jsonb);
CREATE FUNCTION sim.record() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO sim.history (statement, at, about, before, after)
  VALUES (current_setting('sim.statement')::integer, sim.now(), TG_TABLE_NAME,
          CASE WHEN TG_OP <> 'INSERT' THEN to_jsonb(OLD) END, CASE WHEN TG_OP <> 'DELETE' THEN to_jsonb(NEW) END);
  RETURN NULL;
END
$$;`;

/** What PostgreSQL says of a row that is damaged: data_corrupted. */
export const damageCode = 'XX001';

/** Whatever is done to a damaged row fails; which ones are is a setting, so that sound rows pay nothing. */
const damages = `
CREATE FUNCTION sim.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'this row is damaged' USING ERRCODE = '${damageCode}';
END
$$;
CREATE TRIGGER damaged BEFORE UPDATE ON reminder_delivery FOR EACH ROW
  WHEN (strpos(current_setting('sim.damaged'), CAST(OLD.delivery_id AS text)) > 0) EXECUTE FUNCTION sim.refuse();`;

export type VirtualDatabase = Awaited<ReturnType<typeof startVirtualDatabase>>;

/** Starts a server with the migrated schema, its changes recorded, and one session whose time the caller sets. */
export async function startVirtualDatabase() {
  const directory = mkdtempSync(join(tmpdir(), 'reminder-ledger-simulation-'));
  const postgres = await startPostgres({ directory, fresh: true });
  await postgres.createDatabase('simulation');
  const client = new pg.Client({ connectionString: postgres.url('simulation'), pipeline: true });
  client.on('error', () => undefined);
  await client.connect();
  const sql = async <Found extends Row>(text: string, values: unknown[] = [], name?: string): Promise<Found[]> =>
    (await client.query({ ...(name === undefined ? {} : { name }), text, values })).rows as Found[];

  const folder = new URL('../../migrations/', import.meta.url);
  const files = readdirSync(folder).map((name) => [name, readFileSync(new URL(name, folder), 'utf8')] as const);
  const migrations = readMigrations(files).sort((one, other) => one.version - other.version);
  for (const statement of migrations.flatMap(({ statements }) => statements)) await sql(statement);

  for (const setting of ['autovacuum = off', 'full_page_writes = off', 'synchronous_commit = off', 'jit = off']) {
    await sql(`ALTER SYSTEM SET ${setting}`);
  }
  await sql('SELECT pg_reload_conf()');
  await sql(virtualClock);
  await sql(history);
  const found = await sql<{ name: string }>(
    `SELECT relname AS name FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' ORDER BY relname`,
  );
  const tables = found.map(({ name }) => name);
  for (const table of tables) {
    await sql(`CREATE TRIGGER recorded AFTER INSERT OR UPDATE OR DELETE ON ${table}
               FOR EACH ROW EXECUTE FUNCTION sim.record()`);
  }
  await sql(damages);
  const damage = (ids: readonly string[]) => sql(`SELECT set_config('sim.damaged', $1, false)`, [ids.join(' ')]);
  await damage([]);
  await sql(`SELECT set_config('sim.now', '2000-01-01 00:00:00Z', false), set_config('sim.statement', '0', false)`);
  // Each text is planned once: to plan costs more than to run.
  for (const setting of ["plan_cache_mode = 'force_generic_plan'", 'search_path = public, sim, pg_catalog']) {
    await sql(`SET ${setting}`);
  }

  /** Runs SQL at a moment. Answers its rows as arrays of text. */
  async function runAt(moment: Moment, text: string, values: unknown[], name?: string): Promise<(string | null)[][]> {
    const clock = client.query({
      name: 'moment',
      text: `SELECT set_config('sim.now', $1, false), set_config('sim.statement', $2, false), setseed($3)`,
      values: [timestamp(moment.at), String(moment.statement), moment.chance],
    });
    const result = client.query({ ...(name === undefined ? {} : { name }), text, values, rowMode: 'array' });
    await clock;
    return (await result).rows;
  }

  // Forty times as fast as TRUNCATE, which makes every file of every index anew.
  const emptying = `DO $$ BEGIN
    SET LOCAL session_replication_role = replica;
    ${tables.map((table) => `DELETE FROM ${table};`).join('\n')}
    INSERT INTO dispatch_gate (paused) VALUES (false);
    DELETE FROM sim.history;
    PERFORM setval('lifecycle_event_event_no_seq', 1, false),
      setval('claim_exclusion_exclusion_no_seq', 1, false), setval('operator_action_action_no_seq', 1, false),
      setval('sim.history_place_seq', 1, false);
  END $$`;
  return {
    sql,
    tables,
    runAt,
    /** From now on the rows of these reminders are damaged, and no others. */
    damage,
    /** Runs a statement with named parameters. */
    async run(moment: Moment, text: string, parameters: Parameters): Promise<(string | null)[][]> {
      const bound = bindParameters(
        text,
        Object.entries(parameters).map(([name, value]) => ({
          name,
          value:
            value === null
              ? { isNull: true }
              : typeof value === 'number'
                ? { longValue: value }
                : { stringValue: value },
        })),
      );
      const name = createHash('sha256').update(bound.text).digest('hex').slice(0, 32);
      return runAt(moment, bound.text, bound.values, name);
    },
    /** All changes since the last reset, in their order. */
    async changes(): Promise<Change[]> {
      const rows = await sql<{ statement: number; at: number; about: string; before: Row | null; after: Row | null }>(
        `SELECT statement, CAST(extract(epoch FROM at) * 1000 AS double precision) AS at, about, before, after
         FROM sim.history ORDER BY place`,
      );
      return rows.map(({ about, ...change }) => ({ ...change, table: about }));
    },
    /** Empties all tables, so that the next run finds them as the first one did. */
    async reset(): Promise<void> {
      await damage([]);
      await sql(emptying);
      // Rows lie where the first run's lay, and plans are made for tables of the same size: both decide in which order
      // rows are found, and so which of them gets which chance.
      await sql(`VACUUM (SKIP_DATABASE_STATS, PROCESS_TOAST false) ${tables.join(', ')}, sim.history`);
      await sql('DISCARD PLANS');
    },
    async stop(): Promise<void> {
      await client.end();
      await postgres.stop();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

/** Milliseconds since the epoch as a timestamp with microseconds. */
export function timestamp(at: number): string {
  const whole = Math.floor(at);
  const micros = String(Math.round((at - whole) * 1000)).padStart(3, '0');
  return new Date(whole).toISOString().replace('Z', `${micros}Z`);
}
