// The duty `recover`: what it may ask, and what is answered.
import * as z from 'zod';
import type { Readmitted, Recovered, RecoveryAnswer } from '../core/recoveries.ts';
import type { Redriven } from '../core/redrive.ts';
import { reminderId, reminderLimit, seenReminders, sentence, writing } from './contract-fields.ts';

/** What the receiver said. Needed wherever an attempt may have been received. */
const evidence = sentence(1000).optional();

/** `reclaim`: see `lambdas/core/recoveries.ts`. It leads to what the next claim would do anyway, and needs no evidence. */
export const reclaimRequest = z.strictObject({ verb: z.literal('reclaim'), ...writing, reminders: seenReminders });

/** `republish`: see there. */
export const republishRequest = z.strictObject({
  ...{ verb: z.literal('republish'), ...writing, reminders: seenReminders },
  evidence,
});

/** `readmit`: lets claims try reminders again that they pass over. Nobody changes those rows, so no version is asked for. */
export const readmitRequest = z.strictObject({
  ...{ verb: z.literal('readmit'), ...writing },
  deliveryIds: z
    .array(reminderId)
    .min(1, 'must name a reminder')
    .max(reminderLimit, `must name at most ${reminderLimit} reminders a request`),
});

/** `redrive`: looks into the dead-letter queue, and decides about each message by its reminder. */
export const redriveRequest = z.strictObject({
  ...{ verb: z.literal('redrive'), ...writing },
  evidence,
  /** How many messages to look at. */
  most: z.int().min(1).max(reminderLimit).default(reminderLimit),
});

/** What the duty may ask, by verb. */
export const recoverRequests = {
  reclaim: reclaimRequest,
  republish: republishRequest,
  readmit: readmitRequest,
  redrive: redriveRequest,
} as const;

export type RecoverRequest = z.input<(typeof recoverRequests)[keyof typeof recoverRequests]>;

/** What was said of one reminder. */
export type RecoveredReminder = Recovered | Readmitted;
export type RecoveredAnswer = RecoveryAnswer | Readmitted['answer'];

/** The answer to `reclaim`, `republish` and `readmit`, a reminder each, in order. */
export interface RecoverResponse {
  readonly answer: 'recovered';
  /** Whether it was done; otherwise the answers say what would be. */
  readonly applied: boolean;
  readonly reminders: readonly RecoveredReminder[];
}

/** The answer to `redrive`, a message each. */
export interface RedriveResponse extends Redriven {
  readonly answer: 'redriven';
  /** Whether it was done; otherwise the messages are in the queue as before, and the verdicts say what would be. */
  readonly applied: boolean;
}
