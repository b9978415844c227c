// settle: records what became of attempts and moves the rows whose fate that decides.
import type { DeliveryState } from '../../core/delivery-states.ts';
import type { Outcome } from '../../core/ports.ts';
import type { Statement } from '../statement.ts';

export interface SettleRow {
  readonly delivery_id: string;
  readonly attempt_no: number;
  /** null: a twin of this command recorded the outcome meanwhile; ask again. */
  readonly answer: 'moved' | 'recorded' | 'not_opened' | null;
  readonly state: DeliveryState | null;
}

/**
 * A 2xx of an attempt that the ledger opened wins whoever holds the lease now; any other outcome moves the row only
 * under its own lease and attempt. Either way the outcome is kept.
 */
export const settle: Statement<{ token: string; outcomes: readonly Outcome[] }, SettleRow> = {
  name: 'settle',
  text: `
WITH item AS MATERIALIZED (
  SELECT CAST(x.delivery_id AS uuid) AS delivery_id, x.attempt_no, CAST(x.open_token AS uuid) AS open_token, x.outcome,
         x.phase, x.status, x.error_class, x.detail, x.latency_ms, x.retry_after_seconds
  FROM jsonb_to_recordset(CAST(:outcomes AS jsonb)) AS x (
    delivery_id text, attempt_no integer, open_token text, outcome text, phase text, status integer, error_class text,
    detail text, latency_ms integer, retry_after_seconds double precision)
), locked AS MATERIALIZED (
  SELECT r.delivery_id, r.state, r.version, r.lease_owner, r.attempt_no, r.attempts_at_requeue, r.failures,
         r.cancel_requested_at, r.expires_at, r.destination_id
  FROM reminder_delivery r
  WHERE r.delivery_id = ANY (ARRAY(SELECT delivery_id FROM item))
  ORDER BY r.delivery_id
  FOR NO KEY UPDATE
), repeated AS MATERIALIZED (
  SELECT o.delivery_id, o.attempt_no, o.moved_to
  FROM attempt_outcome o
  WHERE o.delivery_id = ANY (ARRAY(SELECT delivery_id FROM item)) AND o.token = CAST(:token AS uuid)
), timed AS MATERIALIZED (
  SELECT i.*, l.state, l.version, l.lease_owner, l.attempt_no AS present_attempt, l.attempts_at_requeue,
         l.cancel_requested_at, l.expires_at, l.destination_id, d.contract,
         COALESCE(CAST(d.policy ->> 'maxFailures' AS integer), CAST(:max_failures AS integer)) AS max_failures,
         -- A fault of ours before a byte left says nothing about the destination.
         l.failures + CASE WHEN i.outcome IN ('delivered', 'not_sent') THEN 0 ELSE 1 END AS failures,
         -- Faults of ours are no failures, but they must not use up the attempts within minutes either.
         now() + retry_delay(CASE i.outcome
                               WHEN 'not_sent' THEN l.attempt_no - l.attempts_at_requeue - 1 ELSE l.failures
                             END, CAST(:retry_base_seconds AS double precision),
                             CAST(:retry_cap_seconds AS double precision), random(), i.retry_after_seconds) AS retry_at
  FROM item i
  JOIN delivery_attempt a
    ON a.delivery_id = i.delivery_id AND a.attempt_no = i.attempt_no AND a.lease_owner = i.open_token
  JOIN locked l ON l.delivery_id = i.delivery_id
  JOIN destination d ON d.destination_id = l.destination_id
  WHERE NOT EXISTS (SELECT FROM repeated p WHERE p.delivery_id = i.delivery_id AND p.attempt_no = i.attempt_no)
), judged AS MATERIALIZED (
  SELECT t.*, CASE
    WHEN t.outcome = 'delivered' THEN CASE WHEN t.state NOT IN ('shadow', 'delivered') THEN 'delivered' END
    WHEN t.state = 'delivering' AND t.lease_owner = t.open_token AND t.present_attempt = t.attempt_no
      AND NOT EXISTS (SELECT FROM timed s WHERE s.delivery_id = t.delivery_id AND s.outcome = 'delivered') THEN
      state_after_failure(t.outcome, t.contract, t.cancel_requested_at, t.expires_at,
                          t.present_attempt - t.attempts_at_requeue, t.failures,
                          CAST(:attempt_hard_cap AS integer), t.max_failures, now(), t.retry_at)
  END AS next_state
  FROM timed t
), recorded AS (
  INSERT INTO attempt_outcome (delivery_id, attempt_no, token, recorded_by, recorded_at, outcome, phase, status,
                               error_class, detail, latency_ms, moved_to)
  SELECT j.delivery_id, j.attempt_no, CAST(:token AS uuid), 'sender', now(), j.outcome, j.phase, j.status,
         j.error_class, j.detail, j.latency_ms, j.next_state
  FROM judged j
  ORDER BY j.delivery_id, j.attempt_no
  ON CONFLICT DO NOTHING
  RETURNING delivery_id, attempt_no, moved_to
), deciding AS MATERIALIZED (
  SELECT j.*
  FROM judged j
  JOIN recorded c ON c.delivery_id = j.delivery_id AND c.attempt_no = j.attempt_no
  WHERE j.next_state IS NOT NULL
), moved AS (
  UPDATE reminder_delivery r
  SET state = v.next_state, state_since = now(), parked = false, invitations = 0, failures = v.failures,
      lease_owner = NULL, lease_until = NULL,
      first_invited_at = CASE v.next_state WHEN 'delivered' THEN r.first_invited_at END,
      delivered_at = CASE v.next_state WHEN 'delivered' THEN now() END,
      hold_reason = CASE v.next_state WHEN 'held' THEN
        'outcome unknown, and the destination does not promise to honour a repeated key' END,
      next_attempt_at = CASE v.next_state WHEN 'scheduled' THEN v.retry_at ELSE r.next_attempt_at END,
      wake_at = CASE v.next_state
        WHEN 'scheduled' THEN v.retry_at - make_interval(secs => CAST(:lookahead_seconds AS double precision))
        WHEN 'held' THEN r.expires_at
      END,
      last_error = CASE
        WHEN v.outcome = 'delivered' THEN r.last_error
        WHEN v.outcome = 'unknown' THEN v.error_class || ': may have been processed'
        ELSE v.error_class
      END
  FROM deciding v
  WHERE r.delivery_id = v.delivery_id
), overtaken AS (
  INSERT INTO attempt_outcome (delivery_id, attempt_no, token, recorded_by, recorded_at, outcome)
  SELECT v.delivery_id, v.present_attempt, CAST(:token AS uuid), 'sender', now(), 'overtaken'
  FROM deciding v
  -- The locked row tells which attempt is open; one begun or settled during a wait for the lock is not in the snapshot.
  WHERE v.next_state = 'delivered' AND v.state = 'delivering' AND v.present_attempt <> v.attempt_no
    AND NOT EXISTS (SELECT FROM item i WHERE i.delivery_id = v.delivery_id AND i.attempt_no = v.present_attempt)
  ON CONFLICT DO NOTHING
), disabled AS (
  UPDATE destination d
  SET state = 'disabled', state_since = now(), state_reason = 'answered 410 Gone'
  FROM deciding v
  WHERE v.outcome = 'gone' AND d.destination_id = v.destination_id AND d.state = 'active'
), announced AS (
  INSERT INTO lifecycle_event (delivery_id, version, state, occurred_at)
  SELECT v.delivery_id, v.version, v.next_state, now()
  FROM deciding v
  WHERE v.next_state IN ('delivered', 'dead', 'expired', 'cancelled')
  ORDER BY v.delivery_id
  ON CONFLICT DO NOTHING
)
SELECT CAST(json_build_object(
  'delivery_id', i.delivery_id, 'attempt_no', i.attempt_no,
  'answer', CASE
    WHEN COALESCE(c.moved_to, p.moved_to) IS NOT NULL THEN 'moved'
    WHEN c.delivery_id IS NOT NULL OR p.delivery_id IS NOT NULL THEN 'recorded'
    WHEN j.delivery_id IS NULL THEN 'not_opened'
  END,
  'state', COALESCE(c.moved_to, p.moved_to, l.state)) AS text) AS answer
FROM item i
LEFT JOIN locked l ON l.delivery_id = i.delivery_id
LEFT JOIN judged j ON j.delivery_id = i.delivery_id AND j.attempt_no = i.attempt_no
LEFT JOIN recorded c ON c.delivery_id = i.delivery_id AND c.attempt_no = i.attempt_no
LEFT JOIN repeated p ON p.delivery_id = i.delivery_id AND p.attempt_no = i.attempt_no
ORDER BY i.delivery_id, i.attempt_no`,
  parameters: ({ token, outcomes }, settings) => ({
    token,
    outcomes: JSON.stringify(
      outcomes.map((outcome) => ({
        delivery_id: outcome.deliveryId,
        attempt_no: outcome.attemptNo,
        open_token: outcome.openToken,
        outcome: outcome.outcome,
        phase: outcome.phase,
        status: outcome.status,
        error_class: outcome.errorClass,
        detail: outcome.detail,
        latency_ms: Math.round(outcome.latencyMs),
        retry_after_seconds: outcome.retryAfterSeconds,
      })),
    ),
    lookahead_seconds: String(settings.lookaheadSeconds),
    retry_base_seconds: String(settings.retryBaseSeconds),
    retry_cap_seconds: String(settings.retryCapSeconds),
    max_failures: settings.maxFailures,
    attempt_hard_cap: settings.attemptHardCap,
  }),
};
