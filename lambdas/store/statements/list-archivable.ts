// list-archivable: one page of a producer's finished reminders that are past their retention, each with all its evidence.
import type { Statement } from '../statement.ts';

export interface ArchivableQuery {
  readonly producer: string;
  /** Seconds from the later of its last due time and its end. */
  readonly retentionSeconds: number;
  /** The most reminders; fewer come when they are large. */
  readonly limit: number;
  /** The last of the page before; null for the first page. */
  readonly after: { readonly nextAttemptAt: string; readonly deliveryId: string } | null;
}

export type ArchivableRow = { readonly delivery_id: string } & (
  | {
      readonly answer: 'reminder';
      readonly version: number;
      readonly state_since: string;
      readonly next_attempt_at: string;
      readonly payload: string;
    }
  | { readonly answer: 'attempt'; readonly outcomes: readonly object[] | null }
  | { readonly answer: 'handoff' }
);

/**
 * Locks nothing: `archive` judges again. After the row of a reminder come those of its attempts and of its handoffs: in one
 * row they could pass the Data API's 64 KB. All are measured as the answer carries them, and a page stays below its
 * 1 MiB; its first reminder comes however large it is.
 */
export const listArchivable: Statement<ArchivableQuery, ArchivableRow> = {
  name: 'list-archivable',
  text: `
WITH found AS MATERIALIZED (
  SELECT r.*, row_number() OVER (ORDER BY r.next_attempt_at, r.delivery_id) AS place
  FROM reminder_delivery r
  WHERE r.producer = CAST(:producer AS text)
    AND r.wake_at IS NULL AND r.archived_at IS NULL AND r.unreviewed_since IS NULL
    AND (r.next_attempt_at, r.delivery_id) > (CAST(:after_at AS timestamptz), CAST(:after_id AS uuid))
    AND r.next_attempt_at <= now() - make_interval(secs => CAST(:retention_seconds AS bigint))
    AND r.state_since <= now() - make_interval(secs => CAST(:retention_seconds AS bigint))
    AND r.state IN ('delivered', 'dead', 'expired', 'cancelled')
    AND NOT EXISTS (
      SELECT FROM delivery_attempt a
      WHERE a.delivery_id = r.delivery_id AND NOT EXISTS (
        SELECT FROM attempt_outcome o WHERE o.delivery_id = a.delivery_id AND o.attempt_no = a.attempt_no))
    AND NOT EXISTS (
      SELECT FROM lifecycle_event e WHERE e.delivery_id = r.delivery_id AND e.announced_at IS NULL)
  ORDER BY r.next_attempt_at, r.delivery_id
  LIMIT CAST(:limit AS integer)
), line AS MATERIALIZED (
  SELECT f.place, 1 AS part, f.created_at AS at, CAST(json_build_object(
    'answer', 'reminder', 'delivery_id', f.delivery_id, 'key', f.idempotency_key, 'producer', f.producer,
    'user_id', f.user_id, 'destination_id', f.destination_id, 'state', f.state, 'state_since', f.state_since,
    'version', f.version, 'created_at', f.created_at, 'due_at', f.due_at, 'next_attempt_at', f.next_attempt_at,
    'expires_at', f.expires_at, 'delivered_at', f.delivered_at, 'cancel_requested_at', f.cancel_requested_at,
    'reviewed_at', f.reviewed_at, 'attempt_no', f.attempt_no, 'failures', f.failures, 'last_error', f.last_error,
    'request_fingerprint', f.request_fingerprint, 'payload_sha256', encode(f.payload_sha256, 'hex')) AS text) AS answer,
    encode(convert_to(f.payload, 'UTF8'), 'base64') AS payload
  FROM found f
  UNION ALL
  SELECT f.place, 2, a.started_at, CAST(json_build_object(
    'answer', 'attempt', 'delivery_id', a.delivery_id, 'attempt_no', a.attempt_no, 'version', a.version,
    'lease_owner', a.lease_owner, 'lease_until', a.lease_until, 'started_at', a.started_at,
    'destination_host', a.destination_host, 'function_version', a.function_version, 'request_id', a.request_id,
    'log_stream', a.log_stream,
    'outcomes', (
      SELECT json_agg(json_build_object(
        'recorded_by', o.recorded_by, 'recorded_at', o.recorded_at, 'outcome', o.outcome, 'phase', o.phase,
        'status', o.status, 'error_class', o.error_class, 'detail', o.detail, 'latency_ms', o.latency_ms,
        'moved_to', o.moved_to) ORDER BY o.recorded_at, o.token)
      FROM attempt_outcome o
      WHERE o.delivery_id = a.delivery_id AND o.attempt_no = a.attempt_no)) AS text), NULL
  FROM found f
  JOIN delivery_attempt a ON a.delivery_id = f.delivery_id
  UNION ALL
  SELECT f.place, 3, h.recorded_at, CAST(json_build_object(
    'answer', 'handoff', 'delivery_id', h.delivery_id, 'message_id', h.message_id, 'queue', h.queue, 'token', h.token,
    'visible_from', h.visible_from, 'moved', h.moved, 'recorded_at', h.recorded_at) AS text), NULL
  FROM found f
  JOIN handoff h ON h.delivery_id = f.delivery_id
), page AS MATERIALIZED (
  SELECT l.place, sum(sum(octet_length(CAST(to_json(l.answer) AS text)) + COALESCE(octet_length(l.payload), 0)))
    OVER (ORDER BY l.place) AS size
  FROM line l
  GROUP BY l.place
)
SELECT l.answer, l.payload
FROM line l
JOIN page g ON g.place = l.place
WHERE g.place = 1 OR g.size <= 900000
ORDER BY l.place, l.part, l.at, l.answer`,
  parameters: ({ producer, retentionSeconds, limit, after }) => ({
    producer,
    retention_seconds: retentionSeconds,
    after_at: after?.nextAttemptAt ?? '-infinity',
    after_id: after?.deliveryId ?? '00000000-0000-0000-0000-000000000000',
    limit,
  }),
};
