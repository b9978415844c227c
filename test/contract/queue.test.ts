// The contract with Amazon SQS: receive counts, delays, visibility, the way to the dead-letter queue and back.
import { setTimeout as sleep } from 'node:timers/promises';
import {
  ChangeMessageVisibilityCommand,
  CreateQueueCommand,
  DeleteMessageCommand,
  DeleteQueueCommand,
  GetQueueAttributesCommand,
  type Message,
  ReceiveMessageCommand,
  SendMessageBatchCommand,
  SendMessageCommand,
  type SQSClient,
  StartMessageMoveTaskCommand,
} from '@aws-sdk/client-sqs';
import { expect } from 'vitest';
import { type ContractCase, contract } from './contract-case.ts';
import { failureOf, type Target } from './target.ts';

const guide = 'Amazon SQS Developer Guide';
const queue = 'lib/local/queue.ts';
const stack = 'lib/stack/invitation-queue.ts';
const sender = 'lambdas/queue/invitations.ts';

/** Two queues of the case's own, joined by a redrive policy. */
interface Pair {
  readonly source: string;
  readonly dead: string;
  readonly deadArn: string;
}

const send = async (sqs: SQSClient, QueueUrl: string, DelaySeconds = 0) =>
  (await sqs.send(new SendMessageCommand({ QueueUrl, MessageBody: 'contract', DelaySeconds }))).MessageId;

async function receive(sqs: SQSClient, QueueUrl: string, WaitTimeSeconds = 2): Promise<Message | undefined> {
  const ask = new ReceiveMessageCommand({
    QueueUrl,
    WaitTimeSeconds,
    MaxNumberOfMessages: 1,
    MessageSystemAttributeNames: ['All'],
  });
  return (await sqs.send(ask)).Messages?.[0];
}

/** A queue may answer an empty receive while it holds a message: asks until there is one. */
async function receiveSurely(sqs: SQSClient, QueueUrl: string, seconds = 20): Promise<Message> {
  for (const end = Date.now() + seconds * 1000; ; ) {
    const message = await receive(sqs, QueueUrl);
    if (message !== undefined) return message;
    if (Date.now() > end) throw new Error(`expected a message within ${seconds} s, seen: none`);
  }
}

const countOf = (message: Message | undefined) => Number(message?.Attributes?.ApproximateReceiveCount);
const giveBack = (sqs: SQSClient, QueueUrl: string, { ReceiptHandle }: Message) =>
  sqs.send(new ChangeMessageVisibilityCommand({ QueueUrl, ReceiptHandle, VisibilityTimeout: 0 }));
const arnOf = async (sqs: SQSClient, QueueUrl: string) =>
  (await sqs.send(new GetQueueAttributesCommand({ QueueUrl, AttributeNames: ['QueueArn'] }))).Attributes?.QueueArn ??
  '';

/** Makes a pair, and deletes it whatever happens. */
async function withPair({ sqs }: Target, maxReceiveCount: number, work: (pair: Pair) => Promise<void>): Promise<void> {
  const name = `ledger-contract-${crypto.randomUUID()}`;
  const made: string[] = [];
  const create = async (QueueName: string, Attributes: Record<string, string>) => {
    const { QueueUrl = '' } = await sqs.send(new CreateQueueCommand({ QueueName, Attributes }));
    made.push(QueueUrl);
    return QueueUrl;
  };
  try {
    const dead = await create(`${name}-dead`, {});
    const deadArn = await arnOf(sqs, dead);
    const RedrivePolicy = JSON.stringify({ deadLetterTargetArn: deadArn, maxReceiveCount });
    await work({ source: await create(name, { VisibilityTimeout: '30', RedrivePolicy }), dead, deadArn });
  } finally {
    for (const QueueUrl of made) await sqs.send(new DeleteQueueCommand({ QueueUrl }));
  }
}

/** Receives a message until it has gone to the dead-letter queue. Answers it as it is received there. */
async function toDeadLetters(sqs: SQSClient, { source, dead }: Pair, receives: number): Promise<Message> {
  for (let count = 1; count <= receives; count += 1) {
    const message = await receiveSurely(sqs, source);
    expect(countOf(message), 'receive count').toBe(count);
    await giveBack(sqs, source, message);
  }
  // The receive that finds the count used up moves the message.
  expect(await receive(sqs, source), 'a receive too many').toBeUndefined();
  return receiveSurely(sqs, dead);
}

const cases: readonly ContractCase[] = [
  {
    id: 'queue/receive-count',
    fact: 'Each receive counts one in ApproximateReceiveCount, and the id stays.',
    reliedOnBy: 'lib/local/event-source-mapping.ts',
    source: 'Amazon SQS API Reference, ReceiveMessage',
    check: (target) =>
      withPair(target, 5, async ({ source }) => {
        const id = await send(target.sqs, source);
        for (const count of [1, 2, 3]) {
          const message = await receiveSurely(target.sqs, source);
          expect([message.MessageId, countOf(message)]).toEqual([id, count]);
          await giveBack(target.sqs, source, message);
        }
      }),
  },
  {
    id: 'queue/delay-seconds',
    fact: 'DelaySeconds hides a message for at least that long, less the rounding of a second.',
    reliedOnBy: sender,
    source: `${guide}, "Amazon SQS message timers"`,
    check: ({ sqs, ...target }) =>
      withPair({ sqs, ...target }, 5, async ({ source }) => {
        const begun = performance.now();
        await send(sqs, source, 2);
        await receiveSurely(sqs, source);
        expect(performance.now() - begun, 'ms until it was received').toBeGreaterThan(1000);
      }),
  },
  {
    id: 'queue/delay-limit',
    fact: 'DelaySeconds above 900 is refused.',
    reliedOnBy: sender,
    source: 'Amazon SQS API Reference, SendMessage',
    differsLocally: { how: 'fauxqs takes any delay', seen: /it succeeded/ },
    check: (target) =>
      withPair(target, 5, async ({ source }) => {
        expect((await failureOf(send(target.sqs, source, 901))).status).toBe(400);
      }),
  },
  {
    id: 'queue/visibility',
    fact: 'A received message is hidden until its visibility timeout, which ChangeMessageVisibility sets.',
    reliedOnBy: stack,
    source: `${guide}, "Amazon SQS visibility timeout"`,
    check: ({ sqs, ...target }) =>
      withPair({ sqs, ...target }, 5, async ({ source: QueueUrl }) => {
        await send(sqs, QueueUrl);
        const { ReceiptHandle } = await receiveSurely(sqs, QueueUrl);
        await sqs.send(new ChangeMessageVisibilityCommand({ QueueUrl, ReceiptHandle, VisibilityTimeout: 3 }));
        expect(await receive(sqs, QueueUrl, 1)).toBeUndefined();
        expect(countOf(await receiveSurely(sqs, QueueUrl))).toBe(2);
      }),
  },
  {
    id: 'queue/batch-in-part',
    fact: 'SendMessageBatch answers entry by entry: an entry with a refused delay fails alone.',
    reliedOnBy: sender,
    source: 'Amazon SQS API Reference, SendMessageBatch',
    differsLocally: { how: 'fauxqs takes any delay, so that nothing is refused', seen: /deeply equal/ },
    check: ({ sqs, ...target }) =>
      withPair({ sqs, ...target }, 5, async ({ source: QueueUrl }) => {
        const Entries = [0, 901].map((DelaySeconds, place) => ({ Id: `${place}`, MessageBody: 'x', DelaySeconds }));
        const answer = await sqs.send(new SendMessageBatchCommand({ QueueUrl, Entries }));
        expect(answer.Successful?.map(({ Id }) => Id)).toEqual(['0']);
        expect(answer.Failed?.map(({ Id, SenderFault }) => [Id, SenderFault])).toEqual([['1', true]]);
      }),
  },
  {
    id: 'queue/garbage-receipt-handle',
    fact: 'DeleteMessage with a handle that never was one is refused.',
    reliedOnBy: 'lib/local/event-source-mapping.ts',
    source: 'Amazon SQS API Reference, DeleteMessage, ReceiptHandleIsInvalid',
    differsLocally: { how: 'fauxqs answers success', seen: /it succeeded/ },
    check: ({ sqs, ...target }) =>
      withPair({ sqs, ...target }, 5, async ({ source: QueueUrl }) => {
        const operation = sqs.send(new DeleteMessageCommand({ QueueUrl, ReceiptHandle: 'no-handle' }));
        expect((await failureOf(operation)).name).toContain('ReceiptHandleIsInvalid');
      }),
  },
  {
    id: 'queue/move-to-dead-letters',
    fact: 'A message received maxReceiveCount times moves with its id, body and time of sending.',
    reliedOnBy: stack,
    source: `${guide}, "Using dead-letter queues in Amazon SQS"`,
    check: (target) =>
      withPair(target, 2, async (pair) => {
        const id = await send(target.sqs, pair.source);
        const message = await toDeadLetters(target.sqs, pair, 2);
        expect([message.MessageId, message.Body]).toEqual([id, 'contract']);
      }),
  },
  {
    id: 'queue/count-after-move',
    fact: 'The receive count goes on in the dead-letter queue: the first receive there counts one more.',
    reliedOnBy: queue,
    source: 'unverified',
    differsLocally: { how: 'fauxqs counts the move itself as a receive', seen: /expected 4 to be 3/ },
    check: (target) =>
      withPair(target, 2, async (pair) => {
        await send(target.sqs, pair.source);
        expect(countOf(await toDeadLetters(target.sqs, pair, 2))).toBe(3);
      }),
  },
  {
    id: 'queue/dead-letter-source',
    fact: 'A dead letter tells where it came from in DeadLetterQueueSourceArn.',
    reliedOnBy: queue,
    source: 'Amazon SQS API Reference, MessageSystemAttributeName',
    differsLocally: { how: 'fauxqs does not set the attribute', seen: /to match object/ },
    check: (target) =>
      withPair(target, 1, async (pair) => {
        await send(target.sqs, pair.source);
        const message = await toDeadLetters(target.sqs, pair, 1);
        const sourceArn = await arnOf(target.sqs, pair.source);
        expect(message.Attributes).toMatchObject({ DeadLetterQueueSourceArn: sourceArn });
      }),
  },
  {
    id: 'queue/redrive-resets',
    fact: 'StartMessageMoveTask brings a dead letter back as a message with a new id and a receive count from 1.',
    reliedOnBy: queue,
    source: `${guide}, "Learn how to configure a dead-letter queue redrive": resets the retention and gives a new message id`,
    awsOnly: 'fauxqs has no move tasks: it answers InvalidAction',
    check: ({ sqs, ...target }) =>
      withPair({ sqs, ...target }, 1, async (pair) => {
        const id = await send(sqs, pair.source);
        await giveBack(sqs, pair.dead, await toDeadLetters(sqs, pair, 1));
        await sqs.send(new StartMessageMoveTaskCommand({ SourceArn: pair.deadArn }));
        const message = await receiveSurely(sqs, pair.source, 120);
        expect(message.MessageId).not.toBe(id);
        expect(countOf(message)).toBe(1);
      }),
  },
  {
    id: 'queue/unknown-shape-reaches-dead-letters',
    fact: 'A message that the sender cannot read is received maxReceiveCount times and then lies in the dead-letter queue.',
    reliedOnBy: 'lambdas/webhook-sender/handler.ts',
    source: 'AWS Lambda Developer Guide, "Handling errors for an SQS event source in Lambda"',
    slow: true,
    async check({ sqs, outputs, settings, local }) {
      const mark = crypto.randomUUID();
      const MessageBody = JSON.stringify({ contract: mark });
      if (local !== undefined) {
        // The queue's own visibility timeout is 42 s: here each failed receive is given back at once instead.
        await local.eventSource.pause();
      }
      await sqs.send(new SendMessageCommand({ QueueUrl: outputs.InvitationQueueUrl, MessageBody }));
      if (local !== undefined) {
        for (let count = 1; count <= settings.maxReceiveCount; count += 1) {
          const message = await receiveSurely(sqs, outputs.InvitationQueueUrl);
          expect(countOf(message)).toBe(count);
          const record = { messageId: 'contract', body: message.Body, eventSource: 'aws:sqs' };
          const answer = await local.invoke('webhook-sender', { Records: [record] });
          expect(answer).toEqual({ batchItemFailures: [{ itemIdentifier: 'contract' }] });
          await giveBack(sqs, outputs.InvitationQueueUrl, message);
        }
        expect(await receive(sqs, outputs.InvitationQueueUrl)).toBeUndefined();
      }
      const seconds = settings.visibilityTimeoutSeconds * (settings.maxReceiveCount + 2);
      for (const end = Date.now() + seconds * 1000; ; await sleep(500)) {
        const message = await receive(sqs, outputs.DeadLetterQueueUrl);
        if (message?.Body === MessageBody) {
          const { ReceiptHandle } = message;
          await sqs.send(new DeleteMessageCommand({ QueueUrl: outputs.DeadLetterQueueUrl, ReceiptHandle }));
          break;
        }
        // Another's dead letter stays as it was.
        if (message !== undefined) await giveBack(sqs, outputs.DeadLetterQueueUrl, message);
        expect(Date.now(), `a dead letter within ${seconds} s`).toBeLessThan(end);
      }
      local?.eventSource.resume();
    },
  },
];

contract(cases);
