// add-destination: registers where reminders may go; the same name again with the same content changes nothing.
import type { Statement } from '../statement.ts';

/** What a receiver promises about a repeated key. */
export type DestinationContract = 'honours-key' | 'status-lookup' | 'none';

export interface NewDestination {
  readonly destinationId: string;
  readonly name: string;
  readonly url: string;
  readonly owner: string;
  readonly contract: DestinationContract;
  readonly deadlineMs: number | null;
}

export type AddDestinationRow =
  | { readonly answer: 'added' | 'unchanged'; readonly name: string }
  | { readonly answer: 'conflict'; readonly name: string; readonly url: string; readonly owner: string }
  | { readonly answer: null };

/** A name that another command took at this moment gets no answer: ask again. */
export const addDestination: Statement<NewDestination, AddDestinationRow> = {
  name: 'add-destination',
  text: `
WITH taken AS MATERIALIZED (
  SELECT d.destination_id, d.name, d.url, d.owner, d.contract, d.deadline_ms
  FROM destination d
  WHERE d.name = CAST(:name AS text)
), added AS (
  INSERT INTO destination (destination_id, name, url, owner, contract, state, state_since, deadline_ms, created_at)
  SELECT CAST(:destination_id AS uuid), CAST(:name AS text), CAST(:url AS text), CAST(:owner AS text),
         CAST(:contract AS text), 'active', now(), CAST(:deadline_ms AS integer), now()
  WHERE NOT EXISTS (SELECT FROM taken)
  ON CONFLICT DO NOTHING
  RETURNING name
)
SELECT CAST(COALESCE(
  -- The same command run again finds its own id, and answers as it did the first time.
  (SELECT json_build_object('answer', 'added', 'name', a.name) FROM (
     SELECT name FROM added UNION ALL SELECT name FROM taken WHERE destination_id = CAST(:destination_id AS uuid)) a),
  (SELECT json_build_object(
     'answer', CASE
       WHEN ROW (t.url, t.owner, t.contract, t.deadline_ms) IS NOT DISTINCT FROM
            ROW (CAST(:url AS text), CAST(:owner AS text), CAST(:contract AS text), CAST(:deadline_ms AS integer))
       THEN 'unchanged' ELSE 'conflict' END,
     'name', t.name, 'url', t.url, 'owner', t.owner) FROM taken t),
  json_build_object('answer', NULL)) AS text) AS answer`,
  parameters: (destination) => ({
    destination_id: destination.destinationId,
    name: destination.name,
    url: destination.url,
    owner: destination.owner,
    contract: destination.contract,
    deadline_ms: destination.deadlineMs,
  }),
};
