// unannounced: the oldest events of the outbox that the event bus has not accepted yet.
import type { DeliveryState } from '../../core/delivery-states.ts';
import type { Statement } from '../statement.ts';

export interface EventRow {
  readonly answer: 'event';
  readonly event_no: string;
  readonly delivery_id: string;
  readonly producer: string;
  readonly state: DeliveryState;
  readonly version: number;
  readonly due_at: string;
  readonly occurred_at: string;
  readonly attempts: number;
}

/** Two drains at once may both send an event; its id is the same. */
export const unannounced: Statement<{ limit: number }, EventRow> = {
  name: 'unannounced',
  text: `
SELECT CAST(json_build_object(
  'answer', 'event', 'event_no', CAST(e.event_no AS text), 'delivery_id', e.delivery_id, 'producer', r.producer,
  'state', e.state, 'version', e.version, 'due_at', r.due_at, 'occurred_at', e.occurred_at,
  'attempts', r.attempt_no) AS text) AS answer
FROM lifecycle_event e
JOIN reminder_delivery r ON r.delivery_id = e.delivery_id
WHERE e.announced_at IS NULL
ORDER BY e.event_no
LIMIT CAST(:limit AS integer)`,
  parameters: ({ limit }) => ({ limit }),
};
