// The event source mapping from SQS to a function: batches, partial failures, a limit on concurrency, back-off.
import { setTimeout as sleep } from 'node:timers/promises';
import { DeleteMessageBatchCommand, type Message, ReceiveMessageCommand, SQSClient } from '@aws-sdk/client-sqs';
import { accountId, region } from './addresses.ts';
import type { LambdaHost } from './lambda-host.ts';

/** What is mapped to what. */
export interface EventSourceMappingOptions {
  readonly host: LambdaHost;
  readonly functionName: string;
  /** The alias the function is called by. */
  readonly qualifier?: string;
  readonly queue: { readonly endpoint: string; readonly url: string; readonly arn: string };
  /** The most messages of one invocation, 1 to 10. */
  readonly batchSize: number;
  /** How many invocations may run at once. */
  readonly maximumConcurrency: number;
}

/** A poller at work. */
export interface EventSourceMapping {
  /** Receives nothing more. Resolves when no message is with the poller or the function any more. */
  pause(): Promise<void>;
  resume(): void;
  stop(): Promise<void>;
}

/** Long enough to be cheap, short enough that a pause need not wait long for the poll under way. */
const pollSeconds = 1;
/** A call that no answer comes to is given up, and the poller goes on. */
const longestCallMs = 5000;
const firstBackOffMs = 100;
const longestBackOffMs = 5000;

/**
 * Starts polling. What succeeded is deleted, what failed is left to the visibility timeout. A function that throws, is
 * throttled, or names an identifier that is not in the batch fails the whole batch, and the poller backs off; the
 * receives count all the same (AWS Lambda Developer Guide, "Handling errors for an SQS event source in Lambda").
 */
export function startEventSourceMapping(options: EventSourceMappingOptions): EventSourceMapping {
  const { host, functionName, qualifier, queue } = options;
  const credentials = { accessKeyId: accountId, secretAccessKey: 'local' };
  const requestHandler = { requestTimeout: longestCallMs, throwOnRequestTimeout: true };
  const sqs = new SQSClient({ region, endpoint: queue.endpoint, credentials, requestHandler });
  const inFlight = new Set<Promise<void>>();
  let running = true;
  let paused = false;
  let failures = 0;
  let polling: Promise<Message[]> = Promise.resolve([]);

  async function work(): Promise<void> {
    while (running) {
      if (paused || inFlight.size >= options.maximumConcurrency) {
        await Promise.race([sleep(20), ...inFlight]);
        continue;
      }
      polling = receive();
      const messages = await polling;
      if (messages.length === 0) continue;
      const batch: Promise<void> = carry(messages).finally(() => inFlight.delete(batch));
      inFlight.add(batch);
    }
  }

  async function receive(): Promise<Message[]> {
    const ask = new ReceiveMessageCommand({
      QueueUrl: queue.url,
      MaxNumberOfMessages: options.batchSize,
      WaitTimeSeconds: pollSeconds,
      MessageSystemAttributeNames: ['All'],
      MessageAttributeNames: ['All'],
    });
    try {
      return (await sqs.send(ask)).Messages ?? [];
    } catch {
      await sleep(firstBackOffMs);
      return [];
    }
  }

  async function carry(messages: readonly Message[]): Promise<void> {
    const ids = messages.map(({ MessageId = '' }) => MessageId);
    const failed = await invoke(messages, ids);
    if (failed === undefined) {
      const backOffMs = Math.min(longestBackOffMs, firstBackOffMs * 2 ** failures);
      failures += 1;
      await sleep(backOffMs);
      return;
    }
    failures = 0;
    const done = messages.filter(({ MessageId = '' }) => !failed.includes(MessageId));
    if (done.length === 0) return;
    const Entries = done.map(({ ReceiptHandle }, place) => ({ Id: String(place), ReceiptHandle }));
    // What is not deleted comes again, as everything in this queue may.
    await sqs.send(new DeleteMessageBatchCommand({ QueueUrl: queue.url, Entries })).catch(() => undefined);
  }

  /** The ids of the messages that failed; undefined: the batch as a whole. */
  async function invoke(messages: readonly Message[], ids: readonly string[]): Promise<string[] | undefined> {
    const event = { Records: messages.map((message) => recordOf(message, queue.arn)) };
    try {
      const { payload, functionError } = await host.invoke(functionName, JSON.stringify(event), qualifier);
      const answer: { batchItemFailures?: { itemIdentifier?: string }[] | null } | null = JSON.parse(payload);
      const failed = (answer?.batchItemFailures ?? []).map(({ itemIdentifier = '' }) => itemIdentifier);
      return functionError || failed.some((id) => !ids.includes(id)) ? undefined : failed;
    } catch {
      return undefined;
    }
  }

  const working = work();
  const idle = async () => {
    await polling;
    await Promise.all(inFlight);
  };
  return {
    async pause() {
      paused = true;
      await idle();
    },
    resume: () => {
      paused = false;
    },
    async stop() {
      running = false;
      await working;
      await idle();
      sqs.destroy();
    },
  };
}

/** A message as the function sees it (AWS Lambda Developer Guide, "Using Lambda with Amazon SQS"). */
function recordOf(message: Message, queueArn: string) {
  const attributes = Object.entries(message.MessageAttributes ?? {}).map(([name, value]) => [
    name,
    { stringValue: value.StringValue, stringListValues: [], binaryListValues: [], dataType: value.DataType },
  ]);
  return {
    messageId: message.MessageId,
    receiptHandle: message.ReceiptHandle,
    body: message.Body,
    attributes: message.Attributes ?? {},
    messageAttributes: Object.fromEntries(attributes),
    md5OfBody: message.MD5OfBody,
    eventSource: 'aws:sqs',
    eventSourceARN: queueArn,
    awsRegion: region,
  };
}
