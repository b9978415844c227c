// claim-by-id: claims the named rows at once when they are close to due; the tick is their safety net.
import type { Worker } from '../../core/ports.ts';
import type { ClaimRow } from '../rows.ts';
import type { Statement } from '../statement.ts';

/** Takes nothing that a claim, a pause, an inactive destination or an expiry stands in the way of. */
export const claimById: Statement<{ token: string; worker: Worker; deliveryIds: readonly string[] }, ClaimRow> = {
  name: 'claim-by-id',
  text: `
WITH turn AS MATERIALIZED (
  -- A twin waits here: it would skip the rows that its first run holds, and answer that there was nothing to do.
  SELECT pg_advisory_xact_lock(hashtextextended(CAST(:token AS text), 0))
), repeated AS MATERIALIZED (
  SELECT claimed FROM claim_batch WHERE token = CAST(:token AS uuid)
), candidate AS MATERIALIZED (
  SELECT r.delivery_id, r.next_attempt_at, r.wake_at
  FROM reminder_delivery r
  JOIN destination d ON d.destination_id = r.destination_id
  WHERE r.delivery_id = ANY (ARRAY(
      SELECT CAST(x AS uuid) FROM jsonb_array_elements_text(CAST(:deliveries AS jsonb)) AS x))
    AND r.state = 'scheduled' AND r.wake_at <= now()
    AND (r.expires_at IS NULL OR r.expires_at > now())
    AND d.state = 'active'
    AND NOT COALESCE((SELECT g.paused FROM dispatch_gate g), true)
    AND EXISTS (SELECT FROM turn) AND NOT EXISTS (SELECT FROM repeated)
  ORDER BY r.delivery_id
  FOR NO KEY UPDATE OF r SKIP LOCKED
), claimed AS (
  UPDATE reminder_delivery r
  SET state = 'dispatching', state_since = now(), invitations = r.invitations + 1,
      lease_owner = CAST(:token AS uuid),
      lease_until = now() + make_interval(secs => CAST(:lease_seconds AS double precision)),
      wake_at = GREATEST(now(), r.next_attempt_at)
        + make_interval(secs => CAST(:allowance_seconds AS double precision) * power(2, LEAST(r.invitations, 5)))
  FROM candidate c
  WHERE r.delivery_id = c.delivery_id
  RETURNING r.delivery_id
), batch AS (
  INSERT INTO claim_batch (token, claimed, recovered, expired, parked, high_water, request_id, log_stream, claimed_at)
  SELECT CAST(:token AS uuid), ARRAY(SELECT delivery_id FROM claimed ORDER BY delivery_id), '{}', '{}', '{}',
         (SELECT max(wake_at) FROM candidate), CAST(:request_id AS text), CAST(:log_stream AS text), now()
  -- Also when nothing was found: a twin whose snapshot is older than its first run's rows must collide with them.
  WHERE EXISTS (SELECT FROM turn) AND NOT EXISTS (SELECT FROM repeated)
)
SELECT CAST(json_build_object(
  'answer', 'claimed', 'delivery_id', c.delivery_id,
  'due_in_ms', floor(extract(epoch FROM c.next_attempt_at - now()) * 1000),
  'not_before', ceil(extract(epoch FROM c.next_attempt_at) * 1000)) AS text) AS answer
FROM (
  SELECT delivery_id, next_attempt_at FROM candidate
  UNION ALL
  SELECT r.delivery_id, r.next_attempt_at FROM reminder_delivery r
  WHERE r.delivery_id = ANY (ARRAY(SELECT unnest(p.claimed) FROM repeated p))
) c
ORDER BY c.delivery_id`,
  parameters: ({ token, worker, deliveryIds }, settings) => ({
    token,
    deliveries: JSON.stringify(deliveryIds),
    request_id: worker.requestId,
    log_stream: worker.logStream,
    lease_seconds: String(settings.leaseSeconds),
    allowance_seconds: String(settings.allowanceSeconds),
  }),
};
