// observe-outcomes: what became of attempts lately, how late deliveries were, and what waits for a person.
import type { OutcomeMeasure } from '../../core/observe-ledger.ts';
import type { Statement } from '../statement.ts';

/** How many ticks back is lately: one that is lost, or late, leaves no gap. */
const recentTicks = 5;

/** Looks at no more than the newest `limit` outcomes, and the `limit` rows that wait longest. */
export const observeOutcomes: Statement<{ limit: number }, Readonly<Record<OutcomeMeasure, number>>> = {
  name: 'observe-outcomes',
  text: `
WITH recent AS MATERIALIZED (
  SELECT o.delivery_id, o.outcome, o.recorded_by, o.moved_to
  FROM attempt_outcome o
  WHERE o.recorded_at > now() - make_interval(secs => CAST(:recent_seconds AS double precision))
  ORDER BY o.recorded_at DESC
  LIMIT CAST(:limit AS integer)
), late AS MATERIALIZED (
  SELECT percentile_cont(ARRAY[0.5, 0.99]) WITHIN GROUP (
           ORDER BY extract(epoch FROM r.delivered_at - r.due_at) * 1000) AS lateness
  FROM (SELECT c.delivery_id FROM recent c WHERE c.moved_to = 'delivered' LIMIT 1000) c
  JOIN reminder_delivery r ON r.delivery_id = c.delivery_id
), unreviewed AS MATERIALIZED (
  SELECT r.state, r.unreviewed_since
  FROM reminder_delivery r
  WHERE r.unreviewed_since IS NOT NULL
  ORDER BY r.unreviewed_since
  LIMIT CAST(:limit AS integer)
), waiting AS MATERIALIZED (
  SELECT u.state, count(*) AS count, floor(extract(epoch FROM now() - min(u.unreviewed_since)) * 1000) AS age
  FROM unreviewed u
  GROUP BY u.state
)
SELECT CAST(json_build_object(
  'recent_attempts', count(*) FILTER (WHERE c.outcome <> 'overtaken'),
  'recent_unknown', count(*) FILTER (WHERE c.outcome = 'unknown'),
  'recent_rescued', count(*) FILTER (WHERE c.recorded_by = 'recover'),
  'recent_delivered', count(*) FILTER (WHERE c.moved_to = 'delivered'),
  'recent_dead', count(*) FILTER (WHERE c.moved_to = 'dead'),
  'lateness_p50', COALESCE((SELECT round(CAST(l.lateness[1] AS numeric)) FROM late l), 0),
  'lateness_p99', COALESCE((SELECT round(CAST(l.lateness[2] AS numeric)) FROM late l), 0),
  'held_unreviewed', COALESCE((SELECT w.count FROM waiting w WHERE w.state = 'held'), 0),
  'held_unreviewed_age', COALESCE((SELECT w.age FROM waiting w WHERE w.state = 'held'), 0),
  'dead_unreviewed', COALESCE((SELECT w.count FROM waiting w WHERE w.state = 'dead'), 0),
  'dead_unreviewed_age', COALESCE((SELECT w.age FROM waiting w WHERE w.state = 'dead'), 0)) AS text) AS answer
FROM recent c`,
  parameters: ({ limit }, settings) => ({ limit, recent_seconds: String(settings.tickSeconds * recentTicks) }),
};
