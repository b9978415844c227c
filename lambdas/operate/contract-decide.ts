// The duty `decide`: what it may ask, and what is answered.
import * as z from 'zod';
import { type Decided, type DecisionVerb, decisionVerbs } from '../core/decisions.ts';
import { instant, seenReminders, sentence, writing } from './contract-fields.ts';

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

/** What the duty may ask, by verb. */
export const decideRequests = Object.fromEntries(decisionVerbs.map((verb) => [verb, decisionRequest])) as Readonly<
  Record<DecisionVerb, typeof decisionRequest>
>;

/** The answer to a decision, a reminder each, in order. */
export interface DecisionResponse {
  readonly answer: 'decided';
  /** Whether it was done; otherwise the answers say what would be. */
  readonly applied: boolean;
  readonly reminders: readonly Decided[];
}
