// unpark: gives parked rows of destinations that are active again back to the calendar, in bounded batches.
import type { Statement } from '../statement.ts';
import type { CountRow } from './release.ts';

/** Steps from parked destination to parked destination by the small index, so that it costs little when none is ready. */
export const unpark: Statement<{ token: string; limit: number }, CountRow> = {
  name: 'unpark',
  text: `
WITH RECURSIVE turn AS MATERIALIZED (
  -- A twin waits here: it would skip the rows that its first run holds, and answer that there was nothing to do.
  SELECT pg_advisory_xact_lock(hashtextextended(CAST(:token AS text), 0))
), repeated AS MATERIALIZED (
  SELECT answer FROM command_receipt WHERE token = CAST(:token AS uuid) AND item = 0
), waiting AS (
  (SELECT r.destination_id FROM reminder_delivery r WHERE r.parked ORDER BY r.destination_id LIMIT 1)
  UNION ALL
  SELECT (SELECT r.destination_id FROM reminder_delivery r
          WHERE r.parked AND r.destination_id > w.destination_id ORDER BY r.destination_id LIMIT 1)
  FROM waiting w WHERE w.destination_id IS NOT NULL
), ready AS MATERIALIZED (
  SELECT w.destination_id
  FROM waiting w
  JOIN destination d ON d.destination_id = w.destination_id
  WHERE d.state = 'active' AND EXISTS (SELECT FROM turn) AND NOT EXISTS (SELECT FROM repeated)
), locked AS MATERIALIZED (
  SELECT l.delivery_id
  FROM ready
  -- Each destination gets its share, so that a large one does not keep a small one waiting.
  CROSS JOIN LATERAL (
    SELECT r.delivery_id
    FROM reminder_delivery r
    WHERE r.parked AND r.destination_id = ready.destination_id
    LIMIT GREATEST(CAST(:limit AS integer) / (SELECT count(*) FROM ready), 1)
    FOR NO KEY UPDATE SKIP LOCKED
  ) l
  LIMIT CAST(:limit AS integer)
), receipt AS (
  INSERT INTO command_receipt (token, item, verb, answer, answered_at)
  SELECT CAST(:token AS uuid), 0, 'unpark',
         jsonb_build_object('answer', 'counted', 'count', (SELECT count(*) FROM locked)), now()
  -- Also when others hold every row: what has no receipt counts as unanswered, and is asked again.
  WHERE EXISTS (SELECT FROM ready)
  ON CONFLICT DO NOTHING
  RETURNING answer
), unparked AS (
  UPDATE reminder_delivery r
  SET parked = false, state_since = now(),
      wake_at = r.next_attempt_at - make_interval(secs => CAST(:lookahead_seconds AS double precision))
  FROM locked l
  WHERE r.delivery_id = l.delivery_id AND EXISTS (SELECT FROM receipt)
)
SELECT CAST(COALESCE(
  (SELECT answer FROM receipt), (SELECT answer FROM repeated),
  CASE WHEN NOT EXISTS (SELECT FROM ready) THEN jsonb_build_object('answer', 'counted', 'count', 0) END,
  jsonb_build_object('answer', NULL)) AS text) AS answer`,
  parameters: ({ token, limit }, settings) => ({ token, limit, lookahead_seconds: String(settings.lookaheadSeconds) }),
};
