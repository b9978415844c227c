// The operate function: what people ask and decide, which duty may, and who they are.
import * as z from 'zod';
import { type Decided, decisionVerbs } from '../core/decisions.ts';
import type { DeliveryState } from '../core/delivery-states.ts';
import type { FunctionContract } from '../core/function-contract.ts';
import type { Explanation } from '../core/verdict-text.ts';

/** The function as deployed. Each duty has an alias with a URL of its own, and IAM decides who may call which. */
export const operateFunction: FunctionContract = {
  name: 'operate',
  purpose: 'Explains reminders to people and carries out what they decide, by the duty that IAM grants them',
  databaseRole: 'ledger_operator',
  environment: ['STAGE', 'DATABASE_ARN', 'DATABASE_SECRET_ARN', 'DATABASE_NAME'],
  localEnvironment: [],
  memoryMegabytes: 256,
  timeoutSeconds: (settings) => settings.scheduleTimeoutSeconds,
};

/** What people do here, each a team's: look, and decide about a reminder. Named as the alias of each. */
export const duties = ['inspect', 'decide'] as const;
export type OperateDuty = (typeof duties)[number];

/** The most reminders that one request may name. */
export const reminderLimit = 100;

const storable = (text: string): boolean => !text.includes('\u0000') && text.isWellFormed();
const sentence = (limit: number) =>
  z
    .string()
    .trim()
    .min(1, 'must not be empty')
    .max(limit, `must have at most ${limit} characters`)
    .refine(storable, 'must not contain NUL or a lone surrogate');

const instant = z.iso.datetime({ offset: true, error: 'must be an RFC 3339 date and time with an offset' });

/** What every writing request carries. */
const writing = {
  /** Names the command: the same one again has the same answer and does nothing more. A UUID, fresh for each command. */
  commandId: z.uuid('must be a UUID, fresh for each command'),
  /** Why. Kept for good. */
  reason: sentence(500),
  /** Where the work on it is recorded. */
  ticket: sentence(100).optional(),
  /** Do it. Otherwise the answers say what would be done, and nothing is. */
  apply: z.boolean().default(false),
};

const seenReminder = z.strictObject({
  deliveryId: z.uuid('must be the id of a reminder'),
  /** The version as it was shown: a reminder that was changed or tried since is left alone. */
  versionSeen: z.int32().positive(),
  /** As many attempts as were shown. */
  attemptsSeen: z.int32().nonnegative(),
});

const seenReminders = z
  .array(seenReminder)
  .min(1, 'must name a reminder')
  .max(reminderLimit, `must name at most ${reminderLimit} reminders a request`)
  .refine((seen) => new Set(seen.map(({ deliveryId }) => deliveryId)).size === seen.length, 'must name each once');

/** `hold`, `release`, `requeue`, `resolve`, `review`, `cancel`: see `lambdas/core/decisions.ts`. */
export const decisionRequest = z
  .strictObject({
    verb: z.enum(decisionVerbs),
    ...writing,
    reminders: seenReminders,
    /** What the receiver said. `resolve` needs it, and `release` and `requeue` wherever an attempt may have been received. */
    evidence: sentence(1000).optional(),
    /** For `release` and `requeue`: a new expiry, or null for none. */
    expiresAt: instant.nullable().optional(),
  })
  .refine(({ verb, expiresAt }) => verb === 'requeue' || verb === 'release' || expiresAt === undefined, {
    path: ['expiresAt'],
    error: 'is of release and requeue alone',
  });
export type DecisionRequest = z.input<typeof decisionRequest>;

/** `status`: how many reminders are in each state, and since when. */
export const statusRequest = z.strictObject({ verb: z.literal('status') });

/** `explain`: the verdict on one reminder, by its id or its key. */
export const explainRequest = z
  .strictObject({
    verb: z.literal('explain'),
    deliveryId: z.uuid('must be the id of a reminder').optional(),
    key: sentence(255).optional(),
  })
  .refine(({ deliveryId, key }) => (deliveryId === undefined) !== (key === undefined), {
    path: ['key'],
    error: 'give either key or deliveryId',
  });

/** What each duty may ask, by verb. */
export const requestsOfDuty = {
  inspect: { status: statusRequest, explain: explainRequest },
  decide: Object.fromEntries(decisionVerbs.map((verb) => [verb, decisionRequest])),
} as const satisfies Readonly<Record<OperateDuty, Readonly<Record<string, z.ZodType>>>>;

/**
 * Why a request has no answer of the ledger's, with the HTTP status that it is sent with. Nothing was done, except as it says.
 * `not_signed` 403: called otherwise than by a function URL, so that nobody knows by whom. `wrong_duty` 403: the verb is
 * another duty's, named in the message. `unknown_verb` 404. `invalid` 400: `issues` says where and why.
 * `unavailable` 503: the database did not answer, and may have done it; the same request again is safe.
 */
export interface RefusedRequest {
  readonly answer: 'not_signed' | 'wrong_duty' | 'unknown_verb' | 'invalid' | 'unavailable';
  readonly message: string;
  readonly issues?: readonly { readonly path: string; readonly message: string }[];
}

/** The answer to a decision, a reminder each, in order. */
export interface DecisionResponse {
  readonly answer: 'decided';
  /** Whether it was done; otherwise the answers say what would be. */
  readonly applied: boolean;
  readonly reminders: readonly Decided[];
}

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

export type OperateResponse = DecisionResponse | StatusResponse | ExplainResponse | RefusedRequest;
