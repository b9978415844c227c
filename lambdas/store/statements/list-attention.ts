// list-attention: the reminders that somebody should look at first, the longest waiting of each kind.
import type { DeliveryState } from '../../core/delivery-states.ts';
import type { Statement } from '../statement.ts';

export type AttentionRow =
  | { readonly answer: 'read'; readonly now: string }
  | {
      readonly answer: 'for_person' | 'overdue' | 'set_aside';
      readonly delivery_id: string;
      readonly state: DeliveryState;
      readonly since: string;
      readonly why: string | null;
    };

/** Each kind by its index, so that neither the table nor a backlog makes it slower. */
export const listAttention: Statement<{ limit: number }, AttentionRow> = {
  name: 'list-attention',
  text: `
WITH set_aside AS MATERIALIZED (
  SELECT x.delivery_id, x.excluded_at AS since, x.reason AS why
  FROM claim_exclusion x
  WHERE x.readmitted_at IS NULL
  ORDER BY x.exclusion_no
  LIMIT CAST(:limit AS integer)
), for_person AS MATERIALIZED (
  SELECT r.delivery_id, r.state, r.unreviewed_since AS since, COALESCE(r.hold_reason, r.last_error) AS why
  FROM reminder_delivery r
  WHERE r.unreviewed_since IS NOT NULL
  ORDER BY r.unreviewed_since
  LIMIT CAST(:limit AS integer)
), waking AS MATERIALIZED (
  -- What is close to due wakes too, the longest due before it.
  SELECT r.delivery_id, r.destination_id, r.state, r.wake_at, r.next_attempt_at, r.last_error
  FROM reminder_delivery r
  WHERE r.wake_at <= now()
    AND NOT EXISTS (SELECT FROM claim_exclusion x WHERE x.delivery_id = r.delivery_id AND x.readmitted_at IS NULL)
  ORDER BY r.wake_at
  LIMIT CAST(:limit AS integer) * 3
), overdue AS MATERIALIZED (
  SELECT w.delivery_id, w.state, GREATEST(w.wake_at, w.next_attempt_at) AS since, w.last_error AS why
  FROM waking w
  JOIN destination d ON d.destination_id = w.destination_id
  WHERE w.state = 'delivering'
     OR w.state IN ('scheduled', 'dispatching', 'queued')
        AND w.next_attempt_at <= now()
        AND d.state = 'active'
        AND NOT COALESCE((SELECT g.paused FROM dispatch_gate g), true)
  ORDER BY GREATEST(w.wake_at, w.next_attempt_at)
  LIMIT CAST(:limit AS integer)
)
SELECT CAST(json_build_object('answer', 'read', 'now', now()) AS text) AS answer
UNION ALL
SELECT CAST(json_build_object(
  'answer', l.answer, 'delivery_id', l.delivery_id, 'state', l.state, 'since', l.since, 'why', left(l.why, 200)) AS text)
FROM (
  SELECT 'for_person' AS answer, p.delivery_id, p.state, p.since, p.why FROM for_person p
  UNION ALL
  SELECT 'overdue', o.delivery_id, o.state, o.since, o.why FROM overdue o
  UNION ALL
  SELECT 'set_aside', x.delivery_id, r.state, x.since, x.why
  FROM set_aside x
  JOIN reminder_delivery r ON r.delivery_id = x.delivery_id
  ORDER BY since
) l`,
  parameters: ({ limit }) => ({ limit }),
};
