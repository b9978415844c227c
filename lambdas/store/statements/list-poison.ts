// list-poison: the messages that were set aside from the dead-letter queue, the latest first.
import type { PoisonReason } from '../../core/recoveries.ts';
import type { Statement } from '../statement.ts';

export interface PoisonRow {
  readonly answer: 'poison';
  readonly message_id: string;
  readonly receives: number;
  readonly because: PoisonReason;
  readonly body: string;
  readonly actor: string;
  readonly reason: string;
  readonly at: string;
}

/** By the index of actions by verb and time. */
export const listPoison: Statement<{ limit: number }, PoisonRow> = {
  name: 'list-poison',
  text: `
SELECT CAST(json_build_object(
  'answer', 'poison', 'message_id', o.evidence ->> 'messageId', 'receives', o.evidence -> 'receives',
  'because', o.evidence ->> 'because', 'body', o.evidence ->> 'body', 'actor', o.actor, 'reason', o.reason,
  'at', o.acted_at) AS text) AS answer
FROM operator_action o
WHERE o.verb = 'set_aside'
ORDER BY o.acted_at DESC, o.action_no DESC
LIMIT CAST(:limit AS integer)`,
  parameters: ({ limit }) => ({ limit }),
};
