// Crashes between two steps: senders that die or freeze in the middle of a POST, messages lost, doubled and refused.
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { open } from '../../lambdas/store/statements/open.ts';
import { type LambdaHost, startLambdaHost } from '../../lib/local/lambda-host.ts';
import { loginSecretArn } from '../../lib/local/local-aws.ts';
import {
  type Asked,
  eventually,
  idsOf,
  invitation,
  type RunningLedger,
  sha256,
  sqsEvent,
  startRunningLedger,
} from './running-ledger.ts';

let ledger: RunningLedger;
let ok: string;
/** Senders that nobody kills when their time is up: they can be frozen for longer than a lease lasts. */
let slowHost: LambdaHost;
/** A reminder whose sender was frozen while it waited for the answer of `open`. */
let frozenInOpen: { asked: Asked; thaw: () => Promise<void> };

beforeAll(async () => {
  ledger = await startRunningLedger();
  ok = await ledger.destination('/ok');
  slowHost = await hostOfSlowSenders();
  // First and alone: every other sender's `open` has the same SQL.
  frozenInOpen = await freezeInOpen();
}, 60_000);
afterAll(async () => {
  await slowHost.stop();
  await ledger.stop();
});

async function hostOfSlowSenders(): Promise<LambdaHost> {
  const { outputs, environment } = ledger.aws;
  const sender = {
    name: 'webhook-sender',
    folder: fileURLToPath(new URL('../../dist/functions/webhook-sender', import.meta.url)),
    timeoutSeconds: 120,
    memoryMegabytes: 512,
    concurrency: 2,
    environment: {
      ...environment,
      STAGE: 'rehearsal',
      DATABASE_ARN: outputs.DatabaseArn ?? '',
      DATABASE_SECRET_ARN: loginSecretArn('ledger_webhook_sender'),
      DATABASE_NAME: outputs.DatabaseName ?? '',
      SIGNING_SECRET_ARN: outputs.SigningSecretArn ?? '',
      WEBHOOK_TRUSTED_CIDRS: '127.0.0.0/8',
      NODE_EXTRA_CA_CERTS: ledger.caFile,
    },
  };
  return startLambdaHost([sender], join(ledger.directory, 'slow-logs'));
}

/** Sends with a slow sender. `freeze` stops it where it is; `thaw` lets it go on and resolves with its answer. */
function sendSlowly(deliveryId: string) {
  const before = new Set(slowHost.environments().map(({ pid }) => pid));
  const answer = slowHost.invoke('webhook-sender', JSON.stringify(sqsEvent([invitation(deliveryId)])));
  const pid = slowHost.environments().find((environment) => !before.has(environment.pid))?.pid ?? 0;
  return {
    freeze: () => process.kill(pid, 'SIGSTOP'),
    thaw: async () => {
      process.kill(pid, 'SIGCONT');
      const { payload, functionError } = await answer;
      expect(functionError, payload).toBe(false);
    },
  };
}

async function freezeInOpen() {
  const asked = await ledger.scheduleUnsent(ok);
  const reached = Promise.withResolvers<void>();
  const match = new RegExp(RegExp.escape(open.text));
  const sender = sendSlowly(asked.deliveryId);
  match.test = (text) => {
    if (text !== open.text) return false;
    sender.freeze();
    reached.resolve();
    return true;
  };
  // No fault but the look at it: the statement runs, and nobody reads its answer.
  ledger.aws.dataApi.faults.next({ kind: 'delay', ms: 0, match });
  await reached.promise;
  await ledger.settled([asked.deliveryId], 'delivering');
  return { asked, thaw: sender.thaw };
}

/** What must not change any more once a reminder is delivered. */
const end = async (deliveryId: string) => ({
  row: await ledger.row(deliveryId),
  events: await ledger.sql('SELECT state FROM lifecycle_event WHERE delivery_id = $1', [deliveryId]),
});

describe.concurrent('a reminder', () => {
  test('whose sender is killed in the middle of a POST is sent again with the same key and bytes', async () => {
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
    const outcomes = await ledger.outcomes(first.deliveryId);
    expect(outcomes).toMatchObject([
      { attempt_no: 1, outcome: 'unknown', recorded_by: 'recover', moved_to: 'scheduled' },
      { attempt_no: 2, outcome: 'delivered', recorded_by: 'sender', moved_to: 'delivered' },
    ]);
    expect(ledger.received(first.deliveryId)).toHaveLength(2);
    // The others of its batch, whose answers it may have had and not settled.
    for (const { deliveryId, key, payload } of all) {
      for (const request of ledger.received(deliveryId)) {
        expect(request.idempotencyKey).toBe(key);
        expect([null, sha256(payload)]).toContain(request.bodySha256);
      }
      expect((await ledger.outcomes(deliveryId)).at(-1)).toMatchObject({ outcome: 'delivered' });
    }
  });

  test('whose sender freezes in a POST past its lease is sent by another; the thawed one moves nothing', async () => {
    const { deliveryId, key, payload } = await ledger.scheduleUnsent(ok);
    const frozen = Promise.withResolvers<void>();
    const sender = sendSlowly(deliveryId);
    ledger.receiver.onArrival(deliveryId, () => {
      sender.freeze();
      frozen.resolve();
    });
    await frozen.promise;
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
    const requests = ledger.received(deliveryId);
    expect(requests).toHaveLength(2);
    for (const request of requests) expect(request).toMatchObject({ idempotencyKey: key, bodySha256: sha256(payload) });
  });

  test('whose sender freezes before it dials, past its lease, is sent once: by another', async () => {
    const { asked, thaw } = frozenInOpen;
    await ledger.settled([asked.deliveryId]);
    const before = await end(asked.deliveryId);
    await thaw();
    expect(await end(asked.deliveryId)).toEqual(before);
    expect(ledger.received(asked.deliveryId)).toHaveLength(1);
    const [first, second] = await ledger.outcomes(asked.deliveryId);
    expect(first).toMatchObject({ attempt_no: 1, outcome: 'unknown', recorded_by: 'recover' });
    expect(second).toMatchObject({ attempt_no: 2, outcome: 'delivered' });
  });

  test('whose message is lost is invited again when its allowance has passed', async () => {
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

  test('whose message comes twice is sent once', async () => {
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

test('a sender that learns of its lease too late to use it sends nothing under it', async () => {
  const { aws } = ledger;
  const { deliveryId } = await ledger.scheduleUnsent(ok);
  const { leaseSeconds, leaseMarginMs, webhookDeadlineMs } = aws.settings;
  // Each answer of `open` is lost until too little is left of the lease that its first run took.
  const times = Number.POSITIVE_INFINITY;
  const recover = aws.dataApi.faults.next({ kind: 'reset-after', match: new RegExp(RegExp.escape(open.text)), times });
  const answer = slowHost.invoke('webhook-sender', JSON.stringify(sqsEvent([invitation(deliveryId)])));
  await ledger.settled([deliveryId], 'delivering');
  await sleep(leaseSeconds * 1000 - leaseMarginMs - webhookDeadlineMs);
  recover();
  expect((await answer).functionError).toBe(false);
  await ledger.settled([deliveryId]);
  const [first, second] = await ledger.outcomes(deliveryId);
  // On a machine that is very slow the claim has closed it meanwhile.
  expect(['not_sent', 'unknown']).toContain(first?.outcome);
  expect(second).toMatchObject({ attempt_no: 2, outcome: 'delivered' });
  expect(ledger.received(deliveryId)).toHaveLength(1);
});

test('while the queue refuses every call a tick claims at most twice, and afterwards all is delivered', async () => {
  const { aws } = ledger;
  aws.scheduler.pause();
  const recover = aws.queue.faults.next({ kind: 'error-before', times: Number.POSITIVE_INFINITY });
  // Three batches of a claim: a drain that went on would take them all.
  const asked: Asked[] = [];
  for (const _ of [1, 2, 3]) {
    asked.push(
      ...(await ledger.schedule(
        ok,
        Array.from({ length: 400 }, () => ({ dueInMs: 0 })),
      )),
    );
  }
  for (const _ of [1, 2]) {
    await sleep(2 * aws.settings.releaseBaseSeconds * 1000);
    const sendCalls = aws.queue.sendCalls();
    const tick = await ledger.tick();
    expect(tick).toMatchObject({ stopped: 'queue_refused', enqueued: 0 });
    expect(tick.batches).toBeLessThanOrEqual(2);
    expect(tick.claimed).toBe(tick.released);
    // Ten calls at a time, each tried twice.
    expect(aws.queue.sendCalls() - sendCalls).toBeLessThanOrEqual(20);
  }
  const perRun = await ledger.sql('SELECT count(*) AS claims FROM claim_batch GROUP BY request_id HAVING count(*) > 2');
  expect(perRun).toEqual([]);
  const [kept, rest] = [asked.slice(0, 30), asked.slice(30)];
  for (let place = 0; place < rest.length; place += 500) {
    const chunk = rest.slice(place, place + 500);
    const answers = await ledger.commands(chunk.map(({ deliveryId }) => ({ verb: 'cancel', deliveryId })));
    expect(new Set(answers.map(({ answer }) => answer))).toEqual(new Set(['cancelled']));
  }
  recover();
  aws.scheduler.resume();
  await ledger.settled(idsOf(kept));
  for (const { deliveryId } of kept) expect(ledger.received(deliveryId)).toHaveLength(1);
});

test('of ten entries, three refused and one left out of the answer, only those four are released', async () => {
  const { aws } = ledger;
  aws.scheduler.pause();
  aws.queue.faults.next({ kind: 'refuse', times: 3 });
  aws.queue.faults.next({ kind: 'omit' });
  const asked = await ledger.schedule(
    ok,
    Array.from({ length: 10 }, () => ({ dueInMs: 6000 })),
  );
  const rows = await Promise.all(idsOf(asked).map((id) => ledger.row(id)));
  expect(rows.map(({ state }) => state).toSorted()).toEqual([
    ...Array.from({ length: 6 }, () => 'queued'),
    ...Array.from({ length: 4 }, () => 'scheduled'),
  ]);
  for (const { state, lease_owner, wake_at, due_at } of rows) {
    expect(lease_owner).toBeNull();
    // Released: looked at again in a moment. Queued: when its allowance has passed.
    expect(Number(wake_at) < Number(due_at)).toBe(state === 'scheduled');
  }
  aws.scheduler.resume();
  await ledger.settled(idsOf(asked));
  // The one left out was in the queue all the same.
  for (const id of idsOf(asked)) expect(ledger.received(id)).toHaveLength(1);
});
