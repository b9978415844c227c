// What the ledger's tables hold: all of it as one value to compare, and the way back to an empty ledger.
import type { TestLedger } from './test-ledger.ts';

/** Rows by table, each table's in one fixed order. */
export type LedgerRows = Readonly<Record<string, readonly Readonly<Record<string, unknown>>[]>>;

type Sql = Pick<TestLedger, 'sql'>;

/** Every table of the schema but migrate's own book. */
export async function ledgerTables({ sql }: Sql): Promise<string[]> {
  const rows = await sql<{ name: string }>(
    `SELECT relname AS name FROM pg_class
     WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND relname <> 'schema_migration' ORDER BY relname`,
  );
  return rows.map(({ name }) => name);
}

/** All rows of all tables. */
export async function dump(ledger: Sql, tables: readonly string[]): Promise<LedgerRows> {
  const columns = tables.map(
    (table) =>
      `(SELECT coalesce(jsonb_agg(to_jsonb(t) ORDER BY to_jsonb(t)::text), '[]') FROM ${table} t) AS "${table}"`,
  );
  const [rows] = await ledger.sql<LedgerRows>(`SELECT ${columns.join(', ')}`);
  return rows ?? {};
}

/** Deletes everything, the guards against that set aside, and opens the gate. */
export async function empty(ledger: Sql, tables: readonly string[]): Promise<void> {
  const deletes = tables.filter((table) => table !== 'dispatch_gate').map((table) => `DELETE FROM ${table}`);
  await ledger.sql(
    `BEGIN; SET LOCAL session_replication_role = replica; ${deletes.join('; ')};
     UPDATE dispatch_gate SET paused = false, paused_since = NULL; COMMIT`,
  );
}

/** The same rows with each instant as the word `time`: for runs of one command at two moments. */
export function timeless(rows: LedgerRows): LedgerRows {
  const text = JSON.stringify(rows).replaceAll(/"\d{4}-\d\d-\d\dT[\d:.]+\+00:00"/g, '"time"');
  return JSON.parse(text);
}
