// schedule: writes new reminders into the calendar and finds those whose key is taken.
import type { NewReminder } from '../../core/ports.ts';
import type { FactsRow } from '../rows.ts';
import type { Statement } from '../statement.ts';

export interface ScheduleItem extends NewReminder {
  readonly item: number;
  readonly fingerprint: string;
}

export type ScheduleRow = { readonly item: number } & (
  | ({ readonly answer: 'scheduled'; readonly near_due: boolean } & FactsRow)
  | ({ readonly answer: 'taken'; readonly own: boolean; readonly fingerprint: string } & FactsRow)
  | { readonly answer: 'unknown_destination' | 'past_expiry' | null }
);

/**
 * An item whose key another command took while this statement waited gets no answer here: the statement's snapshot
 * cannot see that row. It is asked again.
 */
export const schedule: Statement<{ token: string; producer: string; items: readonly ScheduleItem[] }, ScheduleRow> = {
  name: 'schedule',
  text: `
WITH item AS MATERIALIZED (
  SELECT x.item, CAST(x.delivery_id AS uuid) AS delivery_id, x.key, x.destination, x.user_id, x.fingerprint,
         CAST(x.due_at AS timestamptz) AS due_at, CAST(x.expires_at AS timestamptz) AS expires_at,
         convert_from(decode(x.payload, 'base64'), 'UTF8') AS payload,
         row_number() OVER (PARTITION BY x.key ORDER BY x.item) = 1 AS first_of_key
  FROM jsonb_to_recordset(CAST(:items AS jsonb)) AS x (
    item integer, delivery_id text, key text, destination text, user_id text, fingerprint text,
    due_at text, expires_at text, payload text)
), taken AS MATERIALIZED (
  SELECT r.delivery_id, r.idempotency_key, r.producer, r.request_fingerprint, r.created_by_command, r.state, r.due_at,
         r.expires_at, r.version, r.wake_at
  FROM reminder_delivery r
  WHERE r.idempotency_key = ANY (ARRAY(SELECT key FROM item))
), created AS (
  INSERT INTO reminder_delivery (
    delivery_id, producer, user_id, destination_id, idempotency_key, request_fingerprint, payload, payload_sha256,
    created_by_command, created_at, due_at, next_attempt_at, expires_at, wake_at, state, state_since)
  SELECT i.delivery_id, CAST(:producer AS text), i.user_id, d.destination_id, i.key, i.fingerprint, i.payload,
         sha256(convert_to(i.payload, 'UTF8')), CAST(:token AS uuid), now(), i.due_at, i.due_at, i.expires_at,
         i.due_at - make_interval(secs => CAST(:lookahead_seconds AS double precision)), 'scheduled', now()
  FROM item i
  JOIN destination d ON d.name = i.destination
  WHERE i.first_of_key
    AND (i.expires_at IS NULL OR i.expires_at > now())
    AND NOT EXISTS (SELECT FROM taken t WHERE t.idempotency_key = i.key)
  -- In the order of the keys, so that two calls with the same keys wait for each other instead of deadlocking.
  ORDER BY i.key
  ON CONFLICT DO NOTHING
  RETURNING delivery_id, state, due_at, expires_at, version, wake_at
)
SELECT CAST(CASE
  WHEN c.delivery_id IS NOT NULL THEN json_build_object(
    'item', i.item, 'answer', 'scheduled', 'near_due', c.wake_at <= now(), 'delivery_id', c.delivery_id,
    'state', c.state, 'due_at', c.due_at, 'expires_at', c.expires_at, 'version', c.version)
  WHEN t.delivery_id IS NOT NULL THEN json_build_object(
    'item', i.item,
    -- The same command run again answers as it did the first time.
    'answer', CASE
      WHEN t.created_by_command = CAST(:token AS uuid) AND t.delivery_id = i.delivery_id THEN 'scheduled'
      ELSE 'taken'
    END,
    -- One that has ended since has no wake_at.
    'near_due', COALESCE(t.wake_at <= now(), false), 'own', t.producer = CAST(:producer AS text),
    'fingerprint', t.request_fingerprint, 'delivery_id', t.delivery_id, 'state', t.state, 'due_at', t.due_at,
    'expires_at', t.expires_at, 'version', t.version)
  WHEN d.destination_id IS NULL THEN json_build_object('item', i.item, 'answer', 'unknown_destination')
  WHEN i.expires_at <= now() THEN json_build_object('item', i.item, 'answer', 'past_expiry')
  ELSE json_build_object('item', i.item, 'answer', NULL)
END AS text) AS answer
FROM item i
LEFT JOIN created c ON c.delivery_id = i.delivery_id
LEFT JOIN taken t ON t.idempotency_key = i.key
LEFT JOIN destination d ON d.name = i.destination
ORDER BY i.item`,
  parameters: ({ token, producer, items }, settings) => ({
    token,
    producer,
    lookahead_seconds: String(settings.lookaheadSeconds),
    items: JSON.stringify(
      items.map((item) => ({
        item: item.item,
        delivery_id: item.deliveryId,
        key: item.key,
        destination: item.destination,
        user_id: item.userId,
        fingerprint: item.fingerprint,
        due_at: item.dueAt,
        expires_at: item.expiresAt,
        // Base64 keeps the request's size predictable: quotes would be escaped twice on their way.
        payload: Buffer.from(item.payload, 'utf8').toString('base64'),
      })),
    ),
  }),
};
