// Receivers that sleep, refuse and ask for patience, products that change their mind, and messages that come back late.
import { type AddressInfo, connect, createServer } from 'node:net';
import { join } from 'node:path';
import { DeleteMessageCommand, SendMessageBatchCommand, SendMessageCommand, SQSClient } from '@aws-sdk/client-sqs';
import type { SQSEvent } from 'aws-lambda';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { startEventSourceMapping } from '../../lib/local/event-source-mapping.ts';
import { type LambdaHost, startLambdaHost } from '../../lib/local/lambda-host.ts';
import { startQueue } from '../../lib/local/queue.ts';
import {
  type Asked,
  eventually,
  idsOf,
  invitation,
  type RunningLedger,
  sha256,
  sqsEvent,
  startRunningLedger,
} from '../functions/running-ledger.ts';

// They wait most of the time, and each has reminders of its own.
vi.setConfig({ maxConcurrency: 10 });

let ledger: RunningLedger;
let ok: string;
/** Senders of which the event source knows nothing: `single` has one environment, `hasty` far too little time. */
let host: LambdaHost;
beforeAll(async () => {
  ledger = await startRunningLedger();
  ok = await ledger.destination('/ok');
  // Loads each function once: on a slow machine the first calls of all tests together would outlast an allowance.
  await ledger.settled(idsOf(await ledger.schedule(ok, [{ dueInMs: 0 }])));
  const sender = ledger.aws.functions.find(({ name }) => name === 'webhook-sender');
  if (sender === undefined) throw new Error('there is no sender');
  const senders = [
    { ...sender, name: 'single', concurrency: 1 },
    { ...sender, name: 'hasty', concurrency: 1, timeoutSeconds: 2.3 },
  ];
  host = await startLambdaHost(senders, join(ledger.directory, 'own-logs'));
}, 60_000);
afterAll(async () => {
  await host.stop();
  await ledger.stop();
});

const sendBy = (name: 'single' | 'hasty', ids: readonly string[]) =>
  host.invoke(name, JSON.stringify(sqsEvent(ids.map((id) => invitation(id)))));

/** An expectation of one reminder: all that arrived has its key and its bytes. */
function expectOneIdentity({ deliveryId, key, payload }: Asked): void {
  for (const { idempotencyKey, bodySha256 } of ledger.received(deliveryId)) {
    expect({ idempotencyKey, bodySha256 }).toEqual({ idempotencyKey: key, bodySha256: sha256(payload) });
  }
}

/** A wire to the receiver that knows of each connection how many bytes came from the sender, and whether it is closed. */
async function tap() {
  const connections: { bytes: number; closed: boolean }[] = [];
  const server = createServer((incoming) => {
    const connection = { bytes: 0, closed: false };
    connections.push(connection);
    const outgoing = connect(ledger.receiver.port, '127.0.0.1');
    incoming.on('data', (chunk) => {
      connection.bytes += chunk.length;
      outgoing.write(chunk);
    });
    outgoing.on('data', (chunk) => incoming.write(chunk));
    for (const [one, other] of [
      [incoming, outgoing],
      [outgoing, incoming],
    ] as const) {
      one.on('error', () => one.destroy());
      one.on('close', () => other.destroy());
    }
    incoming.on('close', () => {
      connection.closed = true;
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return { connections, url: (path: string) => `https://127.0.0.1:${port}${path}`, close: () => server.close() };
}

describe.concurrent('a receiver', () => {
  // celery/kombu#337, graphile/worker#169: work that outlasts its visibility or lock is handed to a second worker.
  test('that sleeps past the visibility time-out, batch of 10: any second request has the same id, key and bytes', async () => {
    const dueAt = Date.now();
    // Their messages are in a queue of their own, whose visibility time-out is over as soon as a sender has them.
    ledger.aws.queue.faults.next({ kind: 'lose', times: 10, match: new RegExp(`"not_before":${dueAt}\\b`) });
    const wish = { dueAt: new Date(dueAt).toISOString() };
    const asked = await ledger.schedule(
      ok,
      Array.from({ length: 10 }, () => wish),
    );
    const awake = Promise.withResolvers<void>();
    for (const id of idsOf(asked)) ledger.receiver.onArrival(id, () => awake.promise);
    const queue = await startQueue({ ...ledger.aws.settings, visibilityTimeoutSeconds: 0 });
    const credentials = { accessKeyId: 'test', secretAccessKey: 'test' };
    const sqs = new SQSClient({ region: ledger.aws.environment.AWS_REGION, credentials, endpoint: queue.endpoint });
    const Entries = idsOf(asked).map((id, place) => ({ Id: String(place), MessageBody: invitation(id) }));
    await sqs.send(new SendMessageBatchCommand({ QueueUrl: queue.url, Entries }));
    sqs.destroy();
    /** How many messages each sender was given again while another one had them. */
    const again: number[] = [];
    const { host: own } = ledger.aws;
    const counting: LambdaHost = {
      ...own,
      invoke: (name, payload, qualifier) => {
        const { Records }: SQSEvent = JSON.parse(payload);
        again.push(Records.filter(({ attributes }) => Number(attributes.ApproximateReceiveCount) > 1).length);
        return own.invoke(name, payload, qualifier);
      },
    };
    const sender = { host: counting, functionName: 'webhook-sender', batchSize: 10, maximumConcurrency: 2 };
    const mapping = startEventSourceMapping({ ...sender, queue });
    await eventually('all are with the receiver', () => idsOf(asked).every((id) => ledger.received(id).length > 0));
    await ledger.settled(idsOf(asked));
    await mapping.stop();
    await queue.stop();
    expect(again.slice(0, 2), 'two senders had the whole batch').toEqual([0, 10]);
    awake.resolve();
    for (const one of asked) {
      expect(ledger.received(one.deliveryId).length).toBeGreaterThanOrEqual(2);
      for (const { idempotencyKey } of ledger.received(one.deliveryId)) expect(idempotencyKey).toBe(one.key);
      expect(ledger.received(one.deliveryId).at(-1)).toMatchObject({ bodySha256: sha256(one.payload), status: 200 });
      const [first] = await ledger.outcomes(one.deliveryId);
      expect(first).toMatchObject({ attempt_no: 1, outcome: 'unknown', recorded_by: 'sender' });
    }
    const overlapping = await ledger.sql(
      `SELECT FROM delivery_attempt next WHERE next.delivery_id = ANY ($1) AND next.attempt_no > 1 AND NOT EXISTS (
         SELECT FROM attempt_outcome o WHERE o.delivery_id = next.delivery_id AND o.attempt_no = next.attempt_no - 1
           AND o.recorded_at <= next.started_at)`,
      [idsOf(asked)],
    );
    expect(overlapping, 'attempts begun before the one before them had ended').toEqual([]);
  });

  // aws/aws-sdk-js-v3#1196: what a function leaves open when it answers goes on, or breaks, when it is thawed.
  test('that never answers: no byte leaves after the function has answered', async () => {
    const wire = await tap();
    const [silent, heard] = [await ledger.destination('/hang'), await ledger.destination('/ok')];
    const point = 'UPDATE destination SET url = $2 WHERE name = $1';
    await ledger.sql(point, [silent, wire.url('/hang')]);
    const one = await ledger.scheduleUnsent(silent);
    const other = await ledger.scheduleUnsent(silent);
    const next = await ledger.scheduleUnsent(heard);
    expect(await sendBy('single', idsOf([one, other]))).toMatchObject({ functionError: false });
    await eventually('both connections are closed', () => wire.connections.every(({ closed }) => closed));
    expect(wire.connections).toHaveLength(2);
    await ledger.sql(`UPDATE destination SET state = 'paused' WHERE name = $1`, [silent]);
    const before = structuredClone(wire.connections);
    // The same process, thawed.
    expect(await sendBy('single', [next.deliveryId])).toMatchObject({ functionError: false });
    await ledger.settled([next.deliveryId]);
    expect(new Set(host.environments().filter(({ functionName }) => functionName === 'single')).size).toBe(1);
    expect(wire.connections).toEqual(before);
    wire.close();
  });

  // middyjs/middy#1240: what was begun goes on behind the early time-out, and what it should record is not waited for.
  test("that is slow when the function's time is up: no POST goes on, and no settle is lost", async () => {
    const slow = await ledger.destination('/hang');
    const warm = await ledger.scheduleUnsent(ok);
    await sendBy('hasty', [warm.deliveryId]);
    // Only a send that begins in the first third of a second is still under way when the time is up.
    await eventually('a POST is cut by the end of the time', async () => {
      const cut = await ledger.scheduleUnsent(slow);
      const quick = await ledger.scheduleUnsent(ok);
      const { payload, functionError } = await sendBy('hasty', idsOf([cut, quick]));
      const [outcome] = await ledger.sql<{ error_class: string }>(
        'SELECT error_class FROM attempt_outcome WHERE delivery_id = $1',
        [cut.deliveryId],
      );
      await ledger.command({ verb: 'cancel', deliveryId: cut.deliveryId });
      if (outcome?.error_class !== 'aborted') return false;
      expect({ functionError, payload: JSON.parse(payload) }).toEqual({
        functionError: false,
        payload: { batchItemFailures: [] },
      });
      expect(await ledger.outcomes(cut.deliveryId)).toMatchObject([{ outcome: 'unknown', recorded_by: 'sender' }]);
      expect(await ledger.outcomes(quick.deliveryId)).toMatchObject([{ outcome: 'delivered', recorded_by: 'sender' }]);
      await eventually('the receiver sees the end', () => ledger.received(cut.deliveryId)[0]?.end === 'cut');
      return true;
    });
  });

  // svix/svix-webhooks#2200: a destination that asked for two minutes was called again after thirty seconds.
  test('that answers 429 and when to come again is not called before that', async () => {
    const [asked] = await ledger.schedule(await ledger.destination('/status/429/4'), [{ dueInMs: 0 }]);
    const id = asked?.deliveryId ?? '';
    await eventually('it is called twice', () => ledger.received(id).length >= 2);
    await ledger.command({ verb: 'cancel', deliveryId: id });
    const [first, second] = ledger.received(id);
    expect(Number(second?.monotonic) - Number(first?.monotonic)).toBeGreaterThanOrEqual(4000);
    expect(await ledger.outcomes(id)).toContainEqual(expect.objectContaining({ outcome: 'retry', status: 429 }));
  });

  // frain-dev/convoy#1833: an endpoint that answered 403 was called for ever, and no attempt was counted.
  test('that answers 403 each time is called once, and the attempt is counted', async () => {
    const [asked] = await ledger.schedule(await ledger.destination('/status/403'), [{ dueInMs: 0 }]);
    const id = asked?.deliveryId ?? '';
    await ledger.settled([id], 'dead');
    expect(await ledger.row(id)).toMatchObject({ attempt_no: 1, failures: 1, wake_at: null, last_error: 'http_403' });
    expect(ledger.received(id)).toHaveLength(1);
  });
});

describe.concurrent('a product', () => {
  // statianzo/que-web#28: moving a job that was being retried made a second one of it.
  test('that reschedules with the old invitation still in SQS: sent once, at the new time', async () => {
    const [asked] = await ledger.schedule(ok, [{ dueInMs: 6000 }]);
    if (asked === undefined) throw new Error('nothing was scheduled');
    const { deliveryId, key } = asked;
    await ledger.settled([deliveryId], 'queued', 5000);
    const dueAt = new Date(asked.dueAt + 3000).toISOString();
    expect(await ledger.command({ verb: 'reschedule', key, dueAt })).toMatchObject({
      answer: 'rescheduled',
      version: 2,
    });
    const handoffs = () => ledger.sql('SELECT FROM handoff WHERE delivery_id = $1', [deliveryId]);
    await eventually('it is invited anew', async () => (await handoffs()).length >= 2);
    await ledger.settled([deliveryId]);
    expect(ledger.received(deliveryId)).toMatchObject([{ idempotencyKey: key }]);
    expect(ledger.received(deliveryId)[0]?.at).toBeGreaterThanOrEqual(Date.parse(dueAt));
    expect(ledger.logs()).toMatch(new RegExp(`"deliveryId":"${deliveryId}","answer":"not_due"`));
  });

  test('that reschedules after an unknown attempt: too late', async () => {
    const [asked] = await ledger.schedule(await ledger.destination('/hang'), [{ dueInMs: 0 }]);
    const id = asked?.deliveryId ?? '';
    await eventually('an attempt is unknown', async () => (await ledger.outcomes(id))[0]?.outcome === 'unknown');
    const dueAt = new Date(Date.now() + 3_600_000).toISOString();
    const answer = await ledger.command({ verb: 'reschedule', deliveryId: id, dueAt });
    expect(answer).toMatchObject({ answer: 'too_late', version: 1 });
    await ledger.command({ verb: 'cancel', deliveryId: id });
    expect(await ledger.row(id)).toMatchObject({ version: 1, due_at: new Date(asked?.dueAt ?? 0) });
  });

  // graphile/worker#303: a job asked for again under its key while it ran became several jobs without a key.
  test('that schedules its key again while the POST is under way: a duplicate that is being sent', async () => {
    const { deliveryId, key, payload, dueAt } = await ledger.scheduleUnsent(ok);
    const same = { verb: 'schedule', key, destination: ok, userId: 'user-1', payloadText: payload };
    const answers: unknown[] = [];
    ledger.receiver.onArrival(deliveryId, async () => {
      answers.push(await ledger.command({ ...same, dueAt: new Date(dueAt).toISOString() }));
    });
    await ledger.deliver([invitation(deliveryId)]);
    await ledger.settled([deliveryId]);
    expect(answers).toMatchObject([{ answer: 'duplicate', deliveryId, state: 'delivering' }]);
    const rows = await ledger.sql('SELECT delivery_id FROM reminder_delivery WHERE idempotency_key = $1', [key]);
    expect(rows).toEqual([{ delivery_id: deliveryId }]);
  });
});

// rundeck/rundeck#3234, node-schedule/node-schedule#435: what was due in an hour that a change of the clocks skips or
// repeats did not run, or ran twice.
test('times in hours that a change of the clocks skips or repeats are instants like any other', async () => {
  const told = ['2027-03-14T02:30:00-05:00', '2027-11-07T01:30:00-04:00', '2027-11-07T01:30:00-05:00'];
  const asked = await ledger.schedule(
    ok,
    told.map((dueAt) => ({ dueAt })),
  );
  const found = await ledger.commands(idsOf(asked).map((deliveryId) => ({ verb: 'get', deliveryId })));
  expect(found).toMatchObject(
    ['2027-03-14T07:30:00.000Z', '2027-11-07T05:30:00.000Z', '2027-11-07T06:30:00.000Z'].map((dueAt) => ({
      reminder: { dueAt, nextAttemptAt: dueAt },
    })),
  );
});

// aws-samples/sample-citadel#103: a redrive of the dead-letter queue did work again that had been done.
test('a redrive of the dead-letter queue sends nothing that has ended, nothing early, and the rest under its own key', async () => {
  const { aws, sqs } = ledger;
  const [done, cancelled, later] = await ledger.schedule(ok, [{ dueInMs: 0 }, { dueInMs: 4000 }, {}]);
  const waiting = await ledger.scheduleUnsent(ok);
  if (done === undefined || cancelled === undefined || later === undefined) throw new Error('nothing was scheduled');
  await ledger.settled([done.deliveryId]);
  await ledger.command({ verb: 'cancel', key: cancelled.key });
  const all = [done, cancelled, later, waiting];
  for (const { deliveryId } of all) {
    await sqs.send(new SendMessageCommand({ QueueUrl: aws.queue.deadLetterUrl, MessageBody: invitation(deliveryId) }));
  }
  // What a message move task does: the same bodies as new messages, with a receive count of their own.
  for (const { Body, ReceiptHandle } of await ledger.messages(aws.queue.deadLetterUrl)) {
    await sqs.send(new SendMessageCommand({ QueueUrl: aws.queue.url, MessageBody: Body }));
    await sqs.send(new DeleteMessageCommand({ QueueUrl: aws.queue.deadLetterUrl, ReceiptHandle }));
  }
  await ledger.settled([waiting.deliveryId], 'delivered', aws.settings.allowanceSeconds * 1000);
  await eventually('all are taken', async () => {
    const { ready, delayed, inFlight } = await aws.queue.depth();
    return ready + delayed + inFlight === 0;
  });
  expect(all.map(({ deliveryId }) => ledger.received(deliveryId).length)).toEqual([1, 0, 0, 1]);
  for (const one of all) expectOneIdentity(one);
  expect(await ledger.row(later.deliveryId)).toMatchObject({ state: 'scheduled', attempt_no: 0 });
});
