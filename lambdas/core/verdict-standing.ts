// Where a reminder stands, who acts next, and by when.
import {
  at,
  isTerminal,
  leaseLives,
  mayHaveArrived,
  type ReminderEvidence,
  standingExclusion,
} from './reminder-evidence.ts';
import type { Settings } from './settings.ts';

/** Every standing, and what it means. */
export const standings = {
  future: 'It waits in the calendar: it is not due yet.',
  on_time: 'It is on its way, and no step has taken longer than it should.',
  late: 'It is late: a step has not happened in its time, or a retry comes after the due time.',
  waiting_for_lease: 'Somebody works on it under a lease: wait until that ends.',
  abandoned: 'Its sender did not report before its lease passed: the receiver may have it.',
  handoff_lost: 'It was handed to the queue, and no sender has opened it in the time that this takes.',
  parked: 'It is not sent, because its destination takes nothing at present.',
  paused: 'It is not sent, because all dispatch is paused.',
  excluded: 'Claims pass over it, because updating its row failed.',
  expiring: 'Its time was over before a success was known, and the ledger has not written that down yet.',
  shadow: 'Another path sends it: from here it is not sent.',
  ambiguous: 'The receiver may have it, and nobody knows.',
  needs_person: 'It goes on only when a person decides.',
  held: 'A person has looked at it and left it held.',
  done: 'It has come to its end, and nobody need act.',
} as const;
export type Standing = keyof typeof standings;

/** What an operator is trusted with; each is an alias of the operator function. */
export type Duty = 'recover' | 'decide' | 'control';

/** Who acts next. `queue`: SQS shows a message again that a sender did not delete. */
export interface NextStep {
  readonly who: 'claim' | 'sender' | 'queue' | 'operator' | 'nobody';
  /** The operator's. */
  readonly duty: Duty | null;
  /** When it has happened at the latest if all is well; null: nothing says when. */
  readonly by: string | null;
  /** That time has passed. */
  readonly overdue: boolean;
  readonly what: string;
}

type Step = Pick<NextStep, 'who' | 'what'> & { readonly duty?: Duty; readonly by?: number | null };
type Decision = readonly [Standing, Step];

/** The instant as it is printed. */
export function iso(milliseconds: number): string {
  return new Date(milliseconds).toISOString();
}

/** How long the next claim is off at most: a tick falls anywhere in its precision. */
export function tickMs({ tickSeconds, tickPrecisionSeconds }: Settings): number {
  return (tickSeconds + tickPrecisionSeconds) * 1000;
}

/** When its present invitations are lost, if nobody opens it: after the allowance of the first of them. */
export function lostAt(evidence: ReminderEvidence, { allowanceSeconds }: Settings): number {
  return Math.max(at(evidence.nextAttemptAt), at(evidence.firstInvitedAt) ?? 0) + allowanceSeconds * 1000;
}

/** What keeps every sender from opening it now. */
export function stopOf({ pause, destination }: ReminderEvidence): 'paused' | 'parked' | undefined {
  if (pause !== null) return 'paused';
  return destination.state === 'active' ? undefined : 'parked';
}

/** When the calendar looks at it. A live row always has such a time; of a parked one it is its expiry. */
function wakeOf(evidence: ReminderEvidence, now: number): number {
  return at(evidence.wakeAt) ?? now;
}

/** By when a claim takes a live row. A retry's time to look may lie before the failure that made it. */
export function claimBy(evidence: ReminderEvidence, now: number, settings: Settings): number {
  return Math.max(wakeOf(evidence, now), at(evidence.stateSince)) + tickMs(settings);
}

/** The first rule that fits decides. */
export function stand(
  evidence: ReminderEvidence,
  now: number,
  settings: Settings,
): { readonly standing: Standing; readonly next: NextStep } {
  const [standing, step] = isTerminal(evidence) ? ended(evidence, now) : alive(evidence, now, settings);
  const by = step.by ?? null;
  const next = { who: step.who, duty: step.duty ?? null, by: by === null ? null : iso(by), what: step.what };
  return { standing, next: { ...next, overdue: by !== null && by < now } };
}

const finals = { dead: 'nothing: a person has reviewed it and left it dead', final: 'nothing: this is final' };

function ended(evidence: ReminderEvidence, now: number): Decision {
  const asked = mayHaveArrived(evidence, now).length > 0;
  if (evidence.unreviewedSince !== null) return [asked ? 'ambiguous' : 'needs_person', decides(evidence, asked)];
  // A person who reviewed it has seen what is unknown; of what expired or was cancelled nobody is asked.
  if (asked && evidence.state !== 'dead') {
    return ['ambiguous', { who: 'nobody', what: 'nothing by itself: it has ended, and may have been processed' }];
  }
  return ['done', { who: 'nobody', what: finals[evidence.state === 'dead' ? 'dead' : 'final'] }];
}

function decides({ holdReason, lastError }: ReminderEvidence, asked: boolean): Step {
  const first = asked ? 'asks the receiver whether it has it, then decides' : 'decides';
  return {
    who: 'operator',
    duty: 'decide',
    what: `a person ${first}: ${holdReason ?? lastError ?? 'no reason is kept'}`,
  };
}

function alive(evidence: ReminderEvidence, now: number, settings: Settings): Decision {
  const { state, lease, expiresAt } = evidence;
  const byClaim = claimBy(evidence, now, settings);
  const expiry = at(expiresAt);
  if (state === 'delivering' && lease !== null && leaseLives(evidence, now)) {
    const what = `its sender reports before its lease ends at ${lease.until}`;
    return ['waiting_for_lease', { who: 'sender', by: at(lease.until), what }];
  }
  const exclusion = standingExclusion(evidence);
  if (exclusion !== undefined) {
    const what = `a person mends what its update fails for and readmits it: ${exclusion.reason}`;
    return ['excluded', { who: 'operator', duty: 'recover', what }];
  }
  if (state === 'delivering') {
    const what = 'a claim closes the attempt as unknown and decides what follows';
    return [
      'abandoned',
      { who: 'claim', by: Math.max(byClaim, (at(lease?.until ?? null) ?? 0) + tickMs(settings)), what },
    ];
  }
  if (expiry !== null && expiry <= now) {
    return [
      'expiring',
      { who: 'claim', by: Math.max(byClaim, expiry + tickMs(settings)), what: 'a claim ends it as expired' },
    ];
  }
  if (state === 'shadow') return ['shadow', waits(expiry)];
  if (state === 'held') {
    const asked = mayHaveArrived(evidence, now).length > 0;
    const standing = evidence.unreviewedSince === null ? 'held' : asked ? 'ambiguous' : 'needs_person';
    return [standing, { ...decides(evidence, asked), by: expiry }];
  }
  if (evidence.parked && evidence.destination.state === 'active') return unparked(evidence, now, settings);
  const stop = evidence.parked ? 'parked' : stopOf(evidence);
  if (stop !== undefined && (evidence.parked || state !== 'scheduled' || wakeOf(evidence, now) <= now)) {
    return [stop, { who: 'operator', duty: 'control', what: resumes(evidence, stop) }];
  }
  return state === 'scheduled' ? scheduled(evidence, now, settings) : handedOver(evidence, now, settings);
}

function waits(expiry: number | null): Step {
  if (expiry === null) return { who: 'nobody', what: 'nothing from here until it is adopted' };
  return { who: 'claim', by: expiry, what: `if it is not adopted, it expires at ${iso(expiry)}` };
}

function resumes({ destination, pause }: ReminderEvidence, stop: 'paused' | 'parked'): string {
  if (stop === 'paused') return `a person ends the pause of all dispatch: ${pause?.reason ?? 'no reason is kept'}`;
  const reason = destination.stateReason ?? 'no reason is kept';
  return `a person makes destination ${destination.name} active again, which is ${destination.state}: ${reason}`;
}

/** Each tick gives some back, so many of them take more ticks than one. */
function unparked(evidence: ReminderEvidence, now: number, settings: Settings): Decision {
  const by = Math.max(at(evidence.destination.stateSince), at(evidence.stateSince)) + tickMs(settings);
  const what = `a claim gives it back to the calendar: destination ${evidence.destination.name} is active again`;
  return [by < now ? 'late' : 'parked', { who: 'claim', by, what }];
}

/** By when a sender opens what comes due then: its invitation may wait behind one run of a sender. */
function openedBy(due: string, { senderTimeoutSeconds }: Settings): number {
  return at(due) + senderTimeoutSeconds * 1000;
}

function scheduled(evidence: ReminderEvidence, now: number, settings: Settings): Decision {
  const wake = wakeOf(evidence, now);
  const by = claimBy(evidence, now, settings);
  const again = evidence.attemptNo > 0 ? 'tried again' : 'sent';
  const what = `a claim takes it from ${iso(wake)} on, and it is ${again} at ${evidence.nextAttemptAt}`;
  const standing =
    by < now || openedBy(evidence.dueAt, settings) < now
      ? 'late'
      : wake > now && at(evidence.dueAt) > now
        ? 'future'
        : 'on_time';
  return [standing, { who: 'claim', by, what }];
}

function handedOver(evidence: ReminderEvidence, now: number, settings: Settings): Decision {
  const { state, lease, dueAt, nextAttemptAt, deadLetter } = evidence;
  if (state === 'dispatching' && lease !== null && leaseLives(evidence, now)) {
    const what = `the claim that holds it hands it to the queue before its lease ends at ${lease.until}`;
    return ['waiting_for_lease', { who: 'claim', by: at(lease.until), what }];
  }
  const by = openedBy(nextAttemptAt, settings);
  // A claim that reported would have made it queued.
  const lost = now >= lostAt(evidence, settings) || state === 'dispatching' || (by < now && deadLetter === 'seen');
  if (lost) return ['handoff_lost', invitedAgain(evidence, now, settings)];
  if (by < now) return ['late', invitedAgain(evidence, now, settings)];
  const what = `a sender opens it at ${nextAttemptAt}`;
  return [openedBy(dueAt, settings) < now ? 'late' : 'on_time', { who: 'sender', by, what }];
}

/** The queue shows a message that nobody deleted again, or a claim invites anew: whichever comes first. */
function invitedAgain(evidence: ReminderEvidence, now: number, settings: Settings): Step {
  const by = claimBy(evidence, now, settings);
  const what = `a claim invites it again, under the same id, from ${iso(wakeOf(evidence, now))} on`;
  const shown = shownAgain(evidence, now, settings);
  if (shown === undefined || shown >= by) return { who: 'claim', by, what };
  return {
    who: 'queue',
    by: shown,
    what: `the queue shows its message again, if a sender has received it; else ${what}`,
  };
}

function shownAgain({ handoffs, deadLetter }: ReminderEvidence, now: number, settings: Settings): number | undefined {
  if (handoffs.length === 0 || deadLetter === 'seen') return undefined;
  const visible = Math.max(...handoffs.map(({ visibleFrom }) => at(visibleFrom)));
  const every = settings.visibilityTimeoutSeconds * 1000;
  const times = Math.max(Math.ceil((now - visible) / every), 1);
  return times < settings.maxReceiveCount ? visible + times * every : undefined;
}
