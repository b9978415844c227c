// Senders that die, freeze and come back, each in a process of its own: one identity, and the truth about every attempt.
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import {
  eventually,
  idsOf,
  invitation,
  type RunningLedger,
  sha256,
  startRunningLedger,
} from '../functions/running-ledger.ts';

// They wait for leases most of the time, and each has reminders of its own.
vi.setConfig({ maxConcurrency: 10 });

let ledger: RunningLedger;
let ok: string;
beforeAll(async () => {
  ledger = await startRunningLedger({ faults: true });
  ok = await ledger.destination('/ok');
  // Loads each function once: on a slow machine the first calls of all tests together would outlast an allowance.
  await ledger.settled(idsOf(await ledger.schedule(ok, [{ dueInMs: 0 }])));
}, 60_000);
afterAll(() => ledger.stop());

/** Freezes the sender of a reminder at a fault point, its time-out put off, until the test lets it go on. */
function freeze(deliveryId: string, point: 'open' | 'write' | 'settle', at: 'before' | 'after') {
  const plan = ledger.plans.next({ point, at, deliveryId, action: { kind: 'freeze', ms: 120_000 } });
  return {
    frozen: () => eventually(`the sender is frozen ${at} ${point}`, () => plan.fired()),
    thaw: async () => {
      process.kill(plan.fired()?.pid ?? 0, 'SIGCONT');
      await eventually('the thawed sender has said what it knew', async () =>
        (await ledger.outcomes(deliveryId)).some((one) => one.attempt_no === 1 && one.recorded_by === 'sender'),
      );
    },
  };
}

/** Has it sent by a sender of its own: what shares a batch with it would share its fate. */
function sendAlone(deliveryId: string): void {
  void ledger.deliver([invitation(deliveryId)]).catch(() => undefined);
}

/** What must not change any more once a reminder is delivered. */
const end = async (deliveryId: string) => ({
  row: await ledger.row(deliveryId),
  events: await ledger.sql('SELECT state FROM lifecycle_event WHERE delivery_id = $1', [deliveryId]),
});

/** All that a receiver got of a reminder has one key and the same bytes, as far as they came. */
function expectOneIdentity({ deliveryId, key, payload }: { deliveryId: string; key: string; payload: string }): void {
  for (const { idempotencyKey, bodySha256 } of ledger.received(deliveryId)) {
    expect(idempotencyKey).toBe(key);
    expect([null, sha256(payload)]).toContain(bodySha256);
  }
}

describe.concurrent('a reminder', () => {
  // sidekiq/sidekiq#6829: jobs whose worker was killed were gone without a trace. timgit/pg-boss#102: they stayed active.
  test('whose sender is killed in the middle of a POST: sent again with the same key and bytes, its neighbours too', async () => {
    const all = [await ledger.scheduleUnsent(ok), await ledger.scheduleUnsent(ok), await ledger.scheduleUnsent(ok)];
    const [first = all[0]] = all;
    if (first === undefined) throw new Error('nothing to send');
    ledger.receiver.onArrival(first.deliveryId, async () => {
      const attempt = 'SELECT request_id FROM delivery_attempt WHERE delivery_id = $1';
      const [found] = await ledger.sql(attempt, [first.deliveryId]);
      expect(ledger.aws.host.kill(String(found?.request_id))).toBe(true);
    });
    await expect(ledger.deliver(idsOf(all).map((id) => invitation(id)))).rejects.toThrow('signal: SIGKILL');
    await ledger.settled(idsOf(all));
    expect(await ledger.outcomes(first.deliveryId)).toMatchObject([
      { attempt_no: 1, outcome: 'unknown', recorded_by: 'recover', moved_to: 'scheduled' },
      { attempt_no: 2, outcome: 'delivered', recorded_by: 'sender', moved_to: 'delivered' },
    ]);
    expect(ledger.received(first.deliveryId)).toHaveLength(2);
    for (const asked of all) {
      expectOneIdentity(asked);
      expect((await ledger.outcomes(asked.deliveryId)).at(-1)).toMatchObject({ outcome: 'delivered' });
    }
  });

  // grantcarthew/node-rethinkdb-job-queue#82: the answer to a cancel and the end of the job told different stories.
  test('that is cancelled during its POST, whose sender dies after that: too late, and never sent again', async () => {
    const { deliveryId, key } = await ledger.scheduleUnsent(ok);
    const plan = ledger.plans.next({ point: 'headers', at: 'after', deliveryId, action: { kind: 'kill' } });
    const cancelled = Promise.withResolvers<unknown>();
    ledger.receiver.onArrival(deliveryId, async () => cancelled.resolve(await ledger.command({ verb: 'cancel', key })));
    await expect(ledger.deliver([invitation(deliveryId)])).rejects.toThrow('signal: SIGKILL');
    expect(plan.fired()).toBeDefined();
    expect(await cancelled.promise).toMatchObject({ answer: 'too_late', state: 'delivering' });
    await ledger.settled([deliveryId], 'cancelled');
    expect(await ledger.outcomes(deliveryId)).toMatchObject([{ outcome: 'unknown', moved_to: 'cancelled' }]);
    expect(ledger.received(deliveryId)).toHaveLength(1);
    expect(await ledger.command({ verb: 'cancel', key })).toMatchObject({ answer: 'cancelled', state: 'cancelled' });
  });

  // graphile/worker#222 and hexpm/hexpm#1825: a worker that stood still past its lock was taken for dead, and its job ran
  // twice with nobody to say which end was true.
  test('whose sender is frozen past its lease, another takes over, the first thaws with success: it is delivered by that', async () => {
    const own = await ledger.destination('/fail/0');
    const asked = await ledger.scheduleUnsent(own);
    const { deliveryId } = asked;
    const sender = freeze(deliveryId, 'settle', 'before');
    sendAlone(deliveryId);
    await sender.frozen();
    expect(ledger.received(deliveryId)).toMatchObject([{ status: 200 }]);
    // The other's receiver fails, and nobody sends a third time.
    await ledger.sql('UPDATE destination SET url = $2 WHERE name = $1', [own, ledger.receiver.url('/status/503')]);
    const taken = eventually('another has sent it', () => ledger.received(deliveryId).length === 2);
    ledger.receiver.on('request', ({ webhookId }) => {
      if (webhookId === deliveryId) void ledger.sql(`UPDATE destination SET state = 'paused' WHERE name = $1`, [own]);
    });
    await taken;
    await eventually('it has failed', async () => (await ledger.outcomes(deliveryId)).length === 2);
    await sender.thaw();
    await ledger.settled([deliveryId]);
    const outcomes = await ledger.outcomes(deliveryId);
    expect(outcomes).toMatchObject([
      { attempt_no: 1, outcome: 'unknown', recorded_by: 'recover', moved_to: 'scheduled' },
      { attempt_no: 1, outcome: 'delivered', recorded_by: 'sender', moved_to: 'delivered' },
      { attempt_no: 2, outcome: 'retry', status: 503, recorded_by: 'sender', moved_to: 'scheduled' },
    ]);
    expect(ledger.received(deliveryId)).toHaveLength(2);
    expectOneIdentity(asked);
  });

  test('whose sender is frozen past its lease, another takes over, the first thaws with failure: that moves nothing', async () => {
    const own = await ledger.destination('/fail/1');
    const asked = await ledger.scheduleUnsent(own);
    const { deliveryId } = asked;
    const sender = freeze(deliveryId, 'settle', 'before');
    sendAlone(deliveryId);
    await sender.frozen();
    await ledger.settled([deliveryId]);
    const before = await end(deliveryId);
    await sender.thaw();
    expect(await end(deliveryId)).toEqual(before);
    expect(await ledger.outcomes(deliveryId)).toMatchObject([
      { attempt_no: 1, outcome: 'unknown', recorded_by: 'recover', moved_to: 'scheduled' },
      { attempt_no: 1, outcome: 'retry', status: 500, recorded_by: 'sender', moved_to: null },
      { attempt_no: 2, outcome: 'delivered', recorded_by: 'sender', moved_to: 'delivered' },
    ]);
    expect(ledger.received(deliveryId)).toHaveLength(2);
    expectOneIdentity(asked);
  });

  test('whose sender is frozen in its POST past its lease: another sends it, the thawed one moves nothing', async () => {
    const asked = await ledger.scheduleUnsent(ok);
    const { deliveryId } = asked;
    const sender = freeze(deliveryId, 'write', 'after');
    sendAlone(deliveryId);
    await sender.frozen();
    await ledger.settled([deliveryId]);
    const before = await end(deliveryId);
    await sender.thaw();
    expect(await end(deliveryId)).toEqual(before);
    const outcomes = await ledger.outcomes(deliveryId);
    expect(outcomes.filter(({ moved_to }) => moved_to === 'delivered')).toMatchObject([{ attempt_no: 2 }]);
    expect(outcomes.filter(({ attempt_no }) => attempt_no === 1)).toMatchObject([
      { outcome: 'unknown', recorded_by: 'recover', moved_to: 'scheduled' },
      // What it says late is kept as evidence.
      { recorded_by: 'sender', moved_to: null },
    ]);
    expect(ledger.received(deliveryId)).toHaveLength(2);
    expectOneIdentity(asked);
  });

  test('whose sender is frozen before it dials, past its lease: sent once, by another', async () => {
    const { deliveryId } = await ledger.scheduleUnsent(ok);
    const sender = freeze(deliveryId, 'open', 'after');
    sendAlone(deliveryId);
    await sender.frozen();
    await ledger.settled([deliveryId]);
    const before = await end(deliveryId);
    await sender.thaw();
    expect(await end(deliveryId)).toEqual(before);
    expect(ledger.received(deliveryId)).toHaveLength(1);
    expect(await ledger.outcomes(deliveryId)).toMatchObject([
      { attempt_no: 1, outcome: 'unknown', recorded_by: 'recover' },
      { attempt_no: 1, outcome: 'not_sent', recorded_by: 'sender', moved_to: null },
      { attempt_no: 2, outcome: 'delivered', recorded_by: 'sender' },
    ]);
  });

  test('whose sender learns of its lease too late to use it is not sent under it', async () => {
    const { leaseSeconds, leaseMarginMs, webhookDeadlineMs } = ledger.aws.settings;
    const { deliveryId } = await ledger.scheduleUnsent(ok);
    const sender = freeze(deliveryId, 'open', 'after');
    sendAlone(deliveryId);
    await sender.frozen();
    await sleep(leaseSeconds * 1000 - leaseMarginMs - webhookDeadlineMs);
    await sender.thaw();
    await ledger.settled([deliveryId]);
    const [first, second] = await ledger.outcomes(deliveryId);
    // On a machine that is very slow the claim has closed it meanwhile.
    expect(['not_sent', 'unknown']).toContain(first?.outcome);
    expect(second).toMatchObject({ attempt_no: 2, outcome: 'delivered' });
    expect(ledger.received(deliveryId)).toHaveLength(1);
  });

  test('whose message is lost: its reminder is invited again when its allowance has passed', async () => {
    const { deliveryId, dueAt } = await ledger.scheduleUnsent(ok);
    const { allowanceSeconds } = ledger.aws.settings;
    const { wake_at: wakeAt } = await ledger.row(deliveryId);
    expect(wakeAt?.getTime()).toBeGreaterThanOrEqual(dueAt + allowanceSeconds * 1000);
    expect(wakeAt?.getTime()).toBeLessThanOrEqual(Date.now() + allowanceSeconds * 1000);
    await ledger.settled([deliveryId]);
    const [request, ...more] = ledger.received(deliveryId);
    expect(request?.at).toBeGreaterThanOrEqual(dueAt + allowanceSeconds * 1000);
    expect(more).toEqual([]);
    expect(await ledger.sql('SELECT FROM handoff WHERE delivery_id = $1', [deliveryId])).toHaveLength(2);
    expect(await ledger.outcomes(deliveryId)).toHaveLength(1);
  });

  test('whose message comes twice: its reminder is sent once', async () => {
    const dueAt = Date.now() + 900;
    ledger.aws.queue.faults.next({ kind: 'duplicate', match: new RegExp(`"not_before":${dueAt}\\b`) });
    const asked = await ledger.schedule(ok, [{ dueAt: new Date(dueAt).toISOString() }]);
    const [id = ''] = idsOf(asked);
    await ledger.settled([id]);
    // The later of the two finds it leased, finished, or in its own batch.
    await eventually('both are taken', async () => {
      const { ready, delayed } = await ledger.aws.queue.depth();
      return ready + delayed === 0;
    });
    expect(ledger.received(id)).toHaveLength(1);
    expect(await ledger.outcomes(id)).toMatchObject([{ attempt_no: 1, outcome: 'delivered' }]);
  });
});
