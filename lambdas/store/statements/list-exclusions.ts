// list-exclusions: what claims pass over now, and why.
import type { Statement } from '../statement.ts';

export interface ExclusionRow {
  readonly answer: 'exclusion';
  readonly exclusion_no: string;
  readonly delivery_id: string;
  readonly excluded_at: string;
  readonly sql_state: string;
  readonly reason: string;
}

/** The oldest first, after the number named. */
export const listExclusions: Statement<{ after: string | null; limit: number }, ExclusionRow> = {
  name: 'list-exclusions',
  text: `
SELECT CAST(json_build_object(
  'answer', 'exclusion', 'exclusion_no', CAST(x.exclusion_no AS text), 'delivery_id', x.delivery_id,
  'excluded_at', x.excluded_at, 'sql_state', x.sql_state, 'reason', x.reason) AS text) AS answer
FROM claim_exclusion x
WHERE x.readmitted_at IS NULL AND x.exclusion_no > CAST(:after AS bigint)
ORDER BY x.exclusion_no
LIMIT CAST(:limit AS integer)`,
  parameters: ({ after, limit }) => ({ after: after ?? '0', limit }),
};
