// The duty `inspect`: what it may ask, and what is answered. Nothing of it changes anything.
import * as z from 'zod';
import type { DeliveryState } from '../core/delivery-states.ts';
import type { DispatchStanding } from '../core/dispatch-control.ts';
import type { Explanation } from '../core/verdict-text.ts';
import { destinationName, exact, numberedPage, page, reminderId } from './contract-fields.ts';
import { findRequest, forecastRequest } from './contract-find.ts';

/** `status`: how many reminders are in each state, since when, and whether dispatch is paused. */
export const statusRequest = z.strictObject({ verb: z.literal('status') });

const named = {
  deliveryId: reminderId.optional(),
  key: exact(255).optional(),
  /** Only if it is of this product. */
  producer: exact(128).optional(),
};
type Named = { readonly deliveryId?: string | undefined; readonly key?: string | undefined };
const namesOne = ({ deliveryId, key }: Named) => (deliveryId === undefined) !== (key === undefined);
const otherwise = { path: ['key'], error: 'give either key or deliveryId' };

/** `explain`: the verdict on one reminder, by its id or its key. */
export const explainRequest = z
  .strictObject({
    verb: z.literal('explain'),
    ...named,
    /** Look for a message of it in the dead-letter queue, among a hundred at most; they are given back at once. */
    lookInDeadLetters: z.boolean().default(false),
  })
  .refine(namesOne, otherwise);

/** `show`: all that is stored about one reminder, but its payload. */
export const showRequest = z.strictObject({ verb: z.literal('show'), ...named }).refine(namesOne, otherwise);

/** `unreviewed`: what is held or dead and no person has looked at, the longest first. */
export const unreviewedRequest = z.strictObject({ verb: z.literal('unreviewed'), ...page });

/** `exclusions`: what claims pass over, the longest first. */
export const exclusionsRequest = z.strictObject({ verb: z.literal('exclusions'), ...numberedPage });

/** `destinations`: the registry by name; `next` is the last name. */
export const destinationsRequest = z.strictObject({
  verb: z.literal('destinations'),
  limit: page.limit,
  cursor: destinationName.optional(),
});

/** `actions`: what people did, the newest first: to one reminder, to one destination, or at all. */
export const actionsRequest = z
  .strictObject({
    verb: z.literal('actions'),
    deliveryId: reminderId.optional(),
    destination: destinationName.optional(),
    ...numberedPage,
  })
  .refine(({ deliveryId, destination }) => deliveryId === undefined || destination === undefined, {
    path: ['destination'],
    error: 'give either deliveryId or destination',
  });

/** What the duty may ask, by verb. */
export const inspectRequests = {
  ...{ status: statusRequest, explain: explainRequest, show: showRequest, find: findRequest },
  ...{ forecast: forecastRequest, unreviewed: unreviewedRequest, exclusions: exclusionsRequest },
  ...{ destinations: destinationsRequest, actions: actionsRequest },
} as const;

/** The answer to `status`. */
export interface StatusResponse {
  readonly answer: 'status';
  readonly dispatch: DispatchStanding;
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

/** The answer to `show`: lines of evidence, in the order in which things happened. */
export type ShowResponse =
  | { readonly answer: 'shown'; readonly lines: readonly Readonly<Record<string, unknown>>[] }
  | { readonly answer: 'not_found' };

/** The answer to `exclusions`. */
export interface ExclusionsResponse {
  readonly answer: 'exclusions';
  readonly exclusions: readonly Exclusion[];
  readonly next: string | null;
}

/** A reminder that claims pass over. */
export interface Exclusion {
  readonly deliveryId: string;
  readonly excludedAt: string;
  readonly sqlState: string;
  readonly reason: string;
}

/** The answer to `destinations`. */
export interface DestinationsResponse {
  readonly answer: 'destinations';
  readonly destinations: readonly Destination[];
  readonly next: string | null;
}

/** A destination, and how it does. */
export interface Destination extends DispatchStanding {
  readonly name: string;
  /** Without its query, which may hold a secret. */
  readonly url: string;
  readonly owner: string;
  readonly contract: string;
  /** Milliseconds; null: the stage's. */
  readonly deadlineMs: number | null;
  /** Reminders that wait for it; a thousand means so many or more. */
  readonly parked: number;
  /** Reminders on their way there that failed three times or more; likewise. */
  readonly failing: number;
}

/** The answer to `actions`. */
export interface ActionsResponse {
  readonly answer: 'actions';
  readonly actions: readonly Action[];
  readonly next: string | null;
}

/** What a person did. */
export interface Action {
  readonly actionNo: string;
  readonly at: string;
  readonly verb: string;
  readonly actor: string;
  readonly reason: string;
  readonly ticket: string | null;
  readonly deliveryId: string | null;
  readonly destination: string | null;
  readonly versionSeen: number | null;
  /** What was true then, and what was given as evidence. */
  readonly evidence: Readonly<Record<string, unknown>>;
}
