// exclude: sets a row aside that cannot be claimed even alone; claims pass over it until it is readmitted.
import type { Statement } from '../statement.ts';

export interface Exclusion {
  readonly token: string;
  readonly deliveryId: string;
  readonly sqlState: string;
  readonly reason: string;
}

/** Touches nothing of the row itself. Run again, or when the row is set aside already, it changes nothing. */
export const exclude: Statement<Exclusion, { readonly answer: 'excluded' }> = {
  name: 'exclude',
  text: `
WITH excluded AS (
  INSERT INTO claim_exclusion (delivery_id, token, excluded_at, sql_state, reason)
  VALUES (CAST(:delivery_id AS uuid), CAST(:token AS uuid), now(), CAST(:sql_state AS text), CAST(:reason AS text))
  ON CONFLICT DO NOTHING
)
SELECT CAST(json_build_object('answer', 'excluded') AS text) AS answer`,
  parameters: ({ token, deliveryId, sqlState, reason }) => ({
    token,
    delivery_id: deliveryId,
    sql_state: sqlState,
    reason,
  }),
};
