// The life of reminders once more, as a small machine of its own: what every command must answer, and the rows it must leave.
import type { NewReminder, Receipt, ReminderView, Reschedule } from '../../lambdas/core/ports.ts';
import { OperatorLife } from './operator-life.ts';
import {
  type Claim,
  facts,
  isFinished,
  isLeased,
  iso,
  isoOrNull,
  type Reminder,
  type Settlement,
} from './reminder-life.ts';

/** An outcome that says what became of an attempt. */
const isClear = (outcome: string) => !['unknown', 'overtaken'].includes(outcome);
const sorted = (ids: readonly string[]) => [...new Set(ids)].sort();

/** Its reminder by key. */
export type KeyedReschedule = Reschedule & { readonly name: { readonly key: string } };

/** Every method does what the statement of that name must do, at `now`, and answers what the ledger must answer. */
export class ReminderModel extends OperatorLife {
  schedule(token: string, producer: string, asked: NewReminder): object {
    const known = this.named(asked.key);
    if (known === undefined) {
      const { dueAt, destination, expiresAt } = asked;
      if (!this.destinations.some(({ name }) => name === destination))
        return { answer: 'invalid', path: 'destination' };
      const expires = expiresAt === null ? null : Date.parse(expiresAt);
      if (expires !== null && expires <= this.now) return { answer: 'invalid', path: 'expiresAt' };
      const due = Date.parse(dueAt);
      const created: Reminder = {
        ...{
          asked,
          producer,
          command: token,
          state: 'scheduled',
          since: this.now,
          version: 1,
          due,
          next: due,
          expires,
        },
        ...{ wake: this.lookAhead(due), parked: false, cancelAsked: null, lease: null, attempts: 0, attemptsBefore: 0 },
        ...{ failures: 0, invitations: 0, firstInvited: null, lastError: null, delivered: null },
        ...{ holdReason: null, reviewed: null, archived: null },
      };
      this.reminders.set(asked.deliveryId, created);
      return { answer: 'scheduled', nearDue: this.awake(created), ...facts(created) };
    }
    if (known.command === token && known.asked.deliveryId === asked.deliveryId) {
      return { answer: 'scheduled', nearDue: this.awake(known), ...facts(known) };
    }
    if (known.producer !== producer) return { answer: 'conflict', fields: [] };
    const fields = (['destination', 'dueAt', 'expiresAt', 'userId', 'payload'] as const).filter(
      (field) => asked[field] !== known.asked[field],
    );
    if (fields.length === 0) return { answer: 'duplicate', ...facts(known) };
    return { answer: 'conflict', fields, deliveryId: known.asked.deliveryId };
  }

  /** In their order: of two names of one reminder the second meets what the first has left. */
  cancel(token: string, producer: string, keys: readonly string[]): object[] {
    return this.together(() => keys.map((key, item) => this.#cancel(`${token} ${item}`, producer, key)));
  }

  #cancel(receipt: string, producer: string, key: string): object {
    const one = this.named(key);
    if (one?.producer !== producer) return { answer: 'not_found' };
    return this.#once(receipt, () => {
      if (one.state === 'delivering') {
        one.cancelAsked ??= this.now;
        return { answer: 'too_late', ...facts(one) };
      }
      if (one.state === 'delivered' || one.state === 'expired') return { answer: 'finished', ...facts(one) };
      if (one.state !== 'cancelled') {
        this.end(one, 'cancelled');
        one.cancelAsked = this.now;
      }
      return { answer: 'cancelled', ...facts(one) };
    });
  }

  /** In their order, as `cancel`. */
  reschedule(token: string, producer: string, wishes: readonly KeyedReschedule[]): object[] {
    return wishes.map((wish, item) => this.#reschedule(`${token} ${item}`, producer, wish));
  }

  #reschedule(receipt: string, producer: string, wish: KeyedReschedule): object {
    const one = this.named(wish.name.key);
    if (one?.producer !== producer) return { answer: 'not_found' };
    return this.#once(receipt, () => {
      const due = Date.parse(wish.dueAt);
      const expires =
        wish.expiresAt === undefined ? one.expires : wish.expiresAt === null ? null : Date.parse(wish.expiresAt);
      if (isFinished(one)) return { answer: 'finished', ...facts(one) };
      if (wish.expectedVersion !== undefined && wish.expectedVersion !== one.version) {
        return { answer: 'stale', ...facts(one) };
      }
      if (one.state === 'delivering' || this.attemptsInDoubt(one, isClear) > 0)
        return { answer: 'too_late', ...facts(one) };
      if (one.state === 'held') return { answer: 'held', ...facts(one) };
      if (due === one.due && expires === one.expires) return { answer: 'unchanged', ...facts(one) };
      if (expires !== null && (expires <= due || expires <= this.now)) return { answer: 'invalid', path: 'expiresAt' };
      Object.assign(one, { version: one.version + 1, due, expires, failures: 0, attemptsBefore: one.attempts });
      this.backToCalendar(one, due);
      return { answer: 'rescheduled', nearDue: this.awake(one), ...facts(one) };
    });
  }

  get(producer: string, key: string): ReminderView | null {
    const one = this.named(key);
    if (one?.producer !== producer) return null;
    return {
      ...facts(one),
      key,
      destination: one.asked.destination,
      userId: one.asked.userId,
      nextAttemptAt: iso(one.next),
      wakeAt: one.wake === Number.POSITIVE_INFINITY ? null : isoOrNull(one.wake),
      stateSince: iso(one.since),
      attempts: one.attempts,
      failures: one.failures,
      leaseUntil: isoOrNull(one.lease?.until ?? null),
      cancelRequestedAt: isoOrNull(one.cancelAsked),
      holdReason: one.state === 'held' ? one.holdReason : null,
      lastError: one.lastError,
      deliveredAt: isoOrNull(one.delivered),
      parked: one.parked,
    };
  }

  claim(token: string, only?: readonly string[]): object {
    return this.#claimed(token, () => {
      const taken = {
        token,
        claimed: [] as string[],
        recovered: [] as string[],
        expired: [] as string[],
        parked: [] as string[],
      };
      for (const [id, one] of this.reminders) {
        const standing = this.exclusions.some((exclusion) => exclusion.id === id && exclusion.readmittedBy === null);
        if (!this.awake(one) || standing || only?.includes(id) === false) continue;
        if (one.state === 'delivering') {
          this.recover(token, one);
          taken.recovered.push(id);
        } else if (this.isOver(one)) {
          this.expire(one);
          taken.expired.push(id);
        } else if (this.paused) {
          // What is neither begun nor over waits.
        } else if (this.active(one)) {
          this.lease(token, one);
          taken.claimed.push(id);
        } else {
          this.backToCalendar(one, one.next);
          one.parked = true;
          one.wake = one.expires ?? Number.POSITIVE_INFINITY;
          taken.parked.push(id);
        }
      }
      return taken;
    });
  }

  claimById(token: string, ids: readonly string[]): object {
    return this.#claimed(token, () => {
      const ready = sorted(ids).filter((id) => {
        const one = this.reminders.get(id);
        return one?.state === 'scheduled' && this.awake(one) && !this.isOver(one) && this.active(one) && !this.paused;
      });
      for (const id of ready) this.lease(token, this.existing(id));
      return { token, claimed: ready, recovered: [], expired: [], parked: [] };
    });
  }

  enqueue(claimToken: string, receipts: readonly Receipt[]): number {
    const own = receipts.map(({ deliveryId }) => isLeased(this.existing(deliveryId), 'dispatching', claimToken));
    return receipts.filter(({ deliveryId, messageId }, place) => {
      const kept = this.handoffs.find(({ id, message }) => id === deliveryId && message === messageId);
      if (kept !== undefined) return kept.moved;
      const moved = own[place] === true;
      this.handoffs.push({ id: deliveryId, message: messageId, moved });
      const one = this.existing(deliveryId);
      if (moved)
        Object.assign(one, {
          state: 'queued',
          since: this.now,
          lease: null,
          firstInvited: one.firstInvited ?? this.now,
        });
      return moved;
    }).length;
  }

  release(token: string, claimToken: string, ids: readonly string[]): object {
    return this.#once(token, () => {
      const own = sorted(ids).filter((id) => isLeased(this.existing(id), 'dispatching', claimToken));
      for (const id of own) {
        const one = this.existing(id);
        const pause = this.settings.releaseBaseSeconds * 2 ** Math.min(one.invitations - 1, 5);
        Object.assign(one, { state: 'scheduled', since: this.now, lease: null, wake: this.now + pause * 1000 });
        one.lastError = 'queue_refused: its invitation was not accepted';
      }
      return { count: own.length };
    });
  }

  unpark(token: string): object {
    const active = [...this.reminders.values()].filter((one) => one.parked && this.active(one));
    const again = this.receipts.has(token);
    if (active.length === 0 && !again) return { count: 0 };
    return this.#once(token, () => {
      for (const one of active) Object.assign(one, { parked: false, since: this.now, wake: this.lookAhead(one.next) });
      return { count: active.length };
    });
  }

  open(token: string, ids: readonly string[], alone: boolean): object[] {
    const opened = this.attempts.some((attempt) => ids.includes(attempt.id) && attempt.token === token);
    const used = opened || this.receipts.has(token);
    const answers = sorted(ids).map((id) => {
      const one = this.reminders.get(id);
      if (one === undefined) return { answer: 'not_found', deliveryId: id, state: null, dueInMs: null };
      const answer = this.#openAnswer(token, one, used, alone);
      if (answer !== 'opened') return { answer, deliveryId: id, state: one.state, dueInMs: one.next - this.now };
      const { key, payload, destination } = one.asked;
      const { url, deadlineMs } = this.destinationOf(one);
      return { answer, deliveryId: id, attemptNo: one.attempts, key, payload, destination, url, deadlineMs };
    });
    const noted = (answer: string) => answers.some((one) => one.answer === answer);
    if (!used && (noted('alone') || !noted('opened'))) this.receipts.set(token, {});
    return answers;
  }

  settle(token: string, settlements: readonly Settlement[]): object[] {
    return this.together(() => this.#settle(token, settlements));
  }

  #settle(token: string, settlements: readonly Settlement[]): object[] {
    const before = settlements.map(({ attempt }) => ({ ...this.existing(attempt.id) }));
    const wins = new Set(settlements.flatMap(({ attempt, outcome }) => (outcome === 'delivered' ? [attempt.id] : [])));
    return settlements.map((settlement, place) => {
      const { attempt, outcome } = settlement;
      const { id, no } = attempt;
      const known = this.outcomes.find((one) => one.id === id && one.no === no && one.token === token);
      const then = before[place] ?? this.existing(id);
      if (known === undefined) {
        const decides =
          outcome === 'delivered'
            ? then.state !== 'delivered'
            : isLeased(then, 'delivering', attempt.token) && then.attempts === no && !wins.has(id);
        const movedTo = decides ? this.moveBy(settlement) : null;
        this.outcomes.push({ id, no, token, by: 'sender', outcome, movedTo });
        const abandoned = movedTo === 'delivered' && then.state === 'delivering' && then.attempts !== no;
        if (abandoned && !settlements.some((other) => other.attempt.id === id && other.attempt.no === then.attempts)) {
          this.outcomes.push({ id, no: then.attempts, token, by: 'sender', outcome: 'overtaken', movedTo: null });
        }
      }
      const moved = this.outcomes.find((one) => one.id === id && one.no === no && one.token === token)?.movedTo ?? null;
      return {
        deliveryId: id,
        attemptNo: no,
        answer: moved === null ? 'recorded' : 'moved',
        state: moved ?? then.state,
      };
    });
  }

  #openAnswer(token: string, one: Reminder, used: boolean, alone: boolean): string {
    const id = one.asked.deliveryId;
    if (one.state === 'delivering') return one.lease?.owner === token ? 'opened' : 'leased';
    if (one.state === 'scheduled' || one.state === 'held') return 'not_claimed';
    if (one.state === 'expired') return 'expired';
    if (isFinished(one)) return 'finished';
    if (this.isOver(one)) {
      if (used) return 'token_used';
      this.expire(one);
      return 'expired';
    }
    if (this.paused || !this.active(one)) return 'paused';
    if (one.next > this.now) return 'not_due';
    const silent = this.outcomes.some((last) => last.id === id && last.no === one.attempts && last.by === 'recover');
    const until = this.now + this.settings.leaseSeconds * 1000;
    if (silent && !alone) {
      if (!used) one.wake = Math.min(one.wake ?? until, until);
      return 'alone';
    }
    if (used) return 'token_used';
    Object.assign(one, {
      state: 'delivering',
      since: this.now,
      attempts: one.attempts + 1,
      lease: { owner: token, until },
    });
    one.wake = Math.max(one.wake ?? 0, until);
    this.attempts.push({ id, no: one.attempts, token, version: one.version, started: this.now });
    return 'opened';
  }

  #claimed(token: string, take: () => Claim): object {
    const known = this.claims.find((claim) => claim.token === token);
    const { claimed, recovered, expired, parked } = known ?? this.together(take);
    if (known === undefined) this.claims.push({ token, claimed, recovered, expired, parked });
    const lines = sorted(claimed).map((deliveryId) => {
      const { next } = this.existing(deliveryId);
      return { deliveryId, dueInMs: next - this.now, notBefore: next };
    });
    return { claimed: lines, recovered: sorted(recovered), expired: sorted(expired), parked: sorted(parked) };
  }

  #once(token: string, act: () => object): object {
    const answer = this.receipts.get(token) ?? act();
    this.receipts.set(token, answer);
    return answer;
  }
}
