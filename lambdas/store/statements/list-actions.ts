// list-actions: what people did to the ledger, the newest first.
import type { Statement } from '../statement.ts';

export interface ActionRow {
  readonly answer: 'action';
  readonly action_no: string;
  readonly acted_at: string;
  readonly verb: string;
  readonly actor: string;
  readonly reason: string;
  readonly ticket: string | null;
  readonly delivery_id: string | null;
  readonly destination: string | null;
  readonly version_seen: number | null;
  readonly evidence: Readonly<Record<string, unknown>>;
}

/** To one reminder, to one destination, or to anything: an index each. */
export const listActions: Statement<
  { deliveryId: string | null; destination: string | null; before: string | null; limit: number },
  ActionRow
> = {
  name: 'list-actions',
  text: `
WITH found AS MATERIALIZED (
  (SELECT a.* FROM operator_action a
   WHERE a.delivery_id = CAST(:delivery_id AS uuid) AND a.action_no < CAST(:before AS bigint)
   ORDER BY a.action_no DESC
   LIMIT CAST(:limit AS integer))
  UNION ALL
  (SELECT a.* FROM operator_action a
   WHERE a.destination_id = (SELECT d.destination_id FROM destination d WHERE d.name = CAST(:destination AS text))
     AND a.action_no < CAST(:before AS bigint)
   ORDER BY a.action_no DESC
   LIMIT CAST(:limit AS integer))
  UNION ALL
  (SELECT a.* FROM operator_action a
   WHERE CAST(:delivery_id AS uuid) IS NULL AND CAST(:destination AS text) IS NULL
     AND a.action_no < CAST(:before AS bigint)
   ORDER BY a.action_no DESC
   LIMIT CAST(:limit AS integer))
)
SELECT CAST(json_build_object(
  'answer', 'action', 'action_no', CAST(f.action_no AS text), 'acted_at', f.acted_at, 'verb', f.verb, 'actor', f.actor,
  'reason', f.reason, 'ticket', f.ticket, 'delivery_id', f.delivery_id, 'destination', d.name,
  'version_seen', f.version_seen, 'evidence', f.evidence) AS text) AS answer
FROM found f
LEFT JOIN destination d ON d.destination_id = f.destination_id
ORDER BY f.action_no DESC`,
  parameters: ({ deliveryId, destination, before, limit }) => ({
    delivery_id: deliveryId,
    destination,
    before: before ?? '9223372036854775807',
    limit,
  }),
};
