// list-finished-producers: whose finished reminders there are that are not archived yet.
import type { Statement } from '../statement.ts';

export interface FinishedProducerRow {
  readonly answer: 'producer';
  readonly producer: string;
}

/** Each step reads one entry of the index: it costs as much as there are producers, however many reminders they have. */
export const listFinishedProducers: Statement<Record<string, never>, FinishedProducerRow> = {
  name: 'list-finished-producers',
  text: `
WITH RECURSIVE found AS (
  (SELECT r.producer FROM reminder_delivery r
   WHERE r.wake_at IS NULL AND r.archived_at IS NULL AND r.unreviewed_since IS NULL
   ORDER BY r.producer LIMIT 1)
  UNION ALL
  SELECT (
    SELECT r.producer FROM reminder_delivery r
    WHERE r.wake_at IS NULL AND r.archived_at IS NULL AND r.unreviewed_since IS NULL AND r.producer > f.producer
    ORDER BY r.producer LIMIT 1)
  FROM found f
  WHERE f.producer IS NOT NULL
)
SELECT CAST(json_build_object('answer', 'producer', 'producer', f.producer) AS text) AS answer
FROM found f
WHERE f.producer IS NOT NULL`,
  parameters: () => ({}),
};
