// The event source mapping: what is deleted, what comes again, how many run at once, and what the function sees.
import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { SendMessageBatchCommand, SQSClient } from '@aws-sdk/client-sqs';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { settingsOf } from '../../lambdas/core/settings.ts';
import { region } from '../../lib/local/addresses.ts';
import { type EventSourceMapping, startEventSourceMapping } from '../../lib/local/event-source-mapping.ts';
import { type LambdaHost, startLambdaHost } from '../../lib/local/lambda-host.ts';
import { type Queue, startQueue } from '../../lib/local/queue.ts';
import { functionDirectory, hostedFunction } from './hosted-functions.ts';

/** Logs what it gets. The bodies say what fails, and how. */
const consumer = `
const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
export const handler = async ({ Records }, { invokedFunctionArn }) => {
  console.log(JSON.stringify({ Records, invokedFunctionArn, begun: Date.now() }));
  const bodies = Records.map(({ body }) => body);
  if (bodies.some((body) => body.startsWith('slow'))) await wait(400);
  console.log(JSON.stringify({ ended: Date.now() }));
  const first = (word) => Records.filter((record) => record.body.startsWith(word) && record.attributes.ApproximateReceiveCount === '1');
  if (first('throw').length > 0) throw new Error('no infrastructure');
  if (first('unknown').length > 0) return { batchItemFailures: [{ itemIdentifier: 'nobody' }] };
  if (first('nameless').length > 0) return { batchItemFailures: [{}] };
  if (first('nothing').length > 0) return null;
  return { batchItemFailures: first('fail').map(({ messageId }) => ({ itemIdentifier: messageId })) };
};
`;
const directory = functionDirectory();
let host: LambdaHost;
let queue: Queue;
let sqs: SQSClient;
let mapping: EventSourceMapping;

beforeAll(async () => {
  queue = await startQueue({ ...settingsOf('rehearsal'), visibilityTimeoutSeconds: 1 });
  const fn = hostedFunction(directory, 'consumer', { concurrency: 2 }, consumer);
  host = await startLambdaHost([fn], directory);
  const credentials = { accessKeyId: 'test', secretAccessKey: 'test' };
  sqs = new SQSClient({ endpoint: queue.endpoint, region, credentials });
  const functionName = 'consumer';
  mapping = startEventSourceMapping({
    ...{ host, functionName, qualifier: 'invitations', queue, batchSize: 10, maximumConcurrency: 2 },
  });
});
let seen = 0;
beforeEach(() => {
  seen = lines().length;
});
afterAll(async () => {
  await mapping.stop();
  await host.stop();
  sqs.destroy();
  await queue.stop();
  rmSync(directory, { recursive: true });
});

interface Line {
  readonly Records?: { body: string; attributes: Record<string, string> }[];
  readonly invokedFunctionArn?: string;
  readonly begun?: number;
  readonly ended?: number;
}
function lines(): Line[] {
  const text = readFileSync(join(directory, 'consumer.log'), 'utf8').split('\n');
  return text
    .filter((line) => line.startsWith('{"Records"') || line.startsWith('{"ended"'))
    .map((line) => JSON.parse(line));
}
const send = (...bodies: string[]) => {
  const Entries = bodies.map((MessageBody, place) => ({ Id: String(place), MessageBody }));
  return sqs.send(new SendMessageBatchCommand({ QueueUrl: queue.url, Entries }));
};
/** Waits until the queue is empty. Answers how often each body was received since the test began. */
async function receives(): Promise<Record<string, number>> {
  for (const end = Date.now() + 15_000; ; await sleep(50)) {
    const { ready, delayed, inFlight } = await queue.depth();
    if (ready + delayed + inFlight === 0) break;
    expect(Date.now(), 'in time').toBeLessThan(end);
  }
  const counts: Record<string, number> = {};
  for (const { body } of lines()
    .slice(seen)
    .flatMap(({ Records = [] }) => Records))
    counts[body] = (counts[body] ?? 0) + 1;
  return counts;
}

test('the function sees records as AWS gives them, by its alias', async () => {
  const { Successful } = await send('plain');
  expect(await receives()).toEqual({ plain: 1 });
  const [line] = lines().slice(seen);
  expect(line?.invokedFunctionArn).toBe('arn:aws:lambda:us-east-1:000000000000:function:consumer:invitations');
  expect(line?.Records).toEqual([
    {
      messageId: Successful?.[0]?.MessageId,
      receiptHandle: expect.any(String),
      body: 'plain',
      attributes: expect.objectContaining({
        ApproximateReceiveCount: '1',
        SentTimestamp: expect.stringMatching(/^\d{13}$/),
        ApproximateFirstReceiveTimestamp: expect.stringMatching(/^\d{13}$/),
      }),
      messageAttributes: {},
      md5OfBody: Successful?.[0]?.MD5OfMessageBody,
      eventSource: 'aws:sqs',
      eventSourceARN: queue.arn,
      awsRegion: 'us-east-1',
    },
  ]);
});

test('named failures alone come again', async () => {
  await send('good', 'fail', 'fine');
  expect(await receives()).toEqual({ good: 1, fail: 2, fine: 1 });
});

test.each(['throw', 'unknown', 'nameless'])('%s: the whole batch comes again', async (word) => {
  await send('good', word);
  expect(await receives()).toEqual({ good: 2, [word]: 2 });
});

test('an answer without failures is a success', async () => {
  await send('nothing');
  expect(await receives()).toEqual({ nothing: 1 });
});

test('no more run at once than may; the rest waits in the queue', async () => {
  for (const place of [1, 2, 3]) {
    await send(`slow ${place}`);
    await sleep(150);
  }
  expect(Object.values(await receives())).toEqual([1, 1, 1]);
  const all = lines().slice(seen);
  const [, , third] = all.flatMap(({ begun }) => begun ?? []);
  const [firstEnd] = all.flatMap(({ ended }) => ended ?? []);
  expect(third).toBeGreaterThanOrEqual(firstEnd ?? 0);
  // It was not taken and then throttled.
  const receiveCounts = all.flatMap(({ Records = [] }) => Records.map((one) => one.attributes.ApproximateReceiveCount));
  expect(receiveCounts).toEqual(['1', '1', '1']);
});

test('a throttled invocation costs a receive', async () => {
  const busy = [1, 2].map(() =>
    host.invoke('consumer', JSON.stringify({ Records: [{ body: 'slow', attributes: {} }] })),
  );
  await send('after');
  await Promise.all(busy);
  expect((await receives()).after).toBe(1);
  const record = lines()
    .slice(seen)
    .flatMap(({ Records = [] }) => Records)
    .find(({ body }) => body === 'after');
  expect(Number(record?.attributes.ApproximateReceiveCount)).toBeGreaterThan(1);
});

test('paused it takes nothing, resumed it goes on', async () => {
  await mapping.pause();
  await send('later');
  await sleep(300);
  expect(await queue.depth()).toMatchObject({ ready: 1, inFlight: 0 });
  mapping.resume();
  expect(await receives()).toEqual({ later: 1 });
});
