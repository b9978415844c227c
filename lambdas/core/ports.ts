// What the domain needs from the outside: the ledger, the queue, the webhook, the bus and a clock that only waits.
import type { DeliveryState } from './delivery-states.ts';

/** Identifies one writing command. Fresh per command, reused only when that same command is run again. A UUIDv7. */
export type CommandToken = string;

/** Which Lambda environment does the work; kept in the ledger so that an operator finds its logs. */
export interface Worker {
  readonly functionVersion: string;
  readonly requestId: string;
  readonly logStream: string;
}

/** A reminder as a product asks for it, validated, with the identity it gets if its key is new. */
export interface NewReminder {
  readonly deliveryId: string;
  readonly key: string;
  readonly destination: string;
  readonly userId: string;
  /** ISO 8601 in UTC, milliseconds. */
  readonly dueAt: string;
  readonly expiresAt: string | null;
  /** The exact text that is stored, signed and sent. */
  readonly payload: string;
}

/** Names one reminder: by the product's key or by the ledger's id. */
export type ReminderName = { readonly key: string } | { readonly deliveryId: string };

/** What the ledger says of a reminder that exists. Times are ISO 8601 in UTC. */
export interface ReminderFacts {
  readonly deliveryId: string;
  readonly state: DeliveryState;
  readonly dueAt: string;
  readonly expiresAt: string | null;
  readonly version: number;
}

/** All that `get` shows: the facts, and what happens next. */
export interface ReminderView extends ReminderFacts {
  readonly key: string;
  readonly destination: string;
  readonly userId: string;
  readonly nextAttemptAt: string;
  readonly wakeAt: string | null;
  readonly stateSince: string;
  readonly attempts: number;
  readonly failures: number;
  readonly leaseUntil: string | null;
  readonly cancelRequestedAt: string | null;
  readonly holdReason: string | null;
  readonly lastError: string | null;
  readonly deliveredAt: string | null;
  readonly parked: boolean;
}

export type ScheduleAnswer =
  | ({ readonly answer: 'scheduled'; readonly nearDue: boolean } & ReminderFacts)
  | ({ readonly answer: 'duplicate' } & ReminderFacts)
  /** `fields` is empty when the key belongs to another producer: nothing more is told. */
  | { readonly answer: 'conflict'; readonly fields: readonly string[]; readonly deliveryId?: string }
  | { readonly answer: 'invalid'; readonly path: string; readonly message: string };

export type CancelAnswer =
  | ({ readonly answer: 'cancelled' | 'too_late' | 'finished' } & ReminderFacts)
  | { readonly answer: 'not_found' };

export interface Reschedule {
  readonly name: ReminderName;
  readonly dueAt: string;
  /** Absent: the present expiry stays. `null`: no expiry. */
  readonly expiresAt?: string | null;
  readonly expectedVersion?: number;
}

export type RescheduleAnswer =
  | ({ readonly answer: 'rescheduled'; readonly nearDue: boolean } & ReminderFacts)
  | ({ readonly answer: 'unchanged' | 'too_late' | 'held' | 'finished' | 'stale' } & ReminderFacts)
  | { readonly answer: 'invalid'; readonly path: string; readonly message: string }
  | { readonly answer: 'not_found' };

/** A reminder whose dispatch this claim owns. */
export interface Claimed {
  readonly deliveryId: string;
  /** Milliseconds from the statement's `now()` until it may be sent; negative when overdue. */
  readonly dueInMs: number;
  /** The same instant as epoch milliseconds of the database's clock. */
  readonly notBefore: number;
}

export interface ClaimAnswer {
  readonly claimed: readonly Claimed[];
  readonly recovered: readonly string[];
  readonly expired: readonly string[];
  readonly parked: readonly string[];
  /** Where the next claim of the same drain begins to look; null when nothing was taken. */
  readonly highWater: string | null;
  /** When the call that answered was begun, on the monotonic clock: `dueInMs` counts from then or a little later. */
  readonly askedAt: number;
}

/** An invitation that SQS accepted. */
export interface Receipt {
  readonly deliveryId: string;
  readonly messageId: string;
  readonly queue: string;
  readonly delaySeconds: number;
}

/** A reminder whose attempt is open: intent committed, lease owned, everything needed to send. */
export interface Opened {
  readonly answer: 'opened';
  readonly deliveryId: string;
  readonly attemptNo: number;
  readonly key: string;
  readonly payload: string;
  readonly destination: string;
  readonly url: string;
  /** Null: the stage's deadline. */
  readonly deadlineMs: number | null;
}

export type OpenRefusal =
  | 'not_found'
  | 'not_due'
  | 'not_claimed'
  | 'leased'
  | 'finished'
  | 'expired'
  | 'paused'
  | 'token_used'
  /** Its last sender never reported: ask for it alone. */
  | 'alone';

export type OpenAnswer =
  | Opened
  | {
      readonly answer: OpenRefusal;
      readonly deliveryId: string;
      readonly state: DeliveryState | null;
      readonly dueInMs: number | null;
    };

/**
 * What became of an attempt. `delivered`: a 2xx. `retry`: a definite failure worth another try. `permanent`: a definite
 * failure that another try will not mend. `gone`: 410, the destination is to be disabled. `unknown`: bytes may have
 * left and no answer came. `not_sent`: a fault of ours before any byte left; not a failure of the destination.
 */
export type OutcomeKind = 'delivered' | 'retry' | 'permanent' | 'gone' | 'unknown' | 'not_sent';

/** How far an attempt came. `none`: not dialled. `written`: bytes may have left. */
export type AttemptPhase = 'none' | 'dns' | 'connect' | 'tls' | 'written' | 'headers' | 'body';

/** The result of one POST. Never rejects for what the other side does: every end is a value. */
export interface AttemptResult {
  readonly outcome: OutcomeKind;
  readonly phase: AttemptPhase;
  readonly status: number | null;
  /** A short stable word for counting, such as `http_503`, `connect_refused`, `deadline`, `address_blocked`. */
  readonly errorClass: string | null;
  /** For people: at most 1 KiB, without payload, key or URL query. */
  readonly detail: string | null;
  readonly latencyMs: number;
  readonly retryAfterSeconds: number | null;
}

/** One attempt's outcome on its way to the ledger. `openToken` is the lease it was sent under. */
export interface Outcome extends AttemptResult {
  readonly deliveryId: string;
  readonly attemptNo: number;
  readonly openToken: CommandToken;
}

export interface SettleAnswer {
  readonly deliveryId: string;
  readonly attemptNo: number;
  /** `moved`: this outcome decided the state. `recorded`: it is kept as evidence and moved nothing. */
  readonly answer: 'moved' | 'recorded';
  readonly state: DeliveryState;
}

/** A terminal transition on its way to the event bus. `eventId` is `delivery_id:version:state`. */
export interface LifecycleEvent {
  readonly eventNo: string;
  readonly eventId: string;
  readonly deliveryId: string;
  readonly producer: string;
  readonly state: DeliveryState;
  readonly version: number;
  readonly dueAt: string;
  readonly at: string;
  readonly attempts: number;
}

/** The due-date table. Each writing command may be run twice with its token: same answer, same rows. */
export interface Ledger {
  schedule(command: {
    token: CommandToken;
    producer: string;
    reminders: readonly NewReminder[];
  }): Promise<ScheduleAnswer[]>;
  cancel(command: {
    token: CommandToken;
    producer: string;
    reminders: readonly ReminderName[];
  }): Promise<CancelAnswer[]>;
  reschedule(command: {
    token: CommandToken;
    producer: string;
    reminders: readonly Reschedule[];
  }): Promise<RescheduleAnswer[]>;
  get(query: { producer: string; reminders: readonly ReminderName[] }): Promise<(ReminderView | null)[]>;
  /** Claims what is due, at most `limit` rows; with `only`, none but these. */
  claim(command: {
    token: CommandToken;
    worker: Worker;
    limit: number;
    lowWater: string | null;
    only?: readonly string[];
  }): Promise<ClaimAnswer>;
  /** The ids that the next claim would look at. Takes nothing. */
  listDue(query: { limit: number }): Promise<string[]>;
  /** Sets a row aside that cannot be claimed even alone, by the token of the claim that failed. */
  exclude(command: { token: CommandToken; deliveryId: string; sqlState: string; reason: string }): Promise<void>;
  claimById(command: { token: CommandToken; worker: Worker; deliveryIds: readonly string[] }): Promise<ClaimAnswer>;
  /** Marks what the queue accepted for the claim `claimToken`. Answers how many rows became `queued`; every receipt is kept. */
  enqueue(command: { claimToken: CommandToken; receipts: readonly Receipt[] }): Promise<number>;
  /** Gives back what the queue refused of the claim `claimToken`. Answers how many rows went back to `scheduled`. */
  release(command: { token: CommandToken; claimToken: CommandToken; deliveryIds: readonly string[] }): Promise<number>;
  /** Answers how many parked rows of active destinations went back to the calendar. */
  unpark(command: { token: CommandToken; limit: number }): Promise<number>;
  /**
   * Opens attempts. A row whose last sender never reported is opened only `alone`.
   * `alone` @default whether one id is asked for
   */
  open(command: {
    token: CommandToken;
    worker: Worker;
    deliveryIds: readonly string[];
    alone?: boolean;
  }): Promise<OpenAnswer[]>;
  settle(command: { token: CommandToken; outcomes: readonly Outcome[] }): Promise<SettleAnswer[]>;
  unannounced(query: { limit: number }): Promise<LifecycleEvent[]>;
  announce(command: { eventNos: readonly string[] }): Promise<void>;
}

/** An invitation to advance a reminder; the message body is `{v, delivery_id, not_before}` and nothing else. */
export interface Invitation {
  readonly deliveryId: string;
  readonly notBefore: number;
  /** Until it is due; with fractions, negative when overdue. The queue brings it into its own bounds, never up. */
  readonly delaySeconds: number;
}

export interface PublishAnswer {
  readonly accepted: readonly Receipt[];
  /** Ids that SQS refused, left out of its answer, or that were in a call that failed. */
  readonly refused: readonly string[];
  /** A whole SendMessageBatch was refused or failed: the drain stops. */
  readonly batchRefused: boolean;
}

/** The queue. Resolves also when SQS fails: the answer says what was not accepted. */
export interface Invitations {
  publish(invitations: readonly Invitation[]): Promise<PublishAnswer>;
}

export interface WebhookRequest {
  readonly deliveryId: string;
  readonly key: string;
  readonly destination: string;
  readonly url: string;
  readonly payload: string;
  readonly deadlineMs: number;
}

/** Sends webhooks. One session serves one batch; nothing it opened outlives `close`. */
export interface Webhook {
  /** Fetches what a send needs (signing keys) so that a failing fetch happens before any attempt is opened. */
  prepare(): Promise<WebhookSession>;
}

export interface WebhookSession {
  post(request: WebhookRequest, signal: AbortSignal): Promise<AttemptResult>;
  close(): Promise<void>;
}

/** The event bus. Answers the `eventNo` of each event it accepted. */
export interface Announcements {
  publish(events: readonly LifecycleEvent[]): Promise<string[]>;
}

/** Application time: for waiting and measuring only. Due, lease and expiry are the database's. */
export interface Clock {
  /** Monotonic milliseconds. */
  monotonic(): number;
  /** Wall clock, epoch milliseconds. */
  wall(): number;
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

/** One structured line; the verb of the design is the event's name. Never a payload, key or URL query. */
export interface Log {
  info(event: string, fields?: Record<string, unknown>): void;
  warn(event: string, fields?: Record<string, unknown>): void;
  error(event: string, fields?: Record<string, unknown>): void;
}

/** Counts, durations and shares for CloudWatch, named by verb. */
export interface Meter {
  count(name: string, value?: number): void;
  milliseconds(name: string, value: number): void;
  percent(name: string, value: number): void;
}
