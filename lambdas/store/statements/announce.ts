// announce: marks the events that the event bus accepted.
import type { Statement } from '../statement.ts';

/** Run again it finds them marked and changes nothing. */
export const announce: Statement<{ eventNos: readonly string[] }, { readonly answer: 'announced' }> = {
  name: 'announce',
  text: `
WITH announced AS (
  UPDATE lifecycle_event e
  SET announced_at = now()
  WHERE e.event_no = ANY (ARRAY(
      SELECT CAST(x AS bigint) FROM jsonb_array_elements_text(CAST(:events AS jsonb)) AS x))
    AND e.announced_at IS NULL
)
SELECT CAST(json_build_object('answer', 'announced') AS text) AS answer`,
  parameters: ({ eventNos }) => ({ events: JSON.stringify(eventNos) }),
};
