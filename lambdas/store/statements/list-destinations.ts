// list-destinations: the registry, by name, with what waits or fails there.
import type { DispatchState } from '../../core/dispatch-control.ts';
import type { Statement } from '../statement.ts';

export interface DestinationRow {
  readonly answer: 'destination';
  readonly name: string;
  readonly url: string;
  readonly owner: string;
  readonly contract: string;
  readonly state: DispatchState;
  readonly state_since: string;
  readonly state_reason: string | null;
  readonly deadline_ms: number | null;
  readonly parked: number;
  readonly failing: number;
}

/**
 * A page of at most `limit` names after `after`; of each destination no more than `rows` are counted. The URL comes without its
 * query, which may hold a secret.
 */
export const listDestinations: Statement<{ after: string; limit: number; rows: number }, DestinationRow> = {
  name: 'list-destinations',
  text: `
SELECT CAST(json_build_object(
  'answer', 'destination', 'name', d.name, 'url', substring(d.url FROM '^[^?#]*'), 'owner', d.owner,
  'contract', d.contract, 'state', d.state, 'state_since', d.state_since, 'state_reason', d.state_reason,
  'deadline_ms', d.deadline_ms,
  'parked', (
    SELECT count(*) FROM (
      SELECT FROM reminder_delivery p
      WHERE p.parked AND p.destination_id = d.destination_id LIMIT CAST(:rows AS integer)) r),
  'failing', (
    SELECT count(*) FROM (
      SELECT f.state FROM reminder_delivery f
      WHERE f.failures >= 3 AND f.wake_at IS NOT NULL AND f.destination_id = d.destination_id
      LIMIT CAST(:rows AS integer)) r
    -- What waits for a person fails no more.
    WHERE r.state <> 'held')) AS text) AS answer
FROM destination d
WHERE d.name > CAST(:after AS text)
ORDER BY d.name
LIMIT CAST(:limit AS integer)`,
  parameters: ({ after, limit, rows }) => ({ after, limit, rows }),
};
