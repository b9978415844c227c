// What the ledger's tables hold, and what they must hold by the model, in one shape.
import type { Real } from './happenings.ts';
import { waitsSince } from './reminder-life.ts';
import type { ReminderModel } from './reminder-model.ts';

/** Rows by table, in a fixed order. */
export type Rows = Readonly<Record<string, readonly object[]>>;

/** An instant as milliseconds; `infinity` as PostgreSQL says it. */
const ms = (column: string) =>
  `CASE WHEN isfinite(${column}) THEN to_jsonb(extract(epoch FROM ${column}) * 1000) ELSE to_jsonb(${column}) END`;
const columns: readonly (readonly [name: string, sql: string])[] = [
  ...['version', 'state', 'parked', 'attempt_no', 'failures', 'attempts_at_requeue', 'invitations'].map(
    (name) => [name, name] as const,
  ),
  ...['producer', 'user_id', 'idempotency_key', 'payload', 'created_by_command', 'lease_owner', 'hold_reason'].map(
    (name) => [name, name] as const,
  ),
  ...['due_at', 'next_attempt_at', 'expires_at', 'wake_at', 'state_since', 'lease_until', 'first_invited_at'].map(
    (name) => [name, ms(name)] as const,
  ),
  ...['cancel_requested_at', 'delivered_at', 'reviewed_at', 'unreviewed_since', 'archived_at'].map(
    (name) => [name, ms(name)] as const,
  ),
  ['last_error', 'last_error'],
  ['delivery_id', 'delivery_id'],
];
const row = columns.map(([name, sql]) => `'${name}', ${sql}`).join(', ');
const everything = `
SELECT
  (SELECT coalesce(jsonb_agg(jsonb_build_object(${row}) ORDER BY delivery_id), '[]') FROM reminder_delivery)
    AS reminder_delivery,
  (SELECT coalesce(jsonb_agg(jsonb_build_array(delivery_id, attempt_no, lease_owner, version)
     ORDER BY delivery_id, attempt_no), '[]') FROM delivery_attempt) AS delivery_attempt,
  (SELECT coalesce(jsonb_agg(jsonb_build_array(delivery_id, attempt_no, token, recorded_by, outcome, moved_to)
     ORDER BY delivery_id, attempt_no, token), '[]') FROM attempt_outcome) AS attempt_outcome,
  (SELECT coalesce(jsonb_agg(jsonb_build_array(delivery_id, message_id, moved)
     ORDER BY delivery_id, message_id), '[]') FROM handoff) AS handoff,
  (SELECT coalesce(jsonb_agg(jsonb_build_array(delivery_id, version, state, announced_at IS NOT NULL)
     ORDER BY delivery_id, version, state), '[]') FROM lifecycle_event) AS lifecycle_event,
  (SELECT coalesce(jsonb_agg(jsonb_build_array(delivery_id, token, readmitted_by) ORDER BY token), '[]')
     FROM claim_exclusion) AS claim_exclusion,
  (SELECT coalesce(jsonb_agg(jsonb_build_array(verb, delivery_id, version_seen, reason, evidence -> 'given', evidence -> 'answer',
     evidence -> 'state', evidence -> 'attempts', evidence -> 'doubtfulAttempts', evidence -> 'keyForgotten') ORDER BY action_no), '[]')
     FROM operator_action) AS operator_action,
  (SELECT coalesce(jsonb_agg(jsonb_build_array(name, state, destination_id, url, owner, contract, deadline_ms,
     dedup_window_seconds)
     ORDER BY name), '[]') FROM destination) AS destination`;

/** All rows, as the database has them. */
export async function databaseRows(sql: Real['sql']): Promise<Rows> {
  const [rows] = (await sql(everything)) as Rows[];
  return rows ?? {};
}

/** All rows, as the model has them. */
export function modelRows(model: ReminderModel): Rows {
  const ordered = <Row extends readonly unknown[]>(rows: readonly Row[], by: number) =>
    rows.toSorted((one, other) => (String(one.slice(0, by)) < String(other.slice(0, by)) ? -1 : 1));
  return {
    reminder_delivery: [...model.reminders.values()]
      .map((one) => ({
        ...{ delivery_id: one.asked.deliveryId, idempotency_key: one.asked.key, user_id: one.asked.userId },
        ...{
          payload: one.archived === null ? one.asked.payload : null,
          producer: one.producer,
          created_by_command: one.command,
        },
        ...{ state: one.state, state_since: one.since, version: one.version, parked: one.parked },
        ...{ due_at: one.due, next_attempt_at: one.next, expires_at: one.expires },
        wake_at: one.wake === Number.POSITIVE_INFINITY ? 'infinity' : one.wake,
        ...{ attempt_no: one.attempts, attempts_at_requeue: one.attemptsBefore, failures: one.failures },
        ...{ invitations: one.invitations, first_invited_at: one.firstInvited, last_error: one.lastError },
        ...{ lease_owner: one.lease?.owner ?? null, lease_until: one.lease?.until ?? null },
        ...{ cancel_requested_at: one.cancelAsked, delivered_at: one.delivered },
        hold_reason: one.state === 'held' ? one.holdReason : null,
        ...{ reviewed_at: one.reviewed, unreviewed_since: waitsSince(one), archived_at: one.archived },
      }))
      .toSorted((one, other) => (one.delivery_id < other.delivery_id ? -1 : 1)),
    delivery_attempt: ordered(
      model.attempts.map(({ id, no, token, version }) => [id, no, token, version]),
      2,
    ),
    attempt_outcome: ordered(
      model.outcomes.map(({ id, no, token, by, outcome, movedTo }) => [id, no, token, by, outcome, movedTo]),
      3,
    ),
    handoff: ordered(
      model.handoffs.map(({ id, message, moved }) => [id, message, moved]),
      2,
    ),
    lifecycle_event: ordered(
      model.events.map(({ id, version, state, announced }) => [id, version, state, announced]),
      3,
    ),
    claim_exclusion: model.exclusions.map(({ id, token, readmittedBy }) => [id, token, readmittedBy]),
    operator_action: model.actions,
    destination: ordered(
      model.destinations.map(({ name, state, id, url, owner, contract, deadlineMs, window }) => [
        ...[name, state, id, url, owner, contract, deadlineMs, window],
      ]),
      1,
    ),
  };
}
