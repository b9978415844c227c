// get: what the ledger says of reminders of one producer.

import { type FactsRow, type NamedItem, namesJson } from '../rows.ts';
import type { Statement } from '../statement.ts';

export type GetRow = { readonly item: number } & (
  | ({
      readonly answer: 'found';
      readonly key: string;
      readonly destination: string;
      readonly user_id: string;
      readonly next_attempt_at: string;
      readonly wake_at: string | null;
      readonly state_since: string;
      readonly attempts: number;
      readonly failures: number;
      readonly lease_until: string | null;
      readonly cancel_requested_at: string | null;
      readonly hold_reason: string | null;
      readonly last_error: string | null;
      readonly delivered_at: string | null;
      readonly parked: boolean;
    } & FactsRow)
  | { readonly answer: 'not_found' }
);

/** Changes nothing and locks nothing. */
export const get: Statement<{ producer: string; reminders: readonly NamedItem[] }, GetRow> = {
  name: 'get',
  text: `
SELECT CAST(CASE
  WHEN r.delivery_id IS NULL THEN json_build_object('item', x.item, 'answer', 'not_found')
  ELSE json_build_object(
    'item', x.item, 'answer', 'found', 'delivery_id', r.delivery_id, 'state', r.state, 'due_at', r.due_at,
    'expires_at', r.expires_at, 'version', r.version, 'key', r.idempotency_key, 'destination', d.name,
    'user_id', r.user_id, 'next_attempt_at', r.next_attempt_at,
    -- JSON text of infinity is no date: a parked row wakes when its destination does.
    'wake_at', CASE WHEN isfinite(r.wake_at) THEN r.wake_at END,
    'state_since', r.state_since, 'attempts', r.attempt_no, 'failures', r.failures, 'lease_until', r.lease_until,
    'cancel_requested_at', r.cancel_requested_at, 'hold_reason', r.hold_reason, 'last_error', r.last_error,
    'delivered_at', r.delivered_at, 'parked', r.parked)
END AS text) AS answer
FROM jsonb_to_recordset(CAST(:items AS jsonb)) AS x (item integer, key text, delivery_id text)
LEFT JOIN reminder_delivery k ON k.idempotency_key = x.key
LEFT JOIN reminder_delivery r
  ON r.delivery_id = COALESCE(CAST(x.delivery_id AS uuid), k.delivery_id) AND r.producer = CAST(:producer AS text)
LEFT JOIN destination d ON d.destination_id = r.destination_id
ORDER BY x.item`,
  parameters: ({ producer, reminders }) => ({ producer, items: namesJson(reminders) }),
};
