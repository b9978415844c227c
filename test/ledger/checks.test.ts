// Every CHECK beside those of a reminder: what it refuses, and each value that it must let through.
import pg from 'pg';
import { v7 as uuid } from 'uuid';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { empty, ledgerTables } from './ledger-rows.ts';
import { arrange, insert } from './situations.ts';
import { startTestLedger, type TestLedger } from './test-ledger.ts';

let ledger: TestLedger;
let tables: string[];
beforeAll(async () => {
  ledger = await startTestLedger();
  tables = await ledgerTables(ledger);
});
// Not once for all: a CHECK that refuses these rows must fail a test.
beforeEach(async () => {
  await empty(ledger, tables);
  const { deliveryId } = await arrange(ledger, 'delivering, lease live', { attempts: 1 });
  await insert(ledger, 'attempt_outcome', {
    ...{ delivery_id: deliveryId, attempt_no: 1, token: uuid(), recorded_by: 'sender', recorded_at: new Date() },
    outcome: 'retry',
  });
});
afterAll(() => ledger.stop());

interface Check {
  readonly table: string;
  /** What a row may be set to, and what not. */
  readonly allows: readonly string[];
  readonly refuses: readonly string[];
}

const oneOf = (table: string, column: string, values: readonly string[]): Check => ({
  table,
  allows: values.map((value) => `${column} = '${value}'`),
  refuses: [`${column} = 'another'`, `${column} = ''`],
});

const checks: Readonly<Record<string, Check>> = {
  https_url: {
    table: 'destination',
    allows: [`url = 'https://a.example'`, `url = 'https://a.example:8443/path?and=query'`],
    refuses: [`url = 'http://a.example'`, `url = 'https://'`, `url = 'https:///path'`, `url = ' https://a.example'`],
  },
  destination_contract_check: oneOf('destination', 'contract', ['honours-key', 'status-lookup', 'none']),
  destination_state_check: oneOf('destination', 'state', ['active', 'paused', 'disabled', 'broken']),
  destination_deadline_ms_check: {
    table: 'destination',
    allows: ['deadline_ms = NULL', 'deadline_ms = 100', 'deadline_ms = 10000'],
    refuses: ['deadline_ms = 99', 'deadline_ms = 10001'],
  },
  dedup_window_is_positive: {
    table: 'destination',
    allows: ['dedup_window_seconds = NULL', 'dedup_window_seconds = 1', 'dedup_window_seconds = 2592000'],
    refuses: ['dedup_window_seconds = 0', 'dedup_window_seconds = -1'],
  },
  policy_is_readable: {
    table: 'destination',
    allows: [
      `policy = '{}'`,
      `policy = '{"more": "x"}'`,
      `policy = '{"maxFailures": 1}'`,
      `policy = '{"maxFailures": 999}'`,
    ],
    refuses: ['0', '1000', '1.5', '-1', 'true', '"x"', '[1]'].map((value) => `policy = '{"maxFailures": ${value}}'`),
  },
  delivery_attempt_attempt_no_check: {
    table: 'delivery_attempt',
    allows: ['attempt_no = 1', 'attempt_no = 30'],
    refuses: ['attempt_no = 0'],
  },
  attempt_outcome_recorded_by_check: oneOf('attempt_outcome', 'recorded_by', [
    'sender',
    'recover',
    'lookup',
    'operator',
  ]),
  attempt_outcome_outcome_check: oneOf('attempt_outcome', 'outcome', [
    ...['delivered', 'retry', 'permanent', 'gone', 'unknown', 'not_sent', 'overtaken'],
  ]),
  attempt_outcome_phase_check: oneOf('attempt_outcome', 'phase', [
    ...['none', 'dns', 'connect', 'tls', 'written', 'headers', 'body'],
  ]),
  attempt_outcome_detail_check: {
    table: 'attempt_outcome',
    // Bytes, not letters.
    allows: ['detail = NULL', `detail = repeat('x', 1024)`, `detail = repeat('é', 512)`],
    refuses: [`detail = repeat('x', 1025)`, `detail = repeat('é', 513)`],
  },
  dispatch_gate_only_row_check: { table: 'dispatch_gate', allows: ['only_row = true'], refuses: ['only_row = false'] },
  dispatch_gate_check: {
    table: 'dispatch_gate',
    allows: ['paused = true, paused_since = now()', 'paused = false, paused_since = NULL'],
    refuses: ['paused = true, paused_since = NULL', 'paused = false, paused_since = now()'],
  },
};

/** The CHECK that refuses a change of all rows of a table, without any trigger, and undone; null: none does. */
async function refusal(table: string, set: string): Promise<string | undefined | null> {
  const session = await ledger.session();
  try {
    await session.sql('SET session_replication_role = replica');
    await session.sql('BEGIN');
    const changed = await session.sql(`UPDATE ${table} SET ${set} RETURNING 1`);
    expect(changed, `rows of ${table}`).not.toEqual([]);
    return null;
  } catch (error) {
    if (error instanceof pg.DatabaseError && error.code === '23514') return error.constraint;
    throw error;
  } finally {
    await session.close();
  }
}

test('each CHECK of the schema has its case here, or among those of a reminder, and the other way round', async () => {
  const found = await ledger.sql<{ name: string; table: string }>(
    `SELECT c.conname AS name, t.relname AS table FROM pg_constraint c JOIN pg_class t ON t.oid = c.conrelid
     WHERE c.contype = 'c' AND t.relnamespace = 'public'::regnamespace AND t.relname <> 'reminder_delivery'`,
  );
  const known = Object.entries(checks).map(([name, { table }]) => `${table}: ${name}`);
  expect(found.map(({ name, table }) => `${table}: ${name}`).sort()).toEqual(known.sort());
});

test.each(Object.entries(checks))(
  '%s lets through what it must, and nothing else',
  async (name, { table, allows, refuses }) => {
    for (const set of allows) expect(await refusal(table, set), set).toBeNull();
    for (const set of refuses) expect(await refusal(table, set), set).toBe(name);
  },
);
