// list-destinations: the registry, by name.
import type { Statement } from '../statement.ts';

export interface DestinationRow {
  readonly answer: 'destination';
  readonly name: string;
  readonly url: string;
  readonly owner: string;
  readonly contract: string;
  readonly state: string;
  readonly state_since: string;
  readonly state_reason: string | null;
  readonly deadline_ms: number | null;
}

/** A page of at most `limit` names after `after`. */
export const listDestinations: Statement<{ after: string; limit: number }, DestinationRow> = {
  name: 'list-destinations',
  text: `
SELECT CAST(json_build_object(
  'answer', 'destination', 'name', d.name, 'url', d.url, 'owner', d.owner, 'contract', d.contract, 'state', d.state,
  'state_since', d.state_since, 'state_reason', d.state_reason, 'deadline_ms', d.deadline_ms) AS text) AS answer
FROM destination d
WHERE d.name > CAST(:after AS text)
ORDER BY d.name
LIMIT CAST(:limit AS integer)`,
  parameters: ({ after, limit }) => ({ after, limit }),
};
