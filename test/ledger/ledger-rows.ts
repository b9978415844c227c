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
     UPDATE dispatch_gate SET paused = false, paused_since = NULL, reason = NULL; COMMIT`,
  );
}

const someId = /[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/g;

/**
 * A value to compare with that of another run of the same commands: instants, time left and running numbers are
 * put aside; ids, of version 7 and so in the order of their making, are replaced by their place in it.
 */
export function comparable<Value>(value: Value): Value {
  const text = JSON.stringify(value)
    .replaceAll(/"\d{4}-\d\d-\d\d[T ][\d:.]+(?:Z|\+00(?::00)?)"/g, '"time"')
    .replaceAll(/"(event_no|exclusion_no|eventNo|dueInMs|notBefore|askedAt)":"?-?[\d.]+"?/g, '"$1":0');
  const ids = [...new Set(text.match(someId))].sort();
  return JSON.parse(text.replaceAll(someId, (id) => `id-${ids.indexOf(id)}`));
}

/** All rows, comparable, in an order of their own. */
export function comparableRows(rows: LedgerRows): LedgerRows {
  const sorted = Object.entries(comparable(rows)).map(([table, lines]) => {
    const texts = lines.map((line) => JSON.stringify(line)).sort();
    return [table, texts.map((line) => JSON.parse(line))];
  });
  return Object.fromEntries(sorted);
}
