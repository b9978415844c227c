// What the commands of operators and of retention must answer, and the rows that they must leave.
import type { ArchivedAs } from '../../lambdas/core/archive-finished.ts';
import type { Decision, DecisionVerb, SeenReminder } from '../../lambdas/core/decisions.ts';
import type { NewDestination } from '../../lambdas/store/statements/add-destination.ts';
import { facts, isFinished, type Reminder, ReminderLife, waitsSince } from './reminder-life.ts';

/** An outcome that says the receiver does not have it. */
const isFailure = (outcome: string) => !['unknown', 'overtaken', 'delivered'].includes(outcome);
/** Where a verb finds it done, or never to be done, whatever was seen. */
const settled: Readonly<Record<DecisionVerb, Readonly<Partial<Record<Reminder['state'], string>>>>> = {
  hold: { held: 'held', delivering: 'wait', delivered: 'finished', expired: 'finished', cancelled: 'finished' },
  cancel: { delivered: 'finished', expired: 'finished', cancelled: 'cancelled' },
  resolve: { delivering: 'wait', delivered: 'finished' },
  release: {},
  requeue: {},
  review: {},
};

/** Every method does what the statement of that name must do, at `now`. */
export class OperatorLife extends ReminderLife {
  /** What decisions were answered, by token and item. */
  readonly #decided = new Map<string, { readonly verb: string; readonly id: string; readonly answer: object }>();

  /** The token of the latest decision: another one may come under it by mistake. */
  lastDecision: string | undefined;

  addDestination(asked: NewDestination): object {
    const { destinationId: id, name, url, owner, contract, deadlineMs } = asked;
    const known = this.destinations.find((one) => one.name === name);
    if (known === undefined) {
      const { maxFailures } = this.settings;
      this.destinations.push({
        id,
        name,
        url,
        owner,
        contract,
        deadlineMs,
        maxFailures,
        window: null,
        state: 'active',
      });
    }
    if (known === undefined || known.id === id) return { answer: 'added', name };
    const same =
      known.url === url && known.owner === owner && known.contract === contract && known.deadlineMs === deadlineMs;
    return { answer: same ? 'unchanged' : 'conflict', name, url: known.url, owner: known.owner };
  }

  exclude(token: string, id: string): void {
    const there = this.exclusions.some((one) => one.token === token || (one.id === id && one.readmittedBy === null));
    if (!there) this.exclusions.push({ id, token, readmittedBy: null });
  }

  readmit(token: string, id: string, reason: string): object {
    const latest = this.exclusions.findLast((one) => one.id === id);
    const done = this.exclusions.some((one) => one.readmittedBy === token);
    if (!done && latest?.readmittedBy === null) {
      latest.readmittedBy = token;
      this.actions.push(['readmit', id, null, reason, ...Array(6).fill(null)]);
    }
    return { answer: done || latest?.readmittedBy === token ? 'readmitted' : 'not_excluded' };
  }

  decide(decision: Decision): object[] {
    this.lastDecision = decision.token;
    const before = this.actions.length;
    const answers = this.together(() =>
      decision.reminders.map((seen, item) => {
        const { deliveryId } = seen;
        const receipt = `${decision.token} ${item}`;
        const said = this.#decided.get(receipt);
        if (said?.verb === decision.verb && said.id === deliveryId) return said.answer;
        if (said !== undefined) return { answer: 'token_used', deliveryId };
        const one = this.reminders.get(deliveryId);
        if (one === undefined) return { answer: 'not_found', deliveryId };
        const answer = this.#decide(decision, seen, one);
        if (!decision.dryRun) this.#decided.set(receipt, { verb: decision.verb, id: deliveryId, answer });
        return answer;
      }),
    );
    this.actions.push(
      ...this.actions.splice(before).toSorted(([, one], [, other]) => (String(one) < String(other) ? -1 : 1)),
    );
    return answers;
  }

  #decide(decision: Decision, seen: SeenReminder, kept: Reminder): object {
    const { verb, reason, evidence, dryRun } = decision;
    const answer = this.#judge(decision, seen, kept);
    // A dry run tells what would be of a copy, and leaves no event.
    const one = dryRun ? { ...kept } : kept;
    const events = this.events.length;
    const { state } = kept;
    const doubtful = this.attemptsInDoubt(kept, isFailure);
    const did = this.#carryOut(decision, answer, one);
    if (dryRun) this.events.splice(events);
    else if (did) {
      const found = [state, kept.attempts, doubtful, this.#keyForgotten(kept)];
      this.actions.push([verb, seen.deliveryId, seen.versionSeen, reason, evidence, answer, ...found]);
    }
    return { answer, ...facts(one) };
  }

  #judge({ verb, evidence, expiresAt }: Decision, seen: SeenReminder, one: Reminder): string {
    const { state } = one;
    if ((verb === 'requeue' && state !== 'dead') || (verb === 'release' && state !== 'held')) return 'refused';
    if (verb === 'review' && state !== 'held' && state !== 'dead') return 'nothing_to_review';
    const there = settled[verb][state];
    if (there !== undefined) return there;
    if (one.archived !== null && verb !== 'resolve' && verb !== 'review') return 'archived';
    if (seen.versionSeen !== one.version || seen.attemptsSeen !== one.attempts) return 'stale';
    const sendsAgain = verb === 'requeue' || verb === 'release';
    const mayRepeat = this.attemptsInDoubt(one, isFailure) > 0 || this.#keyForgotten(one);
    if (evidence === null && (verb === 'resolve' || (sendsAgain && mayRepeat))) return 'evidence_needed';
    const expires = sendsAgain ? newExpiry(one, expiresAt) : one.expires;
    if ((sendsAgain || verb === 'hold') && expires !== null && expires <= Math.max(one.due, this.now))
      return 'expiry_passed';
    if (verb === 'cancel') return state === 'delivering' ? 'too_late' : 'cancelled';
    return { hold: 'held', release: 'released', requeue: 'requeued', resolve: 'resolved', review: 'reviewed' }[verb];
  }

  /** @returns whether anything was done */
  #carryOut({ reason, expiresAt }: Decision, answer: string, one: Reminder): boolean {
    const { now } = this;
    switch (answer) {
      case 'held':
        if (one.state === 'held') return false;
        Object.assign(one, { state: 'held', since: now, version: one.version + 1, wake: one.expires, delivered: null });
        Object.assign(one, { holdReason: reason, parked: false, lease: null });
        return true;
      case 'released':
      case 'requeued':
        Object.assign(one, { version: one.version + 1, expires: newExpiry(one, expiresAt), delivered: null });
        Object.assign(one, { failures: 0, attemptsBefore: one.attempts });
        this.backToCalendar(one, Math.max(one.due, now));
        return true;
      case 'resolved':
        this.end(one, 'delivered');
        one.delivered = now;
        return true;
      case 'reviewed':
        if (waitsSince(one) === null) return false;
        one.reviewed = now;
        return true;
      case 'cancelled':
        if (one.state === 'cancelled') return false;
        this.end(one, 'cancelled');
        one.cancelAsked = now;
        return true;
      case 'too_late':
        if (one.cancelAsked !== null) return false;
        one.cancelAsked = now;
        return true;
      default:
        return false;
    }
  }

  #keyForgotten(one: Reminder): boolean {
    const first = this.attempts.find(({ id }) => id === one.asked.deliveryId);
    const { window } = this.destinationOf(one);
    return first !== undefined && window !== null && first.started + window * 1000 <= this.now;
  }

  /** Retention takes what is finished, looked at and told, if it is still what was written. */
  archive(written: readonly ArchivedAs[]): object[] {
    return written.flatMap((seen) => {
      const one = this.reminders.get(seen.deliveryId);
      return one === undefined ? [] : [{ delivery_id: seen.deliveryId, answer: this.#archive(seen, one) }];
    });
  }

  #archive(seen: ArchivedAs, one: Reminder): string {
    const id = seen.deliveryId;
    if (one.archived !== null) return 'archived';
    if (!isFinished(one)) return 'not_finished';
    if (waitsSince(one) !== null) return 'unreviewed';
    const own = this.outcomes.filter((outcome) => outcome.id === id);
    const changed =
      seen.version !== one.version || Date.parse(seen.stateSince) !== one.since || seen.outcomes !== own.length;
    const open = this.attempts.some((attempt) => attempt.id === id && !own.some(({ no }) => no === attempt.no));
    if (changed || open || this.events.some((event) => event.id === id && !event.announced)) return 'changed';
    Object.assign(one, { archived: this.now, lastError: null });
    for (const evidence of [this.outcomes, this.attempts, this.handoffs, this.events]) {
      const rows: { readonly id: string }[] = evidence;
      rows.splice(0, rows.length, ...rows.filter((row) => row.id !== id));
    }
    return 'archived';
  }
}

function newExpiry(one: Reminder, expiresAt: string | null | undefined): number | null {
  return expiresAt === undefined ? one.expires : expiresAt === null ? null : Date.parse(expiresAt);
}
