// The local queue redelivers, delays, counts and buries as SQS does, and loses or repeats messages on demand.
import { setTimeout as sleep } from 'node:timers/promises';
import {
  ChangeMessageVisibilityCommand,
  DeleteMessageBatchCommand,
  DeleteMessageCommand,
  type Message,
  ReceiveMessageCommand,
  SendMessageBatchCommand,
  SQSClient,
} from '@aws-sdk/client-sqs';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { settingsOf } from '../../lambdas/core/settings.ts';
import { region } from '../../lib/local/addresses.ts';
import { type Queue, startQueue } from '../../lib/local/queue.ts';

let queue: Queue;
let sqs: SQSClient;
/** As the functions' clients are: it gives a call up. */
let impatient: SQSClient;

beforeEach(async () => {
  queue = await startQueue({ ...settingsOf('rehearsal'), visibilityTimeoutSeconds: 1, maxReceiveCount: 2 });
  const credentials = { accessKeyId: 'test', secretAccessKey: 'test' };
  const client = { endpoint: queue.endpoint, region, credentials, maxAttempts: 1 };
  sqs = new SQSClient(client);
  impatient = new SQSClient({ ...client, requestHandler: { requestTimeout: 800, throwOnRequestTimeout: true } });
});
afterEach(async () => {
  sqs.destroy();
  impatient.destroy();
  await queue.stop();
});

const send = (bodies: string[], DelaySeconds = 0, QueueUrl = queue.url) => {
  const Entries = bodies.map((MessageBody, place) => ({ Id: `${place}`, MessageBody, DelaySeconds }));
  return impatient.send(new SendMessageBatchCommand({ QueueUrl, Entries }));
};
async function receive(WaitTimeSeconds = 0, QueueUrl = queue.url): Promise<Message[]> {
  const ask = { QueueUrl, WaitTimeSeconds, MaxNumberOfMessages: 10, MessageSystemAttributeNames: ['All' as const] };
  return (await sqs.send(new ReceiveMessageCommand(ask))).Messages ?? [];
}
async function arrives(body: string): Promise<void> {
  for (let tries = 0; !bodies(await receive(1)).includes(body); tries += 1) expect(tries).toBeLessThan(20);
}
const bodies = (messages: Message[]) => messages.map(({ Body }) => Body).sort();
const receives = ([message]: Message[]) => message?.Attributes?.ApproximateReceiveCount;

test('a message that is not deleted comes again after the visibility timeout, then goes to the dead-letter queue', async () => {
  await send(['a']);
  const first = await receive();
  expect(receives(first)).toBe('1');
  expect(await receive()).toEqual([]);
  const second = await receive(5);
  expect([bodies(second), receives(second)]).toEqual([['a'], '2']);
  expect(second[0]?.MessageId).toBe(first[0]?.MessageId);
  expect(second[0]?.Attributes?.SentTimestamp).toBe(first[0]?.Attributes?.SentTimestamp);
  await sleep(1100);
  expect(await receive()).toEqual([]);
  const dead = await receive(5, queue.deadLetterUrl);
  expect([bodies(dead), dead[0]?.MessageId]).toEqual([['a'], first[0]?.MessageId]);
});

test('a deleted message does not come again; visibility can be given back at once', async () => {
  await send(['a']);
  const [message] = await receive();
  const handle = { QueueUrl: queue.url, ReceiptHandle: message?.ReceiptHandle };
  await sqs.send(new ChangeMessageVisibilityCommand({ ...handle, VisibilityTimeout: 0 }));
  const [again] = await receive();
  expect(again?.Attributes?.ApproximateReceiveCount).toBe('2');
  await sqs.send(new DeleteMessageCommand({ ...handle, ReceiptHandle: again?.ReceiptHandle }));
  await sleep(1100);
  expect(await queue.depth()).toMatchObject({ ready: 0, inFlight: 0, deadLetters: { ready: 0 } });
});

test('a delayed message is not seen before its time, and wakes a long poll then', async () => {
  const begun = performance.now();
  await send(['late'], 1);
  expect(await queue.depth()).toMatchObject({ ready: 0, delayed: 1 });
  expect(await receive()).toEqual([]);
  expect(bodies(await receive(5))).toEqual(['late']);
  expect(performance.now() - begun).toBeGreaterThan(990);
  expect(performance.now() - begun).toBeLessThan(4000);
});

test('a long poll is woken by a message sent meanwhile', async () => {
  const polled = receive(10);
  await sleep(100);
  const begun = performance.now();
  await send(['new']);
  expect(bodies(await polled)).toEqual(['new']);
  expect(performance.now() - begun).toBeLessThan(3000);
});

test('a batch that is empty, too long, or names an id twice is refused whole; an unknown queue is an error', async () => {
  await expect(send([])).rejects.toThrow("doesn't contain any entries");
  await expect(send(Array.from({ length: 11 }, () => 'x'))).rejects.toThrow('Maximum number of entries');
  const twice = ['a', 'b'].map((MessageBody) => ({ Id: 'same', MessageBody }));
  await expect(sqs.send(new SendMessageBatchCommand({ QueueUrl: queue.url, Entries: twice }))).rejects.toThrow(
    'same Id',
  );
  await expect(send(['a'], 0, `${queue.url}-other`)).rejects.toMatchObject({ name: 'QueueDoesNotExist' });
  expect(await queue.depth()).toMatchObject({ ready: 0 });
});

test('an entry that SQS cannot take is refused alone', async () => {
  const { Successful, Failed } = await send(['good', 'bad \u0001']);
  expect(Successful?.map(({ Id }) => Id)).toEqual(['0']);
  expect(Failed).toMatchObject([{ Id: '1', SenderFault: true, Code: 'InvalidMessageContents' }]);
});

test.each([
  ['lose', ['0', '1'], [], ['b']],
  ['duplicate', ['0', '1'], [], ['a', 'a', 'b']],
  ['refuse', ['1'], ['0'], ['b']],
  ['omit', ['1'], [], ['a', 'b']],
] as const)('%s: hits the one message that matches, once', async (kind, accepted, refused, arrived) => {
  queue.faults.next({ kind, match: /a/ });
  const { Successful = [], Failed = [] } = await send(['a', 'b']);
  expect(Successful.map(({ Id }) => Id).sort()).toEqual(accepted);
  expect(Failed.map(({ Id }) => Id)).toEqual(refused);
  expect(bodies(await receive())).toEqual(arrived);
  await send(['a']);
  expect(bodies(await receive())).toEqual(['a']);
});

test('every call can be refused until the fault is taken away; a lone lost message is still answered as accepted', async () => {
  const takeAway = queue.faults.next({ kind: 'error-before', times: Number.POSITIVE_INFINITY });
  await expect(send(['a'])).rejects.toMatchObject({ $metadata: { httpStatusCode: 503 } });
  await expect(send(['a'])).rejects.toThrow();
  expect(queue.sendCalls()).toBe(2);
  takeAway();
  queue.faults.next({ kind: 'lose' });
  expect((await send(['gone'])).Successful).toHaveLength(1);
  await send(['a']);
  expect(bodies(await receive())).toEqual(['a']);
});

test.each([
  ['error-before', [], { name: 'RequestThrottled', $metadata: { httpStatusCode: 400 } }],
  ['error-after', ['a', 'b'], { name: 'RequestThrottled' }],
  ['reset-before', [], { code: 'ECONNRESET' }],
  ['reset-after', ['a', 'b'], { code: 'ECONNRESET' }],
  ['timeout-before', [], { name: 'TimeoutError' }],
  ['timeout-after', ['a', 'b'], { name: 'TimeoutError' }],
] as const)(
  '%s of a whole call leaves %j in the queue, and is told to whoever planned it',
  async (kind, arrived, error) => {
    const fault = { kind, match: /a/, error: 'RequestThrottled' };
    queue.faults.next(fault);
    await send(['c']);
    expect(queue.faults.taken(fault)).toEqual([]);
    await expect(send(['a', 'b'])).rejects.toMatchObject(error);
    expect(queue.faults.taken(fault)).toHaveLength(1);
    expect(bodies(await receive())).toEqual([...arrived, 'c']);
  },
);

test('a call is carried out twice, or late, after its caller has given up', async () => {
  queue.faults.next({ kind: 'twice', match: /a/ });
  await send(['a', 'b']);
  expect(bodies(await receive())).toEqual(['a', 'a', 'b', 'b']);
  queue.faults.next({ kind: 'delay', ms: 1500, match: /late/ });
  await expect(send(['late'])).rejects.toMatchObject({ name: 'TimeoutError' });
  expect(bodies(await receive())).not.toContain('late');
  await arrives('late');
});

test('a message is delivered twice, or after the one behind it', async () => {
  queue.faults.next({ kind: 'redeliver', match: /a/ });
  await send(['a']);
  const [first, second] = [await receive(), await receive()];
  expect([bodies(first), bodies(second), receives(second)]).toEqual([['a'], ['a'], '2']);
  expect(second[0]?.MessageId).toBe(first[0]?.MessageId);
  queue.faults.next({ kind: 'reorder', match: /front/ });
  await send(['front', 'behind']);
  // One at a time: what is kept back is not there at the next receive either.
  const one = { QueueUrl: queue.url, MaxNumberOfMessages: 1 };
  const order: string[] = [];
  for (const end = Date.now() + 500; Date.now() < end; ) {
    order.push(...bodies((await sqs.send(new ReceiveMessageCommand(one))).Messages ?? []).map(String));
  }
  expect(order).toEqual(['behind']);
  await arrives('front');
});

test('a delete fails with and without effect; a purge takes all', async () => {
  for (const [kind, again] of [
    ['error-before', ['a']],
    ['error-after', []],
  ] as const) {
    queue.faults.next({ kind, operation: 'DeleteMessageBatch', match: /a/ });
    await send(['a']);
    const [message] = await receive();
    const Entries = [{ Id: '0', ReceiptHandle: message?.ReceiptHandle }];
    const gone = sqs.send(new DeleteMessageBatchCommand({ QueueUrl: queue.url, Entries }));
    await expect(gone).rejects.toMatchObject({ $metadata: { httpStatusCode: 503 } });
    expect(bodies(await receive(2))).toEqual(again);
    await queue.purge();
  }
  await send(['x', 'y'], 1);
  await queue.purge();
  expect(await queue.depth()).toMatchObject({ ready: 0, delayed: 0, inFlight: 0 });
});

test('the third call is hit, and those before it pass', async () => {
  const fault = { kind: 'error-before', match: /a/, skip: 2 } as const;
  queue.faults.next(fault);
  await send(['a1']);
  await send(['b']);
  await send(['a2']);
  expect(queue.faults.taken(fault)).toEqual([]);
  await expect(send(['a3'])).rejects.toMatchObject({ $metadata: { httpStatusCode: 503 } });
  await send(['a4']);
  expect(bodies(await receive())).toEqual(['a1', 'a2', 'a4', 'b']);
  // What passes one fault can meet another one.
  queue.faults.next({ kind: 'error-before', skip: 1 });
  queue.faults.next({ kind: 'reset-before' });
  await expect(send(['c'])).rejects.toMatchObject({ code: 'ECONNRESET' });
  await expect(send(['d'])).rejects.toMatchObject({ $metadata: { httpStatusCode: 503 } });
});

test('a receive whose answer is lost has taken its messages, one that is refused has not', async () => {
  const operation = 'ReceiveMessage';
  queue.faults.next({ kind: 'error-before', operation });
  queue.faults.next({ kind: 'reset-after', operation, naming: 'a' });
  await send(['a']);
  await expect(receive()).rejects.toMatchObject({ $metadata: { httpStatusCode: 503 } });
  await expect(receive()).rejects.toMatchObject({ code: 'ECONNRESET' });
  expect(await queue.depth()).toMatchObject({ ready: 0, inFlight: 1 });
  expect(bodies(await receive(5))).toEqual(['a']);
});
