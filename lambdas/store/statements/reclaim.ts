// reclaim: brings forward what should have gone on (reclaim, republish, redrive), with who, why and on what evidence.
import { v5 } from 'uuid';
import type { Recoverable, Recovery, RecoveryAnswer } from '../../core/recoveries.ts';
import type { FactsRow } from '../rows.ts';
import type { Statement } from '../statement.ts';

export type ReclaimRow = { readonly item: number } & (
  | ({ readonly answer: Exclude<RecoveryAnswer, 'not_found' | 'token_used' | 'unusable'> } & FactsRow)
  | { readonly answer: 'not_found' | 'token_used' }
  | { readonly answer: null }
);

/**
 * Moves nothing and sends nothing: it sets `wake_at` to now, and the next claim does the rest. What the calendar looks at
 * already stays as it is. Evidence is asked for as in decide, by the locked row's attempt number.
 *
 * Whether an invitation may still arrive is told by the locked row too: the receipt that made it queued may be newer than
 * the snapshot, but `state_since` is of the same statement.
 */
export const reclaim: Statement<
  Omit<Recovery, 'reminders'> & { readonly reminders: readonly (Recoverable & { readonly item: number })[] },
  ReclaimRow
> = {
  name: 'reclaim',
  text: `
WITH item AS MATERIALIZED (
  SELECT x.item, CAST(x.delivery_id AS uuid) AS delivery_id, x.version_seen, x.attempts_seen, x.messages,
         CAST(x.receipt_token AS uuid) AS receipt_token, x.receipt_item, CAST(x.action_token AS uuid) AS action_token
  FROM jsonb_to_recordset(CAST(:items AS jsonb)) AS x (
    item integer, delivery_id text, version_seen integer, attempts_seen integer, messages jsonb, receipt_token text,
    receipt_item integer, action_token text)
), command AS MATERIALIZED (
  SELECT CAST(:verb AS text) AS verb, CAST(:evidence AS text) AS evidence, CAST(:dry_run AS boolean) AS dry_run
), repeated AS MATERIALIZED (
  -- Under its token a command says what it said; another command under the same one says that, and does nothing.
  SELECT i.item, CASE
    WHEN c.verb = m.verb AND c.answer ->> 'delivery_id' = CAST(i.delivery_id AS text) THEN c.answer
    ELSE jsonb_build_object('answer', 'token_used')
  END AS answer
  FROM item i
  JOIN command_receipt c ON c.token = i.receipt_token AND c.item = i.receipt_item
  CROSS JOIN command m
), locked AS MATERIALIZED (
  SELECT r.delivery_id, r.state, r.due_at, r.next_attempt_at, r.expires_at, r.version, r.attempt_no, r.parked, r.wake_at,
         r.lease_until, r.state_since, r.first_invited_at, r.destination_id
  FROM reminder_delivery r
  WHERE r.delivery_id = ANY (ARRAY(SELECT delivery_id FROM item))
  ORDER BY r.delivery_id
  FOR NO KEY UPDATE
), asked AS MATERIALIZED (
  SELECT DISTINCT ON (l.delivery_id) i.item, i.version_seen, i.attempts_seen, i.messages, i.receipt_token, i.receipt_item,
         i.action_token, l.*, c.verb, c.evidence, c.dry_run, d.state AS destination_state,
         COALESCE((SELECT g.paused FROM dispatch_gate g), true) AS paused,
         EXISTS (SELECT FROM claim_exclusion x WHERE x.delivery_id = l.delivery_id AND x.readmitted_at IS NULL) AS excluded,
         COALESCE(l.lease_until > now(), false) AS lease_lives,
         COALESCE(l.expires_at <= now(), false) AS time_is_over,
         GREATEST(l.next_attempt_at, l.first_invited_at, l.state_since,
                  (SELECT max(h.visible_from) FROM handoff h WHERE h.delivery_id = l.delivery_id))
           + make_interval(secs => CAST(:allowance_seconds AS double precision)) > now() AS may_arrive,
         l.attempt_no - (SELECT count(DISTINCT o.attempt_no) FROM attempt_outcome o
                         WHERE o.delivery_id = l.delivery_id
                           AND o.outcome NOT IN ('unknown', 'overtaken', 'delivered')) AS doubtful_attempts,
         -- Its receiver may take the key for a new one: it first saw it with the first attempt.
         COALESCE((SELECT min(a.started_at) FROM delivery_attempt a WHERE a.delivery_id = l.delivery_id)
           + make_interval(secs => d.dedup_window_seconds) <= now(), false) AS key_forgotten
  FROM item i
  JOIN locked l ON l.delivery_id = i.delivery_id
  JOIN destination d ON d.destination_id = l.destination_id
  CROSS JOIN command c
  WHERE NOT EXISTS (SELECT FROM repeated p WHERE p.item = i.item)
  ORDER BY l.delivery_id, i.item
), judged AS MATERIALIZED (
  SELECT a.*, CASE
    WHEN a.verb = 'reclaim' AND a.lease_until IS NULL THEN 'not_leased'
    WHEN a.state IN ('delivered', 'dead', 'expired', 'cancelled') THEN 'finished'
    WHEN a.state IN ('shadow', 'held') THEN a.state
    WHEN a.verb = 'redrive' AND a.state = 'scheduled' THEN 'scheduled'
    WHEN a.lease_lives THEN 'leased'
    WHEN a.excluded THEN 'excluded'
    WHEN a.verb = 'reclaim' THEN CASE
      WHEN a.state <> 'delivering' AND a.paused AND NOT a.time_is_over THEN 'paused'
      WHEN a.version_seen <> a.version OR a.attempts_seen <> a.attempt_no THEN 'stale'
      ELSE 'reclaimed'
    END
    WHEN a.state = 'delivering' THEN 'abandoned'
    WHEN a.time_is_over THEN 'expiry_passed'
    WHEN a.paused THEN 'paused'
    WHEN a.destination_state <> 'active' THEN 'destination_off'
    WHEN a.state = 'scheduled' THEN 'scheduled'
    WHEN a.verb = 'republish' AND a.state = 'dispatching' THEN 'abandoned'
    WHEN a.may_arrive THEN 'invited'
    WHEN a.version_seen <> a.version OR a.attempts_seen <> a.attempt_no THEN 'stale'
    WHEN a.evidence IS NULL AND (a.doubtful_attempts > 0 OR a.key_forgotten) THEN 'evidence_needed'
    ELSE 'republished'
  END AS judgement
  FROM asked a
), recent AS MATERIALIZED (
  -- Commands at once may each use what is left of the minute.
  SELECT count(*) AS count
  FROM operator_action o
  WHERE o.verb IN ('republish', 'redrive') AND o.acted_at > now() - make_interval(mins => 1)
    AND o.evidence ->> 'answer' = 'republished'
), decided AS MATERIALIZED (
  SELECT j.*, j.judgement IN ('reclaimed', 'republished') AND j.wake_at > now() AS asleep, CASE
    WHEN j.judgement = 'republished' AND j.wake_at > now()
      AND r.count + count(*) FILTER (WHERE j.judgement = 'republished' AND j.wake_at > now())
          OVER (ORDER BY j.item) > CAST(:republished_per_minute AS integer) THEN 'rate_capped'
    ELSE j.judgement
  END AS answer
  FROM judged j
  CROSS JOIN recent r
), told AS MATERIALIZED (
  SELECT d.*, jsonb_build_object(
    'answer', d.answer, 'delivery_id', d.delivery_id, 'state', d.state, 'due_at', d.due_at, 'expires_at', d.expires_at,
    'version', d.version) AS line
  FROM decided d
), receipt AS (
  INSERT INTO command_receipt (token, item, verb, answer, answered_at)
  SELECT t.receipt_token, t.receipt_item, t.verb, t.line, now()
  FROM told t
  WHERE NOT t.dry_run
  ORDER BY t.receipt_token, t.receipt_item
  ON CONFLICT DO NOTHING
  RETURNING token, item, answer
), done AS MATERIALIZED (
  SELECT t.*
  FROM told t
  JOIN receipt c ON c.token = t.receipt_token AND c.item = t.receipt_item
  WHERE t.asleep AND t.answer <> 'rate_capped'
     -- Its message is removed from the dead-letter queue.
     OR t.verb = 'redrive' AND t.answer IN ('finished', 'scheduled', 'invited', 'republished')
), brought_forward AS (
  UPDATE reminder_delivery r
  SET wake_at = now()
  FROM done d
  WHERE d.asleep AND r.delivery_id = d.delivery_id
), acted AS (
  INSERT INTO operator_action (token, verb, actor, reason, ticket, delivery_id, version_seen, evidence, acted_at)
  SELECT d.action_token, d.verb, CAST(:actor AS text), CAST(:reason AS text), CAST(:ticket AS text), d.delivery_id,
         d.version_seen, jsonb_build_object('given', d.evidence, 'answer', d.answer, 'state', d.state,
           'attempts', d.attempt_no, 'keyForgotten', d.key_forgotten, 'doubtfulAttempts', d.doubtful_attempts,
           'wakeAt', d.wake_at, 'leaseUntil', d.lease_until, 'messages', d.messages), now()
  FROM done d
  ORDER BY d.delivery_id
)
SELECT CAST(COALESCE(p.answer, c.answer, CASE WHEN m.dry_run THEN t.line END, jsonb_build_object(
  'answer', CASE WHEN l.delivery_id IS NULL THEN 'not_found' END))
    || jsonb_build_object('item', i.item) AS text) AS answer
FROM item i
CROSS JOIN command m
LEFT JOIN repeated p ON p.item = i.item
LEFT JOIN receipt c ON c.token = i.receipt_token AND c.item = i.receipt_item
LEFT JOIN told t ON t.item = i.item
LEFT JOIN locked l ON l.delivery_id = i.delivery_id
ORDER BY i.item`,
  parameters: ({ token, verb, actor, reason, ticket, evidence, dryRun, reminders }, settings) => ({
    verb,
    actor,
    reason,
    ticket,
    evidence,
    dry_run: String(dryRun),
    allowance_seconds: String(settings.allowanceSeconds),
    republished_per_minute: settings.republishedPerMinute,
    items: JSON.stringify(
      reminders.map(({ item, deliveryId, versionSeen, attemptsSeen, messages = [] }) => ({
        item,
        delivery_id: deliveryId,
        version_seen: versionSeen,
        attempts_seen: attemptsSeen,
        messages,
        // What lies in a queue has no order: run again, a redrive finds its answer by the reminder, not by the place.
        receipt_token: verb === 'redrive' ? v5(deliveryId, token) : token,
        receipt_item: verb === 'redrive' ? 0 : item,
        action_token: v5([verb, deliveryId].join(' '), token),
      })),
    ),
  }),
};
