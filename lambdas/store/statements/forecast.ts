// forecast: how many reminders come due in each minute, hour or day from now on.
import type { Statement } from '../statement.ts';

export type ForecastRow =
  | { readonly answer: 'due'; readonly at: string; readonly count: number }
  /** The last line. */
  | {
      readonly answer: 'span';
      readonly known: boolean;
      readonly from: string;
      readonly to: string;
      readonly stopped_at: string | null;
    };

/** The most rows of the calendar that a forecast counts. */
export const countLimit = 100_000;

/**
 * What waits is read from the calendar by the time that it looks at a row, the lookahead before it is due; what was handed over
 * already from the rows in flight. What waits for its destination, or for a person, comes due at no known time.
 */
export const forecast: Statement<{ seconds: number; count: number; destination: string | null }, ForecastRow> = {
  name: 'forecast',
  text: `
WITH span AS MATERIALIZED (
  SELECT now() AS since, now() + make_interval(secs => CAST(:seconds AS bigint) * CAST(:count AS integer)) AS until,
         make_interval(secs => CAST(:lookahead_seconds AS double precision)) AS lookahead,
         CAST(:destination AS text) IS NULL AS everything,
         (SELECT d.destination_id FROM destination d WHERE d.name = CAST(:destination AS text)) AS destination_id
), waiting AS MATERIALIZED (
  SELECT r.next_attempt_at, r.destination_id, r.state = 'scheduled' AND r.invitations = 0 AND NOT r.parked AS fits
  FROM reminder_delivery r
  WHERE r.wake_at >= (SELECT s.since - s.lookahead FROM span s) AND r.wake_at < (SELECT s.until - s.lookahead FROM span s)
  ORDER BY r.wake_at
  LIMIT CAST(:limit AS integer)
), in_flight AS MATERIALIZED (
  SELECT r.next_attempt_at, r.destination_id, r.state <> 'delivering' AS fits
  FROM reminder_delivery r
  WHERE r.invitations > 0
    AND r.next_attempt_at >= (SELECT s.since FROM span s) AND r.next_attempt_at < (SELECT s.until FROM span s)
  ORDER BY r.next_attempt_at
  LIMIT CAST(:limit AS integer)
), stopped AS MATERIALIZED (
  SELECT min(x.at) AS at
  FROM (
    SELECT max(w.next_attempt_at) AS at FROM waiting w HAVING count(*) = CAST(:limit AS integer)
    UNION ALL
    SELECT max(f.next_attempt_at) FROM in_flight f HAVING count(*) = CAST(:limit AS integer)
  ) x
), due AS MATERIALIZED (
  SELECT date_bin(make_interval(secs => CAST(:seconds AS bigint)), b.next_attempt_at, CAST('2000-01-01 00:00:00Z' AS timestamptz))
           AS at, count(*) AS count
  FROM (SELECT * FROM waiting UNION ALL SELECT * FROM in_flight) b
  CROSS JOIN span s
  WHERE b.fits AND b.next_attempt_at >= s.since AND b.next_attempt_at < s.until
    AND (s.everything OR b.destination_id = s.destination_id)
  GROUP BY 1
)
SELECT CAST(line.answer AS text) AS answer
FROM (
  SELECT u.at, json_build_object('answer', 'due', 'at', u.at, 'count', u.count) AS answer FROM due u
  UNION ALL
  SELECT NULL, json_build_object(
    'answer', 'span', 'known', s.everything OR s.destination_id IS NOT NULL, 'from', s.since, 'to', s.until,
    'stopped_at', (SELECT t.at FROM stopped t))
  FROM span s
) AS line
ORDER BY line.at NULLS LAST`,
  parameters: ({ seconds, count, destination }, settings) => ({
    seconds,
    count,
    destination,
    limit: countLimit,
    lookahead_seconds: String(settings.lookaheadSeconds),
  }),
};
