// cancel: calls reminders off; while one is being sent the wish is kept and prevents its retries.

import { type FactsRow, type NamedItem, namesJson } from '../rows.ts';
import type { Statement } from '../statement.ts';

export type CancelRow = { readonly item: number } & (
  | ({ readonly answer: 'cancelled' | 'too_late' | 'finished' } & FactsRow)
  | { readonly answer: 'not_found' }
  | { readonly answer: null }
);

/** Two names of one reminder in one call: the first is answered, the other is asked again. */
export const cancel: Statement<{ token: string; producer: string; reminders: readonly NamedItem[] }, CancelRow> = {
  name: 'cancel',
  text: `
WITH item AS MATERIALIZED (
  SELECT x.item, COALESCE(CAST(x.delivery_id AS uuid), k.delivery_id) AS delivery_id
  FROM jsonb_to_recordset(CAST(:items AS jsonb)) AS x (item integer, key text, delivery_id text)
  LEFT JOIN reminder_delivery k ON k.idempotency_key = x.key
), repeated AS MATERIALIZED (
  SELECT c.item, c.answer FROM command_receipt c WHERE c.token = CAST(:token AS uuid)
), locked AS MATERIALIZED (
  SELECT r.delivery_id, r.state, r.due_at, r.expires_at, r.version
  FROM reminder_delivery r
  WHERE r.delivery_id = ANY (ARRAY(SELECT delivery_id FROM item)) AND r.producer = CAST(:producer AS text)
  ORDER BY r.delivery_id
  FOR NO KEY UPDATE
), judged AS MATERIALIZED (
  SELECT DISTINCT ON (l.delivery_id) i.item, l.*, CASE
    WHEN l.state = 'delivering' THEN 'too_late'
    WHEN l.state IN ('delivered', 'expired') THEN 'finished'
    ELSE 'cancelled'
  END AS answer
  FROM item i
  JOIN locked l ON l.delivery_id = i.delivery_id
  WHERE NOT EXISTS (SELECT FROM repeated p WHERE p.item = i.item)
  ORDER BY l.delivery_id, i.item
), receipt AS (
  INSERT INTO command_receipt (token, item, verb, answer, answered_at)
  SELECT CAST(:token AS uuid), j.item, 'cancel', jsonb_build_object(
    'item', j.item, 'answer', j.answer, 'delivery_id', j.delivery_id,
    'state', CASE j.answer WHEN 'cancelled' THEN 'cancelled' ELSE j.state END,
    'due_at', j.due_at, 'expires_at', j.expires_at, 'version', j.version), now()
  FROM judged j
  ORDER BY j.item
  ON CONFLICT DO NOTHING
  RETURNING item, answer
), cancelled AS (
  UPDATE reminder_delivery r
  SET state = 'cancelled', state_since = now(), wake_at = NULL, parked = false, hold_reason = NULL,
      lease_owner = NULL, lease_until = NULL, cancel_requested_at = now()
  FROM judged j
  JOIN receipt c ON c.item = j.item
  WHERE j.answer = 'cancelled' AND j.state <> 'cancelled' AND r.delivery_id = j.delivery_id
  RETURNING r.delivery_id, r.version, r.state
), flagged AS (
  UPDATE reminder_delivery r
  SET cancel_requested_at = COALESCE(r.cancel_requested_at, now())
  FROM judged j
  JOIN receipt c ON c.item = j.item
  WHERE j.answer = 'too_late' AND r.delivery_id = j.delivery_id
), announced AS (
  INSERT INTO lifecycle_event (delivery_id, version, state, occurred_at)
  SELECT delivery_id, version, state, now() FROM cancelled ORDER BY delivery_id
  ON CONFLICT DO NOTHING
)
SELECT CAST(COALESCE(p.answer, c.answer, jsonb_build_object(
  'item', i.item, 'answer', CASE WHEN l.delivery_id IS NULL THEN 'not_found' END)) AS text) AS answer
FROM item i
LEFT JOIN repeated p ON p.item = i.item
LEFT JOIN receipt c ON c.item = i.item
LEFT JOIN locked l ON l.delivery_id = i.delivery_id
ORDER BY i.item`,
  parameters: ({ token, producer, reminders }) => ({ token, producer, items: namesJson(reminders) }),
};
