// find: a page of reminders by user or destination, or of what is in the calendar, in flight or unreviewed.
import type { DeliveryState } from '../../core/delivery-states.ts';
import type { FindQuery } from '../../core/find-reminders.ts';
import type { Statement } from '../statement.ts';

export interface FoundRow {
  readonly answer: 'reminder';
  readonly delivery_id: string;
  readonly key: string;
  readonly producer: string;
  readonly user_id: string;
  readonly destination: string;
  readonly state: DeliveryState;
  readonly state_since: string;
  readonly version: number;
  readonly attempts: number;
  readonly failures: number;
  readonly parked: boolean;
  readonly due_at: string;
  readonly next_attempt_at: string;
  readonly unreviewed_since: string | null;
  readonly reason: string | null;
}

export type FindRow =
  | FoundRow
  /** The last line. `at` and `id` say where the next page begins; null: there is none. */
  | { readonly answer: 'page'; readonly known: boolean; readonly at: string | null; readonly id: string | null };

/** The most rows that one page looks at. Where each is read from disk, that takes half of a statement's time. */
export const scanLimit = 2000;

const everything = { at: '-infinity', id: '00000000-0000-0000-0000-000000000000' };

/**
 * Five ways in one statement, of which the one that `source` names is run: each reads one index from where the page begins, no
 * more than `scan` rows, and what does not fit is left out after that. So a page costs the same however large the ledger is, and
 * however few rows fit; a page that found few says where to go on. A row comparison alone lets no partial index be used.
 */
export const find: Statement<FindQuery, FindRow> = {
  name: 'find',
  text: `
WITH named AS MATERIALIZED (
  SELECT d.destination_id FROM destination d WHERE d.name = CAST(:destination AS text)
), scanned AS MATERIALIZED (
  (SELECT r.delivery_id, r.due_at AS at, r.due_at, r.state, r.destination_id
   FROM reminder_delivery r
   WHERE CAST(:source AS text) = 'user' AND r.user_id = CAST(:user_id AS text)
     AND r.due_at >= CAST(:due_from AS timestamptz) AND r.due_at < CAST(:due_to AS timestamptz)
     AND (r.due_at, r.delivery_id) > (CAST(:after_at AS timestamptz), CAST(:after_id AS uuid))
   ORDER BY r.due_at, r.delivery_id
   LIMIT CAST(:scan AS integer))
  UNION ALL
  (SELECT r.delivery_id, r.due_at, r.due_at, r.state, r.destination_id
   FROM reminder_delivery r
   WHERE CAST(:source AS text) = 'destination' AND r.destination_id = (SELECT n.destination_id FROM named n)
     AND r.due_at >= CAST(:due_from AS timestamptz) AND r.due_at < CAST(:due_to AS timestamptz)
     AND (r.due_at, r.delivery_id) > (CAST(:after_at AS timestamptz), CAST(:after_id AS uuid))
   ORDER BY r.due_at, r.delivery_id
   LIMIT CAST(:scan AS integer))
  UNION ALL
  (SELECT r.delivery_id, r.wake_at, r.due_at, r.state, r.destination_id
   FROM reminder_delivery r
   WHERE CAST(:source AS text) = 'calendar' AND r.wake_at >= CAST(:after_at AS timestamptz)
     AND (r.wake_at, r.delivery_id) > (CAST(:after_at AS timestamptz), CAST(:after_id AS uuid))
   ORDER BY r.wake_at, r.delivery_id
   LIMIT CAST(:scan AS integer))
  UNION ALL
  (SELECT r.delivery_id, r.next_attempt_at, r.due_at, r.state, r.destination_id
   FROM reminder_delivery r
   WHERE CAST(:source AS text) = 'in_flight' AND r.invitations > 0 AND r.next_attempt_at >= CAST(:after_at AS timestamptz)
     AND (r.next_attempt_at, r.delivery_id) > (CAST(:after_at AS timestamptz), CAST(:after_id AS uuid))
   ORDER BY r.next_attempt_at, r.delivery_id
   LIMIT CAST(:scan AS integer))
  UNION ALL
  (SELECT r.delivery_id, r.unreviewed_since, r.due_at, r.state, r.destination_id
   FROM reminder_delivery r
   WHERE CAST(:source AS text) = 'unreviewed' AND r.unreviewed_since >= CAST(:after_at AS timestamptz)
     AND (r.unreviewed_since, r.delivery_id) > (CAST(:after_at AS timestamptz), CAST(:after_id AS uuid))
   ORDER BY r.unreviewed_since, r.delivery_id
   LIMIT CAST(:scan AS integer))
), fitting AS MATERIALIZED (
  SELECT s.delivery_id, s.at
  FROM scanned s
  WHERE (CAST(:state AS text) IS NULL OR s.state = CAST(:state AS text))
    AND (CAST(:destination AS text) IS NULL OR s.destination_id = (SELECT n.destination_id FROM named n))
    AND s.due_at >= CAST(:due_from AS timestamptz) AND s.due_at < CAST(:due_to AS timestamptz)
  ORDER BY s.at, s.delivery_id
  LIMIT CAST(:limit AS integer)
), last AS MATERIALIZED (
  (SELECT f.at, f.delivery_id FROM fitting f
   WHERE (SELECT count(*) FROM fitting) = CAST(:limit AS integer)
   ORDER BY f.at DESC, f.delivery_id DESC LIMIT 1)
  UNION ALL
  (SELECT s.at, s.delivery_id FROM scanned s
   WHERE (SELECT count(*) FROM fitting) < CAST(:limit AS integer)
     AND (SELECT count(*) FROM scanned) = CAST(:scan AS integer)
   ORDER BY s.at DESC, s.delivery_id DESC LIMIT 1)
)
SELECT CAST(line.answer AS text) AS answer
FROM (
  SELECT f.at, f.delivery_id, json_build_object(
    'answer', 'reminder', 'delivery_id', r.delivery_id, 'key', r.idempotency_key, 'producer', r.producer,
    'user_id', r.user_id, 'destination', d.name, 'state', r.state, 'state_since', r.state_since, 'version', r.version,
    'attempts', r.attempt_no, 'failures', r.failures, 'parked', r.parked, 'due_at', r.due_at,
    'next_attempt_at', r.next_attempt_at, 'unreviewed_since', r.unreviewed_since,
    'reason', COALESCE(r.hold_reason, r.last_error)) AS answer
  FROM fitting f
  JOIN reminder_delivery r ON r.delivery_id = f.delivery_id
  JOIN destination d ON d.destination_id = r.destination_id
  UNION ALL
  SELECT NULL, NULL, json_build_object(
    'answer', 'page', 'known', CAST(:destination AS text) IS NULL OR EXISTS (SELECT FROM named),
    'at', (SELECT l.at FROM last l), 'id', (SELECT l.delivery_id FROM last l))
) AS line
ORDER BY line.at NULLS LAST, line.delivery_id`,
  parameters: ({ source, userId, destination, state, dueFrom, dueTo, limit, after }) => ({
    source,
    user_id: userId,
    destination,
    state,
    due_from: dueFrom ?? '-infinity',
    due_to: dueTo ?? 'infinity',
    after_at: (after ?? everything).at,
    after_id: (after ?? everything).id,
    limit,
    scan: scanLimit,
  }),
};
