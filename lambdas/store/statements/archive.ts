// archive: takes the payload and the evidence of finished reminders that were written to the archive; the row stays.
import type { ArchivedAs } from '../../core/archive-finished.ts';
import type { Statement } from '../statement.ts';

export interface ArchiveRow {
  readonly delivery_id: string;
  /** `changed`: it is no longer what was written, an attempt is open, or its end is not announced yet; `unreviewed`: a person must still decide. */
  readonly answer: 'archived' | 'not_finished' | 'unreviewed' | 'changed';
}

/**
 * The row is its own tombstone: key, fingerprint, hash and state stay, so a late `schedule` is a duplicate. No token: what
 * is archived already is answered the same and not touched. An outcome that commits while this waits for its row fails
 * the statement by foreign key, and nothing is lost.
 */
export const archive: Statement<{ reminders: readonly ArchivedAs[] }, ArchiveRow> = {
  name: 'archive',
  text: `
WITH item AS MATERIALIZED (
  SELECT x.delivery_id, x.version, x.state_since, x.outcomes
  FROM jsonb_to_recordset(CAST(:items AS jsonb)) AS x (
    delivery_id uuid, version integer, state_since timestamptz, outcomes integer)
), locked AS MATERIALIZED (
  SELECT r.delivery_id, r.version, r.state, r.state_since, r.unreviewed_since, r.archived_at
  FROM reminder_delivery r
  WHERE r.delivery_id = ANY (ARRAY(SELECT delivery_id FROM item))
  ORDER BY r.delivery_id
  FOR NO KEY UPDATE
), judged AS MATERIALIZED (
  SELECT l.delivery_id, l.archived_at, CASE
    WHEN l.archived_at IS NOT NULL THEN 'archived'
    WHEN l.state NOT IN ('delivered', 'dead', 'expired', 'cancelled') THEN 'not_finished'
    WHEN l.unreviewed_since IS NOT NULL THEN 'unreviewed'
    WHEN l.version <> i.version OR l.state_since <> i.state_since
      OR i.outcomes <> (SELECT count(*) FROM attempt_outcome o WHERE o.delivery_id = l.delivery_id)
      OR EXISTS (
        SELECT FROM delivery_attempt a
        WHERE a.delivery_id = l.delivery_id AND NOT EXISTS (
          SELECT FROM attempt_outcome o WHERE o.delivery_id = a.delivery_id AND o.attempt_no = a.attempt_no))
      OR EXISTS (SELECT FROM lifecycle_event e WHERE e.delivery_id = l.delivery_id AND e.announced_at IS NULL)
      THEN 'changed'
    ELSE 'archived'
  END AS answer
  FROM locked l
  JOIN item i ON i.delivery_id = l.delivery_id
), archived AS (
  UPDATE reminder_delivery r
  SET payload = NULL, last_error = NULL, archived_at = now()
  FROM judged j
  WHERE j.answer = 'archived' AND j.archived_at IS NULL AND r.delivery_id = j.delivery_id
  RETURNING r.delivery_id
), without_outcomes AS (
  DELETE FROM attempt_outcome o USING archived d WHERE o.delivery_id = d.delivery_id
), without_attempts AS (
  DELETE FROM delivery_attempt a USING archived d WHERE a.delivery_id = d.delivery_id
), without_receipts AS (
  DELETE FROM handoff h USING archived d WHERE h.delivery_id = d.delivery_id
), without_events AS (
  DELETE FROM lifecycle_event e USING archived d WHERE e.delivery_id = d.delivery_id
)
SELECT CAST(json_build_object('answer', j.answer, 'delivery_id', j.delivery_id) AS text) AS answer
FROM judged j
ORDER BY j.delivery_id`,
  parameters: ({ reminders }) => ({
    items: JSON.stringify(
      reminders.map(({ deliveryId, version, stateSince, outcomes }) => ({
        ...{ delivery_id: deliveryId, version, state_since: stateSince, outcomes },
      })),
    ),
  }),
};
