// The reminders that somebody should look at first.
import type { DeliveryState } from './delivery-states.ts';

/** One of them, and since when it waits. Times are ISO 8601 in UTC, of the database's clock. */
export interface AttentionLine {
  readonly deliveryId: string;
  readonly state: DeliveryState;
  readonly since: string;
  /** What a receiver or an operator said, or the database did: show it through `printable` alone. Null: nobody said anything. */
  readonly why: string | null;
}

/** The longest waiting of each kind first. */
export interface Attention {
  /** When it was read. */
  readonly readAt: string;
  /** Held or dead, and nobody has reviewed it. */
  readonly forPerson: readonly AttentionLine[];
  /** A claim should have looked at it: it is due and nothing keeps it, or its sender's lease is over. */
  readonly overdue: readonly AttentionLine[];
  /** Claims pass over it, because updating its row failed. */
  readonly setAside: readonly AttentionLine[];
}

/** Reads them and changes nothing. */
export interface AttentionLedger {
  /** @param limit the most lines of each kind */
  attention(limit: number): Promise<Attention>;
}
