// list-archivable: one page of finished reminders that are past the retention policy, each with all its evidence.
import type { Statement } from '../statement.ts';

export interface ArchivableQuery {
  /** Seconds from the later of its last due time and its end. */
  readonly retentionSeconds: number;
  /** Instead of it, by producer. */
  readonly byProducer: Readonly<Record<string, number>>;
  /** The most reminders; fewer come when they are large. */
  readonly limit: number;
  /** The last of the page before; null for the first page. */
  readonly after: { readonly nextAttemptAt: string; readonly deliveryId: string } | null;
}

export type ArchivableRow =
  | {
      readonly answer: 'reminder';
      readonly delivery_id: string;
      readonly version: number;
      readonly next_attempt_at: string;
      readonly payload: string;
      readonly [column: string]: unknown;
    }
  | {
      readonly answer: 'attempt';
      readonly delivery_id: string;
      readonly attempt_no: number;
      readonly outcomes: readonly object[];
      readonly [column: string]: unknown;
    };

/**
 * Locks nothing: `archive` judges again. A page stays below the 1 MiB of an answer of the Data API: each reminder counts
 * as its payload in base64 and 2 KB, and 2 KB more an attempt; the first comes however large it is.
 */
export const listArchivable: Statement<ArchivableQuery, ArchivableRow> = {
  name: 'list-archivable',
  text: `
WITH policy AS MATERIALIZED (
  SELECT p.producer, p.seconds
  FROM jsonb_to_recordset(CAST(:policies AS jsonb)) AS p (producer text, seconds bigint)
), found AS MATERIALIZED (
  SELECT r.*, octet_length(r.payload) * 4 / 3 + 2000 * (1 + r.attempt_no) AS size
  FROM reminder_delivery r
  LEFT JOIN policy p ON p.producer = r.producer
  WHERE r.wake_at IS NULL AND r.archived_at IS NULL
    AND (r.next_attempt_at, r.delivery_id) > (CAST(:after_at AS timestamptz), CAST(:after_id AS uuid))
    AND r.next_attempt_at <= now() - make_interval(secs => CAST(:shortest_seconds AS bigint))
    AND GREATEST(r.next_attempt_at, r.state_since)
      <= now() - make_interval(secs => COALESCE(p.seconds, CAST(:retention_seconds AS bigint)))
    AND r.state IN ('delivered', 'dead', 'expired', 'cancelled')
    AND r.unreviewed_since IS NULL
    AND NOT EXISTS (
      SELECT FROM delivery_attempt a
      WHERE a.delivery_id = r.delivery_id AND NOT EXISTS (
        SELECT FROM attempt_outcome o WHERE o.delivery_id = a.delivery_id AND o.attempt_no = a.attempt_no))
  ORDER BY r.next_attempt_at, r.delivery_id
  LIMIT CAST(:limit AS integer)
), measured AS MATERIALIZED (
  SELECT f.*, row_number() OVER in_turn AS place, sum(f.size) OVER in_turn AS total
  FROM found f
  WINDOW in_turn AS (ORDER BY f.next_attempt_at, f.delivery_id)
), page AS MATERIALIZED (
  SELECT * FROM measured WHERE place = 1 OR total <= 800000
)
SELECT line.answer, line.payload
FROM (
  SELECT g.place, 0 AS attempt_no, CAST(json_build_object(
    'answer', 'reminder', 'delivery_id', g.delivery_id, 'key', g.idempotency_key, 'producer', g.producer,
    'user_id', g.user_id, 'destination_id', g.destination_id, 'state', g.state, 'state_since', g.state_since,
    'version', g.version, 'created_at', g.created_at, 'due_at', g.due_at, 'next_attempt_at', g.next_attempt_at,
    'expires_at', g.expires_at, 'delivered_at', g.delivered_at, 'cancel_requested_at', g.cancel_requested_at,
    'failures', g.failures, 'last_error', g.last_error, 'request_fingerprint', g.request_fingerprint,
    'payload_sha256', encode(g.payload_sha256, 'hex')) AS text) AS answer,
    encode(convert_to(g.payload, 'UTF8'), 'base64') AS payload
  FROM page g
  UNION ALL
  SELECT g.place, a.attempt_no, CAST(json_build_object(
    'answer', 'attempt', 'delivery_id', a.delivery_id, 'attempt_no', a.attempt_no, 'version', a.version,
    'started_at', a.started_at, 'destination_host', a.destination_host, 'function_version', a.function_version,
    'request_id', a.request_id, 'log_stream', a.log_stream,
    'outcomes', (
      SELECT json_agg(json_build_object(
        'recorded_by', o.recorded_by, 'recorded_at', o.recorded_at, 'outcome', o.outcome, 'phase', o.phase,
        'status', o.status, 'error_class', o.error_class, 'detail', o.detail, 'latency_ms', o.latency_ms,
        'moved_to', o.moved_to) ORDER BY o.recorded_at, o.token)
      FROM attempt_outcome o
      WHERE o.delivery_id = a.delivery_id AND o.attempt_no = a.attempt_no)) AS text), NULL
  FROM page g
  JOIN delivery_attempt a ON a.delivery_id = g.delivery_id
) AS line
ORDER BY line.place, line.attempt_no`,
  parameters: ({ retentionSeconds, byProducer, limit, after }) => ({
    policies: JSON.stringify(Object.entries(byProducer).map(([producer, seconds]) => ({ producer, seconds }))),
    retention_seconds: retentionSeconds,
    shortest_seconds: Math.min(retentionSeconds, ...Object.values(byProducer)),
    after_at: after?.nextAttemptAt ?? '-infinity',
    after_id: after?.deliveryId ?? '00000000-0000-0000-0000-000000000000',
    limit,
  }),
};
