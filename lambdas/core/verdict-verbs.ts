// Which verbs an operator may use on a reminder now, what each needs, and why the others are refused.
import { type Cell, verbs } from './delivery-states.ts';
import {
  at,
  attemptStanding,
  isTerminal,
  leaseLives,
  mayHaveArrived,
  type ReminderEvidence,
  situationOf,
  standingExclusion,
} from './reminder-evidence.ts';
import type { Settings } from './settings.ts';
import { claimBy, type Duty, iso, lostAt, stopOf } from './verdict-standing.ts';

/** The verbs that act on one reminder, and whose duty each is. Every one of them needs a reason as well. */
export const operatorVerbs = {
  reclaim: 'recover',
  republish: 'recover',
  redrive: 'recover',
  readmit: 'recover',
  requeue: 'decide',
  release: 'decide',
  hold: 'decide',
  cancel: 'decide',
  resolve: 'decide',
  review: 'decide',
} as const satisfies Readonly<Record<string, Duty>>;
export type OperatorVerb = keyof typeof operatorVerbs;

/** What a command must bring along besides its reason. */
export interface Need {
  readonly option: '--evidence' | '--expires';
  readonly because: string;
}

/** Either the verb may be used, with what it then does and needs, or it is refused. */
export type Ruling =
  | { readonly allowed: true; readonly effect: string; readonly needs: readonly Need[] }
  | { readonly allowed: false; readonly reason: string };

interface Grounds {
  readonly evidence: ReminderEvidence;
  readonly now: number;
  readonly settings: Settings;
}

/** One ruling a verb. The operator function asks the same of the locked row. */
export function rule(evidence: ReminderEvidence, now: number, settings: Settings): Record<OperatorVerb, Ruling> {
  const grounds = { evidence, now, settings };
  return {
    reclaim: reclaim(grounds),
    republish: republish(grounds),
    redrive: redrive(grounds),
    readmit: readmit(grounds),
    requeue: replayFrom('dead', grounds),
    release: replayFrom('held', grounds),
    hold: hold(grounds),
    cancel: cancel(grounds),
    resolve: resolve(grounds),
    review: review(grounds),
  };
}

const refused = (reason: string): Ruling => ({ allowed: false, reason });
const allowed = (effect: string, needs: readonly Need[] = []): Ruling => ({ allowed: true, effect, needs });

/** Why whoever leads to another send must show evidence; none where every attempt has failed for certain. */
function replayNeeds({ evidence, now }: Grounds): Need[] {
  const needs: Need[] = [];
  const need = (because: string) => needs.push({ option: '--evidence', because });
  for (const attempt of mayHaveArrived(evidence, now)) {
    const standing = attemptStanding(attempt);
    const what = { delivered: 'has a 2xx', unknown: 'is unknown', open: 'was never reported', failed: '' }[standing];
    need(`attempt ${attempt.attemptNo} ${what}: the receiver may have it`);
  }
  const forgotten = forgottenAt(evidence);
  if (forgotten !== null && forgotten <= now) {
    need(
      `its receiver remembers a key for ${evidence.destination.dedupWindowSeconds} s, which passed at ${iso(forgotten)}`,
    );
  }
  return needs;
}

/** From when on its receiver may take the key for a new one: it first saw it with the first attempt. */
function forgottenAt({ attempts, destination }: ReminderEvidence): number | null {
  const [first] = attempts;
  if (first === undefined || destination.dedupWindowSeconds === null) return null;
  return at(first.startedAt) + destination.dedupWindowSeconds * 1000;
}

/** What the matrix says of a verb in the reminder's situation. */
function cellOf(
  verb: 'hold' | 'cancelByOperator' | 'resolve' | 'requeue' | 'releaseHeld',
  { evidence, now }: Grounds,
): Cell {
  return verbs[verb].cells[situationOf(evidence, now)];
}

/** Why nobody may move it now, whatever the verb. */
function underLease({ evidence, now }: Grounds): string | undefined {
  if (leaseLives(evidence, now)) return `it is under a lease: wait until ${evidence.lease?.until}`;
  return evidence.state === 'delivering' ? 'its sender never reported: reclaim it first' : undefined;
}

function gone({ archivedAt }: ReminderEvidence): string | undefined {
  return archivedAt === null ? undefined : `it is a tombstone: its payload went to the archive at ${archivedAt}`;
}

/** `requeue` of what is dead and `release` of what is held. */
function replayFrom(from: 'dead' | 'held', grounds: Grounds): Ruling {
  const { evidence } = grounds;
  if (evidence.state !== from || cellOf(from === 'dead' ? 'requeue' : 'releaseHeld', grounds).to.length === 0) {
    const other = { dead: 'release', held: 'requeue' }[from];
    const instead = evidence.state === 'dead' || evidence.state === 'held' ? `: use ${other}` : '';
    return refused(`it is ${evidence.state}, not ${from}${instead}`);
  }
  const tombstone = gone(evidence);
  if (tombstone !== undefined) return refused(tombstone);
  const needs = replayNeeds(grounds);
  if (isOver(grounds)) needs.push({ option: '--expires', because: `its time was over at ${evidence.expiresAt}` });
  return allowed('puts it back into the calendar under the same id and key, its failures at 0', needs);
}

function hold(grounds: Grounds): Ruling {
  const { evidence } = grounds;
  const { to, answer } = cellOf('hold', grounds);
  if (answer === 'wait') return refused(underLease(grounds) ?? answer);
  if (to.length === 0) return refused(answer === 'finished' ? final(evidence) : `it is ${evidence.state}`);
  const tombstone = gone(evidence);
  return tombstone === undefined ? allowed('sends it no more until it is released') : refused(tombstone);
}

function final({ state }: ReminderEvidence): string {
  return `it is ${state}, which is final`;
}

function cancel(grounds: Grounds): Ruling {
  const { evidence } = grounds;
  const { answer } = cellOf('cancelByOperator', grounds);
  if (answer === 'too_late') {
    if (evidence.cancelRequestedAt !== null) return refused(`that was asked for at ${evidence.cancelRequestedAt}`);
    return allowed('asks for no further attempt; the present one is not stopped, and a success still counts');
  }
  if (answer === 'finished' || evidence.state === 'cancelled') return refused(final(evidence));
  const tombstone = gone(evidence);
  return tombstone === undefined ? allowed('calls it off') : refused(tombstone);
}

function resolve(grounds: Grounds): Ruling {
  const { to, answer } = cellOf('resolve', grounds);
  if (answer === 'wait') return refused(underLease(grounds) ?? answer);
  if (to.length === 0) return refused(final(grounds.evidence));
  const because = 'it states that the receiver has it';
  return allowed('records it as delivered', [{ option: '--evidence', because }]);
}

function review(grounds: Grounds): Ruling {
  const { evidence, now } = grounds;
  if (verbs.review.cells[situationOf(evidence, now)].answer !== 'reviewed')
    return refused('there is nothing to review');
  if (evidence.unreviewedSince === null)
    return refused(`it was reviewed at ${evidence.reviewedAt ?? 'an unknown time'}`);
  return allowed('marks it as seen by a person and moves nothing; its alarm is quiet');
}

const paused = 'all dispatch is paused';

function isOver({ evidence, now }: Grounds): boolean {
  const expiry = at(evidence.expiresAt);
  return expiry !== null && expiry <= now;
}

function reclaim(grounds: Grounds): Ruling {
  const { evidence, now } = grounds;
  if (evidence.lease === null) return refused('nobody has a lease on it');
  if (leaseLives(evidence, now)) return refused(underLease(grounds) ?? '');
  if (standingExclusion(evidence) !== undefined) return refused('claims pass over it: readmit it first');
  if (evidence.state === 'delivering') return allowed('closes the attempt as unknown now, as the next claim would');
  if (evidence.pause !== null && !isOver(grounds)) return refused(paused);
  return allowed('does now what the next claim would: invites it again, parks it, or ends it as expired');
}

/** Why no invitation of it would lead to a send. */
function uninvitable(grounds: Grounds): string | undefined {
  const { evidence, now } = grounds;
  if (evidence.state === 'dead') return 'it is dead: requeue it, if it is to be sent after all';
  if (isTerminal(evidence)) return final(evidence);
  if (evidence.state === 'shadow') return 'it is shadow: another path sends it';
  if (evidence.state === 'held') return 'it is held: release it first';
  if (standingExclusion(evidence) !== undefined) return 'claims pass over it: readmit it first';
  if (evidence.state === 'delivering' || leaseLives(evidence, now)) return underLease(grounds);
  if (isOver(grounds)) return `its time was over at ${evidence.expiresAt}`;
  const stop = stopOf(evidence);
  if (stop === 'paused') return paused;
  return stop === undefined ? undefined : `destination ${evidence.destination.name} is ${evidence.destination.state}`;
}

function republish(grounds: Grounds): Ruling {
  const { evidence, now, settings } = grounds;
  const sentence = uninvitable(grounds);
  if (sentence !== undefined) return refused(sentence);
  switch (evidence.state) {
    case 'scheduled': {
      if (evidence.parked) return refused('it is parked: the next claims give it back to the calendar');
      const by = claimBy(evidence, now, settings);
      return refused(
        by >= now ? `a claim takes it by ${iso(by)}` : 'any claim takes it: find out why none has run since it was due',
      );
    }
    case 'dispatching':
      return refused('the queue gave no receipt for it: reclaim it');
    default: {
      const from = invitableFrom(evidence, settings);
      if (from > now) return refused(`its invitation may still arrive: from ${iso(from)} on`);
      return allowed('invites it again under the same id, by the next claim', replayNeeds(grounds));
    }
  }
}

/** An allowance after the latest invitation, so that one follows another once in an allowance at most. */
function invitableFrom(evidence: ReminderEvidence, settings: Settings): number {
  const invited = Math.max(at(evidence.stateSince), ...evidence.handoffs.map(({ visibleFrom }) => at(visibleFrom)));
  return Math.max(lostAt(evidence, settings), invited + settings.allowanceSeconds * 1000);
}

function redrive(grounds: Grounds): Ruling {
  const { evidence, now, settings } = grounds;
  if (evidence.deadLetter === 'not_looked') return refused('nobody has looked in the dead-letter queue');
  if (evidence.deadLetter === 'not_seen') return refused('no message of it is in the dead-letter queue');
  if (isTerminal(evidence)) return allowed(`removes its message: it is ${evidence.state}`);
  if (evidence.state === 'scheduled') return allowed('removes its message: the calendar has it and invites it anew');
  const sentence = uninvitable(grounds);
  if (sentence !== undefined) return refused(sentence);
  if (invitableFrom(evidence, settings) > now) return allowed('removes its message: it was invited again since');
  return allowed(
    'invites it again under the same id, by the next claim, and removes its message',
    replayNeeds(grounds),
  );
}

function readmit({ evidence }: Grounds): Ruling {
  if (standingExclusion(evidence) === undefined) return refused('claims do not pass over it');
  return allowed('lets the next claim try it again');
}
