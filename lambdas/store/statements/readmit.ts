// readmit: ends an exclusion, so that the next claim tries the row again; who did it and why is kept.
import type { Statement } from '../statement.ts';

export interface Readmission {
  readonly token: string;
  readonly deliveryId: string;
  /** Who. */
  readonly actor: string;
  /** Why the row can be claimed now. */
  readonly reason: string;
  readonly ticket: string | null;
  /** Answer what would be done, and do nothing. @default false */
  readonly dryRun?: boolean;
}

export interface ReadmitRow {
  readonly answer: 'readmitted' | 'not_excluded';
}

/** A verb of operators. Run again under its token it answers the same and readmits nothing that was excluded since. */
export const readmit: Statement<Readmission, ReadmitRow> = {
  name: 'readmit',
  text: `
WITH repeated AS MATERIALIZED (
  SELECT FROM operator_action WHERE token = CAST(:token AS uuid)
), latest AS MATERIALIZED (
  -- A twin that waited here finds its own token on the row: the receipt is not in its snapshot.
  SELECT x.exclusion_no, x.delivery_id, x.sql_state, x.readmitted_at, x.readmitted_by
  FROM claim_exclusion x
  WHERE x.delivery_id = CAST(:delivery_id AS uuid) AND NOT EXISTS (SELECT FROM repeated)
  ORDER BY x.exclusion_no DESC
  LIMIT 1
  FOR NO KEY UPDATE
), readmitted AS (
  UPDATE claim_exclusion x
  SET readmitted_at = now(), readmitted_by = CAST(:token AS uuid)
  FROM latest l
  WHERE l.readmitted_at IS NULL AND x.exclusion_no = l.exclusion_no AND NOT CAST(:dry_run AS boolean)
  RETURNING x.exclusion_no, x.delivery_id, x.sql_state
), acted AS (
  INSERT INTO operator_action (token, verb, actor, reason, ticket, delivery_id, evidence, acted_at)
  SELECT CAST(:token AS uuid), 'readmit', CAST(:actor AS text), CAST(:reason AS text), CAST(:ticket AS text),
         r.delivery_id, jsonb_build_object('exclusionNo', r.exclusion_no, 'sqlState', r.sql_state), now()
  FROM readmitted r
)
SELECT CAST(json_build_object('answer', CASE
  WHEN EXISTS (SELECT FROM repeated) OR EXISTS (SELECT FROM readmitted)
    OR EXISTS (
      SELECT FROM latest
      WHERE readmitted_by = CAST(:token AS uuid) OR CAST(:dry_run AS boolean) AND readmitted_at IS NULL) THEN 'readmitted'
  ELSE 'not_excluded'
END) AS text) AS answer`,
  parameters: ({ token, deliveryId, actor, reason, ticket, dryRun = false }) => ({
    token,
    delivery_id: deliveryId,
    actor,
    reason,
    ticket,
    dry_run: String(dryRun),
  }),
};
