// enqueue: marks what the queue accepted and keeps every receipt.
import type { Receipt } from '../../core/ports.ts';
import type { Statement } from '../statement.ts';

export interface EnqueueRow {
  readonly message_id: string;
  /** null: a twin of this command recorded the receipt meanwhile; ask again. */
  readonly answer: 'queued' | 'receipt_kept' | 'not_found' | null;
}

/** wake_at stays as the claim set it, so the mark is a HOT update. The fence is the claim's token. */
export const enqueue: Statement<{ claimToken: string; receipts: readonly Receipt[] }, EnqueueRow> = {
  name: 'enqueue',
  text: `
WITH receipt AS MATERIALIZED (
  SELECT CAST(x.delivery_id AS uuid) AS delivery_id, x.message_id, x.queue, x.delay_seconds
  FROM jsonb_to_recordset(CAST(:receipts AS jsonb)) AS x (
    delivery_id text, message_id text, queue text, delay_seconds double precision)
), locked AS MATERIALIZED (
  SELECT r.delivery_id, r.state = 'dispatching' AND r.lease_owner = CAST(:claim_token AS uuid) AS own
  FROM reminder_delivery r
  WHERE r.delivery_id = ANY (ARRAY(SELECT delivery_id FROM receipt))
  ORDER BY r.delivery_id
  FOR NO KEY UPDATE
), repeated AS MATERIALIZED (
  SELECT h.delivery_id, h.message_id, h.moved
  FROM handoff h
  JOIN receipt x ON x.delivery_id = h.delivery_id AND x.message_id = h.message_id
), kept AS (
  INSERT INTO handoff (delivery_id, message_id, queue, token, visible_from, moved, recorded_at)
  SELECT x.delivery_id, x.message_id, x.queue, CAST(:claim_token AS uuid),
         now() + make_interval(secs => x.delay_seconds), l.own, now()
  FROM receipt x
  JOIN locked l ON l.delivery_id = x.delivery_id
  ORDER BY x.delivery_id, x.message_id
  ON CONFLICT DO NOTHING
  RETURNING delivery_id, message_id, moved
), queued AS (
  UPDATE reminder_delivery r
  SET state = 'queued', state_since = now(), lease_owner = NULL, lease_until = NULL,
      first_invited_at = COALESCE(r.first_invited_at, now())
  FROM (SELECT DISTINCT delivery_id FROM kept WHERE moved) k
  WHERE r.delivery_id = k.delivery_id
)
SELECT CAST(json_build_object('message_id', x.message_id, 'answer', CASE
  WHEN COALESCE(k.moved, p.moved) THEN 'queued'
  WHEN NOT COALESCE(k.moved, p.moved) THEN 'receipt_kept'
  WHEN l.delivery_id IS NULL THEN 'not_found'
END) AS text) AS answer
FROM receipt x
LEFT JOIN locked l ON l.delivery_id = x.delivery_id
LEFT JOIN kept k ON k.delivery_id = x.delivery_id AND k.message_id = x.message_id
LEFT JOIN repeated p ON p.delivery_id = x.delivery_id AND p.message_id = x.message_id
ORDER BY x.delivery_id, x.message_id`,
  parameters: ({ claimToken, receipts }) => ({
    claim_token: claimToken,
    receipts: JSON.stringify(
      receipts.map((receipt) => ({
        delivery_id: receipt.deliveryId,
        message_id: receipt.messageId,
        queue: receipt.queue,
        delay_seconds: receipt.delaySeconds,
      })),
    ),
  }),
};
