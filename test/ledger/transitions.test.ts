// The database's own guard: the moves it lets anyone make, what never changes, and every CHECK of a reminder.
import pg from 'pg';
import { v7 as uuid } from 'uuid';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import {
  allowedMoves,
  deliveryStates,
  type Situation,
  situations,
  stateOf,
  terminalStates,
} from '../../lambdas/core/delivery-states.ts';
import { empty, ledgerTables } from './ledger-rows.ts';
import { type Arranged, arrange, type Columns, columnsOf, insert, openToken } from './situations.ts';
import { startTestLedger, type TestLedger } from './test-ledger.ts';

let ledger: TestLedger;
let tables: string[];
beforeAll(async () => {
  ledger = await startTestLedger();
  tables = await ledgerTables(ledger);
});
beforeEach(() => empty(ledger, tables));
afterAll(() => ledger.stop());

/** The constraint that refuses a statement, run as superuser and undone; null: nothing does. */
async function refusal(text: string, values: unknown[] = [], role: 'origin' | 'replica' = 'origin') {
  const session = await ledger.session();
  try {
    // As a replica the session has no triggers: what is left are the CHECKs.
    await session.sql(`SET session_replication_role = ${role}`);
    await session.sql('BEGIN');
    await session.sql(text, values);
    return null;
  } catch (error) {
    if (error instanceof pg.DatabaseError && error.code === '23514') return error.constraint;
    throw error;
  } finally {
    await session.close();
  }
}

function update(columns: Columns): [text: string, values: unknown[]] {
  const sets = Object.keys(columns).map((column, place) => `${column} = $${place + 1}`);
  return [`UPDATE reminder_delivery SET ${sets.join(', ')}`, Object.values(columns)];
}

const situationOf = (state: string) => situations.find((situation) => stateOf(situation) === state) as Situation;

describe.each(deliveryStates)('from %s', (from) => {
  const moves = allowedMoves().flatMap(([one, other]) => (one === from ? [other] : []));
  test.each(deliveryStates)(`to %s: as the state machine has it`, async (to) => {
    await arrange(ledger, situationOf(from), { attempts: 1 });
    const refused = await refusal(...update(columnsOf(situationOf(to), { attempts: 1 })));
    expect(refused).toBe(to === from || moves.includes(to) ? null : 'known_transition');
  });
});

describe('the identity of a reminder', () => {
  const identity: Readonly<Record<string, unknown>> = {
    delivery_id: uuid(),
    idempotency_key: 'another',
    producer: 'another',
    destination_id: uuid(),
    payload: '{}',
    payload_sha256: Buffer.alloc(32),
    request_fingerprint: 'v1.other',
    created_by_command: uuid(),
    created_at: new Date(0),
  };

  test('each column the trigger guards has its case, and the other way round', async () => {
    const guarded = await ledger.sql<{ column: string }>(
      `SELECT a.attname AS column FROM pg_trigger t JOIN pg_attribute a ON a.attrelid = t.tgrelid AND a.attnum = ANY (t.tgattr)
       WHERE t.tgname = 'identity_never_changes'`,
    );
    expect(guarded.map(({ column }) => column).sort()).toEqual(Object.keys(identity).sort());
  });

  test.each(Object.entries(identity))('%s never changes', async (column, value) => {
    await arrange(ledger, 'scheduled');
    expect(await refusal(...update({ [column]: value }))).toBe('evidence_is_insert_only');
  });

  test.each(terminalStates)('the payload may go when a %s row is archived, and never comes back', async (state) => {
    await arrange(ledger, state);
    const archive: Columns = { payload: null, archived_at: new Date() };
    expect(await refusal(...update(archive))).toBeNull();
    await ledger.sql(...update(archive));
    expect(await refusal(...update({ payload: '{"text":"pay your bill"}', archived_at: null }))).toBe(
      'evidence_is_insert_only',
    );
  });
});

describe('evidence', () => {
  /** Rows that change, and why they may. */
  const mutable: Readonly<Record<string, string>> = {
    reminder_delivery: 'the calendar itself; its identity is guarded, and it is never deleted',
    destination: 'operators pause and disable it',
    dispatch_gate: 'operators pause everything',
    lifecycle_event: 'announced_at is set when the bus accepts it',
    claim_batch: 'what a claim took; retention removes it',
    claim_exclusion: 'operators end it by readmitting the row; it is never deleted',
  };
  const evidence: Readonly<Record<string, (row: Arranged) => Columns>> = {
    delivery_attempt: ({ deliveryId }) => ({
      delivery_id: deliveryId,
      attempt_no: 2,
      version: 1,
      lease_owner: openToken(2),
      lease_until: new Date(),
      started_at: new Date(),
      destination_host: 'to.example',
      function_version: '1',
      request_id: 'request',
      log_stream: 'stream',
    }),
    attempt_outcome: ({ deliveryId }) => ({
      delivery_id: deliveryId,
      attempt_no: 1,
      token: uuid(),
      recorded_by: 'sender',
      recorded_at: new Date(),
      outcome: 'retry',
    }),
    handoff: ({ deliveryId }) => ({
      delivery_id: deliveryId,
      message_id: 'message',
      queue: 'invitations',
      token: uuid(),
      visible_from: new Date(),
      moved: true,
      recorded_at: new Date(),
    }),
    command_receipt: () => ({ token: uuid(), item: 0, verb: 'cancel', answer: '{}', answered_at: new Date() }),
    operator_action: () => ({ token: uuid(), verb: 'hold', actor: 'me', reason: 'test', acted_at: new Date() }),
  };

  test('each table is evidence, or is declared to change', () => {
    expect([...Object.keys(evidence), ...Object.keys(mutable)].sort()).toEqual(tables);
  });

  test.each(Object.entries(evidence))('%s is insert-only', async (table, columns) => {
    const row = columns(await arrange(ledger, 'delivering, lease live'));
    await insert(ledger, table, row);
    for (const column of Object.keys(row)) {
      expect(await refusal(`UPDATE ${table} SET ${column} = ${column}`), column).toBe('evidence_is_insert_only');
    }
    expect(await refusal(`DELETE FROM ${table}`)).toBe('evidence_is_insert_only');
  });

  test('an exclusion is never deleted', async () => {
    await insert(ledger, 'claim_exclusion', {
      delivery_id: uuid(),
      token: uuid(),
      excluded_at: new Date(),
      sql_state: 'XX001',
      reason: 'data_corrupted',
    });
    expect(await refusal('DELETE FROM claim_exclusion')).toBe('evidence_is_insert_only');
  });

  test.each(situations)('a reminder is never deleted: %s', async (situation) => {
    await arrange(ledger, situation, { attempts: 1 });
    expect(await refusal('DELETE FROM reminder_delivery')).toBe('evidence_is_insert_only');
  });
});

describe('what no CHECK and no trigger refuses', () => {
  const archived = `payload = NULL, archived_at = now()`;
  const allowed: readonly [Situation, string][] = [
    ['scheduled', 'parked = true'],
    ['delivering, lease live', 'cancel_requested_at = now()'],
    ['delivered', 'cancel_requested_at = now()'],
    ['queued', 'payload = payload, idempotency_key = idempotency_key'],
    ...situations.slice(7).map((situation) => [situation, archived] as const),
  ].map(([situation, set]) => [situation as Situation, String(set)]);
  test.each(allowed)('%s: %s', async (situation, set) => {
    await arrange(ledger, situation);
    expect(await refusal(`UPDATE reminder_delivery SET ${set}`)).toBeNull();
  });
});

describe('each CHECK of a reminder', () => {
  interface Breach {
    readonly in: Situation;
    readonly set: string;
    /** A trigger would refuse it first: only without triggers does it reach the CHECK. */
    readonly behindTrigger?: boolean;
  }
  const lease = `lease_owner = '${uuid()}', lease_until = now()`;
  const breaches: Readonly<Record<string, readonly Breach[]>> = {
    known_state: [{ in: 'dead', set: `state = 'sent'`, behindTrigger: true }],
    live_row_wakes: situations.slice(2, 7).map((situation) => ({ in: situation, set: 'wake_at = NULL' })),
    finished_row_sleeps: situations.slice(7).map((situation) => ({ in: situation, set: 'wake_at = now()' })),
    waiting_row_wakes_to_expire: [
      { in: 'held', set: 'wake_at = now()' },
      { in: 'shadow', set: `expires_at = due_at + interval '1 day'` },
    ],
    lease_has_owner: [{ in: 'dispatching', set: 'lease_until = NULL' }],
    leased_states: [
      { in: 'dispatching', set: 'lease_owner = NULL, lease_until = NULL' },
      { in: 'delivering, lease live', set: 'lease_owner = NULL, lease_until = NULL' },
      { in: 'queued', set: lease },
      { in: 'scheduled', set: lease },
    ],
    parked_is_scheduled: [{ in: 'queued', set: 'parked = true' }],
    held_has_reason: [
      { in: 'held', set: 'hold_reason = NULL' },
      { in: 'scheduled', set: `hold_reason = 'none'` },
    ],
    delivered_has_time: [
      { in: 'delivered', set: 'delivered_at = NULL' },
      { in: 'dead', set: 'delivered_at = now()' },
    ],
    cancel_wish_is_open_or_done: [{ in: 'queued', set: 'cancel_requested_at = now()' }],
    delivering_has_attempt: [{ in: 'delivering, lease live', set: 'attempts_at_requeue = attempt_no' }],
    counters: [
      'failures = 2',
      'failures = -1',
      'attempts_at_requeue = 2',
      'attempts_at_requeue = -1',
      'invitations = -1',
    ].map((set) => ({ in: 'scheduled', set })),
    expires_after_due: [{ in: 'dead', set: 'expires_at = due_at' }],
    payload_until_archived: [
      { in: 'dead', set: 'archived_at = now()' },
      { in: 'dead', set: 'payload = NULL' },
    ],
    archived_is_finished: [{ in: 'scheduled', set: 'payload = NULL, archived_at = now()' }],
    payload_size: [{ in: 'scheduled', set: `payload = repeat('"', 32769)`, behindTrigger: true }],
    reminder_delivery_version_check: [{ in: 'scheduled', set: 'version = 0' }],
    reminder_delivery_payload_sha256_check: [{ in: 'scheduled', set: `payload_sha256 = '\\x00'`, behindTrigger: true }],
  };

  test('has its case, and the other way round', async () => {
    const checks = await ledger.sql<{ name: string }>(
      `SELECT conname AS name FROM pg_constraint WHERE conrelid = 'reminder_delivery'::regclass AND contype = 'c'`,
    );
    expect(checks.map(({ name }) => name).sort()).toEqual(Object.keys(breaches).sort());
  });

  test.each(Object.entries(breaches).flatMap(([name, cases]) => cases.map((breach) => ({ name, ...breach }))))(
    '$name: $in, $set',
    async ({ name, in: situation, set, behindTrigger = false }) => {
      await arrange(ledger, situation, { attempts: 1 });
      const text = `UPDATE reminder_delivery SET ${set}`;
      expect(await refusal(text, [], behindTrigger ? 'replica' : 'origin')).toBe(name);
    },
  );
});
