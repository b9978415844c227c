// decide: what a person decides about reminders (hold, release, requeue, resolve, review, cancel), with who, why and on what evidence.
import { v5 } from 'uuid';
import type { Decision, DecisionAnswer, SeenReminder } from '../../core/decisions.ts';
import type { FactsRow } from '../rows.ts';
import type { Statement } from '../statement.ts';

export type DecideRow = { readonly item: number } & (
  | ({ readonly answer: Exclude<DecisionAnswer, 'not_found' | 'token_used' | 'unusable'> } & FactsRow)
  | { readonly answer: 'not_found' | 'token_used' }
  | { readonly answer: null }
);

/**
 * One statement for all six, because they differ in two CASEs and share everything else: the locks, the version that was
 * seen, the receipt, and the action that is written with the move it explains.
 *
 * Evidence is asked for when an attempt may have been received: read, as in reschedule, from the locked row's attempt number
 * against the definite outcomes seen, so that an attempt begun during a wait for the lock counts too.
 */
export const decide: Statement<
  Omit<Decision, 'reminders'> & { readonly reminders: readonly (SeenReminder & { readonly item: number })[] },
  DecideRow
> = {
  name: 'decide',
  text: `
WITH item AS MATERIALIZED (
  SELECT x.item, CAST(x.delivery_id AS uuid) AS delivery_id, x.version_seen, x.attempts_seen,
         CAST(x.action_token AS uuid) AS action_token
  FROM jsonb_to_recordset(CAST(:items AS jsonb)) AS x (
    item integer, delivery_id text, version_seen integer, attempts_seen integer, action_token text)
), command AS MATERIALIZED (
  SELECT CAST(:verb AS text) AS verb, CAST(:evidence AS text) AS evidence, CAST(:dry_run AS boolean) AS dry_run,
         CAST(:changes_expiry AS boolean) AS changes_expiry, CAST(:expires_at AS timestamptz) AS expires_at
), repeated AS MATERIALIZED (
  -- Under its token a command says what it said; another command under the same one says that, and does nothing.
  SELECT i.item, CASE
    WHEN c.verb = m.verb AND c.answer ->> 'delivery_id' = CAST(i.delivery_id AS text) THEN c.answer
    ELSE jsonb_build_object('item', i.item, 'answer', 'token_used')
  END AS answer
  FROM command_receipt c
  CROSS JOIN command m
  JOIN item i ON i.item = c.item
  WHERE c.token = CAST(:token AS uuid)
), locked AS MATERIALIZED (
  SELECT r.delivery_id, r.state, r.due_at, r.next_attempt_at, r.expires_at, r.version, r.attempt_no, r.archived_at,
         r.unreviewed_since, r.cancel_requested_at, r.destination_id
  FROM reminder_delivery r
  WHERE r.delivery_id = ANY (ARRAY(SELECT delivery_id FROM item))
  ORDER BY r.delivery_id
  FOR NO KEY UPDATE
), asked AS MATERIALIZED (
  SELECT DISTINCT ON (l.delivery_id) i.item, i.version_seen, i.attempts_seen, i.action_token, l.*, c.verb, c.evidence, c.dry_run,
         CASE WHEN c.changes_expiry AND c.verb IN ('requeue', 'release') THEN c.expires_at ELSE l.expires_at
         END AS new_expires_at,
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
    WHEN a.verb = 'requeue' AND a.state <> 'dead' OR a.verb = 'release' AND a.state <> 'held' THEN 'refused'
    WHEN a.verb = 'review' AND a.state NOT IN ('held', 'dead') THEN 'nothing_to_review'
    WHEN a.verb = 'hold' AND a.state IN ('shadow', 'held') THEN a.state
    WHEN a.verb = 'hold' AND a.state IN ('delivered', 'expired', 'cancelled') THEN 'finished'
    WHEN a.verb = 'cancel' AND a.state IN ('delivered', 'expired') THEN 'finished'
    WHEN a.verb = 'cancel' AND a.state = 'cancelled' THEN 'cancelled'
    WHEN a.verb = 'resolve' AND a.state = 'delivered' THEN 'finished'
    WHEN a.verb IN ('hold', 'resolve') AND a.state = 'delivering' THEN 'wait'
    -- What was archived has no payload that could be sent, and what it is has been told.
    WHEN a.verb IN ('hold', 'requeue', 'cancel') AND a.archived_at IS NOT NULL THEN 'archived'
    WHEN a.version_seen <> a.version OR a.attempts_seen <> a.attempt_no THEN 'stale'
    WHEN a.evidence IS NULL
      AND (a.verb = 'resolve' OR a.verb IN ('requeue', 'release') AND (a.doubtful_attempts > 0 OR a.key_forgotten))
      THEN 'evidence_needed'
    WHEN a.verb IN ('hold', 'requeue', 'release') AND a.new_expires_at <= GREATEST(a.due_at, now()) THEN 'expiry_passed'
    ELSE CASE a.verb
      WHEN 'hold' THEN 'held'
      WHEN 'requeue' THEN 'requeued'
      WHEN 'release' THEN 'released'
      WHEN 'resolve' THEN 'resolved'
      WHEN 'review' THEN 'reviewed'
      WHEN 'cancel' THEN CASE a.state WHEN 'delivering' THEN 'too_late' ELSE 'cancelled' END
    END
  END AS answer
  FROM asked a
), decided AS MATERIALIZED (
  SELECT j.*, CASE j.answer
    WHEN 'held' THEN 'held'
    WHEN 'requeued' THEN 'scheduled'
    WHEN 'released' THEN 'scheduled'
    WHEN 'resolved' THEN 'delivered'
    WHEN 'cancelled' THEN 'cancelled'
    ELSE j.state
  END AS next_state,
  -- A version that was seen before a decision is stale after it; what came to its end needs none.
  CASE WHEN j.answer IN ('requeued', 'released') OR j.answer = 'held' AND j.state <> 'held' THEN j.version + 1 ELSE j.version
  END AS next_version,
  CASE WHEN j.answer IN ('requeued', 'released') THEN j.new_expires_at ELSE j.expires_at END AS next_expires_at
  FROM judged j
), told AS MATERIALIZED (
  SELECT d.item, jsonb_build_object(
    'item', d.item, 'answer', d.answer, 'delivery_id', d.delivery_id, 'state', d.next_state, 'due_at', d.due_at,
    'expires_at', d.next_expires_at, 'version', d.next_version) AS answer
  FROM decided d
), receipt AS (
  INSERT INTO command_receipt (token, item, verb, answer, answered_at)
  SELECT CAST(:token AS uuid), t.item, c.verb, t.answer, now()
  FROM told t CROSS JOIN command c
  WHERE NOT c.dry_run
  ORDER BY t.item
  ON CONFLICT DO NOTHING
  RETURNING item, answer
), done AS MATERIALIZED (
  SELECT d.*
  FROM decided d
  JOIN receipt c ON c.item = d.item
  WHERE d.next_state <> d.state
     OR d.answer = 'reviewed' AND d.unreviewed_since IS NOT NULL
     OR d.answer = 'too_late' AND d.cancel_requested_at IS NULL
), moved AS (
  UPDATE reminder_delivery r
  SET state = d.next_state,
      state_since = CASE WHEN d.next_state = d.state THEN r.state_since ELSE now() END,
      version = d.next_version,
      expires_at = d.next_expires_at,
      next_attempt_at = CASE d.next_state WHEN 'scheduled' THEN GREATEST(d.due_at, now()) ELSE r.next_attempt_at END,
      wake_at = CASE
        WHEN d.next_state = 'scheduled' THEN
          GREATEST(d.due_at, now()) - make_interval(secs => CAST(:lookahead_seconds AS double precision))
        WHEN d.answer = 'held' THEN d.next_expires_at
        WHEN d.answer IN ('reviewed', 'too_late') THEN r.wake_at
      END,
      hold_reason = CASE d.answer WHEN 'held' THEN CAST(:reason AS text) WHEN 'reviewed' THEN r.hold_reason END,
      reviewed_at = CASE d.answer WHEN 'reviewed' THEN now() ELSE r.reviewed_at END,
      cancel_requested_at = CASE WHEN d.answer IN ('cancelled', 'too_late') THEN now() ELSE r.cancel_requested_at END,
      delivered_at = CASE d.answer WHEN 'resolved' THEN now() END,
      parked = false,
      lease_owner = CASE d.answer WHEN 'too_late' THEN r.lease_owner END,
      lease_until = CASE d.answer WHEN 'too_late' THEN r.lease_until END,
      invitations = CASE d.next_state WHEN 'scheduled' THEN 0 ELSE r.invitations END,
      first_invited_at = CASE d.next_state WHEN 'scheduled' THEN NULL ELSE r.first_invited_at END,
      failures = CASE d.next_state WHEN 'scheduled' THEN 0 ELSE r.failures END,
      attempts_at_requeue = CASE d.next_state WHEN 'scheduled' THEN r.attempt_no ELSE r.attempts_at_requeue END
  FROM done d
  WHERE r.delivery_id = d.delivery_id
), acted AS (
  INSERT INTO operator_action (token, verb, actor, reason, ticket, delivery_id, version_seen, evidence, acted_at)
  SELECT d.action_token, d.verb, CAST(:actor AS text), CAST(:reason AS text), CAST(:ticket AS text), d.delivery_id,
         d.version_seen, jsonb_build_object('given', d.evidence, 'answer', d.answer, 'state', d.state,
           'attempts', d.attempt_no, 'keyForgotten', d.key_forgotten, 'doubtfulAttempts', d.doubtful_attempts, 'expiresAt', d.expires_at,
           'nextExpiresAt', d.next_expires_at), now()
  FROM done d
  ORDER BY d.delivery_id
), announced AS (
  INSERT INTO lifecycle_event (delivery_id, version, state, occurred_at)
  SELECT d.delivery_id, d.next_version, d.next_state, now()
  FROM done d
  WHERE d.next_state <> d.state AND d.next_state IN ('delivered', 'cancelled')
  ORDER BY d.delivery_id
  ON CONFLICT DO NOTHING
)
SELECT CAST(COALESCE(p.answer, c.answer, CASE WHEN m.dry_run THEN t.answer END, jsonb_build_object(
  'item', i.item, 'answer', CASE WHEN l.delivery_id IS NULL THEN 'not_found' END)) AS text) AS answer
FROM item i
CROSS JOIN command m
LEFT JOIN repeated p ON p.item = i.item
LEFT JOIN receipt c ON c.item = i.item
LEFT JOIN told t ON t.item = i.item
LEFT JOIN locked l ON l.delivery_id = i.delivery_id
ORDER BY i.item`,
  parameters: (decision, settings) => ({
    token: decision.token,
    verb: decision.verb,
    actor: decision.actor,
    reason: decision.reason,
    ticket: decision.ticket,
    evidence: decision.evidence,
    dry_run: String(decision.dryRun),
    changes_expiry: String(decision.expiresAt !== undefined),
    expires_at: decision.expiresAt ?? null,
    lookahead_seconds: String(settings.lookaheadSeconds),
    items: JSON.stringify(
      decision.reminders.map(({ item, deliveryId, versionSeen, attemptsSeen }) => ({
        item,
        delivery_id: deliveryId,
        version_seen: versionSeen,
        attempts_seen: attemptsSeen,
        // One action a reminder; the same command again makes the same ones.
        action_token: v5(deliveryId, decision.token),
      })),
    ),
  }),
};
