// Several sessions on one ledger, and a dozen reminders in all situations for them to contend for.
import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import type { Situation } from '../../lambdas/core/delivery-states.ts';
import { LedgerError } from '../../lambdas/core/errors.ts';
import type { Settings } from '../../lambdas/core/settings.ts';
import { ledgerError } from '../../lambdas/store/data-api-errors.ts';
import { PostgresLedger } from '../../lambdas/store/ledger.ts';
import type { StatementRunner } from '../../lambdas/store/statement.ts';
import { bindParameters } from '../../lib/local/sql-parameters.ts';
import { empty } from '../ledger/ledger-rows.ts';
import { type Circumstances, claimToken, columnsOf, inSeconds, openToken } from '../ledger/situations.ts';
import type { TestLedger } from '../ledger/test-ledger.ts';

export { claimToken, inSeconds, openToken };
export const producer = 'product';

/** Retries come at once, so that a rival finds the row due; all other numbers are production's. */
export const impatient = (settings: Settings): Settings => ({ ...settings, retryBaseSeconds: 0, retryCapSeconds: 0 });

/** A session of its own with the ledger over it: its commands run past the Data API, with the same errors and tries. */
export async function openContender(ledger: TestLedger) {
  const client = new pg.Client({ connectionString: ledger.postgres.url('ledger') });
  client.on('error', () => undefined);
  await client.connect();
  // However slow the machine is, a wait is no failure here; a deadlock is found after a second as everywhere.
  await client.query('SET lock_timeout = 0; SET statement_timeout = 0');
  const settings = impatient(ledger.settings);
  /** Errors that were answered by another try, by their SQLSTATE. */
  const retried: string[] = [];
  const runner: StatementRunner = {
    async run(statement, input, onTry) {
      const parameters = Object.entries(statement.parameters(input, settings)).map(([name, value]) => ({
        name,
        value:
          value === null ? { isNull: true } : typeof value === 'number' ? { longValue: value } : { stringValue: value },
      }));
      for (let tries = 1; ; tries += 1) {
        onTry?.(performance.now());
        try {
          const query = { ...bindParameters(statement.text, parameters), rowMode: 'array' };
          const { rows } = await client.query(query);
          return rows.map(([answer, payload]) => ({ ...JSON.parse(answer), ...(payload == null ? {} : { payload }) }));
        } catch (error) {
          const known = error instanceof pg.DatabaseError ? typed(statement.name, error) : error;
          if (!(known instanceof LedgerError) || known.retry === 'never' || tries === settings.dataApiTries)
            throw known;
          retried.push(known.sqlState ?? '');
        }
      }
    },
  };
  return {
    ledger: new PostgresLedger(runner),
    runner,
    retried,
    sql: async <Row extends object>(text: string, values: unknown[] = []) =>
      (await client.query(text, values)).rows as Row[],
    close: () => client.end(),
  };
}
export type Contender = Awaited<ReturnType<typeof openContender>>;

/** As the Data API would tell it. */
function typed(statement: string, { message, code }: pg.DatabaseError): LedgerError {
  const error = new Error(`ERROR: ${message}; SQLState: ${code}`);
  error.name = 'DatabaseErrorException';
  return ledgerError(statement, error);
}

/** Waits until as many commands wait for locks as are `left`. */
export async function untilWaiting({ pool }: TestLedger, left: () => number): Promise<void> {
  for (let tries = 0; tries < 2000 && left() > 0; tries += 1) {
    const { rows } = await pool.query('SELECT count(*)::integer AS waiting FROM pg_locks WHERE NOT granted');
    if (rows[0].waiting >= left()) return;
    await sleep(1);
  }
}

/** A reminder for every situation, and those in which two commands can go wrong in a way of their own. */
const cast = (): Readonly<Record<string, Circumstances & { readonly situation: Situation }>> => ({
  scheduled: { situation: 'scheduled' },
  'not yet due': { situation: 'scheduled', dueIn: 4000, wakeIn: 3800 },
  parked: { situation: 'scheduled', columns: { parked: true, wake_at: 'infinity' } },
  dispatching: { situation: 'dispatching' },
  'dispatching, over': { situation: 'dispatching', dueIn: -60, expiresIn: -1 },
  queued: { situation: 'queued' },
  'queued, sent before': { situation: 'queued', attempts: 1 },
  lost: {
    ...{ situation: 'queued', dueIn: -600, wakeIn: 600, attempts: 1 },
    columns: { state_since: inSeconds(-400), first_invited_at: inSeconds(-500) },
  },
  sending: { situation: 'delivering, lease live', wakeIn: 60 },
  silent: { situation: 'delivering, lease past' },
  'silent for long': { situation: 'delivering, lease past', wakeIn: 600 },
  'silent, called off': { situation: 'delivering, lease past', columns: { cancel_requested_at: inSeconds(-5) } },
  'sending again': { situation: 'delivering, lease live', wakeIn: 60, attempts: 2 },
  held: { situation: 'held', attempts: 1 },
  dead: { situation: 'dead', attempts: 1 },
  cancelled: { situation: 'cancelled', attempts: 1 },
});
export const names = Object.keys(cast());
export const idOf = (name: string): string =>
  `00000000-0000-7000-9000-${String(names.indexOf(name) + 1).padStart(12, '0')}`;
export const ids = names.map(idOf);
/** Those with a first attempt, to settle. */
export const sent = names.filter((name) => attemptsOf(name) > 0).map(idOf);
const destinationId = '00000000-0000-7000-8000-0000000000de';
const payload = '{"text":"pay your bill"}';

/** How many attempts one of the cast has had. */
export function attemptsOf(name: string): number {
  const { attempts, situation } = cast()[name] ?? {};
  return attempts ?? (situation?.startsWith('delivering') ? 1 : 0);
}

/** Empties the ledger and brings every one of the cast into its situation. */
export async function arrangeCast(ledger: TestLedger, tables: readonly string[]): Promise<void> {
  await empty(ledger, tables);
  await ledger.sql(
    `INSERT INTO destination (destination_id, name, url, owner, contract, state, state_since, created_at)
     VALUES ($1, 'to', 'https://to.example/hook', 'test', 'honours-key', 'active', now(), now())`,
    [destinationId],
  );
  const rows = Object.entries(cast()).map(([name, { situation, dueIn = -1, columns, ...more }]) => {
    return {
      ...{ delivery_id: idOf(name), producer, user_id: 'user-1', destination_id: destinationId, idempotency_key: name },
      ...{ request_fingerprint: 'v1.a.b.c.d.e', payload, created_by_command: idOf(name), version: 1, failures: 0 },
      payload_sha256: `\\x${createHash('sha256').update(payload).digest('hex')}`,
      ...{ created_at: inSeconds(-3600), state_since: inSeconds(-30), attempts_at_requeue: 0 },
      ...{ due_at: inSeconds(dueIn), next_attempt_at: inSeconds(dueIn) },
      ...(columnsOf(situation, more) as { state: string; attempt_no: number }),
      ...columns,
    };
  });
  await insertAll(ledger, 'reminder_delivery', rows);
  await insertAll(ledger, 'claim_batch', [
    {
      ...{ token: claimToken, claimed: [idOf('dispatching'), idOf('dispatching, over')], recovered: [], expired: [] },
      ...{ parked: [], request_id: 'request', log_stream: 'stream', claimed_at: inSeconds(-30) },
    },
  ]);
  const attempts = rows.flatMap(({ delivery_id, attempt_no }) =>
    Array.from({ length: Number(attempt_no) }, (_, place) => ({
      ...{ delivery_id, attempt_no: place + 1, version: 1, lease_owner: openToken(place + 1) },
      ...{ lease_until: inSeconds(0), started_at: inSeconds(-60), destination_host: 'to.example' },
      ...{ function_version: '1', request_id: 'request', log_stream: 'stream' },
    })),
  );
  await insertAll(ledger, 'delivery_attempt', attempts);
  const open = ({ delivery_id, attempt_no }: (typeof attempts)[number]) =>
    rows.some((row) => row.delivery_id === delivery_id && row.state === 'delivering' && row.attempt_no === attempt_no);
  await insertAll(
    ledger,
    'attempt_outcome',
    attempts
      .filter((attempt) => !open(attempt))
      .map(({ delivery_id, attempt_no }) => ({
        ...{ delivery_id, attempt_no, token: delivery_id, recorded_by: 'recover', recorded_at: inSeconds(-40) },
        ...{ outcome: 'unknown', moved_to: 'scheduled' },
      })),
  );
  await ledger.sql(
    `INSERT INTO lifecycle_event (delivery_id, version, state, occurred_at)
     SELECT delivery_id, version, state, state_since FROM reminder_delivery WHERE state IN ('dead', 'cancelled')`,
  );
}

/** Inserts rows of named columns; the others are NULL. */
async function insertAll({ sql }: TestLedger, table: string, rows: readonly object[]): Promise<void> {
  await sql(`INSERT INTO ${table} SELECT * FROM jsonb_populate_recordset(CAST(NULL AS ${table}), $1)`, [
    JSON.stringify(rows),
  ]);
}
