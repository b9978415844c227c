// The duty `control`: what it may ask, and what is answered.
import * as z from 'zod';
import {
  type Affected,
  type Controlled,
  type ControlVerb,
  controlVerbs,
  dispatchStates,
} from '../core/dispatch-control.ts';
import { destinationName, instant, writing } from './contract-fields.ts';

/** `pause`, `resume`: see `lambdas/core/dispatch-control.ts`. */
export const controlRequest = z
  .strictObject({
    verb: z.enum(controlVerbs),
    ...writing,
    /** @default all dispatch */
    destination: destinationName.optional(),
    /** What was seen, as a look answers it: what was switched since is left alone. A look needs none. */
    seen: z.strictObject({ state: z.enum(dispatchStates), since: instant.nullable() }).optional(),
  })
  .refine(({ apply, seen }) => !apply || seen !== undefined, {
    path: ['seen'],
    error: 'must be the state and since of the look before it',
  });
export type ControlRequest = z.input<typeof controlRequest>;

/** What the duty may ask, by verb. */
export const controlRequests = Object.fromEntries(controlVerbs.map((verb) => [verb, controlRequest])) as Readonly<
  Record<ControlVerb, typeof controlRequest>
>;

/** The answer to a switch. */
export interface ControlResponse {
  readonly answer: 'controlled';
  /** Whether it was done; otherwise the outcome says what would be. */
  readonly applied: boolean;
  readonly outcome: Controlled;
  /** What it would concern; null when it was applied, which counts nothing. */
  readonly affected: Affected | null;
}
