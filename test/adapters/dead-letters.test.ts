// What the adapter of the dead-letter queue makes of SQS: few at a time, doubles, silence, and answers that fail in part.
import { createHash } from 'node:crypto';
import { afterEach, describe, expect, test } from 'vitest';
import { QueueError, sighting } from '../../lambdas/core/dead-letters.ts';
import { type SqsDeadLettersOptions, sqsDeadLetters } from '../../lambdas/queue/dead-letters.ts';
import { type AwsEndpoint, type EndpointAnswer, startAwsEndpoint } from './aws-endpoint.ts';
import { recordedLog } from './recorded-log.ts';

let endpoint: AwsEndpoint;
afterEach(() => endpoint.close());

/** A call by what only it has. */
interface Call {
  readonly QueueUrl: string;
  readonly MaxNumberOfMessages?: number;
  readonly VisibilityTimeout?: number;
  readonly AttributeNames?: string[];
  readonly Entries?: { Id: string; ReceiptHandle: string; VisibilityTimeout?: number }[];
}

const message = (name: string, handle = name) => ({
  ...{ MessageId: name, ReceiptHandle: handle, Body: `body of ${name}` },
  MD5OfBody: createHash('md5').update(`body of ${name}`).digest('hex'),
  Attributes: { ApproximateReceiveCount: '6', SentTimestamp: '1800000000000' },
});
const holds = (visible: number, notVisible: number) => ({
  Attributes: {
    ...{ ApproximateNumberOfMessages: String(visible), ApproximateNumberOfMessagesDelayed: '0' },
    ApproximateNumberOfMessagesNotVisible: String(notVisible),
  },
});
const all = ({ Entries = [] }: Call) => ({ Successful: Entries.map(({ Id }) => ({ Id })), Failed: [] });

/** @param receives what each receive brings, in turn; then nothing */
async function queueThat(
  receives: readonly EndpointAnswer[],
  more: { counts?: object; entries?: (call: Call) => EndpointAnswer } & Partial<SqsDeadLettersOptions> = {},
) {
  const { counts = holds(0, 0), entries = all, ...options } = more;
  const waiting = receives.values();
  endpoint = await startAwsEndpoint((body) => {
    const call = body as unknown as Call;
    if (call.Entries !== undefined) return entries(call);
    if (call.AttributeNames !== undefined) return counts;
    return waiting.next().value ?? {};
  });
  process.env.AWS_ENDPOINT_URL_SQS = endpoint.url;
  const log = recordedLog();
  const deadLetters = sqsDeadLetters({
    ...{ queueUrl: `${endpoint.url}/0/invitations`, deadLetterUrl: `${endpoint.url}/0/dead`, log },
    ...{ hiddenSeconds: 30, lookMs: 5000, ...options },
  });
  return { deadLetters, log, calls: () => endpoint.calls as unknown as Call[] };
}

describe('a look', () => {
  test('takes as many as are asked for, ten at a time, hides them, and asks until there are none', async () => {
    const ten = Array.from({ length: 10 }, (_, place) => message(`m-${place}`));
    const { deadLetters, calls } = await queueThat([{ Messages: ten }, { Messages: [message('m-10')] }], {
      counts: holds(0, 11),
    });
    const { letters, all: whole } = await deadLetters.look(100);
    expect(letters).toHaveLength(11);
    expect(letters[10]).toEqual({
      ...{ messageId: 'm-10', body: 'body of m-10', receives: 6, handle: 'm-10' },
      sentAt: new Date(1_800_000_000_000).toISOString(),
    });
    expect(whole).toBe(true);
    expect(calls().slice(0, 3)).toMatchObject(
      Array.from({ length: 3 }, () => ({ MaxNumberOfMessages: 10, VisibilityTimeout: 30, WaitTimeSeconds: 1 })),
    );
  });

  test('of the limit takes no more, and does not say that it was all', async () => {
    const three = ['a', 'b', 'c'].map((name) => message(name));
    const { deadLetters, calls } = await queueThat([{ Messages: three }, { Messages: three }]);
    expect(await deadLetters.look(3)).toMatchObject({ all: false, letters: [{}, {}, {}] });
    expect(calls()).toMatchObject([{ MaxNumberOfMessages: 3 }]);
  });

  test.each([
    ['another became visible', holds(1, 1)],
    ['somebody else looks at another', holds(0, 2)],
  ])('is not all when %s', async (_why, counts) => {
    const { deadLetters } = await queueThat([{ Messages: [message('a')] }], { counts });
    expect(await deadLetters.look(100)).toMatchObject({ all: false, letters: [{ messageId: 'a' }] });
    expect(await sighting(deadLetters, 100, () => false)).toBe('not_looked');
  });

  test('knows a message that comes twice by its later handle', async () => {
    const { deadLetters } = await queueThat([
      { Messages: [message('a', 'first')] },
      { Messages: [message('a', 'second')] },
    ]);
    expect((await deadLetters.look(100)).letters).toMatchObject([{ messageId: 'a', handle: 'second' }]);
  });

  test('ends in its time, with what it has', async () => {
    const endless = Array.from({ length: 50 }, () => ({ Messages: [message('a')] }));
    const { deadLetters } = await queueThat(endless, { lookMs: 1 });
    expect(await deadLetters.look(100)).toMatchObject({ all: false, letters: [{ messageId: 'a' }] });
  });

  test('that fails on its way gives back what it took', async () => {
    const busy = { error: 'ServiceUnavailable', status: 503 };
    const { deadLetters, calls } = await queueThat([{ Messages: [message('a')] }, busy, busy]);
    const failed = deadLetters.look(100);
    await expect(failed).rejects.toBeInstanceOf(QueueError);
    await expect(failed).rejects.toMatchObject({ call: 'receive-dead-letters' });
    expect(calls().at(-1)).toMatchObject({ Entries: [{ ReceiptHandle: 'a', VisibilityTimeout: 0 }] });
  });
});

describe('what is given back or deleted', () => {
  const letters = (count: number) =>
    Array.from({ length: count }, (_, place) => ({
      ...{ messageId: `m-${place}`, handle: `h-${place}`, body: '', receives: 1, sentAt: '' },
    }));

  test('goes in calls of ten; what SQS refuses or does not answer is not said to be gone', async () => {
    let calls = 0;
    const { deadLetters, log } = await queueThat([], {
      entries: ({ Entries = [] }) => {
        calls += 1;
        // The second call fails twice; of the third one entry is refused.
        if (calls === 2 || calls === 3) return { error: 'ServiceUnavailable', status: 503 };
        const done = calls === 4 ? Entries.slice(1) : Entries;
        return { Successful: done.map(({ Id }) => ({ Id })), Failed: [] };
      },
    });
    const gone = await deadLetters.remove(letters(23));
    expect(gone.map(({ messageId }) => messageId)).toEqual([
      ...Array.from({ length: 10 }, (_, place) => `m-${place}`),
      ...['m-21', 'm-22'],
    ]);
    expect(log.lines).toMatchObject([['warn', 'dead_letters_failed', { messages: 10 }]]);
    await deadLetters.putBack([]);
    expect(calls).toBe(4);
  });
});

test('the counts are those of both queues', async () => {
  const { deadLetters, calls } = await queueThat([], { counts: holds(3, 2) });
  const counts = { visible: 3, notVisible: 2, delayed: 0 };
  expect(await deadLetters.counts()).toEqual({ queue: counts, deadLetters: counts });
  expect(
    calls()
      .map(({ QueueUrl }) => QueueUrl.split('/').at(-1))
      .sort(),
  ).toEqual(['dead', 'invitations']);
});
