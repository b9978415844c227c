// What the queue adapter says of messages that SQS accepted, refused, left out of its answer, or never answered.
import { createHash } from 'node:crypto';
import { afterEach, describe, expect, test } from 'vitest';
import type { Invitation } from '../../lambdas/core/ports.ts';
import { sqsInvitations } from '../../lambdas/queue/invitations.ts';
import { type AwsEndpoint, type EndpointAnswer, startAwsEndpoint } from './aws-endpoint.ts';
import { recordedLog } from './recorded-log.ts';

interface Batch {
  QueueUrl: string;
  Entries: { Id: string; MessageBody: string; DelaySeconds: number }[];
}

let endpoint: AwsEndpoint;
afterEach(() => endpoint.close());

const invitation = (n: number, delaySeconds = 0): Invitation => ({
  deliveryId: `delivery-${n}`,
  notBefore: 1_800_000_000_000 + n,
  delaySeconds,
});
const invitations = (count: number): Invitation[] => Array.from({ length: count }, (_, n) => invitation(n));
const ids = (from: number, to: number): string[] => Array.from({ length: to - from }, (_, n) => `delivery-${from + n}`);

const accepted = ({ Id, MessageBody }: Batch['Entries'][number]) => ({
  Id,
  MessageId: `message-of-${JSON.parse(MessageBody).delivery_id}`,
  MD5OfMessageBody: createHash('md5').update(MessageBody).digest('hex'),
});
const refused = ({ Id }: Batch['Entries'][number]) => ({ Id, SenderFault: false, Code: 'InternalError' });

async function queueThat(
  answer: (batch: Batch, callNo: number) => EndpointAnswer | Promise<EndpointAnswer>,
  requestTimeoutMs = 5000,
) {
  endpoint = await startAwsEndpoint((body, callNo) => answer(body as unknown as Batch, callNo));
  const queueUrl = `${endpoint.url}/000000000000/invitations`;
  process.env.AWS_ENDPOINT_URL_SQS = endpoint.url;
  const log = recordedLog();
  return { log, queueUrl, queue: sqsInvitations({ queueUrl, log, requestTimeoutMs }) };
}

const acceptAll = ({ Entries }: Batch) => ({ Successful: Entries.map(accepted), Failed: [] });

describe('the invitations of a claim', () => {
  test('go in calls of ten, carry nothing but the id and its time, and come back as receipts', async () => {
    const { queue, queueUrl } = await queueThat(acceptAll);
    const answer = await queue.publish(invitations(23));
    expect(answer.refused).toEqual([]);
    expect(answer.batchRefused).toBe(false);
    expect(answer.accepted.map(({ deliveryId }) => deliveryId).toSorted()).toEqual(ids(0, 23).toSorted());
    expect(answer.accepted.find(({ deliveryId }) => deliveryId === 'delivery-17')).toEqual({
      deliveryId: 'delivery-17',
      messageId: 'message-of-delivery-17',
      queue: 'invitations',
      delaySeconds: 0,
    });
    const batches = endpoint.calls as unknown as Batch[];
    expect(batches.map(({ Entries }) => Entries.length).toSorted()).toEqual([10, 10, 3].toSorted());
    expect(batches.every(({ QueueUrl }) => QueueUrl === queueUrl)).toBe(true);
    const bodies = batches.flatMap(({ Entries }) => Entries.map(({ MessageBody }) => MessageBody));
    expect(bodies).toContain('{"v":1,"delivery_id":"delivery-3","not_before":1800000000003}');
  });

  test('wait whole seconds, rounded down, within what SQS allows', async () => {
    const { queue } = await queueThat(acceptAll);
    const answer = await queue.publish([-5, 0.9, 12.99, 899.5, 900, 4000].map((delay, n) => invitation(n, delay)));
    const [batch] = endpoint.calls as unknown as Batch[];
    expect(batch?.Entries.map(({ DelaySeconds }) => DelaySeconds)).toEqual([0, 0, 12, 899, 900, 900]);
    expect(answer.accepted.map(({ delaySeconds }) => delaySeconds)).toEqual([0, 0, 12, 899, 900, 900]);
  });

  test('are refused one by one when SQS refuses them or leaves them out of its answer', async () => {
    const { queue, log } = await queueThat(({ Entries }) => ({
      // The answer's order is not the request's, entry 2 is refused and entry 4 is not mentioned.
      Successful: Entries.filter(({ Id }) => Id !== '2' && Id !== '4')
        .toReversed()
        .map(accepted),
      Failed: Entries.filter(({ Id }) => Id === '2').map(refused),
    }));
    const answer = await queue.publish(invitations(6));
    expect(answer.refused).toEqual(['delivery-2', 'delivery-4']);
    expect(answer.accepted.map(({ messageId }) => messageId).toSorted()).toEqual(
      [0, 1, 3, 5].map((n) => `message-of-delivery-${n}`),
    );
    expect(answer.batchRefused).toBe(false);
    expect(log.lines).toEqual([
      ['warn', 'enqueue_refused', { queue: 'invitations', refused: 1, code: 'InternalError' }],
    ]);
  });

  test('are not offered any further once a whole call is refused', async () => {
    const { queue } = await queueThat(({ Entries }) => ({ Successful: [], Failed: Entries.map(refused) }));
    const answer = await queue.publish(invitations(500));
    expect(answer).toEqual({ accepted: [], refused: ids(0, 500), batchRefused: true });
    expect(endpoint.calls.length).toBeLessThanOrEqual(10);
  });

  test('are refused when the call fails, after a second try, and the calls under way still count', async () => {
    const { queue, log } = await queueThat(async (batch) => {
      if (batch.Entries[0]?.MessageBody.includes('"delivery-0"')) return { error: 'InternalError', status: 500 };
      await new Promise((answered) => setTimeout(answered, 300));
      return acceptAll(batch);
    });
    const answer = await queue.publish(invitations(500));
    expect(answer.batchRefused).toBe(true);
    expect(answer.refused.slice(0, 10)).toEqual(ids(0, 10));
    expect(answer.accepted.length).toBeGreaterThanOrEqual(90);
    expect(answer.accepted.length + answer.refused.length).toBe(500);
    const tries = (endpoint.calls as unknown as Batch[]).filter(({ Entries }) =>
      Entries[0]?.MessageBody.includes('"delivery-0"'),
    );
    expect(tries.length).toBe(2);
    expect(log.lines.map(([, event]) => event)).toEqual(['enqueue_failed']);
  });

  test('are refused when the queue never answers', async () => {
    const { queue, log } = await queueThat(() => 'hang', 200);
    const answer = await queue.publish(invitations(3));
    expect(answer).toEqual({ accepted: [], refused: ids(0, 3), batchRefused: true });
    expect(endpoint.calls.length).toBe(2);
    expect(log.lines[0]?.[2]?.error).toMatchObject({ name: 'TimeoutError' });
  });

  test('go at most ten calls at a time', async () => {
    const { promise: tenAreWaiting, resolve } = Promise.withResolvers<void>();
    const { queue } = await queueThat(async (batch, callNo) => {
      if (callNo === 10) setTimeout(resolve, 50);
      await tenAreWaiting;
      return acceptAll(batch);
    });
    const answer = await queue.publish(invitations(400));
    expect(answer.accepted.length).toBe(400);
    expect(endpoint.mostAtOnce()).toBe(10);
  });

  test('may be none, which asks nothing of the queue', async () => {
    const { queue } = await queueThat(acceptAll);
    expect(await queue.publish([])).toEqual({ accepted: [], refused: [], batchRefused: false });
    expect(endpoint.calls).toEqual([]);
  });
});
