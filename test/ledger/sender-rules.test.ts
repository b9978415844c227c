// The sender's rules of time: what is left of the lease right before a send, waits within the run, tokens of its settles.
import { v7 as uuid } from 'uuid';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { deliverInvitations, type Invited, type SenderTools } from '../../lambdas/core/deliver-invitations.ts';
import { dispatch } from '../../lambdas/core/dispatch.ts';
import { LedgerError } from '../../lambdas/core/errors.ts';
import type { Clock, Invitation } from '../../lambdas/core/ports.ts';
import { empty, ledgerTables } from './ledger-rows.ts';
import { recover } from './one-reminder.ts';
import { arrange, type Circumstances, claimToken } from './situations.ts';
import { outcome, startTestLedger, type TestLedger, worker } from './test-ledger.ts';

let ledger: TestLedger;
let tables: string[];
beforeAll(async () => {
  ledger = await startTestLedger();
  tables = await ledgerTables(ledger);
});
beforeEach(() => empty(ledger, tables));
afterAll(() => ledger.stop());

/** A clock that stands still unless it is told to go on, and sleeps in no time. */
class StillClock implements Clock {
  monotonicMs = 1000;
  wallMs = Date.now();
  readonly slept: number[] = [];
  monotonic = () => this.monotonicMs;
  wall = () => this.wallMs;
  sleep = async (ms: number) => void this.slept.push(ms);
}

interface Run {
  readonly clock?: StillClock;
  readonly ledger?: SenderTools['ledger'];
  readonly remainingMs?: number;
  readonly notBefore?: (clock: StillClock) => number;
  /** Told each percentage that is measured. */
  readonly percent?: (name: string, value: number) => void;
}

/** Delivers the ids in one run; every receiver answers 200. */
async function deliver(ids: readonly string[], { clock = new StillClock(), remainingMs = 30_000, ...run }: Run = {}) {
  const posted: string[] = [];
  const invited: Invited[] = ids.map((deliveryId) => ({ deliveryId, notBefore: run.notBefore?.(clock) ?? 0 }));
  await deliverInvitations(
    {
      ledger: run.ledger ?? ledger.ledger,
      webhook: {
        prepare: async () => ({
          async post({ deliveryId }) {
            posted.push(deliveryId);
            return outcome(deliveryId, '');
          },
          close: async () => undefined,
        }),
      },
      clock,
      settings: ledger.settings,
      newToken: () => uuid(),
    },
    {
      worker,
      signal: new AbortController().signal,
      remainingMs: () => remainingMs,
      log: { info: () => undefined, warn: () => undefined, error: () => undefined },
      meter: {
        count: () => undefined,
        milliseconds: () => undefined,
        percent: run.percent ?? (() => undefined),
      },
    },
    invited,
  );
  return { posted, clock };
}

async function queued(circumstances: Circumstances = {}): Promise<string> {
  return (await arrange(ledger, 'queued', circumstances)).deliveryId;
}
const endOf = async (deliveryId: string) =>
  (
    await ledger.sql('SELECT outcome, error_class AS error FROM attempt_outcome WHERE delivery_id = $1', [deliveryId])
  )[0];

/** A ledger whose open takes time. */
function slowOpen(pass: () => void): SenderTools['ledger'] {
  return {
    async open(command) {
      const answers = await ledger.ledger.open(command);
      pass();
      return answers;
    },
    settle: (command) => ledger.ledger.settle(command),
  };
}

const margin = () => {
  const { leaseSeconds, webhookDeadlineMs, leaseMarginMs } = ledger.settings;
  return leaseSeconds * 1000 - webhookDeadlineMs - leaseMarginMs;
};
/** How far each clock goes on while `open` takes so many milliseconds. */
const passing = [
  { by: 'both clocks', monotonic: 1, wall: 1 },
  { by: 'the monotonic clock, the other one set back', monotonic: 1, wall: -1 },
  { by: 'the wall clock, as where the environment was frozen', monotonic: 0, wall: 1 },
];

test.each(passing)('a lease too short by $by: nothing is sent', async ({ monotonic, wall }) => {
  const deliverAfter = async (ms: number) => {
    const clock = new StillClock();
    const deliveryId = await queued();
    const slow = slowOpen(() => {
      clock.monotonicMs += monotonic * ms;
      clock.wallMs += wall * ms;
    });
    const { posted } = await deliver([deliveryId], { clock, ledger: slow });
    return { sent: posted.includes(deliveryId), ...(await endOf(deliveryId)) };
  };
  expect(await deliverAfter(margin() + 1)).toEqual({ sent: false, outcome: 'not_sent', error: 'lease_too_short' });
  expect(await deliverAfter(margin())).toMatchObject({ sent: true, outcome: 'delivered' });
});

test('what a sender used of its lease counts from before its open until its settle is done', async () => {
  const clock = new StillClock();
  const deliveryId = await queued();
  const used: [string, number][] = [];
  const slow: SenderTools['ledger'] = {
    ...slowOpen(() => {
      clock.monotonicMs += 6000;
    }),
    async settle(command) {
      clock.monotonicMs += 9000;
      return ledger.ledger.settle(command);
    },
  };
  await deliver([deliveryId], { clock, ledger: slow, percent: (name, value) => void used.push([name, value]) });
  expect(used).toEqual([['lease_used', 25]]);
});

test('a lease counts from before the first try of its open, whose answer was lost, not from the try that answered', async () => {
  const clock = new StillClock();
  const deliveryId = await queued();
  let tries = 0;
  const losing: SenderTools['ledger'] = slowOpen(() => {
    tries += 1;
    if (tries > 1) return;
    clock.monotonicMs += margin() + 1;
    throw new LedgerError({ statement: 'open', fault: 'unavailable', ran: 'unknown', retry: 'again', reason: 'lost' });
  });
  const { posted } = await deliver([deliveryId], { clock, ledger: losing });
  expect({ tries, posted }).toEqual({ tries: 2, posted: [] });
  expect(await endOf(deliveryId)).toEqual({ outcome: 'not_sent', error: 'lease_too_short' });
});

test('a run waits until what it was invited to is due, no longer than its limit', async () => {
  const { waitLimitMs } = ledger.settings;
  const waits = async (ahead: number) => {
    const { clock } = await deliver([await queued()], { notBefore: (now) => now.wall() + ahead });
    return clock.slept.filter((ms) => ms >= 100);
  };
  expect(await waits(900)).toEqual([900]);
  expect(await waits(waitLimitMs + 5000)).toEqual([waitLimitMs]);
  expect(await waits(-5000)).toEqual([]);
});

test('what the database says is due in a moment is opened once more in the same run', async () => {
  const deliveryId = await queued({ dueIn: 1 });
  const clock = new StillClock();
  clock.sleep = async (ms) => {
    await ledger.sql('UPDATE reminder_delivery SET next_attempt_at = now() WHERE delivery_id = $1', [deliveryId]);
    clock.slept.push(ms);
  };
  expect((await deliver([deliveryId], { clock })).posted).toEqual([deliveryId]);
});

test('what must be opened alone is sent after the others, not beside them', async () => {
  const suspect = await queued();
  await ledger.ledger.open({ token: uuid(), worker, deliveryIds: [suspect] });
  await recover(ledger, suspect);
  await ledger.sql('UPDATE reminder_delivery SET next_attempt_at = now(), wake_at = now()');
  await ledger.ledger.claim({ token: uuid(), worker, limit: 10, lowWater: null });
  const other = await queued();
  expect((await deliver([suspect, other])).posted).toEqual([other, suspect]);
});

test('a group whose settle gave no answer is settled one by one under the same token', async () => {
  const ids = [await queued(), await queued()];
  const tokens: string[] = [];
  const watched: SenderTools['ledger'] = {
    open: (command) => ledger.ledger.open(command),
    async settle(command) {
      tokens.push(command.token);
      const answers = await ledger.ledger.settle(command);
      if (command.outcomes.length === 1) return answers;
      throw new LedgerError({
        statement: 'settle',
        fault: 'unavailable',
        ran: 'unknown',
        retry: 'again',
        reason: 'lost',
      });
    },
  };
  await deliver(ids, { ledger: watched });
  expect(tokens.length).toBeGreaterThan(1);
  expect(new Set(tokens).size).toBe(1);
  expect(await ledger.sql('SELECT count(*)::integer AS n FROM attempt_outcome')).toEqual([{ n: ids.length }]);
});

test('a hand-over takes off the delay what has passed since the claim, and gives back what was refused', async () => {
  const rows = [await arrange(ledger, 'dispatching'), await arrange(ledger, 'dispatching')];
  const [accepted, refused] = rows.map(({ deliveryId }) => deliveryId);
  const clock = new StillClock();
  const published: Invitation[] = [];
  const answer = await dispatch(
    {
      ledger: ledger.ledger,
      invitations: {
        async publish(invitations) {
          clock.monotonicMs += 40;
          published.push(...invitations);
          return {
            accepted: [{ deliveryId: accepted ?? '', messageId: 'm', queue: 'q', delaySeconds: 7 }],
            refused: [refused ?? ''],
            batchRefused: false,
          };
        },
      },
      clock,
      newToken: () => uuid(),
    },
    claimToken,
    {
      claimed: rows.map(({ deliveryId }) => ({ deliveryId, dueInMs: 10_000, notBefore: 0 })),
      recovered: [],
      expired: [],
      parked: [],
      highWater: null,
      askedAt: clock.monotonicMs - 2500,
    },
  );
  expect(published.map(({ delaySeconds }) => delaySeconds)).toEqual([7.5, 7.5]);
  expect(answer).toMatchObject({ enqueued: 1, released: 1, publishMs: 40 });
  const states = await ledger.sql('SELECT state FROM reminder_delivery ORDER BY delivery_id');
  expect(states).toEqual([{ state: 'queued' }, { state: 'scheduled' }]);
});
