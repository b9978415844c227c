// A cancel at every point of a reminder's life: whatever follows, what the product was answered is the truth.
import { v7 as uuid } from 'uuid';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { answerCommands } from '../../lambdas/core/answer-commands.ts';
import { claimDue } from '../../lambdas/core/claim-due.ts';
import { deliverInvitations } from '../../lambdas/core/deliver-invitations.ts';
import type { AttemptResult, Invitations, Ledger, Webhook } from '../../lambdas/core/ports.ts';
import { systemClock } from '../../lambdas/runtime/clock.ts';
import { rowOf } from '../ledger/one-reminder.ts';
import { newReminder, outcome, startTestLedger, type TestLedger, worker } from '../ledger/test-ledger.ts';

let ledger: TestLedger;
beforeAll(async () => {
  ledger = await startTestLedger();
  await ledger.destination('partner');
});
afterAll(() => ledger.stop());

/** Between these a reminder lives: each is an effect that the ledger, the queue or the receiver has seen. */
const points = [
  'it is created',
  'it is claimed',
  'its invitation is sent',
  'its invitation is marked',
  'its sender begins',
  'its attempt is open',
  'its request is with the receiver',
  'its answer is with the sender',
  'its outcome is settled',
] as const;
type Point = (typeof points)[number];

const receivers: Readonly<Record<string, Partial<AttemptResult>>> = {
  accepts: {},
  fails: { outcome: 'retry', status: 503, errorClass: 'http_503' },
  'is silent': { outcome: 'unknown', phase: 'written', status: null, errorClass: 'deadline' },
};

const tools = {
  clock: systemClock,
  newToken: () => uuid(),
  announcements: { publish: async () => [] },
};
const run = {
  worker,
  signal: new AbortController().signal,
  remainingMs: () => 30_000,
  log: { info: () => undefined, warn: () => undefined, error: () => undefined },
  meter: { count: () => undefined, milliseconds: () => undefined },
};

/** One reminder's life: `at` is called at each point, and whatever it waits for holds that life up. */
function life(deliveryId: string, answer: Partial<AttemptResult>, at: (point: Point) => Promise<void>) {
  /** How many requests the receiver has got. */
  const sent = { count: 0 };
  const real = ledger.ledger;
  const watched: Ledger = Object.assign(Object.create(real) as Ledger, {
    schedule: async (command: Parameters<Ledger['schedule']>[0]) => after(real.schedule(command), 'it is created'),
    claimById: async (command: Parameters<Ledger['claimById']>[0]) => after(real.claimById(command), 'it is claimed'),
    claim: (command: Parameters<Ledger['claim']>[0]) => real.claim(command),
    release: (command: Parameters<Ledger['release']>[0]) => real.release(command),
    unpark: (command: Parameters<Ledger['unpark']>[0]) => real.unpark(command),
    unannounced: (query: Parameters<Ledger['unannounced']>[0]) => real.unannounced(query),
    enqueue: async (command: Parameters<Ledger['enqueue']>[0]) =>
      after(real.enqueue(command), 'its invitation is marked'),
    open: async (command: Parameters<Ledger['open']>[0]) => {
      await at('its sender begins');
      return after(real.open(command), 'its attempt is open');
    },
    settle: async (command: Parameters<Ledger['settle']>[0]) => {
      await at('its answer is with the sender');
      return after(real.settle(command), 'its outcome is settled');
    },
  });
  const invitations: Invitations = {
    publish: async (all) => {
      await at('its invitation is sent');
      const accepted = all.map(({ deliveryId: id, delaySeconds }) => ({
        ...{ deliveryId: id, messageId: uuid(), queue: 'queue', delaySeconds },
      }));
      return { accepted, refused: [], batchRefused: false };
    },
  };
  const webhook: Webhook = {
    prepare: async () => ({
      post: async (request) => {
        sent.count += 1;
        await at('its request is with the receiver');
        return { ...outcome(request.deliveryId, '', answer) };
      },
      close: async () => undefined,
    }),
  };
  async function after<Value>(effect: Promise<Value>, point: Point): Promise<Value> {
    const value = await effect;
    await at(point);
    return value;
  }
  const settings = ledger.settings;
  const own = { ...tools, ledger: watched, invitations, webhook, settings };
  return {
    sent,
    async begin(): Promise<void> {
      const reminder = newReminder('partner', 0, { deliveryId, key: deliveryId });
      await answerCommands(own, run, 'product', [{ verb: 'schedule', reminder }]);
      await this.deliver();
    },
    deliver: () => deliverInvitations(own, run, [{ deliveryId, notBefore: 0 }]),
    tick: () => claimDue(own, run),
  };
}

/** Lets every pause and lease of a reminder pass. */
async function letTimePass(deliveryId: string): Promise<void> {
  await ledger.sql(
    `UPDATE reminder_delivery SET lease_until = now(), wake_at = now(), next_attempt_at = LEAST(next_attempt_at, now())
     WHERE delivery_id = $1 AND wake_at IS NOT NULL`,
    [deliveryId],
  );
}

const forEver = new Promise<never>(() => undefined);

// grantcarthew/node-rethinkdb-job-queue#82: a job cancelled while it ran ended as completed. SamSaffron/term-llm#918: a
// cancel that overtook the start was answered as done, and the job ran.
describe.each(points)('cancel when %s', (point) => {
  for (const [receiver, answer] of Object.entries(receivers)) {
    for (const dies of [false, true]) {
      test(`the receiver ${receiver}, the sender ${dies ? 'dies after it' : 'goes on'}: the answer is the truth`, async () => {
        const deliveryId = uuid();
        const reached = Promise.withResolvers<{ answer: string; sentBefore: number; state: unknown }>();
        let cancelled = false;
        const reminder = life(deliveryId, answer, async (now) => {
          if (now !== point || cancelled) return;
          cancelled = true;
          const command = { token: uuid(), producer: 'product', reminders: [{ deliveryId }] };
          const [said] = await ledger.ledger.cancel(command);
          const { state } = await rowOf(ledger, deliveryId);
          reached.resolve({ answer: said?.answer ?? '', sentBefore: reminder.sent.count, state });
          if (dies) await forEver;
        });
        const whole = reminder.begin();
        const cancel = await reached.promise;
        if (!dies) await whole;
        // Whoever takes over has a receiver that accepts everything.
        const next = life(deliveryId, {}, async () => undefined);
        for (let round = 0; round < 2; round += 1) {
          await letTimePass(deliveryId);
          await next.tick();
          await next.deliver();
        }

        const { state } = await rowOf(ledger, deliveryId);
        const sentAfter = reminder.sent.count + next.sent.count - cancel.sentBefore;
        if (cancel.answer === 'cancelled') {
          expect({ state, sentAfter }).toEqual({ state: 'cancelled', sentAfter: 0 });
        } else if (cancel.answer === 'finished') {
          expect({ atOnce: cancel.state, state, sentAfter }).toEqual({
            ...{ atOnce: 'delivered', state: 'delivered', sentAfter: 0 },
          });
        } else {
          expect(cancel).toMatchObject({ answer: 'too_late', state: 'delivering' });
          // The attempt that was open may still go; no other does, and only a success that was heard makes it delivered.
          const stillToGo = point === 'its attempt is open' && !dies ? 1 : 0;
          expect({ state, sentAfter, others: next.sent.count }).toEqual({
            state: !dies && receiver === 'accepts' ? 'delivered' : 'cancelled',
            sentAfter: stillToGo,
            others: 0,
          });
        }
      });
    }
  }
});
