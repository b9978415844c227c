// What `inspect` searches: reminders by user, destination, state and due time, and how many come due.
import * as z from 'zod';
import { deliveryStates } from '../core/delivery-states.ts';
import { type Forecast, type FoundReminder, sourceOfState } from '../core/find-reminders.ts';
import { destinationName, exact, instant, page } from './contract-fields.ts';

/**
 * `find`: reminders of a user or of a destination, by due time; or of a state alone, then of `held` and `dead` those that
 * nobody has reviewed, and by the time that they wait for.
 */
export const findRequest = z
  .strictObject({
    verb: z.literal('find'),
    userId: exact(128).optional(),
    destination: destinationName.optional(),
    state: z.enum(deliveryStates).optional(),
    /** Due then or later. */
    dueFrom: instant.optional(),
    /** Due before. */
    dueTo: instant.optional(),
    ...page,
  })
  .superRefine(({ userId, destination, state }, context) => {
    if (userId !== undefined || destination !== undefined || (state && sourceOfState[state])) return;
    const why =
      state === undefined
        ? 'name a user, a destination or a state'
        : `name a user or a destination: of all ${state} there is no index`;
    context.addIssue({ code: 'custom', path: [state === undefined ? 'userId' : 'state'], message: why });
  });
export type FindRequest = z.input<typeof findRequest>;

/** The answer to `find` and to `unreviewed`. */
export interface FindResponse {
  readonly answer: 'reminders';
  readonly reminders: readonly FoundReminder[];
  /** The cursor of the next page; null: that was all. A page that is not full, or empty, may have a next one. */
  readonly next: string | null;
}

/** The lengths of time that a forecast counts in, in seconds. */
export const forecastUnits = { minute: 60, hour: 3600, day: 86_400 } as const;
export type ForecastUnit = keyof typeof forecastUnits;

/** `forecast`: how many reminders come due in each minute, hour or day. */
export const forecastRequest = z.strictObject({
  verb: z.literal('forecast'),
  by: z.enum(Object.keys(forecastUnits) as [ForecastUnit, ...ForecastUnit[]]).default('hour'),
  /** How many of them, from now on. */
  count: z.int().min(1).max(1440, 'must be at most 1440').default(24),
  destination: destinationName.optional(),
});
export type ForecastRequest = z.input<typeof forecastRequest>;

/** The answer to `forecast`. */
export type ForecastResponse = { readonly answer: 'forecast' } & Forecast;
