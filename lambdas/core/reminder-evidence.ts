// What the ledger holds about one reminder, and what an attempt's outcomes amount to.
import { type DeliveryState, type Situation, terminalStates } from './delivery-states.ts';
import type { AttemptPhase, OutcomeKind, Worker } from './ports.ts';

/** One line on what became of an attempt: by its sender, by the claim that closed it, by a lookup or by a person. */
export interface RecordedOutcome {
  readonly at: string;
  readonly recordedBy: 'sender' | 'recover' | 'lookup' | 'operator';
  /** `overtaken`: another attempt's success ended the reminder while this one was open. */
  readonly outcome: OutcomeKind | 'overtaken';
  readonly phase: AttemptPhase | null;
  readonly status: number | null;
  readonly errorClass: string | null;
  /** What the other side said, as it said it: show it through `printable` alone. */
  readonly detail: string | null;
  readonly latencyMs: number | null;
  readonly movedTo: DeliveryState | null;
}

/** An intent, committed before the first byte left, and who made it. */
export interface RecordedAttempt {
  readonly attemptNo: number;
  readonly version: number;
  readonly startedAt: string;
  readonly leaseUntil: string;
  readonly host: string;
  readonly worker: Worker;
  /** In the order of their recording; none while nobody has reported. */
  readonly outcomes: readonly RecordedOutcome[];
}

/** The queue's receipt for an invitation. */
export interface RecordedHandoff {
  readonly at: string;
  readonly messageId: string;
  readonly queue: string;
  readonly visibleFrom: string;
}

/** Claims passed over the reminder, because updating it failed. */
export interface RecordedExclusion {
  readonly at: string;
  readonly sqlState: string;
  readonly reason: string;
  /** Null: claims pass over it now. */
  readonly readmittedAt: string | null;
}

/** Whether somebody looked for the reminder in the dead-letter queue, which the ledger cannot see. */
export type DeadLetterSighting = 'not_looked' | 'not_seen' | 'seen';

export type DestinationState = 'active' | 'paused' | 'disabled' | 'broken';

/** All that a verdict is about. Times are ISO 8601 in UTC, of the database's clock. */
export interface ReminderEvidence {
  /** When it was read. */
  readonly readAt: string;
  readonly deliveryId: string;
  readonly key: string;
  readonly producer: string;
  readonly destination: {
    readonly name: string;
    readonly owner: string;
    readonly contract: 'honours-key' | 'status-lookup' | 'none';
    readonly state: DestinationState;
    readonly stateSince: string;
    readonly stateReason: string | null;
    /** For how long its receiver remembers a key, in seconds; null: nobody registered it. */
    readonly dedupWindowSeconds: number | null;
  };
  /** The pause of all dispatch; null: none. */
  readonly pause: { readonly since: string; readonly reason: string | null } | null;
  readonly state: DeliveryState;
  readonly stateSince: string;
  readonly version: number;
  readonly createdAt: string;
  /** The business clock. */
  readonly dueAt: string;
  /** The recovery clock: the due time, or that of the next try after a failure. */
  readonly nextAttemptAt: string;
  readonly expiresAt: string | null;
  /** When the calendar looks at it again; null: never, or once its destination is active. */
  readonly wakeAt: string | null;
  readonly parked: boolean;
  readonly failures: number;
  readonly invitations: number;
  readonly firstInvitedAt: string | null;
  readonly lease: { readonly owner: string; readonly until: string } | null;
  readonly holdReason: string | null;
  readonly cancelRequestedAt: string | null;
  readonly reviewedAt: string | null;
  /** Since when it waits for a person's review; null: it does not. */
  readonly unreviewedSince: string | null;
  readonly lastError: string | null;
  readonly deliveredAt: string | null;
  /** Since then this row is a tombstone: payload, attempts and receipts are in the archive. */
  readonly archivedAt: string | null;
  /** How many attempts were opened, also those that are in the archive. */
  readonly attemptNo: number;
  readonly handoffs: readonly RecordedHandoff[];
  readonly attempts: readonly RecordedAttempt[];
  readonly exclusions: readonly RecordedExclusion[];
  readonly deadLetter: DeadLetterSighting;
}

/** Reads the evidence of one reminder and changes nothing. */
export interface EvidenceLedger {
  /** Null: no reminder has that id, or that key of that producer. */
  evidence(name: EvidenceName): Promise<ReminderEvidence | null>;
}

/** By id, or by key; with a producer, that producer's alone. */
export type EvidenceName = ({ readonly deliveryId: string } | { readonly key: string }) & {
  readonly producer?: string | undefined;
};

/**
 * What an attempt's outcomes amount to. `delivered`: a 2xx. `failed`: some definite failure, which is better knowledge than
 * an `unknown` beside it. `unknown`: it may have been processed. `open`: nobody has reported.
 */
export type AttemptStanding = 'delivered' | 'failed' | 'unknown' | 'open';

export function attemptStanding({ outcomes }: Pick<RecordedAttempt, 'outcomes'>): AttemptStanding {
  const kinds = outcomes.map(({ outcome }) => outcome);
  if (kinds.includes('delivered')) return 'delivered';
  if (kinds.some((kind) => kind !== 'unknown' && kind !== 'overtaken')) return 'failed';
  return kinds.length > 0 ? 'unknown' : 'open';
}

/** Epoch milliseconds of an instant of the evidence. */
export function at(instant: string): number;
export function at(instant: string | null): number | null;
export function at(instant: string | null): number | null {
  return instant === null ? null : Date.parse(instant);
}

/** Whether somebody's lease on it still lives. */
export function leaseLives({ lease }: Pick<ReminderEvidence, 'lease'>, now: number): boolean {
  return lease !== null && at(lease.until) > now;
}

/** The column of the matrix that a reminder is in. */
export function situationOf(evidence: Pick<ReminderEvidence, 'state' | 'lease'>, now: number): Situation {
  if (evidence.state !== 'delivering') return evidence.state;
  return leaseLives(evidence, now) ? 'delivering, lease live' : 'delivering, lease past';
}

/** Whether no timer leaves its state. */
export function isTerminal({ state }: Pick<ReminderEvidence, 'state'>): boolean {
  return (terminalStates as readonly DeliveryState[]).includes(state);
}

/** The exclusion that stands. */
export function standingExclusion({ exclusions }: Pick<ReminderEvidence, 'exclusions'>): RecordedExclusion | undefined {
  return exclusions.find(({ readmittedAt }) => readmittedAt === null);
}

/** Attempts that the receiver may have processed although the reminder is not delivered, in their order. */
export function mayHaveArrived(evidence: ReminderEvidence, now: number): RecordedAttempt[] {
  if (evidence.state === 'delivered') return [];
  // Of the attempt that is being made nobody need ask yet.
  const current = situationOf(evidence, now) === 'delivering, lease live' ? evidence.attemptNo : undefined;
  return evidence.attempts.filter((attempt) => attempt.attemptNo !== current && attemptStanding(attempt) !== 'failed');
}
