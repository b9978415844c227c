// open: commits the intent of an attempt and takes the sender's lease, or says why not.
import type { DeliveryState } from '../../core/delivery-states.ts';
import type { OpenRefusal, Worker } from '../../core/ports.ts';
import type { Statement } from '../statement.ts';

export type OpenRow =
  | {
      readonly answer: 'opened';
      readonly delivery_id: string;
      readonly attempt_no: number;
      readonly key: string;
      readonly destination: string;
      readonly url: string;
      readonly deadline_ms: number | null;
      readonly payload: string;
    }
  | {
      readonly answer: OpenRefusal;
      readonly delivery_id: string;
      readonly state: DeliveryState | null;
      readonly due_in_ms: number | null;
    };

/**
 * Decides by the database's clock whether a reminder may be sent now. A token opens once: run again it answers for the
 * rows it holds and opens nothing new, also after one of them was recovered.
 */
export const open: Statement<
  { token: string; worker: Worker; deliveryIds: readonly string[]; alone?: boolean },
  OpenRow
> = {
  name: 'open',
  text: `
WITH asked AS MATERIALIZED (
  SELECT DISTINCT CAST(x AS uuid) AS delivery_id
  FROM jsonb_array_elements_text(CAST(:deliveries AS jsonb)) AS x
), locked AS MATERIALIZED (
  SELECT r.delivery_id, r.state, r.version, r.idempotency_key, r.payload, r.attempt_no, r.lease_owner, r.next_attempt_at,
         r.expires_at, d.name AS destination, d.url, d.deadline_ms,
         d.state = 'active' AND NOT COALESCE((SELECT g.paused FROM dispatch_gate g), true) AS dispatch_on,
         -- Its last sender never reported: if it was this row that killed it, it must take no other attempt with it.
         r.attempt_no > 0 AND EXISTS (
           SELECT FROM attempt_outcome o
           WHERE o.delivery_id = r.delivery_id AND o.attempt_no = r.attempt_no AND o.recorded_by = 'recover') AS suspect
  FROM reminder_delivery r
  JOIN destination d ON d.destination_id = r.destination_id
  WHERE r.delivery_id = ANY (ARRAY(SELECT delivery_id FROM asked))
  ORDER BY r.delivery_id
  FOR NO KEY UPDATE OF r
), token AS MATERIALIZED (
  SELECT EXISTS (
    SELECT FROM delivery_attempt a
    WHERE a.delivery_id = ANY (ARRAY(SELECT delivery_id FROM asked)) AND a.lease_owner = CAST(:token AS uuid))
  -- A twin that ran while this one waited for the rows is not in the snapshot, but its leases are on the locked rows.
  OR EXISTS (SELECT FROM locked WHERE state = 'delivering' AND lease_owner = CAST(:token AS uuid))
  -- Or it opened none.
  OR EXISTS (SELECT FROM command_receipt c WHERE c.token = CAST(:token AS uuid)) AS used
), judged AS MATERIALIZED (
  SELECT l.*, CASE
    WHEN l.state = 'delivering' THEN
      CASE WHEN l.lease_owner = CAST(:token AS uuid) THEN 'opened' ELSE 'leased' END
    WHEN l.state IN ('shadow', 'held', 'scheduled') THEN 'not_claimed'
    WHEN l.state = 'expired' THEN 'expired'
    WHEN l.state NOT IN ('dispatching', 'queued') THEN 'finished'
    WHEN l.expires_at <= now() THEN CASE WHEN t.used THEN 'token_used' ELSE 'expire' END
    WHEN NOT l.dispatch_on THEN 'paused'
    WHEN l.next_attempt_at > now() THEN 'not_due'
    WHEN l.suspect AND NOT CAST(:alone AS boolean) THEN 'alone'
    WHEN t.used THEN 'token_used'
    ELSE 'open'
  END AS verdict
  FROM locked l, token t
), opened AS (
  UPDATE reminder_delivery r
  SET state = 'delivering', state_since = now(), attempt_no = r.attempt_no + 1, lease_owner = CAST(:token AS uuid),
      lease_until = now() + make_interval(secs => CAST(:lease_seconds AS double precision)),
      -- Unchanged while the claim's allowance covers the lease: then the update stays HOT.
      wake_at = GREATEST(r.wake_at, now() + make_interval(secs => CAST(:lease_seconds AS double precision)))
  FROM judged j
  WHERE j.verdict = 'open' AND r.delivery_id = j.delivery_id
  RETURNING r.delivery_id, r.attempt_no, r.version, r.lease_until
), intent AS (
  INSERT INTO delivery_attempt (delivery_id, attempt_no, version, lease_owner, lease_until, started_at, destination_host,
                                function_version, request_id, log_stream)
  SELECT o.delivery_id, o.attempt_no, o.version, CAST(:token AS uuid), o.lease_until, now(),
         substring(j.url FROM '^[a-z]+://([^/?#]+)'), CAST(:function_version AS text), CAST(:request_id AS text),
         CAST(:log_stream AS text)
  FROM opened o
  JOIN judged j ON j.delivery_id = o.delivery_id
), noted AS (
  -- What leaves no attempt leaves its token here. Run again late it opens nothing, and brings nothing forward once more:
  -- the rows may have been claimed since.
  INSERT INTO command_receipt (token, item, verb, answer, answered_at)
  SELECT CAST(:token AS uuid), 0, 'open', '{}', now()
  WHERE NOT (SELECT t.used FROM token t)
    AND (EXISTS (SELECT FROM judged WHERE verdict = 'alone') OR NOT EXISTS (SELECT FROM judged WHERE verdict = 'open'))
  ON CONFLICT DO NOTHING
  RETURNING token
), brought_forward AS (
  -- If this sender finds no time for it alone, it is invited again soon, not when its long allowance has passed.
  UPDATE reminder_delivery r
  SET wake_at = LEAST(r.wake_at, now() + make_interval(secs => CAST(:lease_seconds AS double precision)))
  FROM judged j
  WHERE j.verdict = 'alone' AND r.delivery_id = j.delivery_id AND EXISTS (SELECT FROM noted)
), expired AS (
  UPDATE reminder_delivery r
  SET state = 'expired', state_since = now(), wake_at = NULL, lease_owner = NULL, lease_until = NULL,
      last_error = COALESCE(r.last_error, 'expired before any attempt')
  FROM judged j
  WHERE j.verdict = 'expire' AND r.delivery_id = j.delivery_id
  RETURNING r.delivery_id, r.version, r.state
), announced AS (
  INSERT INTO lifecycle_event (delivery_id, version, state, occurred_at)
  SELECT delivery_id, version, state, now() FROM expired ORDER BY delivery_id
  ON CONFLICT DO NOTHING
)
SELECT
  CAST(CASE
    WHEN j.verdict IN ('open', 'opened') THEN json_build_object(
      'answer', 'opened', 'delivery_id', j.delivery_id, 'attempt_no', COALESCE(o.attempt_no, j.attempt_no),
      'key', j.idempotency_key, 'destination', j.destination, 'url', j.url, 'deadline_ms', j.deadline_ms)
    ELSE json_build_object(
      'answer', CASE j.verdict WHEN 'expire' THEN 'expired' ELSE COALESCE(j.verdict, 'not_found') END,
      'delivery_id', a.delivery_id, 'state', CASE j.verdict WHEN 'expire' THEN 'expired' ELSE j.state END,
      'due_in_ms', ceil(extract(epoch FROM j.next_attempt_at - now()) * 1000))
  END AS text) AS answer,
  CASE WHEN j.verdict IN ('open', 'opened') THEN encode(convert_to(j.payload, 'UTF8'), 'base64') END AS payload
FROM asked a
LEFT JOIN judged j ON j.delivery_id = a.delivery_id
LEFT JOIN opened o ON o.delivery_id = a.delivery_id
ORDER BY a.delivery_id`,
  parameters: ({ token, worker, deliveryIds, alone = deliveryIds.length === 1 }, settings) => ({
    token,
    deliveries: JSON.stringify(deliveryIds),
    alone: String(alone),
    lease_seconds: String(settings.leaseSeconds),
    function_version: worker.functionVersion,
    request_id: worker.requestId,
    log_stream: worker.logStream,
  }),
};
