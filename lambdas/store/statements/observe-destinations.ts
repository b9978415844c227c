// observe-destinations: where rows are parked, and where they fail again and again.
import type { DestinationMeasure, DestinationTrouble } from '../../core/observe-ledger.ts';
import type { Statement } from '../statement.ts';

export type DestinationsRow = Readonly<Record<DestinationMeasure, number>> & {
  /** The twenty with the most rows. */
  readonly destinations: readonly DestinationTrouble[];
};

/** Steps from destination to destination by the two small indexes, and counts at most `limit` rows of each. */
export const observeDestinations: Statement<{ limit: number }, DestinationsRow> = {
  name: 'observe-destinations',
  text: `
WITH RECURSIVE parked_at AS (
  (SELECT r.destination_id FROM reminder_delivery r WHERE r.parked ORDER BY r.destination_id LIMIT 1)
  UNION ALL
  SELECT (SELECT r.destination_id FROM reminder_delivery r
          WHERE r.parked AND r.destination_id > p.destination_id ORDER BY r.destination_id LIMIT 1)
  FROM parked_at p WHERE p.destination_id IS NOT NULL
), failing_at AS (
  (SELECT r.destination_id FROM reminder_delivery r
   WHERE r.failures >= 3 AND r.wake_at IS NOT NULL ORDER BY r.destination_id LIMIT 1)
  UNION ALL
  SELECT (SELECT r.destination_id FROM reminder_delivery r
          WHERE r.failures >= 3 AND r.wake_at IS NOT NULL AND r.destination_id > f.destination_id
          ORDER BY r.destination_id LIMIT 1)
  FROM failing_at f WHERE f.destination_id IS NOT NULL
), counted AS MATERIALIZED (
  SELECT d.name, d.state, parked.count AS parked, failing.count AS failing,
         CASE d.state WHEN 'active' THEN GREATEST(parked.since, d.state_since) END AS parked_active_since
  FROM (SELECT destination_id FROM parked_at UNION SELECT destination_id FROM failing_at) found
  JOIN destination d ON d.destination_id = found.destination_id
  CROSS JOIN LATERAL (
    SELECT count(*) AS count, min(r.state_since) AS since
    FROM (SELECT p.state_since FROM reminder_delivery p
          WHERE p.parked AND p.destination_id = d.destination_id LIMIT CAST(:limit AS integer)) r
  ) parked
  CROSS JOIN LATERAL (
    SELECT count(*) AS count
    FROM (SELECT f.state FROM reminder_delivery f
          WHERE f.failures >= 3 AND f.wake_at IS NOT NULL AND f.destination_id = d.destination_id
          LIMIT CAST(:limit AS integer)) r
    -- What waits for a person, or for its destination, fails no more.
    WHERE r.state <> 'held' AND d.state = 'active'
  ) failing
), worst AS MATERIALIZED (
  SELECT c.name, c.state, c.parked, c.failing FROM counted c
  WHERE c.parked > 0 OR c.failing > 0
  ORDER BY GREATEST(c.parked, c.failing) DESC, c.name
  LIMIT 20
)
SELECT CAST(json_build_object(
  'most_parked', COALESCE(max(c.parked), 0),
  'most_failing', COALESCE(max(c.failing), 0),
  'parked_active_age',
    COALESCE(floor(extract(epoch FROM now() - min(c.parked_active_since) FILTER (WHERE c.parked > 0)) * 1000), 0),
  'destinations', (SELECT COALESCE(json_agg(w), '[]') FROM worst w)) AS text) AS answer
FROM counted c`,
  parameters: ({ limit }) => ({ limit }),
};
