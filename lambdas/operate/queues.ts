// Answers what the duty `inspect` asks about the queues.
import type { z } from 'zod';
import type { DeadLetters } from '../core/dead-letters.ts';
import { judgeHandoffs } from '../core/handoffs.ts';
import { instant } from '../store/rows.ts';
import type { StatementRunner } from '../store/statement.ts';
import { listHandoffs } from '../store/statements/list-handoffs.ts';
import { listPoison } from '../store/statements/list-poison.ts';
import { reminderLimit } from './contract-fields.ts';
import type { HandoffsResponse, handoffsRequest, PoisonResponse, poisonRequest } from './contract-queues.ts';

/** Rows in flight that a look at the handoffs reads at most. */
const rowLimit = 2000;

/** Implements those verbs. */
export function queueVerbs(database: StatementRunner, deadLetters: DeadLetters) {
  return {
    async handoffs(_request: z.output<typeof handoffsRequest>): Promise<HandoffsResponse> {
      // The queue first: what is handed over meanwhile makes it look fuller, and none look lost.
      const counts = await deadLetters.counts();
      const rows = await database.run(listHandoffs, { limit: rowLimit, names: reminderLimit });
      let [queued, overdue, oldest]: [number, number, string | null] = [0, 0, null];
      const reminders = [];
      for (const row of rows) {
        if (row.answer === 'handoffs') [queued, overdue, oldest] = [row.queued, row.overdue, row.oldest];
        else {
          const { delivery_id: deliveryId, version, attempts, since } = row;
          reminders.push({ deliveryId, version, attempts, since: instant(since) });
        }
      }
      return {
        ...{ answer: 'handoffs', ...judgeHandoffs({ queued, overdue }, counts.queue), queued, overdue },
        ...{ oldestSince: instant(oldest), ...counts, reminders },
      };
    },

    async poison(_request: z.output<typeof poisonRequest>): Promise<PoisonResponse> {
      const rows = await database.run(listPoison, { limit: reminderLimit });
      const messages = rows.map(({ message_id, receives, because, body, actor, reason, at }) => ({
        ...{ messageId: message_id, receives, because, body, actor, reason, at: instant(at) },
      }));
      return { answer: 'poison', messages };
    },
  };
}
