// A cancel at every point of a reminder's life, sent at once or by a tick: whatever follows, what was answered is the truth.
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

/** What a reminder meets: statements of the ledger by their verbs, and what the queue and the receiver do. */
type Step = keyof Ledger | 'publish' | 'post';
type Moment = `${'before' | 'after'} ${Step}`;

/** Between these lives a reminder that is due as it is asked for: each is an effect that somebody has seen. */
const points = {
  'it is created': 'after schedule',
  'it is claimed': 'after claimById',
  'its invitation is sent': 'after publish',
  'its invitation is marked': 'after enqueue',
  'its sender begins': 'before open',
  'its attempt is open': 'after open',
  'its request is with the receiver': 'after post',
  'its answer is with the sender': 'before settle',
  'its outcome is settled': 'after settle',
} as const satisfies Record<string, Moment>;

/** All that a tick does for a reminder, and then its sender, in order. */
const stepsOfTick = ['unpark', 'claim', 'publish', 'enqueue', 'unannounced', 'open', 'post', 'settle'] as const;

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
  meter: { count: () => undefined, milliseconds: () => undefined, percent: () => undefined },
};

/** One reminder's life: `at` is called at each moment, and whatever it waits for holds that life up. */
function life(deliveryId: string, answer: Partial<AttemptResult>, at: (moment: Moment) => Promise<void>) {
  /** How many requests the receiver has got. */
  const sent = { count: 0 };
  /** Every verb of a thing with its moments around it. */
  const watched = <Thing extends object>(thing: Thing): Thing =>
    new Proxy(thing, {
      get: (of, name) => {
        const act: unknown = Reflect.get(of, name);
        if (typeof act !== 'function') return act;
        return async (command: unknown) => {
          await at(`before ${String(name) as Step}`);
          const answered: unknown = await act.call(of, command);
          await at(`after ${String(name) as Step}`);
          return answered;
        };
      },
    });
  const invitations = watched<Invitations>({
    publish: async (all) => {
      const accepted = all.map(({ deliveryId: id, delaySeconds }) => ({
        ...{ deliveryId: id, messageId: uuid(), queue: 'queue', delaySeconds },
      }));
      return { accepted, refused: [], batchRefused: false };
    },
  });
  const { post } = watched({
    post: async (request: { deliveryId: string }) => {
      sent.count += 1;
      return { ...outcome(request.deliveryId, '', answer) };
    },
  });
  const webhook: Webhook = { prepare: async () => ({ post, close: async () => undefined }) };
  const { settings } = ledger;
  const own = { ...tools, ledger: watched<Ledger>(ledger.ledger), invitations, webhook, settings };
  const deliver = () => deliverInvitations(own, run, [{ deliveryId, notBefore: 0 }]);
  const tick = () => claimDue(own, run);
  return {
    sent,
    deliver,
    tick,
    /** It is due as it is asked for, and goes out without a tick. */
    async near(): Promise<void> {
      const reminder = newReminder('partner', 0, { deliveryId, key: deliveryId });
      await answerCommands(own, run, 'product', [{ verb: 'schedule', reminder }]);
      await deliver();
    },
    /** It was asked for long before, and a tick finds it due. */
    async byTick(): Promise<void> {
      const reminder = newReminder('partner', 3_600_000, { deliveryId, key: deliveryId });
      await ledger.ledger.schedule({ token: uuid(), producer: 'product', reminders: [reminder] });
      await letTimePass(deliveryId);
      await tick();
      await deliver();
    },
  };
}

/** Lets every pause and lease of a reminder pass. */
async function letTimePass(deliveryId: string): Promise<void> {
  await ledger.sql(
    `UPDATE reminder_delivery SET lease_until = CASE WHEN lease_owner IS NOT NULL THEN now() END, wake_at = now(),
       next_attempt_at = LEAST(next_attempt_at, now())
     WHERE delivery_id = $1 AND wake_at IS NOT NULL`,
    [deliveryId],
  );
}

const forEver = new Promise<never>(() => undefined);

/** Lives a life, cancels at a moment of it, and lets others take over; then what was answered must be the truth. */
async function expectTruth(how: {
  readonly begins: 'near' | 'byTick';
  readonly moment: Moment;
  readonly receiver: string;
  /** Its process dies at that moment, after the cancel. */
  readonly dies: boolean;
}): Promise<string> {
  const { begins, moment, receiver, dies } = how;
  const deliveryId = uuid();
  const reached = Promise.withResolvers<{ answer: string; sentBefore: number; state: unknown }>();
  let cancelled = false;
  const reminder = life(deliveryId, receivers[receiver] ?? {}, async (now) => {
    if (now !== moment || cancelled) return;
    cancelled = true;
    const command = { token: uuid(), producer: 'product', reminders: [{ deliveryId }] };
    const [said] = await ledger.ledger.cancel(command);
    const { state } = await rowOf(ledger, deliveryId);
    reached.resolve({ answer: said?.answer ?? '', sentBefore: reminder.sent.count, state });
    if (dies) await forEver;
  });
  const whole = reminder[begins]();
  whole.catch(reached.reject);
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
    const stillToGo = ['after open', 'before post'].includes(moment) && !dies ? 1 : 0;
    expect({ state, sentAfter, others: next.sent.count }).toEqual({
      state: !dies && receiver === 'accepts' ? 'delivered' : 'cancelled',
      sentAfter: stillToGo,
      others: 0,
    });
  }
  return cancel.answer;
}

// grantcarthew/node-rethinkdb-job-queue#82: a job cancelled while it ran ended as completed. SamSaffron/term-llm#918: a
// cancel that overtook the start was answered as done, and the job ran.
describe.each(Object.entries(points))('cancel when %s', (_point, moment) => {
  for (const receiver of Object.keys(receivers)) {
    for (const dies of [false, true]) {
      test(`the receiver ${receiver}, the sender ${dies ? 'dies after it' : 'goes on'}: the answer is the truth`, () =>
        expectTruth({ begins: 'near', moment, receiver, dies }));
    }
  }
});

describe.each(stepsOfTick)('cancel beside a tick and its sender, around %s', (step) => {
  for (const side of ['before', 'after'] as const) {
    for (const dies of [false, true]) {
      test(`${side} it, and that process ${dies ? 'dies' : 'goes on'}: unsent, or too late and sent once`, async () => {
        const answer = await expectTruth({ begins: 'byTick', moment: `${side} ${step}`, receiver: 'accepts', dies });
        // An attempt that is open is the border: before it nothing is sent, behind it nothing is taken back.
        const open = ['after open', 'before post', 'after post', 'before settle'].includes(`${side} ${step}`);
        const settled = `${side} ${step}` === 'after settle';
        expect(answer).toBe(settled ? 'finished' : open ? 'too_late' : 'cancelled');
      });
    }
  }
});
