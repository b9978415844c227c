// The queue refuses, forgets, is emptied, and hands out more than can be taken: nothing is lost, and no id is made anew.

import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { SQSEvent } from 'aws-lambda';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { startEventSourceMapping } from '../../lib/local/event-source-mapping.ts';
import { type LambdaHost, startLambdaHost } from '../../lib/local/lambda-host.ts';
import { type Asked, eventually, idsOf, type RunningLedger, startRunningLedger } from '../functions/running-ledger.ts';

/** How long a crowd may take on a machine that has much else to do; it takes a tenth of that. */
const limitMs = 180_000;
vi.setConfig({ testTimeout: 2 * limitMs });

/** What CloudWatch reads of a line (CloudWatch User Guide, "Specification: Embedded metric format"). */
interface EmbeddedMetrics {
  readonly CloudWatchMetrics: readonly { readonly Metrics: readonly { readonly Name: string }[] }[];
}

let ledger: RunningLedger;
let ok: string;
beforeAll(async () => {
  ledger = await startRunningLedger({ faults: true });
  ok = await ledger.destination('/ok');
  await ledger.settled(idsOf(await ledger.schedule(ok, [{ dueInMs: 0 }])));
}, 60_000);
afterAll(() => ledger.stop());

/** Schedules so many reminders, in calls of 500. */
async function scheduleMany(destination: string, count: number, dueInMs: number): Promise<Asked[]> {
  const asked: Asked[] = [];
  for (let left = count; left > 0; left -= 500) {
    const wishes = Array.from({ length: Math.min(500, left) }, () => ({ dueInMs }));
    asked.push(...(await ledger.schedule(destination, wishes)));
  }
  return asked;
}

/** Each arrived under its own id and key, and the ledger knows no other. Answers how many requests there were. */
async function expectIdsKept(asked: readonly Asked[]): Promise<number> {
  const keys = new Map(asked.map(({ deliveryId, key }) => [deliveryId, key]));
  const arrived = ledger.receiver.requests.filter(({ webhookId }) => keys.has(webhookId));
  for (const { webhookId, idempotencyKey } of arrived) expect(idempotencyKey).toBe(keys.get(webhookId));
  expect(new Set(arrived.map(({ webhookId }) => webhookId)).size).toBe(asked.length);
  const rows = await ledger.sql<{ delivery_id: string }>(
    'SELECT delivery_id FROM reminder_delivery WHERE idempotency_key = ANY ($1)',
    [[...keys.values()]],
  );
  expect(idsOf(rows.map(({ delivery_id: deliveryId }) => ({ deliveryId }))).toSorted()).toEqual(
    idsOf(asked).toSorted(),
  );
  return arrived.length;
}

/** The values of a metric of the claim, as CloudWatch takes them from the lines in the embedded metric format. */
function metricsOfClaim(name: string): number[] {
  const lines = ledger
    .logs()
    .split('\n')
    .filter((line) => line.startsWith('{"_aws":'));
  return lines.flatMap((line) => {
    const { _aws, service, [name]: value }: Record<string, unknown> & { _aws: EmbeddedMetrics } = JSON.parse(line);
    const declared = _aws.CloudWatchMetrics.flatMap(({ Metrics }) => Metrics).some((metric) => metric.Name === name);
    return service === 'claim' && declared ? [Number(value)] : [];
  });
}

/** A destination that takes nothing yet: what is scheduled for it waits, overdue, for the tick after `open`. */
async function closedDestination() {
  const name = await ledger.destination('/ok');
  const state = (now: string) => ledger.sql('UPDATE destination SET state = $2 WHERE name = $1', [name, now]);
  await state('paused');
  return { name, open: () => state('active') };
}

describe('many at once', () => {
  // sidekiq/sidekiq#843: two million jobs had left the calendar and not reached the queue when the poller died.
  test('killed after the commit of the claim, 1,000 rows: all are delivered, their ids kept', async () => {
    const { name, open } = await closedDestination();
    ledger.aws.scheduler.pause();
    const lots = [await scheduleMany(name, 500, -2000), await scheduleMany(name, 500, -1000)];
    await open();
    const claimed = `SELECT count(*)::integer AS count FROM reminder_delivery
                     WHERE delivery_id = ANY ($1) AND state = 'dispatching'`;
    for (const lot of lots) {
      const kill = ledger.plans.next({
        ...{ functionName: 'claim', point: 'claim', at: 'after', action: { kind: 'kill' } },
        deliveryId: lot[0]?.deliveryId ?? '',
      });
      ledger.aws.scheduler.resume();
      await eventually('the claim is killed', kill.fired);
      // No tick may take the lot up again before it was looked at.
      ledger.aws.scheduler.pause();
      // The claim died with its answer: nothing was sent, nothing was marked.
      expect((await ledger.sql(claimed, [idsOf(lot)]))[0]?.count).toBe(500);
      expect(await ledger.sql('SELECT FROM handoff WHERE delivery_id = ANY ($1)', [idsOf(lot)])).toEqual([]);
    }
    ledger.aws.scheduler.resume();
    const all = lots.flat();
    await ledger.settled(idsOf(all), 'delivered', limitMs);
    await expectIdsKept(all);
  });

  // aws/aws-cdk#24180, seek-oss/skuba#1408, adobe/spacecat-audit-worker#2876: messages whose invocations were throttled
  // used up their receives and went to the dead-letter queue, and no code had ever seen them.
  test('throttled sender, 500 due at once: nothing in the dead-letter queue, attempts equal real sends', async () => {
    const { aws } = ledger;
    await aws.eventSource.pause();
    const sender = aws.functions.find(({ name }) => name === 'webhook-sender');
    if (sender === undefined) throw new Error('there is no sender');
    // One environment for all, and a receiver that takes its time: most messages are received in vain.
    const host = await startLambdaHost([{ ...sender, concurrency: 1 }], join(ledger.directory, 'throttled-logs'));
    const inVain = { receives: 0, mostOfOne: 0 };
    const counting: LambdaHost = {
      ...host,
      invoke: (name, payload, qualifier) =>
        host.invoke(name, payload, qualifier).catch((error: Error) => {
          if (error.name === 'TooManyRequestsException') {
            const { Records }: SQSEvent = JSON.parse(payload);
            const counts = Records.map(({ attributes }) => Number(attributes.ApproximateReceiveCount));
            inVain.receives += counts.length;
            inVain.mostOfOne = Math.max(inVain.mostOfOne, ...counts);
          }
          throw error;
        }),
    };
    const { senderBatchSize, senderConcurrency } = aws.settings;
    const mapping = startEventSourceMapping({
      ...{ host: counting, functionName: 'webhook-sender', queue: aws.queue },
      ...{ batchSize: senderBatchSize, maximumConcurrency: senderConcurrency },
    });
    const asked = await scheduleMany(await ledger.destination('/slow/400'), 500, 0);
    // The limit is lifted when one of them was thrown back again after its visibility time-out, and three times as many
    // receives as there are messages were spent on nothing.
    const enough = () => inVain.mostOfOne >= 2 && inVain.receives >= 3 * asked.length;
    await eventually('senders are throttled', enough, limitMs);
    await mapping.stop();
    await host.stop();
    aws.eventSource.resume();
    await ledger.settled(idsOf(asked), 'delivered', limitMs);
    const sends = await expectIdsKept(asked);
    // A sender that never reported may have sent or not; there is none unless the machine is very slow.
    const [attempts] = await ledger.sql<{ reported: number; unreported: number }>(
      `SELECT count(*) FILTER (WHERE o.phase IN ('written', 'headers', 'body'))::integer AS reported,
              count(*) FILTER (WHERE o.phase IS NULL)::integer AS unreported
       FROM delivery_attempt a
       LEFT JOIN LATERAL (SELECT max(phase) AS phase FROM attempt_outcome
                          WHERE delivery_id = a.delivery_id AND attempt_no = a.attempt_no) o ON true
       WHERE a.delivery_id = ANY ($1)`,
      [idsOf(asked)],
    );
    const { reported = 0, unreported = 0 } = attempts ?? {};
    expect(sends).toBeGreaterThanOrEqual(reported);
    expect(sends).toBeLessThanOrEqual(reported + unreported);
    expect((await aws.queue.depth()).deadLetters).toEqual({ ready: 0, delayed: 0, inFlight: 0 });
  });
});

// JasperFx/wolverine#3503, aws-samples/sample-voice-of-customer-datalake#304: entries that a batch call refused, or said
// nothing of, counted as sent.
test('3 of 10 entries refused, and an answer that omits one: only those are released', async () => {
  const { aws } = ledger;
  aws.scheduler.pause();
  const due = Date.now() + 6000;
  const match = new RegExp(`"not_before":${due}\\b`);
  aws.queue.faults.next({ kind: 'refuse', times: 3, match });
  aws.queue.faults.next({ kind: 'omit', match });
  const wish = { dueAt: new Date(due).toISOString() };
  const asked = await ledger.schedule(
    ok,
    Array.from({ length: 10 }, () => wish),
  );
  const rows = await Promise.all(idsOf(asked).map((id) => ledger.row(id)));
  expect(rows.map(({ state }) => state).toSorted()).toEqual([
    ...Array.from({ length: 6 }, () => 'queued'),
    ...Array.from({ length: 4 }, () => 'scheduled'),
  ]);
  for (const { state, lease_owner, wake_at, due_at, last_error } of rows) {
    expect(lease_owner).toBeNull();
    // Released: looked at again in a moment. Queued: when its allowance has passed.
    expect(Number(wake_at) < Number(due_at)).toBe(state === 'scheduled');
    expect(last_error === null).toBe(state === 'queued');
  }
  aws.scheduler.resume();
  await ledger.settled(idsOf(asked));
  // The one left out was in the queue all the same.
  for (const id of idsOf(asked)) expect(ledger.received(id)).toHaveLength(1);
});

// frain-dev/convoy#1667: a retry stood in the list with a time that had passed, and nobody took it up again.
test('SendMessage denied for five ticks: re-driven, the error in ledger and metric, and a repeat told of the live row', async () => {
  const { aws } = ledger;
  aws.scheduler.pause();
  const recover = aws.queue.faults.next({ kind: 'error-before', times: Number.POSITIVE_INFINITY });
  const kept = await scheduleMany(ok, 30, 0);
  // More than two batches of a claim: a drain that went on would take them all.
  const crowd = await ledger.destination('/ok');
  await scheduleMany(crowd, 1070, 0);
  const before = metricsOfClaim('released').length;
  let given = 0;
  const [begun] = await ledger.sql<{ at: Date }>('SELECT now() AS at');
  for (let tick = 0; tick < 5; tick += 1) {
    await sleep(2 * aws.settings.releaseBaseSeconds * 1000);
    const sendCalls = aws.queue.sendCalls();
    const counts = await ledger.tick();
    expect(counts).toMatchObject({ stopped: 'queue_refused', enqueued: 0 });
    expect(counts.batches).toBeLessThanOrEqual(2);
    expect(counts.claimed).toBe(counts.released);
    given += Number(counts.released);
    // Ten calls at a time, each tried twice.
    expect(aws.queue.sendCalls() - sendCalls).toBeLessThanOrEqual(20);
  }
  const perRun = 'SELECT FROM claim_batch WHERE claimed_at >= $1 GROUP BY request_id HAVING count(*) > 2';
  expect(await ledger.sql(perRun, [begun?.at])).toEqual([]);
  const told = metricsOfClaim('released').slice(before);
  expect(given).toBeGreaterThan(0);
  expect(told.reduce((sum, count) => sum + count, 0)).toBe(given);
  for (const { deliveryId, key, payload, dueAt } of kept.slice(0, 3)) {
    const last_error = expect.stringContaining('queue_refused');
    expect(await ledger.row(deliveryId)).toMatchObject({ state: 'scheduled', attempt_no: 0, last_error });
    const again = { verb: 'schedule', key, destination: ok, userId: 'user-1', payloadText: payload };
    const answer = await ledger.command({ ...again, dueAt: new Date(dueAt).toISOString() });
    expect(answer).toMatchObject({ answer: 'duplicate', deliveryId, state: 'scheduled' });
  }
  await ledger.sql(`UPDATE destination SET state = 'paused' WHERE name = $1`, [crowd]);
  recover();
  aws.scheduler.resume();
  await ledger.settled(idsOf(kept), 'delivered', limitMs);
  for (const { deliveryId } of kept) expect(ledger.received(deliveryId)).toHaveLength(1);
});

test('in the end the queue is empty, and nothing is in the dead-letter queue', async () => {
  const { visibilityTimeoutSeconds } = ledger.aws.settings;
  const empty = async () => {
    const { ready, delayed, inFlight } = await ledger.aws.queue.depth();
    return ready + delayed + inFlight === 0;
  };
  await eventually('the queue is empty', empty, (visibilityTimeoutSeconds + 20) * 1000);
  expect((await ledger.aws.queue.depth()).deadLetters).toEqual({ ready: 0, delayed: 0, inFlight: 0 });
});
