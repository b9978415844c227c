// What each role of the database is refused, and what one of them alone may do.
import type { DatabaseRole } from '../../lambdas/core/database-roles.ts';

const tables = `attempt_outcome claim_batch claim_exclusion command_receipt delivery_attempt destination
  dispatch_gate handoff lifecycle_event operator_action reminder_delivery schema_migration`.split(/\s+/);

const identity = `delivery_id idempotency_key producer user_id destination_id payload payload_sha256
  request_fingerprint created_by_command created_at`.split(/\s+/);

/** What no role may do, unless `alone` says that one may. */
export const forNobody = [
  ...tables.flatMap((table) => [`DELETE FROM ${table}`, `TRUNCATE ${table}`]),
  ...identity.map((column) => `UPDATE reminder_delivery SET ${column} = ${column}`),
  ...['delivery_attempt', 'attempt_outcome', 'claim_batch', 'handoff', 'command_receipt', 'operator_action'].map(
    (table) => `UPDATE ${table} SET ${table === 'claim_batch' ? 'token = token' : evidenceColumn(table)}`,
  ),
  'UPDATE destination SET url = url',
  'UPDATE reminder_delivery SET unreviewed_since = NULL',
  'UPDATE destination SET contract = contract',
  'UPDATE claim_exclusion SET reason = reason',
  'INSERT INTO schema_migration (version) VALUES (1)',
  "SELECT set_login('ledger_operator_b', 'x')",
  'SELECT limit_statements(1, 1)',
  'CREATE TABLE mine (x integer)',
  'CREATE TEMPORARY TABLE mine (x integer)',
  'CREATE FUNCTION mine() RETURNS integer LANGUAGE sql AS $$ SELECT 1 $$',
  'ALTER TABLE reminder_delivery DISABLE TRIGGER ALL',
  'DROP TABLE handoff',
  'CREATE ROLE mine',
  'SELECT rolpassword FROM pg_authid',
  "SET session_replication_role = 'replica'",
];

function evidenceColumn(table: string): string {
  const column = { command_receipt: 'token', operator_action: 'action_no' }[table] ?? 'delivery_id';
  return `${column} = ${table === 'operator_action' ? 'DEFAULT' : column}`;
}

/** What one role may do of what nobody else may: triggers hold it to what is archived, or old. */
export const alone: Partial<Record<DatabaseRole, string[]>> = {
  ledger_retain: [
    ...['delivery_attempt', 'attempt_outcome', 'handoff', 'lifecycle_event', 'claim_batch', 'command_receipt'].map(
      (table) => `DELETE FROM ${table}`,
    ),
    'UPDATE reminder_delivery SET payload = payload',
  ],
};

const readsOnly = tables.map((table) => `INSERT INTO ${table} DEFAULT VALUES`);

const pausing = 'UPDATE dispatch_gate SET paused = true, paused_since = now()';

/** What each role is refused besides. */
export const forRole: Record<DatabaseRole, string[]> = {
  ledger_schedule: [
    pausing,
    'INSERT INTO delivery_attempt DEFAULT VALUES',
    'INSERT INTO attempt_outcome DEFAULT VALUES',
    'SELECT * FROM delivery_attempt',
    'SELECT detail FROM attempt_outcome',
    'SELECT payload FROM reminder_delivery',
    'SELECT url FROM destination',
    'INSERT INTO destination DEFAULT VALUES',
    "UPDATE destination SET state = 'paused'",
    'UPDATE reminder_delivery SET delivered_at = now()',
    'UPDATE reminder_delivery SET attempt_no = 0',
    'SELECT * FROM lifecycle_event',
    'UPDATE lifecycle_event SET announced_at = now()',
    'SELECT * FROM operator_action',
    'SELECT * FROM claim_exclusion',
    'INSERT INTO operator_action (verb) VALUES (NULL)',
  ],
  ledger_claim: [
    pausing,
    'SELECT payload FROM reminder_delivery',
    'SELECT idempotency_key FROM reminder_delivery',
    'SELECT user_id FROM reminder_delivery',
    'INSERT INTO reminder_delivery DEFAULT VALUES',
    'UPDATE reminder_delivery SET due_at = due_at',
    'UPDATE reminder_delivery SET delivered_at = now()',
    'INSERT INTO delivery_attempt DEFAULT VALUES',
    'SELECT * FROM delivery_attempt',
    'SELECT * FROM attempt_outcome',
    'SELECT url FROM destination',
    'INSERT INTO destination DEFAULT VALUES',
    "UPDATE destination SET state = 'paused'",
    'UPDATE lifecycle_event SET state = state',
    'UPDATE claim_exclusion SET readmitted_at = now()',
    'INSERT INTO operator_action (verb) VALUES (NULL)',
  ],
  ledger_webhook_sender: [
    pausing,
    'INSERT INTO reminder_delivery DEFAULT VALUES',
    'UPDATE reminder_delivery SET due_at = due_at',
    'UPDATE reminder_delivery SET cancel_requested_at = now()',
    'SELECT user_id FROM reminder_delivery',
    'INSERT INTO destination DEFAULT VALUES',
    'UPDATE destination SET name = name',
    'SELECT * FROM claim_batch',
    'INSERT INTO claim_batch DEFAULT VALUES',
    'SELECT * FROM handoff',
    'SELECT * FROM claim_exclusion',
    'INSERT INTO operator_action (verb) VALUES (NULL)',
    'INSERT INTO handoff DEFAULT VALUES',
    'SELECT * FROM command_receipt',
    'SELECT * FROM lifecycle_event',
    'UPDATE lifecycle_event SET announced_at = now()',
    'INSERT INTO dispatch_gate (paused) VALUES (false)',
  ],
  ledger_operator: [
    ...readsOnly.filter((sql) => !/destination|operator_action|command_receipt|lifecycle_event/.test(sql)),
    'INSERT INTO destination (policy) VALUES (NULL)',
    'UPDATE reminder_delivery SET due_at = due_at',
    'UPDATE reminder_delivery SET attempt_no = 0',
    'UPDATE reminder_delivery SET last_error = NULL',
    'INSERT INTO lifecycle_event (announced_at) VALUES (now())',
    'INSERT INTO dispatch_gate (paused) VALUES (true)',
    'UPDATE destination SET deadline_ms = 100',
    'UPDATE destination SET policy = policy',
    'UPDATE lifecycle_event SET announced_at = now()',
    'SELECT retry_delay(1, 1, 1, 1, NULL)',
  ],
  ledger_retain: [
    pausing,
    ...readsOnly,
    'DELETE FROM reminder_delivery',
    "UPDATE reminder_delivery SET state = 'scheduled'",
    'UPDATE reminder_delivery SET wake_at = now()',
    "UPDATE destination SET state = 'paused'",
    'UPDATE lifecycle_event SET announced_at = now()',
    'SELECT answer FROM command_receipt',
    'SELECT * FROM operator_action',
    'SELECT * FROM destination',
    'UPDATE claim_exclusion SET readmitted_at = now()',
  ],
  ledger_observer: [
    pausing,
    ...readsOnly,
    "UPDATE reminder_delivery SET state = 'scheduled'",
    "UPDATE destination SET state = 'paused'",
    'SELECT delivery_id FROM reminder_delivery FOR UPDATE',
    'UPDATE claim_exclusion SET readmitted_at = now()',
  ],
};
