// reschedule: moves due times, and expiries when given, of reminders that nobody is sending.
import type { Reschedule } from '../../core/ports.ts';
import { type FactsRow, type NamedItem, namesJson } from '../rows.ts';
import type { Statement } from '../statement.ts';

export type RescheduleRow = { readonly item: number } & (
  | ({
      readonly answer: 'rescheduled' | 'unchanged' | 'too_late' | 'held' | 'finished' | 'stale' | 'invalid_expiry';
      readonly near_due: boolean;
    } & FactsRow)
  | { readonly answer: 'not_found' }
  | { readonly answer: null }
);

/**
 * Refused while any attempt is open or unknown, so that a reminder has one sendable version. That is read from the
 * locked row's attempt number against the outcomes seen: after a wait for the lock, attempts begun meanwhile are not
 * in this statement's snapshot, the number is.
 */
export const reschedule: Statement<
  { token: string; producer: string; reminders: readonly (Reschedule & NamedItem)[] },
  RescheduleRow
> = {
  name: 'reschedule',
  text: `
WITH item AS MATERIALIZED (
  SELECT x.item, COALESCE(CAST(x.delivery_id AS uuid), k.delivery_id) AS delivery_id,
         CAST(x.due_at AS timestamptz) AS due_at, CAST(x.expires_at AS timestamptz) AS expires_at,
         x.changes_expiry, x.expected_version
  FROM jsonb_to_recordset(CAST(:items AS jsonb)) AS x (
    item integer, key text, delivery_id text, due_at text, expires_at text, changes_expiry boolean,
    expected_version integer)
  LEFT JOIN reminder_delivery k ON k.idempotency_key = x.key
), repeated AS MATERIALIZED (
  SELECT c.item, c.answer FROM command_receipt c WHERE c.token = CAST(:token AS uuid)
), locked AS MATERIALIZED (
  SELECT r.delivery_id, r.state, r.due_at, r.expires_at, r.version, r.attempt_no
  FROM reminder_delivery r
  WHERE r.delivery_id = ANY (ARRAY(SELECT delivery_id FROM item)) AND r.producer = CAST(:producer AS text)
  ORDER BY r.delivery_id
  FOR NO KEY UPDATE
), asked AS MATERIALIZED (
  SELECT DISTINCT ON (l.delivery_id) i.item, l.delivery_id, l.state, l.version, l.attempt_no, l.due_at, l.expires_at,
         i.due_at AS new_due_at, i.expected_version,
         CASE WHEN i.changes_expiry THEN i.expires_at ELSE l.expires_at END AS new_expires_at,
         (SELECT count(DISTINCT o.attempt_no) FROM attempt_outcome o
          WHERE o.delivery_id = l.delivery_id AND o.outcome NOT IN ('unknown', 'overtaken')) AS definite_attempts
  FROM item i
  JOIN locked l ON l.delivery_id = i.delivery_id
  WHERE NOT EXISTS (SELECT FROM repeated p WHERE p.item = i.item)
  ORDER BY l.delivery_id, i.item
), judged AS MATERIALIZED (
  SELECT a.*, CASE
    WHEN a.state IN ('delivered', 'dead', 'expired', 'cancelled') THEN 'finished'
    WHEN a.expected_version <> a.version THEN 'stale'
    WHEN a.state = 'delivering' OR a.attempt_no > a.definite_attempts THEN 'too_late'
    WHEN a.state = 'held' THEN 'held'
    WHEN a.new_due_at = a.due_at AND a.new_expires_at IS NOT DISTINCT FROM a.expires_at THEN 'unchanged'
    WHEN a.new_expires_at <= GREATEST(a.new_due_at, now()) THEN 'invalid_expiry'
    ELSE 'rescheduled'
  END AS answer,
  a.new_due_at - make_interval(secs => CAST(:lookahead_seconds AS double precision)) AS new_wake_at
  FROM asked a
), receipt AS (
  INSERT INTO command_receipt (token, item, verb, answer, answered_at)
  SELECT CAST(:token AS uuid), j.item, 'reschedule', jsonb_build_object(
    'item', j.item, 'answer', j.answer, 'delivery_id', j.delivery_id,
    'near_due', j.state <> 'shadow' AND j.new_wake_at <= now(),
    'state', CASE WHEN j.answer = 'rescheduled' AND j.state <> 'shadow' THEN 'scheduled' ELSE j.state END,
    'due_at', CASE j.answer WHEN 'rescheduled' THEN j.new_due_at ELSE j.due_at END,
    'expires_at', CASE j.answer WHEN 'rescheduled' THEN j.new_expires_at ELSE j.expires_at END,
    'version', CASE j.answer WHEN 'rescheduled' THEN j.version + 1 ELSE j.version END), now()
  FROM judged j
  ORDER BY j.item
  ON CONFLICT DO NOTHING
  RETURNING item, answer
), rescheduled AS (
  UPDATE reminder_delivery r
  SET state = CASE r.state WHEN 'shadow' THEN 'shadow' ELSE 'scheduled' END,
      state_since = now(), version = r.version + 1, due_at = j.new_due_at, next_attempt_at = j.new_due_at,
      expires_at = j.new_expires_at,
      wake_at = CASE r.state WHEN 'shadow' THEN j.new_expires_at ELSE j.new_wake_at END,
      parked = false, lease_owner = NULL, lease_until = NULL, invitations = 0, first_invited_at = NULL,
      failures = 0, attempts_at_requeue = r.attempt_no
  FROM judged j
  JOIN receipt c ON c.item = j.item
  WHERE j.answer = 'rescheduled' AND r.delivery_id = j.delivery_id
)
SELECT CAST(COALESCE(p.answer, c.answer, jsonb_build_object(
  'item', i.item, 'answer', CASE WHEN l.delivery_id IS NULL THEN 'not_found' END)) AS text) AS answer
FROM item i
LEFT JOIN repeated p ON p.item = i.item
LEFT JOIN receipt c ON c.item = i.item
LEFT JOIN locked l ON l.delivery_id = i.delivery_id
ORDER BY i.item`,
  parameters: ({ token, producer, reminders }, settings) => ({
    token,
    producer,
    lookahead_seconds: String(settings.lookaheadSeconds),
    items: namesJson(reminders, (reminder) => ({
      due_at: reminder.dueAt,
      expires_at: reminder.expiresAt ?? null,
      changes_expiry: reminder.expiresAt !== undefined,
      expected_version: reminder.expectedVersion ?? null,
    })),
  }),
};
