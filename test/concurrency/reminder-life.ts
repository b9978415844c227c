// The moves of a reminder's life as the model makes them: its own words for what the statements do in SQL.
import type { NewReminder, OutcomeKind, ReminderFacts } from '../../lambdas/core/ports.ts';
import type { Settings } from '../../lambdas/core/settings.ts';

type State = ReminderFacts['state'];

/** One reminder. Times are virtual epoch milliseconds; `Infinity` is PostgreSQL's. */
export interface Reminder {
  readonly asked: NewReminder;
  readonly producer: string;
  /** The token of the command that made it. */
  readonly command: string;
  state: State;
  since: number;
  version: number;
  due: number;
  next: number;
  expires: number | null;
  wake: number | null;
  parked: boolean;
  cancelAsked: number | null;
  lease: { readonly owner: string; readonly until: number } | null;
  attempts: number;
  /** Attempts of earlier versions: they count no more. */
  attemptsBefore: number;
  failures: number;
  invitations: number;
  firstInvited: number | null;
  lastError: string | null;
  delivered: number | null;
  holdReason: string | null;
  reviewed: number | null;
  archived: number | null;
}

export interface Destination {
  readonly id: string;
  readonly name: string;
  readonly url: string;
  readonly owner: string;
  readonly contract: 'honours-key' | 'status-lookup' | 'none';
  readonly deadlineMs: number | null;
  readonly maxFailures: number;
  /** How long it remembers a key, in seconds. */
  readonly window: number | null;
  state: 'active' | 'paused' | 'disabled';
}

export interface Attempt {
  readonly id: string;
  readonly no: number;
  readonly token: string;
  readonly version: number;
  readonly started: number;
}

/** What a claim took, and under which token. */
export interface Claim {
  readonly token: string;
  readonly claimed: readonly string[];
  readonly recovered: readonly string[];
  readonly expired: readonly string[];
  readonly parked: readonly string[];
}

export interface Settlement {
  readonly attempt: Attempt;
  readonly outcome: OutcomeKind;
  readonly errorClass: string | null;
  readonly retryAfterSeconds: number | null;
}

export const heldBecause = 'outcome unknown, and the destination does not promise to honour a repeated key';
const mayHaveBeenProcessed = 'may have been processed';
export const iso = (ms: number) => new Date(ms).toISOString();
export const isoOrNull = (ms: number | null) => (ms === null ? null : iso(ms));

/** All reminders, what is recorded of them, and the moves that several commands have in common. */
export class ReminderLife {
  readonly settings: Settings;
  now: number;
  /** Which part of its longest pause a retry waits. */
  chance = 0;
  paused = false;
  readonly destinations: Destination[];
  readonly reminders = new Map<string, Reminder>();
  readonly attempts: Attempt[] = [];
  /** What people did, as rows to compare. */
  readonly actions: unknown[][] = [];
  readonly outcomes: (Pick<Attempt, 'id' | 'no' | 'token'> & {
    readonly by: 'sender' | 'recover';
    readonly outcome: string;
    readonly movedTo: State | null;
  })[] = [];
  readonly handoffs: { readonly id: string; readonly message: string; readonly moved: boolean }[] = [];
  readonly events: { readonly id: string; readonly version: number; readonly state: State; announced: boolean }[] = [];
  readonly exclusions: { readonly id: string; readonly token: string; readmittedBy: string | null }[] = [];
  readonly claims: Claim[] = [];
  /** Answers that are given again when the command comes again. */
  protected readonly receipts = new Map<string, object>();

  constructor(settings: Settings, now: number, destinations: Destination[]) {
    this.settings = settings;
    this.now = now;
    this.destinations = destinations;
  }

  /** Moves a reminder as an outcome of its own attempt demands, or a success of any. */
  protected moveBy({ attempt, outcome, errorClass, retryAfterSeconds }: Settlement): State {
    const one = this.existing(attempt.id);
    if (outcome === 'delivered') {
      // Of two successes in one call the second finds it done.
      if (one.state === 'delivered') return 'delivered';
      this.end(one, 'delivered');
      Object.assign(one, { delivered: this.now, invitations: 0 });
      return 'delivered';
    }
    const ours = outcome === 'not_sent';
    const tries = ours ? one.attempts - one.attemptsBefore - 1 : one.failures;
    const pause = Math.max(this.pause(tries), (retryAfterSeconds ?? 0) * 1000);
    if (!ours) one.failures += 1;
    one.lastError = outcome === 'unknown' ? `${errorClass}: ${mayHaveBeenProcessed}` : errorClass;
    if (outcome === 'gone') {
      const destination = this.destinationOf(one);
      if (destination.state === 'active') destination.state = 'disabled';
    }
    return this.afterFailure(one, outcome, this.now + pause);
  }

  protected recover(token: string, one: Reminder): void {
    const retry = this.now + this.pause(one.failures);
    one.failures += 1;
    one.lastError = `lease_expired: ${mayHaveBeenProcessed}`;
    const no = one.attempts;
    const movedTo = this.afterFailure(one, 'unknown', retry);
    this.outcomes.push({ id: one.asked.deliveryId, no, token, by: 'recover', outcome: 'unknown', movedTo });
  }

  protected afterFailure(one: Reminder, outcome: OutcomeKind, retry: number): State {
    const { maxFailures, contract } = this.destinationOf(one);
    one.firstInvited = null;
    one.invitations = 0;
    const exhausted = one.failures >= maxFailures || one.attempts - one.attemptsBefore >= this.settings.attemptHardCap;
    if (one.cancelAsked !== null) this.end(one, 'cancelled');
    else if (outcome === 'permanent' || outcome === 'gone') this.end(one, 'dead');
    else if (this.isOver(one)) this.end(one, 'expired');
    else if (outcome === 'unknown' && contract !== 'honours-key') {
      Object.assign(one, { state: 'held', since: this.now, lease: null, wake: one.expires, holdReason: heldBecause });
    } else if (exhausted) this.end(one, 'dead');
    else if (one.expires !== null && retry >= one.expires) this.end(one, 'expired');
    else this.backToCalendar(one, retry);
    return one.state;
  }

  protected lease(token: string, one: Reminder): void {
    const allowance = this.settings.allowanceSeconds * 1000 * 2 ** Math.min(one.invitations, 5);
    const until = this.now + this.settings.leaseSeconds * 1000;
    Object.assign(one, { state: 'dispatching', since: this.now, parked: false, lease: { owner: token, until } });
    one.invitations += 1;
    one.wake = Math.max(this.now, one.next) + allowance;
  }

  protected expire(one: Reminder): void {
    this.end(one, 'expired');
    one.lastError ??= 'expired before any attempt';
  }

  protected backToCalendar(one: Reminder, next: number): void {
    Object.assign(one, {
      state: 'scheduled',
      since: this.now,
      lease: null,
      parked: false,
      invitations: 0,
      firstInvited: null,
    });
    Object.assign(one, { next, wake: this.lookAhead(next) });
  }

  protected end(one: Reminder, state: State): void {
    Object.assign(one, { state, since: this.now, wake: null, parked: false, lease: null });
    const { version } = one;
    const id = one.asked.deliveryId;
    const told = this.events.some((event) => event.id === id && event.version === version && event.state === state);
    if (!told) this.events.push({ id, version, state, announced: false });
  }

  /** What one statement ends is told in the order of the ids. */
  protected together<Answer>(act: () => Answer): Answer {
    const before = this.events.length;
    const answer = act();
    this.events.push(...this.events.splice(before).toSorted((one, other) => (one.id < other.id ? -1 : 1)));
    return answer;
  }

  protected pause(failures: number): number {
    const { retryBaseSeconds, retryCapSeconds } = this.settings;
    return this.chance * Math.min(retryBaseSeconds * 2 ** Math.min(failures, 10), retryCapSeconds) * 1000;
  }

  /** How many attempts the receiver may have, for all that is known. @param clear outcomes that say what happened */
  protected attemptsInDoubt(one: Reminder, clear: (outcome: string) => boolean): number {
    const known = this.outcomes.filter(({ id, outcome }) => id === one.asked.deliveryId && clear(outcome));
    return one.attempts - new Set(known.map(({ no }) => no)).size;
  }

  protected lookAhead = (next: number) => next - this.settings.lookaheadSeconds * 1000;
  protected awake = (one: Reminder) => one.wake !== null && one.wake <= this.now;
  protected isOver = (one: Reminder) => one.expires !== null && one.expires <= this.now;
  protected active = (one: Reminder) => this.destinationOf(one).state === 'active';
  protected named = (key: string) => [...this.reminders.values()].find((one) => one.asked.key === key);

  protected existing(id: string): Reminder {
    const one = this.reminders.get(id);
    if (one === undefined) throw new Error(`the model has no reminder ${id}`);
    return one;
  }

  protected destinationOf(one: Reminder): Destination {
    const found = this.destinations.find(({ name }) => name === one.asked.destination);
    if (found === undefined) throw new Error(`the model has no destination ${one.asked.destination}`);
    return found;
  }
}

export const isFinished = ({ state }: Reminder) => ['delivered', 'dead', 'expired', 'cancelled'].includes(state);
export const isLeased = ({ state, lease }: Reminder, as: State, owner: string) =>
  state === as && lease?.owner === owner;

/** Since when it waits for a person; null: it does not. */
export function waitsSince({ state, since, reviewed }: Reminder): number | null {
  return (state === 'held' || state === 'dead') && (reviewed === null || reviewed < since) ? since : null;
}

export function facts(one: Reminder): ReminderFacts {
  const { state, version, due, expires } = one;
  return { deliveryId: one.asked.deliveryId, state, dueAt: iso(due), expiresAt: isoOrNull(expires), version };
}
