// What people search the calendar for: reminders by user, destination, state and due time, and how many come due.
import type { DeliveryState } from './delivery-states.ts';

/** By what a search goes through the ledger: an index each, and the time that it sorts by. */
export type FindSource = 'user' | 'destination' | 'calendar' | 'in_flight' | 'unreviewed';

/** The states that are found without a user or a destination: an index holds little more than they do. */
export const sourceOfState: Readonly<Partial<Record<DeliveryState, FindSource>>> = {
  scheduled: 'calendar',
  dispatching: 'in_flight',
  queued: 'in_flight',
  delivering: 'in_flight',
  held: 'unreviewed',
  dead: 'unreviewed',
};

/** Where in a list a page begins: after this instant and id. */
export interface ListPosition {
  readonly at: string;
  readonly id: string;
}

/** What is searched for. What is null restricts nothing. */
export interface FindQuery {
  readonly source: FindSource;
  readonly userId: string | null;
  readonly destination: string | null;
  readonly state: DeliveryState | null;
  /** ISO 8601: due then or later, and before. */
  readonly dueFrom: string | null;
  readonly dueTo: string | null;
  readonly limit: number;
  readonly after: ListPosition | null;
}

/** A reminder in a list. Times are ISO 8601 in UTC. */
export interface FoundReminder {
  readonly deliveryId: string;
  readonly key: string;
  readonly producer: string;
  readonly userId: string;
  readonly destination: string;
  readonly state: DeliveryState;
  readonly stateSince: string;
  readonly version: number;
  readonly attempts: number;
  readonly failures: number;
  readonly parked: boolean;
  readonly dueAt: string;
  /** When it is sent next, at the earliest. */
  readonly nextAttemptAt: string;
  /** Since when it waits for a person; null: for none. */
  readonly unreviewedSince: string | null;
  /** Why it is held, or what went wrong last. */
  readonly reason: string | null;
}

/** A page of what was found. */
export interface FoundPage {
  readonly reminders: readonly FoundReminder[];
  /**
   * Where the next page begins; null: that was all. A page looks at a bounded number of rows, so one that is not full, or
   * empty, may have a next one.
   */
  readonly next: ListPosition | null;
}

/** How many come due. */
export interface Forecast {
  /** From now, until then. */
  readonly from: string;
  readonly to: string;
  /** Of the units of time in which something comes due, in UTC; the first may have begun before `from`. */
  readonly due: readonly { readonly at: string; readonly count: number }[];
  /** Only so many were counted: of what is due from then on there may be more. Null: all were. */
  readonly stoppedAt: string | null;
}

/** The part of the ledger that people search. A destination that nobody has registered answers null. */
export interface SearchLedger {
  /** @throws {LedgerError} when the ledger did not answer */
  find(query: FindQuery): Promise<FoundPage | null>;
  /** @param seconds the unit of time @param count how many of them, from now on @param destination null: all */
  forecast(seconds: number, count: number, destination: string | null): Promise<Forecast | null>;
}
