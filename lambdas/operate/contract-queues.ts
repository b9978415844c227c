// The duty `inspect` on the queues: what it may ask about handoffs and set-aside messages, and what is answered.
import * as z from 'zod';
import type { QueueCounts } from '../core/dead-letters.ts';
import type { HandoffFinding } from '../core/handoffs.ts';
import type { PoisonReason } from '../core/recoveries.ts';

/** `handoffs`: what was handed to the queue and should have been opened, against what the queue holds. */
export const handoffsRequest = z.strictObject({ verb: z.literal('handoffs') });

/** `poison`: the messages that were set aside from the dead-letter queue, the latest hundred. */
export const poisonRequest = z.strictObject({ verb: z.literal('poison') });

/** What the duty may ask, by verb. */
export const queueRequests = { handoffs: handoffsRequest, poison: poisonRequest } as const;

/** The answer to `handoffs`. Counts of rows are of the first 2,000 in flight, the longest due; those of queues are SQS's own. */
export interface HandoffsResponse {
  readonly answer: 'handoffs';
  readonly finding: HandoffFinding;
  readonly lostAtLeast: number;
  readonly queued: number;
  /** Of them, those whose invitation should have been opened. */
  readonly overdue: number;
  /** Since when the oldest of those could have been. */
  readonly oldestSince: string | null;
  readonly queue: QueueCounts;
  readonly deadLetters: QueueCounts;
  /** The oldest hundred that are overdue, as a `republish` names them. */
  readonly reminders: readonly OverdueReminder[];
}

/** A reminder whose invitation should have been opened. */
export interface OverdueReminder {
  readonly deliveryId: string;
  readonly version: number;
  readonly attempts: number;
  readonly since: string;
}

/** The answer to `poison`. */
export interface PoisonResponse {
  readonly answer: 'poison';
  readonly messages: readonly PoisonMessage[];
}

/** A message that was set aside. */
export interface PoisonMessage {
  readonly messageId: string;
  readonly receives: number;
  readonly because: PoisonReason;
  /** Its first 1,000 characters, as it said them: show them through `printable` alone. */
  readonly body: string;
  /** Who set it aside, when and why. */
  readonly actor: string;
  readonly at: string;
  readonly reason: string;
}
