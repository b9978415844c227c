// list-handoffs: what was handed to the queue and should have been opened by now, counted, and the oldest of it by name.
import type { Statement } from '../statement.ts';

export type HandoffRow =
  | {
      readonly answer: 'handoffs';
      /** All that are queued, among the rows looked at. */
      readonly queued: number;
      /** Of them, those whose invitation should have been opened. */
      readonly overdue: number;
      readonly oldest: string | null;
    }
  | {
      readonly answer: 'overdue';
      readonly delivery_id: string;
      readonly version: number;
      readonly attempts: number;
      readonly since: string;
    };

/**
 * Looks at no more than `limit` rows in flight, the longest due first. Leaves out what something else keeps from being
 * opened: a pause, its destination, its expiry, an exclusion. The conditions are those of a republish.
 */
export const listHandoffs: Statement<{ limit: number; names: number }, HandoffRow> = {
  name: 'list-handoffs',
  text: `
WITH queued AS MATERIALIZED (
  SELECT f.*
  FROM (
    SELECT r.delivery_id, r.destination_id, r.state, r.version, r.attempt_no, r.next_attempt_at, r.first_invited_at,
           r.state_since, r.expires_at
    FROM reminder_delivery r
    WHERE r.invitations > 0
    ORDER BY r.next_attempt_at
    LIMIT CAST(:limit AS integer)) f
  WHERE f.state = 'queued'
), overdue AS MATERIALIZED (
  SELECT q.delivery_id, q.version, q.attempt_no, GREATEST(q.next_attempt_at, q.first_invited_at) AS since
  FROM queued q
  JOIN destination d ON d.destination_id = q.destination_id
  WHERE d.state = 'active'
    AND NOT COALESCE((SELECT g.paused FROM dispatch_gate g), true)
    AND (q.expires_at IS NULL OR q.expires_at > now())
    AND NOT EXISTS (SELECT FROM claim_exclusion x WHERE x.delivery_id = q.delivery_id AND x.readmitted_at IS NULL)
    AND GREATEST(q.next_attempt_at, q.first_invited_at, q.state_since,
                 (SELECT max(h.visible_from) FROM handoff h WHERE h.delivery_id = q.delivery_id))
      + make_interval(secs => CAST(:allowance_seconds AS double precision)) <= now()
)
SELECT CAST(line.answer AS text) AS answer
FROM (
  SELECT 0 AS place, NULL AS since, NULL AS delivery_id, json_build_object(
    'answer', 'handoffs', 'queued', (SELECT count(*) FROM queued), 'overdue', count(*), 'oldest', min(o.since)) AS answer
  FROM overdue o
  UNION ALL
  SELECT 1, n.since, n.delivery_id, json_build_object(
    'answer', 'overdue', 'delivery_id', n.delivery_id, 'version', n.version, 'attempts', n.attempt_no, 'since', n.since)
  FROM (SELECT * FROM overdue ORDER BY since, delivery_id LIMIT CAST(:names AS integer)) n
) AS line
ORDER BY line.place, line.since, line.delivery_id`,
  parameters: ({ limit, names }, settings) => ({
    limit,
    names,
    allowance_seconds: String(settings.allowanceSeconds),
  }),
};
