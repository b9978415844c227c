// count-affected: how many reminders a pause or a resume concerns now, of all dispatch or of one destination.
import type { Statement } from '../statement.ts';

export interface AffectedRow {
  readonly answer: 'affected';
  readonly sending: number;
  readonly in_flight: number;
  readonly due: number;
  readonly parked: number;
  readonly complete: boolean;
}

/** Looks at no more than `limit` rows in flight, `limit` due and `limit` parked, by an index each. */
export const countAffected: Statement<{ destination: string | null; limit: number }, AffectedRow> = {
  name: 'count-affected',
  text: `
WITH concerned AS MATERIALIZED (
  SELECT CAST(:destination AS text) IS NULL AS everything,
         (SELECT d.destination_id FROM destination d WHERE d.name = CAST(:destination AS text)) AS destination_id
), in_flight AS MATERIALIZED (
  SELECT r.state, r.destination_id FROM reminder_delivery r
  WHERE r.invitations > 0 ORDER BY r.next_attempt_at LIMIT CAST(:limit AS integer)
), due AS MATERIALIZED (
  SELECT r.state, r.destination_id FROM reminder_delivery r
  WHERE r.wake_at <= now() ORDER BY r.wake_at LIMIT CAST(:limit AS integer)
), parked AS MATERIALIZED (
  (SELECT r.destination_id FROM reminder_delivery r
   WHERE r.parked AND (SELECT c.everything FROM concerned c) LIMIT CAST(:limit AS integer))
  UNION ALL
  (SELECT r.destination_id FROM reminder_delivery r
   WHERE r.parked AND r.destination_id = (SELECT c.destination_id FROM concerned c) LIMIT CAST(:limit AS integer))
)
SELECT CAST(json_build_object(
  'answer', 'affected',
  'sending', (SELECT count(*) FROM in_flight f
              WHERE f.state = 'delivering' AND (c.everything OR f.destination_id = c.destination_id)),
  'in_flight', (SELECT count(*) FROM in_flight f
                WHERE f.state IN ('dispatching', 'queued') AND (c.everything OR f.destination_id = c.destination_id)),
  'due', (SELECT count(*) FROM due u
          WHERE u.state = 'scheduled' AND (c.everything OR u.destination_id = c.destination_id)),
  'parked', (SELECT count(*) FROM parked),
  'complete', GREATEST((SELECT count(*) FROM in_flight), (SELECT count(*) FROM due), (SELECT count(*) FROM parked))
    < CAST(:limit AS integer)) AS text) AS answer
FROM concerned c`,
  parameters: ({ destination, limit }) => ({ destination, limit }),
};
