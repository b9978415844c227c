// Reminders whose invitation is lost, and the dead-letter queue, as tests arrange them.
import { PurgeQueueCommand, SendMessageBatchCommand } from '@aws-sdk/client-sqs';
import type { Asked, RunningLedger } from './running-ledger.ts';

/** An empty queue. */
export const none = { ready: 0, delayed: 0, inFlight: 0 };

/** @param ledger asked at each call: a test file starts it late */
export function lostReminders(ledger: () => RunningLedger) {
  const deadLetterUrl = () => ledger().aws.queue.deadLetterUrl;

  /** Lets its invitation have had its time, and the calendar look at it much later. Receipts only a test changes, past their triggers. */
  async function age({ deliveryId }: Asked): Promise<void> {
    await ledger().sql(
      `DO $$ BEGIN SET LOCAL session_replication_role = replica;
         UPDATE reminder_delivery SET wake_at = now() + interval '1 h', state_since = now() - interval '1 h',
           first_invited_at = now() - interval '1 h', next_attempt_at = now() - interval '1 h'
         WHERE delivery_id = '${deliveryId}';
         UPDATE handoff SET visible_from = now() - interval '1 h' WHERE delivery_id = '${deliveryId}'; END $$`,
    );
  }

  return {
    age,
    /** A reminder whose invitation was lost an hour ago. */
    async lost(destination: string): Promise<Asked> {
      const asked = await ledger().scheduleUnsent(destination);
      await age(asked);
      return asked;
    },
    /** Puts messages into the dead-letter queue. */
    async bury(...bodies: readonly string[]): Promise<void> {
      for (let first = 0; first < bodies.length; first += 10) {
        const some = bodies.slice(first, first + 10);
        const Entries = some.map((MessageBody, place) => ({ Id: String(place), MessageBody }));
        await ledger().sqs.send(new SendMessageBatchCommand({ QueueUrl: deadLetterUrl(), Entries }));
      }
    },
    deadLetters: async () => (await ledger().aws.queue.depth()).deadLetters,
    emptyDeadLetters: () => ledger().sqs.send(new PurgeQueueCommand({ QueueUrl: deadLetterUrl() })),
  };
}
