// SQS on this machine: fauxqs behind a front that can lose, duplicate and refuse messages.
import { createHash, randomUUID } from 'node:crypto';
import { buildApp } from 'fauxqs';
import type { Settings } from '../../lambdas/core/settings.ts';
import { accountId, arn } from './addresses.ts';
import { type CallFault, Faults, isCallFault, type PlannedFault, withFaults } from './faults.ts';
import { type ServiceAnswer, ServiceError, type ServiceRequest, serve } from './http-service.ts';

/** Something that shall go wrong with one message; `match` looks at its body. */
export interface MessageFault extends PlannedFault {
  /**
   * As it is sent: `lose`: accepted and forgotten. `duplicate`: enqueued twice. `refuse`: answered in `Failed`. `omit`:
   * enqueued and left out of the answer. As it is received: `redeliver`: visible again at once, so that it is delivered
   * twice. `reorder`: kept back for a second, so that what was behind it comes first.
   */
  readonly kind: 'lose' | 'duplicate' | 'refuse' | 'omit' | 'redeliver' | 'reorder';
}

const faultyOperations = ['SendMessageBatch', 'ReceiveMessage', 'DeleteMessageBatch'] as const;

/**
 * Something that shall go wrong with a whole call; `match` looks at the bodies of its messages, and finds none in a
 * ReceiveMessage: what one brings only `naming` can tell, after its effect.
 */
export interface QueueCallFault extends CallFault {
  /** @default SendMessageBatch */
  readonly operation?: (typeof faultyOperations)[number];
}

export type QueueFault = MessageFault | QueueCallFault;

/** How many messages a queue holds. */
export interface QueueDepth {
  readonly ready: number;
  readonly delayed: number;
  readonly inFlight: number;
}

/** The invitation queue and its dead-letter queue. */
export interface Queue {
  readonly endpoint: string;
  readonly url: string;
  readonly arn: string;
  readonly deadLetterUrl: string;
  readonly faults: Faults<QueueFault>;
  /** How many SendMessageBatch calls came, refused ones included. */
  sendCalls(): number;
  /** Deletes all invitations, as PurgeQueue does. */
  purge(): Promise<void>;
  depth(): Promise<QueueDepth & { readonly deadLetters: QueueDepth }>;
  stop(): Promise<void>;
}

interface Entry {
  readonly Id: string;
  readonly MessageBody: string;
}
interface BatchAnswer {
  readonly Successful: { readonly Id: string }[];
  readonly Failed: { readonly Id: string }[];
}

interface Received {
  readonly ReceiptHandle: string;
  readonly Body: string;
}

const day = 86_400;

const isSendFault = ({ kind }: QueueFault): boolean => ['lose', 'duplicate', 'refuse', 'omit'].includes(kind);

/**
 * Starts the two queues with a stage's numbers. Messages are kept in memory: a restart loses them, and the ledger
 * invites their reminders again.
 * @param port 0: any free port
 */
export async function startQueue(settings: Settings, port = 0): Promise<Queue> {
  // Without a port of its own: fauxqs would listen on all interfaces, under host names that do not resolve everywhere.
  const fauxqs = buildApp({ logger: false });
  const faults = new Faults<QueueFault>();
  let sendCalls = 0;

  /** The body of each message that was received, by its receipt handle: a delete names nothing else. */
  const received = new Map<string, string>();

  const front = await serve({ port, contentType: 'application/x-amz-json-1.0' }, async (request) => {
    const operation = String(request.headers['x-amz-target']).replace('AmazonSQS.', '');
    if (!faultyOperations.some((known) => known === operation)) return pass(request);
    const { Entries = [] }: { Entries?: Partial<Entry & { ReceiptHandle: string }>[] } = JSON.parse(request.body);
    const text = Entries.map((entry) => entry.MessageBody ?? received.get(entry.ReceiptHandle ?? '') ?? '').join('\n');
    if (operation === 'SendMessageBatch') sendCalls += 1;
    return withFaults(
      faults,
      {
        text,
        request: text,
        fits: (fault) => (('operation' in fault && fault.operation) || 'SendMessageBatch') === operation,
      },
      async () => {
        if (operation === 'SendMessageBatch') return sendBatch(request);
        if (operation === 'ReceiveMessage') return receive(request);
        const answer = await pass(request);
        for (const { ReceiptHandle = '' } of Entries) received.delete(ReceiptHandle);
        return answer;
      },
      ({ error = 'ServiceUnavailable', message = 'Injected fault' }) =>
        new ServiceError(error, error === 'ServiceUnavailable' ? 503 : 400, message),
    );
  });

  async function pass({ headers, body }: Pick<ServiceRequest, 'headers' | 'body'>): Promise<ServiceAnswer & object> {
    const { 'content-length': _length, 'transfer-encoding': _encoding, ...kept } = headers;
    const answer = await fauxqs.inject({ method: 'POST', url: '/', headers: kept, payload: body });
    const queryError = answer.headers['x-amzn-query-error'];
    const more: Record<string, string> = queryError === undefined ? {} : { 'x-amzn-query-error': String(queryError) };
    // A queue is found where its address says: fauxqs names hosts that do not resolve everywhere.
    const text = answer.body.replace(/("QueueUrl":")http:\/\/[^/"]+/g, `$1${front.endpoint}`);
    return { status: answer.statusCode, headers: more, body: text };
  }

  async function sendBatch(request: ServiceRequest): Promise<ServiceAnswer> {
    const batch: { QueueUrl: string; Entries?: Entry[] } = JSON.parse(request.body);
    const entries = batch.Entries ?? [];
    const kinds = new Map(entries.map(({ Id, MessageBody }) => [Id, faults.take(MessageBody, isSendFault)?.kind]));
    const is = (...asked: MessageFault['kind'][]) =>
      entries.filter(({ Id }) => asked.some((kind) => kinds.get(Id) === kind));
    const [gone, twice] = [is('lose', 'refuse'), is('duplicate')];
    const send = (some: Entry[]) => pass({ ...request, body: JSON.stringify({ ...batch, Entries: some }) });
    const nothing = { status: 200, body: '{}' };
    const answer = gone.length === entries.length && gone.length > 0 ? nothing : await send(without(entries, gone));
    if (twice.length > 0) await send(twice);
    if (answer.status !== 200) return answer;
    const { Successful = [], Failed = [] }: Partial<BatchAnswer> = JSON.parse(String(answer.body));
    const lost = is('lose').map(({ Id, MessageBody }) => {
      // The SDK checks the digest.
      return { Id, MessageId: randomUUID(), MD5OfMessageBody: createHash('md5').update(MessageBody).digest('hex') };
    });
    const refusals = is('refuse').map(({ Id }) => ({ Id, Code: 'InternalError', SenderFault: false }));
    return { body: { Successful: [...without(Successful, is('omit')), ...lost], Failed: [...Failed, ...refusals] } };
  }

  async function receive(request: ServiceRequest): Promise<ServiceAnswer> {
    const { QueueUrl }: { QueueUrl: string } = JSON.parse(request.body);
    const answer = await pass(request);
    if (answer.status !== 200) return answer;
    const { Messages: messages = [] }: { Messages?: Received[] } = JSON.parse(String(answer.body));
    const delivered: Received[] = [];
    for (const message of messages) {
      const { ReceiptHandle, Body } = message;
      received.set(ReceiptHandle, Body);
      const kind = faults.take(Body, (fault) => !isCallFault(fault) && !isSendFault(fault))?.kind;
      if (kind !== undefined) {
        await act('ChangeMessageVisibility', {
          QueueUrl,
          ReceiptHandle,
          VisibilityTimeout: kind === 'reorder' ? 1 : 0,
        });
      }
      if (kind !== 'reorder') delivered.push(message);
    }
    return { body: delivered.length === 0 ? {} : { Messages: delivered } };
  }

  /** One action on fauxqs itself. */
  async function act(action: string, body: object): Promise<string> {
    const headers = { 'x-amz-target': `AmazonSQS.${action}`, 'content-type': 'application/x-amz-json-1.0' };
    const answer = await pass({ headers, body: JSON.stringify(body) });
    if (answer.status !== 200) throw new Error(`SQS ${action}: ${answer.body}`);
    return String(answer.body);
  }

  async function createQueue(name: string, attributes: Record<string, string | number>): Promise<string> {
    const texts = Object.fromEntries(Object.entries(attributes).map(([key, value]) => [key, String(value)]));
    await act('CreateQueue', { QueueName: name, Attributes: texts });
    return `${front.endpoint}/${accountId}/${name}`;
  }

  async function depthOf(url: string): Promise<QueueDepth> {
    const { Attributes } = JSON.parse(await act('GetQueueAttributes', { QueueUrl: url, AttributeNames: ['All'] }));
    const count = (name: string) => Number(Attributes[`ApproximateNumberOfMessages${name}`]);
    return { ready: count(''), delayed: count('Delayed'), inFlight: count('NotVisible') };
  }

  const deadLetterUrl = await createQueue('reminder-invitations-dead', {
    MessageRetentionPeriod: settings.deadLetterRetentionDays * day,
  });
  const deadLetterTargetArn = arn('sqs', 'reminder-invitations-dead');
  const url = await createQueue('reminder-invitations', {
    VisibilityTimeout: settings.visibilityTimeoutSeconds,
    MessageRetentionPeriod: settings.queueRetentionDays * day,
    RedrivePolicy: JSON.stringify({ deadLetterTargetArn, maxReceiveCount: settings.maxReceiveCount }),
  });
  return {
    endpoint: front.endpoint,
    url,
    arn: arn('sqs', 'reminder-invitations'),
    deadLetterUrl,
    faults,
    sendCalls: () => sendCalls,
    async purge() {
      await act('PurgeQueue', { QueueUrl: url });
    },
    depth: async () => ({ ...(await depthOf(url)), deadLetters: await depthOf(deadLetterUrl) }),
    async stop() {
      await fauxqs.close();
      await front.close();
    },
  };
}

function without<Item extends { readonly Id: string }>(items: readonly Item[], gone: readonly Entry[]): Item[] {
  const ids = new Set(gone.map(({ Id }) => Id));
  return items.filter(({ Id }) => !ids.has(Id));
}
