// control: pauses and resumes all dispatch, or one destination, with who and why.
import { v5 } from 'uuid';
import type { ControlCommand, Controlled, DispatchState } from '../../core/dispatch-control.ts';
import type { Statement } from '../statement.ts';

export interface ControlRow {
  /** Null: a twin has just answered. */
  readonly answer: Controlled['answer'] | null;
  /** Not there where nothing was found, or another command has the token. */
  readonly state?: DispatchState;
  readonly since?: string | null;
  readonly reason?: string | null;
}

/**
 * Touches no reminder: `open` and `claim` read what this writes, so a pause holds for each that starts after it is committed.
 * It counts nothing, so that in trouble it is as quick as ever.
 */
export const control: Statement<ControlCommand, ControlRow> = {
  name: 'control',
  text: `
WITH command AS MATERIALIZED (
  SELECT CAST(:verb AS text) AS verb, CAST(:destination AS text) AS destination, CAST(:dry_run AS boolean) AS dry_run,
         CAST(:state_seen AS text) AS state_seen, CAST(:since_seen AS timestamptz) AS since_seen
), repeated AS MATERIALIZED (
  -- Under its token a command says what it said; another command under the same one is told so.
  SELECT CASE
    WHEN c.verb = m.verb AND c.answer ->> 'destination' IS NOT DISTINCT FROM m.destination THEN c.answer
    ELSE jsonb_build_object('answer', 'token_used')
  END AS answer
  FROM command_receipt c
  CROSS JOIN command m
  WHERE c.token = CAST(:token AS uuid)
  ORDER BY c.item
  LIMIT 1
), gate AS MATERIALIZED (
  SELECT CASE WHEN g.paused THEN 'paused' ELSE 'active' END AS state, g.paused_since AS since, g.reason
  FROM dispatch_gate g
  WHERE CAST(:destination AS text) IS NULL AND NOT EXISTS (SELECT FROM repeated)
  FOR NO KEY UPDATE
), named AS MATERIALIZED (
  SELECT d.destination_id, d.state, d.state_since AS since, d.state_reason AS reason
  FROM destination d
  WHERE d.name = CAST(:destination AS text) AND NOT EXISTS (SELECT FROM repeated)
  FOR NO KEY UPDATE
), judged AS MATERIALIZED (
  SELECT m.verb, m.destination, m.dry_run, f.destination_id, f.state, f.since, f.reason, CASE
    WHEN f.state IS NULL THEN 'not_found'
    WHEN m.verb = 'pause' AND f.state <> 'active' THEN 'already_paused'
    WHEN m.verb = 'resume' AND f.state = 'active' THEN 'already_active'
    -- Instants are shown to the millisecond.
    WHEN NOT (m.dry_run AND m.state_seen IS NULL)
      AND (m.state_seen, m.since_seen) IS DISTINCT FROM (f.state, date_trunc('milliseconds', f.since)) THEN 'stale'
    WHEN m.verb = 'pause' THEN 'paused'
    ELSE 'resumed'
  END AS answer
  FROM command m
  LEFT JOIN (
    SELECT CAST(NULL AS uuid) AS destination_id, g.state, g.since, g.reason FROM gate g
    UNION ALL
    SELECT n.destination_id, n.state, n.since, n.reason FROM named n
  ) f ON true
  WHERE NOT EXISTS (SELECT FROM repeated)
), told AS MATERIALIZED (
  SELECT jsonb_build_object('answer', j.answer, 'destination', j.destination, 'state', j.state, 'since', j.since,
                            'reason', j.reason) AS answer
  FROM judged j
), receipt AS (
  INSERT INTO command_receipt (token, item, verb, answer, answered_at)
  SELECT CAST(:token AS uuid), 0, m.verb, t.answer, now()
  FROM told t CROSS JOIN command m
  WHERE NOT m.dry_run
  ON CONFLICT DO NOTHING
  RETURNING answer
), done AS MATERIALIZED (
  SELECT j.* FROM judged j WHERE j.answer IN ('paused', 'resumed') AND EXISTS (SELECT FROM receipt)
), gate_switched AS (
  UPDATE dispatch_gate g
  SET paused = d.answer = 'paused',
      paused_since = CASE d.answer WHEN 'paused' THEN now() END,
      reason = CASE d.answer WHEN 'paused' THEN CAST(:reason AS text) END
  FROM done d
  WHERE d.destination IS NULL
), destination_switched AS (
  UPDATE destination t
  SET state = CASE d.answer WHEN 'paused' THEN 'paused' ELSE 'active' END, state_since = now(),
      state_reason = CAST(:reason AS text)
  FROM done d
  WHERE t.destination_id = d.destination_id
), acted AS (
  INSERT INTO operator_action (token, verb, actor, reason, ticket, destination_id, evidence, acted_at)
  SELECT CAST(:action_token AS uuid), d.verb, CAST(:actor AS text), CAST(:reason AS text), CAST(:ticket AS text),
         d.destination_id,
         jsonb_build_object('answer', d.answer, 'state', d.state, 'since', d.since, 'reason', d.reason), now()
  FROM done d
)
SELECT CAST(COALESCE(
  (SELECT p.answer FROM repeated p), (SELECT c.answer FROM receipt c),
  (SELECT t.answer FROM told t CROSS JOIN command m WHERE m.dry_run),
  -- A twin has just answered: asked again, it is found.
  jsonb_build_object('answer', NULL)) AS text) AS answer`,
  parameters: ({ token, verb, destination, actor, reason, ticket, seen, dryRun }) => ({
    token,
    verb,
    destination,
    actor,
    reason,
    ticket,
    state_seen: seen?.state ?? null,
    since_seen: seen?.since ?? null,
    dry_run: String(dryRun),
    // A token of operator_action's own, as decisions have.
    action_token: v5('control', token),
  }),
};
