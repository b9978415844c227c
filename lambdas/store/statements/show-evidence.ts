// show-evidence: everything the ledger knows of one reminder, in the order in which it happened.
import type { DeliveryState } from '../../core/delivery-states.ts';
import type { EvidenceName, RecordedOutcome, ReminderEvidence } from '../../core/reminder-evidence.ts';
import type { Statement } from '../statement.ts';

export type EvidenceRow =
  | {
      readonly answer: 'reminder';
      readonly at: string;
      readonly delivery_id: string;
      readonly key: string;
      readonly producer: string;
      readonly destination: string;
      readonly destination_state: ReminderEvidence['destination']['state'];
      readonly destination_state_since: string;
      readonly destination_state_reason: string | null;
      readonly destination_owner: string;
      readonly contract: ReminderEvidence['destination']['contract'];
      readonly dedup_window_seconds: number | null;
      readonly paused_since: string | null;
      readonly pause_reason: string | null;
      readonly state: DeliveryState;
      readonly state_since: string;
      readonly version: number;
      readonly due_at: string;
      readonly next_attempt_at: string;
      readonly expires_at: string | null;
      readonly wake_at: string | null;
      readonly parked: boolean;
      readonly attempts: number;
      readonly failures: number;
      readonly invitations: number;
      readonly first_invited_at: string | null;
      readonly lease_owner: string | null;
      readonly lease_until: string | null;
      readonly reviewed_at: string | null;
      readonly unreviewed_since: string | null;
      readonly archived_at: string | null;
      readonly hold_reason: string | null;
      readonly cancel_requested_at: string | null;
      readonly last_error: string | null;
      readonly delivered_at: string | null;
      readonly payload_sha256: string;
      readonly now: string;
    }
  | {
      readonly answer: 'handoff';
      readonly at: string;
      readonly message_id: string;
      readonly queue: string;
      readonly visible_from: string;
    }
  | {
      readonly answer: 'attempt';
      readonly at: string;
      readonly attempt_no: number;
      readonly version: number;
      readonly host: string;
      readonly lease_until: string;
      readonly function_version: string;
      readonly request_id: string;
      readonly log_stream: string;
    }
  | {
      readonly answer: 'outcome';
      readonly at: string;
      readonly attempt_no: number;
      readonly recorded_by: RecordedOutcome['recordedBy'];
      readonly outcome: RecordedOutcome['outcome'];
      readonly phase: RecordedOutcome['phase'];
      readonly status: number | null;
      readonly error_class: string | null;
      readonly detail: string | null;
      readonly latency_ms: number | null;
      readonly moved_to: DeliveryState | null;
    }
  | {
      readonly answer: 'exclusion';
      readonly at: string;
      readonly sql_state: string;
      readonly reason: string;
      readonly readmitted_at: string | null;
    };

/** For operators: of any producer, unless one is named. No row: no such reminder. */
export const showEvidence: Statement<EvidenceName, EvidenceRow> = {
  name: 'show-evidence',
  text: `
WITH found AS MATERIALIZED (
  -- Named one by one: whoever explains a reminder need not be able to read its payload.
  SELECT r.delivery_id, r.idempotency_key, r.producer, r.destination_id, r.state, r.state_since, r.version, r.created_at,
         r.due_at, r.next_attempt_at, r.expires_at, r.wake_at, r.parked, r.attempt_no, r.failures, r.invitations,
         r.first_invited_at, r.lease_owner, r.lease_until, r.hold_reason, r.cancel_requested_at, r.reviewed_at,
         r.unreviewed_since, r.last_error, r.delivered_at, r.archived_at, r.payload_sha256
  FROM reminder_delivery r
  WHERE r.delivery_id = COALESCE(
      CAST(:delivery_id AS uuid),
      (SELECT k.delivery_id FROM reminder_delivery k WHERE k.idempotency_key = CAST(:key AS text)))
    AND (CAST(:producer AS text) IS NULL OR r.producer = CAST(:producer AS text))
)
SELECT CAST(line.answer AS text) AS answer
FROM (
  SELECT f.created_at AS at, 0 AS place, json_build_object(
    'answer', 'reminder', 'at', f.created_at, 'delivery_id', f.delivery_id, 'key', f.idempotency_key,
    'producer', f.producer, 'destination', d.name, 'destination_state', d.state,
    'destination_state_since', d.state_since, 'destination_state_reason', d.state_reason, 'destination_owner', d.owner,
    'contract', d.contract, 'dedup_window_seconds', d.dedup_window_seconds,
    -- Without its row the gate counts as closed, as for a claim.
    'paused_since', CASE WHEN g.paused IS NOT FALSE THEN COALESCE(g.paused_since, now()) END, 'pause_reason', g.reason,
    'state', f.state,
    'state_since', f.state_since, 'version', f.version, 'due_at', f.due_at, 'next_attempt_at', f.next_attempt_at,
    'expires_at', f.expires_at, 'wake_at', CASE WHEN isfinite(f.wake_at) THEN f.wake_at END, 'parked', f.parked,
    'attempts', f.attempt_no, 'failures', f.failures, 'invitations', f.invitations,
    'first_invited_at', f.first_invited_at, 'lease_owner', f.lease_owner, 'lease_until', f.lease_until,
    'reviewed_at', f.reviewed_at, 'unreviewed_since', f.unreviewed_since, 'archived_at', f.archived_at,
    'hold_reason', f.hold_reason,
    'cancel_requested_at', f.cancel_requested_at, 'last_error', f.last_error, 'delivered_at', f.delivered_at,
    'payload_sha256', encode(f.payload_sha256, 'hex'), 'now', now()) AS answer
  FROM found f JOIN destination d ON d.destination_id = f.destination_id LEFT JOIN dispatch_gate g ON true
  UNION ALL
  SELECT h.recorded_at, 1, json_build_object(
    'answer', 'handoff', 'at', h.recorded_at, 'message_id', h.message_id, 'queue', h.queue,
    'visible_from', h.visible_from)
  FROM handoff h JOIN found f ON f.delivery_id = h.delivery_id
  UNION ALL
  SELECT a.started_at, 2, json_build_object(
    'answer', 'attempt', 'at', a.started_at, 'attempt_no', a.attempt_no, 'version', a.version,
    'host', a.destination_host, 'lease_until', a.lease_until, 'function_version', a.function_version,
    'request_id', a.request_id, 'log_stream', a.log_stream)
  FROM delivery_attempt a JOIN found f ON f.delivery_id = a.delivery_id
  UNION ALL
  SELECT o.recorded_at, 3, json_build_object(
    'answer', 'outcome', 'at', o.recorded_at, 'attempt_no', o.attempt_no, 'recorded_by', o.recorded_by,
    'outcome', o.outcome, 'phase', o.phase, 'status', o.status, 'error_class', o.error_class,
    'detail', o.detail, 'latency_ms', o.latency_ms, 'moved_to', o.moved_to)
  FROM attempt_outcome o JOIN found f ON f.delivery_id = o.delivery_id
  UNION ALL
  SELECT x.excluded_at, 4, json_build_object(
    'answer', 'exclusion', 'at', x.excluded_at, 'sql_state', x.sql_state, 'reason', x.reason,
    'readmitted_at', x.readmitted_at)
  FROM claim_exclusion x JOIN found f ON f.delivery_id = x.delivery_id
) AS line
ORDER BY line.at, line.place`,
  parameters: (name) => ({
    delivery_id: 'deliveryId' in name ? name.deliveryId : null,
    key: 'key' in name ? name.key : null,
    producer: name.producer ?? null,
  }),
};
