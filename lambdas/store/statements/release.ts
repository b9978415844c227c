// release: gives rows that the queue refused back to the calendar, later each time.
import type { Statement } from '../statement.ts';

export interface CountRow {
  readonly answer: 'counted' | null;
  readonly count: number;
}

/** The fence is the claim's token; the receipt under the command's own token makes a second run answer the same. */
export const release: Statement<{ token: string; claimToken: string; deliveryIds: readonly string[] }, CountRow> = {
  name: 'release',
  text: `
WITH repeated AS MATERIALIZED (
  SELECT answer FROM command_receipt WHERE token = CAST(:token AS uuid) AND item = 0
), locked AS MATERIALIZED (
  SELECT r.delivery_id, r.state = 'dispatching' AND r.lease_owner = CAST(:claim_token AS uuid) AS own
  FROM reminder_delivery r
  WHERE r.delivery_id = ANY (ARRAY(
      SELECT CAST(x AS uuid) FROM jsonb_array_elements_text(CAST(:deliveries AS jsonb)) AS x))
    AND NOT EXISTS (SELECT FROM repeated)
  ORDER BY r.delivery_id
  FOR NO KEY UPDATE
), receipt AS (
  INSERT INTO command_receipt (token, item, verb, answer, answered_at)
  SELECT CAST(:token AS uuid), 0, 'release',
         jsonb_build_object('answer', 'counted', 'count', (SELECT count(*) FROM locked WHERE own)), now()
  WHERE NOT EXISTS (SELECT FROM repeated)
  ON CONFLICT DO NOTHING
  RETURNING answer
), released AS (
  UPDATE reminder_delivery r
  SET state = 'scheduled', state_since = now(), lease_owner = NULL, lease_until = NULL,
      wake_at = now() + make_interval(secs =>
        CAST(:release_base_seconds AS double precision) * power(2, LEAST(GREATEST(r.invitations - 1, 0), 5))),
      last_error = 'queue_refused: its invitation was not accepted'
  FROM locked l
  WHERE l.own AND r.delivery_id = l.delivery_id AND EXISTS (SELECT FROM receipt)
)
SELECT CAST(COALESCE(
  (SELECT answer FROM receipt), (SELECT answer FROM repeated), jsonb_build_object('answer', NULL)) AS text) AS answer`,
  parameters: ({ token, claimToken, deliveryIds }, settings) => ({
    token,
    claim_token: claimToken,
    deliveries: JSON.stringify(deliveryIds),
    release_base_seconds: String(settings.releaseBaseSeconds),
  }),
};
