// The duty `inspect`: what it may ask, and what is answered. Nothing of it changes anything.
import * as z from 'zod';
import type { DeliveryState } from '../core/delivery-states.ts';
import type { Explanation } from '../core/verdict-text.ts';
import { reminderId, sentence } from './contract-fields.ts';

/** `status`: how many reminders are in each state, and since when. */
export const statusRequest = z.strictObject({ verb: z.literal('status') });

/** `explain`: the verdict on one reminder, by its id or its key. */
export const explainRequest = z
  .strictObject({
    verb: z.literal('explain'),
    deliveryId: reminderId.optional(),
    key: sentence(255).optional(),
    /** Look for a message of it in the dead-letter queue, among a hundred at most; they are given back at once. */
    lookInDeadLetters: z.boolean().default(false),
  })
  .refine(({ deliveryId, key }) => (deliveryId === undefined) !== (key === undefined), {
    path: ['key'],
    error: 'give either key or deliveryId',
  });

/** What the duty may ask, by verb. */
export const inspectRequests = { status: statusRequest, explain: explainRequest } as const;

/** The answer to `status`. */
export interface StatusResponse {
  readonly answer: 'status';
  readonly states: readonly StateCount[];
}

/** A state, its reminders, and since when the oldest is in it. */
export interface StateCount {
  readonly state: DeliveryState;
  readonly count: number;
  readonly oldestSince: string;
  /** The earliest due time of those that are due and not sent; null: there are none. */
  readonly oldestDue: string | null;
}

/** The answer to `explain`. */
export type ExplainResponse =
  | { readonly answer: 'explained'; readonly explanation: Explanation }
  | { readonly answer: 'not_found' };
