// Looks at the dead-letter queue on Amazon SQS, gives its messages back, deletes them, and counts what both queues hold.
import {
  ChangeMessageVisibilityBatchCommand,
  DeleteMessageBatchCommand,
  GetQueueAttributesCommand,
  ReceiveMessageCommand,
  SQSClient,
} from '@aws-sdk/client-sqs';
import { type DeadLetter, type DeadLetters, type Look, type QueueCounts, QueueError } from '../core/dead-letters.ts';
import { atFaultPoint } from '../core/fault-points.ts';
import type { Log } from '../core/ports.ts';

/** The most messages that one call takes (Amazon SQS API Reference, ReceiveMessage, DeleteMessageBatch). */
const callSize = 10;
/** Long enough that every server of the queue is asked: a short poll asks some of them (Developer Guide, "Short and long polling"). */
const waitSeconds = 1;

/** What {@link sqsDeadLetters} needs. */
export interface SqsDeadLettersOptions {
  readonly queueUrl: string;
  readonly deadLetterUrl: string;
  readonly log: Log;
  /** For how long messages that were looked at stay hidden, unless they are given back: longer than a run of the function. */
  readonly hiddenSeconds: number;
  /** How long receiving may take; what was received until then is what is looked at. In milliseconds. */
  readonly lookMs: number;
  /** How long one try of one call may take, in milliseconds, beside its waiting. Each call is tried twice. @default 2000 */
  readonly requestTimeoutMs?: number;
}

/** Implements the port `DeadLetters`. */
export function sqsDeadLetters(options: SqsDeadLettersOptions): DeadLetters {
  const { queueUrl, deadLetterUrl, log, hiddenSeconds, lookMs, requestTimeoutMs = 2000 } = options;
  const sqs = new SQSClient({
    maxAttempts: 2,
    // Without throwOnRequestTimeout the time-out only warns.
    requestHandler: { requestTimeout: requestTimeoutMs + waitSeconds * 1000, throwOnRequestTimeout: true },
  });

  const call = <Answer>(point: string, act: () => Promise<Answer>) =>
    atFaultPoint({ point }, act).catch((error: unknown) => {
      throw new QueueError(point, error);
    });

  async function countsOf(url: string): Promise<QueueCounts> {
    const { Attributes = {} } = await call('get-queue-attributes', () =>
      sqs.send(
        new GetQueueAttributesCommand({
          QueueUrl: url,
          AttributeNames: [
            'ApproximateNumberOfMessages',
            'ApproximateNumberOfMessagesNotVisible',
            'ApproximateNumberOfMessagesDelayed',
          ],
        }),
      ),
    );
    return {
      visible: Number(Attributes.ApproximateNumberOfMessages),
      notVisible: Number(Attributes.ApproximateNumberOfMessagesNotVisible),
      delayed: Number(Attributes.ApproximateNumberOfMessagesDelayed),
    };
  }

  async function receive(most: number): Promise<DeadLetter[]> {
    const { Messages = [] } = await call('receive-dead-letters', () =>
      sqs.send(
        new ReceiveMessageCommand({
          QueueUrl: deadLetterUrl,
          MaxNumberOfMessages: Math.min(callSize, most),
          VisibilityTimeout: hiddenSeconds,
          WaitTimeSeconds: waitSeconds,
          MessageSystemAttributeNames: ['ApproximateReceiveCount', 'SentTimestamp'],
        }),
      ),
    );
    return Messages.map(({ MessageId = '', Body = '', ReceiptHandle = '', Attributes = {} }) => ({
      ...{ messageId: MessageId, body: Body, handle: ReceiptHandle },
      receives: Number(Attributes.ApproximateReceiveCount),
      sentAt: new Date(Number(Attributes.SentTimestamp)).toISOString(),
    }));
  }

  /** One call for each ten. Answers the entries that were done; a call that fails has none. */
  async function each(
    letters: readonly DeadLetter[],
    act: (
      entries: { Id: string; ReceiptHandle: string }[],
    ) => Promise<{ Successful?: { Id?: string | undefined }[] | undefined }>,
  ): Promise<DeadLetter[]> {
    const done: DeadLetter[] = [];
    for (let first = 0; first < letters.length; first += callSize) {
      const some = letters.slice(first, first + callSize);
      const { Successful = [] } = await act(
        some.map(({ handle }, place) => ({ Id: String(place), ReceiptHandle: handle })),
      ).catch((error: unknown) => {
        log.warn('dead_letters_failed', { messages: some.length, error });
        return { Successful: [] };
      });
      done.push(...Successful.flatMap(({ Id }) => some[Number(Id)] ?? []));
    }
    return done;
  }

  const putBack: DeadLetters['putBack'] = async (letters) => {
    await each(letters, (entries) =>
      call('put-back-dead-letters', () =>
        sqs.send(
          new ChangeMessageVisibilityBatchCommand({
            QueueUrl: deadLetterUrl,
            Entries: entries.map((entry) => ({ ...entry, VisibilityTimeout: 0 })),
          }),
        ),
      ),
    );
  };

  return {
    putBack,

    async look(most): Promise<Look> {
      const letters = new Map<string, DeadLetter>();
      const end = performance.now() + lookMs;
      try {
        while (letters.size < most && performance.now() < end) {
          const received = await receive(most - letters.size);
          // A message that comes twice is known by its later handle.
          for (const letter of received) letters.set(letter.messageId, letter);
          if (received.length > 0) continue;
          const { visible, notVisible, delayed } = await countsOf(deadLetterUrl);
          return { letters: [...letters.values()], all: visible + delayed === 0 && notVisible <= letters.size };
        }
      } catch (error) {
        await putBack([...letters.values()]);
        throw error;
      }
      return { letters: [...letters.values()], all: false };
    },

    remove: (letters) =>
      each(letters, (entries) =>
        call('delete-dead-letters', () =>
          sqs.send(new DeleteMessageBatchCommand({ QueueUrl: deadLetterUrl, Entries: entries })),
        ),
      ),

    counts: async () => ({ queue: await countsOf(queueUrl), deadLetters: await countsOf(deadLetterUrl) }),
  };
}
