// list-due: the ids that the next claim would look at, so that a claim that fails can be tried on parts of them.
import type { Statement } from '../statement.ts';

export interface DueRow {
  readonly answer: 'due';
  readonly delivery_id: string;
}

/** Locks nothing and promises nothing: each claim judges for itself. The conditions are the claim's own. */
export const listDue: Statement<{ limit: number }, DueRow> = {
  name: 'list-due',
  text: `
SELECT CAST(json_build_object('answer', 'due', 'delivery_id', r.delivery_id) AS text) AS answer
FROM reminder_delivery r
WHERE r.wake_at <= now()
  AND (NOT COALESCE((SELECT g.paused FROM dispatch_gate g), true) OR r.state = 'delivering' OR r.expires_at <= now())
  AND r.delivery_id <> ALL (ARRAY(SELECT x.delivery_id FROM claim_exclusion x WHERE x.readmitted_at IS NULL))
ORDER BY r.wake_at
LIMIT CAST(:limit AS integer)`,
  parameters: ({ limit }) => ({ limit }),
};
