// claim: takes what the calendar must look at now and claims, recovers, expires or parks each row.
import type { Worker } from '../../core/ports.ts';
import type { ClaimRow } from '../rows.ts';
import type { Statement } from '../statement.ts';

/**
 * One scan of the one index, so four verbs in one statement. Run again, the batch's own rows are answered. A twin that
 * is sent while its first run is under way waits for it; its plain INSERT of the token then fails with 23505, which
 * undoes whatever else it took, and it asks again.
 */
export const claim: Statement<
  { token: string; worker: Worker; limit: number; lowWater: string | null; only?: readonly string[] },
  ClaimRow
> = {
  name: 'claim',
  text: `
WITH turn AS MATERIALIZED (
  -- A twin waits here: it would skip the rows that its first run holds, and answer that there was nothing to do.
  SELECT pg_advisory_xact_lock(hashtextextended(CAST(:token AS text), 0))
), repeated AS MATERIALIZED (
  SELECT claimed, recovered, expired, parked, high_water FROM claim_batch WHERE token = CAST(:token AS uuid)
), candidate AS MATERIALIZED (
  SELECT r.delivery_id, r.state, r.wake_at, r.next_attempt_at, r.expires_at, r.lease_until, r.attempt_no, r.failures,
         r.attempts_at_requeue, r.cancel_requested_at, r.destination_id
  FROM reminder_delivery r
  WHERE r.wake_at <= now()
    -- Within one drain only: skips the dead index entries of rows already taken, which a pinned snapshot keeps.
    AND r.wake_at >= CAST(:low_water AS timestamptz)
    AND EXISTS (SELECT FROM turn) AND NOT EXISTS (SELECT FROM repeated)
    AND (CAST(:only AS jsonb) IS NULL OR r.delivery_id = ANY (ARRAY(
      SELECT CAST(x AS uuid) FROM jsonb_array_elements_text(CAST(:only AS jsonb)) AS x)))
    AND r.delivery_id <> ALL (ARRAY(SELECT x.delivery_id FROM claim_exclusion x WHERE x.readmitted_at IS NULL))
    -- A pause stops dispatch, not the closing of what was begun or has expired.
    AND (NOT COALESCE((SELECT g.paused FROM dispatch_gate g), true) OR r.state = 'delivering' OR r.expires_at <= now())
  ORDER BY r.wake_at
  LIMIT CAST(:limit AS integer)
  FOR NO KEY UPDATE SKIP LOCKED
), judged AS MATERIALIZED (
  SELECT c.*, d.contract,
         COALESCE(CAST(d.policy ->> 'maxFailures' AS integer), CAST(:max_failures AS integer)) AS max_failures,
         now() + retry_delay(c.failures, CAST(:retry_base_seconds AS double precision),
                             CAST(:retry_cap_seconds AS double precision), random(), NULL) AS retry_at,
         CASE
           WHEN c.state = 'delivering' THEN CASE WHEN c.lease_until <= now() THEN 'recover' END
           WHEN c.expires_at <= now() THEN 'expire'
           WHEN c.state IN ('held', 'shadow') THEN NULL
           WHEN d.state <> 'active' THEN 'park'
           ELSE 'claim'
         END AS verb
  FROM candidate c
  JOIN destination d ON d.destination_id = c.destination_id
), claimed AS (
  UPDATE reminder_delivery r
  SET state = 'dispatching', state_since = now(), parked = false, invitations = r.invitations + 1,
      lease_owner = CAST(:token AS uuid),
      lease_until = now() + make_interval(secs => CAST(:lease_seconds AS double precision)),
      wake_at = GREATEST(now(), r.next_attempt_at)
        + make_interval(secs => CAST(:allowance_seconds AS double precision) * power(2, LEAST(r.invitations, 5)))
  FROM judged j
  WHERE j.verb = 'claim' AND r.delivery_id = j.delivery_id
  RETURNING r.delivery_id
), parked AS (
  UPDATE reminder_delivery r
  SET state = 'scheduled', state_since = now(), parked = true, invitations = 0, first_invited_at = NULL,
      lease_owner = NULL, lease_until = NULL,
      -- Plain infinity would hide the expiry.
      wake_at = LEAST(CAST('infinity' AS timestamptz), r.expires_at)
  FROM judged j
  WHERE j.verb = 'park' AND r.delivery_id = j.delivery_id
  RETURNING r.delivery_id
), expired AS (
  UPDATE reminder_delivery r
  SET state = 'expired', state_since = now(), parked = false, hold_reason = NULL, wake_at = NULL,
      lease_owner = NULL, lease_until = NULL,
      last_error = COALESCE(r.last_error, 'expired before any attempt')
  FROM judged j
  WHERE j.verb = 'expire' AND r.delivery_id = j.delivery_id
  RETURNING r.delivery_id, r.version, r.state
), after_unknown AS MATERIALIZED (
  SELECT j.*, state_after_failure('unknown', j.contract, j.cancel_requested_at, j.expires_at,
                                  j.attempt_no - j.attempts_at_requeue, j.failures + 1,
                                  CAST(:attempt_hard_cap AS integer), j.max_failures, now(), j.retry_at) AS next_state
  FROM judged j
  WHERE j.verb = 'recover'
), closed_attempt AS (
  INSERT INTO attempt_outcome (delivery_id, attempt_no, token, recorded_by, recorded_at, outcome, error_class, detail,
                               moved_to)
  SELECT u.delivery_id, u.attempt_no, CAST(:token AS uuid), 'recover', now(), 'unknown', 'lease_expired',
         'the sender did not report before its lease passed', u.next_state
  FROM after_unknown u
), recovered AS (
  UPDATE reminder_delivery r
  SET state = u.next_state, state_since = now(), failures = r.failures + 1, invitations = 0, first_invited_at = NULL,
      lease_owner = NULL, lease_until = NULL,
      hold_reason = CASE u.next_state WHEN 'held' THEN
        'outcome unknown, and the destination does not promise to honour a repeated key' END,
      next_attempt_at = CASE u.next_state WHEN 'scheduled' THEN u.retry_at ELSE r.next_attempt_at END,
      wake_at = CASE u.next_state
        WHEN 'scheduled' THEN u.retry_at - make_interval(secs => CAST(:lookahead_seconds AS double precision))
        WHEN 'held' THEN r.expires_at
      END,
      last_error = 'lease_expired: may have been processed'
  FROM after_unknown u
  WHERE r.delivery_id = u.delivery_id
  RETURNING r.delivery_id, r.version, r.state
), announced AS (
  INSERT INTO lifecycle_event (delivery_id, version, state, occurred_at)
  SELECT f.delivery_id, f.version, f.state, now()
  FROM (SELECT * FROM expired UNION ALL SELECT * FROM recovered) f
  WHERE f.state IN ('dead', 'expired', 'cancelled')
  ORDER BY f.delivery_id
  ON CONFLICT DO NOTHING
), batch AS (
  INSERT INTO claim_batch (token, claimed, recovered, expired, parked, high_water, request_id, log_stream, claimed_at)
  SELECT CAST(:token AS uuid),
         ARRAY(SELECT delivery_id FROM claimed ORDER BY delivery_id),
         ARRAY(SELECT delivery_id FROM recovered ORDER BY delivery_id),
         ARRAY(SELECT delivery_id FROM expired ORDER BY delivery_id),
         ARRAY(SELECT delivery_id FROM parked ORDER BY delivery_id),
         (SELECT max(wake_at) FROM judged), CAST(:request_id AS text), CAST(:log_stream AS text), now()
  -- Also when nothing was found: a twin whose snapshot is older than its first run's rows must collide with them.
  WHERE EXISTS (SELECT FROM turn) AND NOT EXISTS (SELECT FROM repeated)
  RETURNING claimed, recovered, expired, parked, high_water
), answered AS MATERIALIZED (
  SELECT * FROM batch UNION ALL SELECT * FROM repeated
)
SELECT CAST(line.answer AS text) AS answer
FROM (
  SELECT 0 AS place, NULL AS delivery_id,
         json_build_object('answer', 'high_water', 'at', CAST(a.high_water AS text)) AS answer
  FROM answered a
  UNION ALL
  -- Run again, the statement must not take the rows' time from a CTE that was not filled: it reads the rows.
  SELECT 1, c.delivery_id, json_build_object(
    'answer', 'claimed', 'delivery_id', c.delivery_id,
    'due_in_ms', floor(extract(epoch FROM c.next_attempt_at - now()) * 1000),
    'not_before', ceil(extract(epoch FROM c.next_attempt_at) * 1000))
  FROM (
    SELECT j.delivery_id, j.next_attempt_at FROM judged j WHERE j.verb = 'claim'
    UNION ALL
    SELECT r.delivery_id, r.next_attempt_at FROM reminder_delivery r
    WHERE r.delivery_id = ANY (ARRAY(SELECT unnest(p.claimed) FROM repeated p))
  ) c
  UNION ALL
  SELECT 2, id, json_build_object('answer', 'recovered', 'delivery_id', id) FROM answered a, unnest(a.recovered) AS id
  UNION ALL
  SELECT 3, id, json_build_object('answer', 'expired', 'delivery_id', id) FROM answered a, unnest(a.expired) AS id
  UNION ALL
  SELECT 4, id, json_build_object('answer', 'parked', 'delivery_id', id) FROM answered a, unnest(a.parked) AS id
) AS line
ORDER BY line.place, line.delivery_id`,
  parameters: ({ token, worker, limit, lowWater, only }, settings) => ({
    token,
    limit,
    only: only === undefined ? null : JSON.stringify(only),
    low_water: lowWater ?? '-infinity',
    request_id: worker.requestId,
    log_stream: worker.logStream,
    lease_seconds: String(settings.leaseSeconds),
    allowance_seconds: String(settings.allowanceSeconds),
    lookahead_seconds: String(settings.lookaheadSeconds),
    retry_base_seconds: String(settings.retryBaseSeconds),
    retry_cap_seconds: String(settings.retryCapSeconds),
    max_failures: settings.maxFailures,
    attempt_hard_cap: settings.attemptHardCap,
  }),
};
