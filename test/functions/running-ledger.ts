// A ledger at work to test against: local AWS with the bundles that deploy, a receiver that keeps what it gets, the database.
import { createHash } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import type { IncomingHttpHeaders } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { InvokeCommand, LambdaClient } from '@aws-sdk/client-lambda';
import { type Message, ReceiveMessageCommand, SendMessageBatchCommand, SQSClient } from '@aws-sdk/client-sqs';
import pg from 'pg';
import { v7 as uuid } from 'uuid';
import { expect } from 'vitest';
import type { CommandAnswer, ScheduleCommand } from '../../lambdas/schedule/contract.ts';
import { FaultPlans } from '../../lib/local/fault-plans.ts';
import { type LocalAwsOptions, startLocalAws } from '../../lib/local/local-aws.ts';
import { type ReceivedRequest, startReceiver } from '../../lib/local/receiver.ts';
import { testAuthority } from '../../lib/local/test-authority.ts';

/** One request with all that came. */
export interface Arrival {
  readonly request: ReceivedRequest;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

/** A reminder as it was asked for. */
export interface Asked {
  readonly deliveryId: string;
  readonly key: string;
  readonly payload: string;
  /** Epoch milliseconds. */
  readonly dueAt: number;
}

export type RunningLedger = Awaited<ReturnType<typeof startRunningLedger>>;

/** Waits until `look` finds something. Generous: a slow machine is no failure. */
export async function eventually<Found>(
  what: string,
  look: () => Promise<Found | undefined | false> | Found | undefined | false,
  limitMs = 40_000,
): Promise<Found> {
  for (const end = performance.now() + limitMs; ; await sleep(50)) {
    const found = await look();
    if (found !== undefined && found !== false) return found;
    expect(performance.now(), `waited ${limitMs} ms until ${what}`).toBeLessThan(end);
  }
}

export const idsOf = (all: readonly { readonly deliveryId: string }[]): string[] =>
  all.map(({ deliveryId }) => deliveryId);

/** The body of a queue message. @param notBefore epoch milliseconds; a hint that may be wrong @default 0 */
export const invitation = (deliveryId: string, notBefore = 0): string =>
  JSON.stringify({ v: 1, delivery_id: deliveryId, not_before: notBefore });

/** A batch as the event source hands it to a sender. The ids of its messages are their places. */
export const sqsEvent = (bodies: readonly string[]) => ({
  Records: bodies.map((body, place) => ({ messageId: String(place), body })),
});

export const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');

/**
 * Starts everything in a directory of its own, at stage `rehearsal`. The ticks fall at the same instants in each run.
 * @param more `faults`: whether the functions look for fault plans; each passage then costs them a look at a folder.
 * `canary`: whether its receiver listens, and its schedule runs.
 * `functionsDirectory`, `loginRoles`: bundles other than those of this checkout, and what they know
 */
export async function startRunningLedger(
  more: { faults?: boolean; canary?: boolean } & Pick<LocalAwsOptions, 'functionsDirectory' | 'loginRoles'> = {},
) {
  const { faults = false, canary = false, ...others } = more;
  const directory = mkdtempSync(join(tmpdir(), 'reminder-ledger-running-'));
  const faultDirectory = join(directory, 'faults');
  const authority = await testAuthority({ directory: join(directory, 'test-authority') });
  const arrivals: Arrival[] = [];
  const receiver = await startReceiver({
    authority,
    inspect: (request, headers, body) => void arrivals.push({ request, headers, body }),
  });
  const { caFile } = authority;
  const aws = await startLocalAws({
    ...{ stage: 'rehearsal', directory, fresh: true, schedulerSeed: 7, caFile },
    ...(faults ? { rehearsal: { faultDirectory } } : {}),
    ...(canary ? { canary: authority } : {}),
    ...others,
  });
  const pool = new pg.Pool({ connectionString: aws.databaseUrl, max: 4 });
  pool.on('error', () => undefined);
  const credentials = { accessKeyId: 'test', secretAccessKey: 'test' };
  const region = aws.environment.AWS_REGION;
  // Patient: as many callers as a test has at once, and only four environments to answer them.
  const lambda = new LambdaClient({
    ...{ region, credentials, endpoint: aws.environment.AWS_ENDPOINT_URL_LAMBDA, maxAttempts: 10 },
  });
  const sqs = new SQSClient({ region, credentials, endpoint: aws.environment.AWS_ENDPOINT_URL_SQS });

  async function sql<Row extends Record<string, unknown>>(text: string, values: unknown[] = []): Promise<Row[]> {
    return (await pool.query(text, values)).rows as Row[];
  }

  /** Invokes the schedule function through Lambda's API with JSON text as it is. @param product the alias */
  async function invokeText(text: string, product?: string): Promise<{ failed: boolean; answer: unknown }> {
    const { FunctionError, Payload } = await lambda.send(
      new InvokeCommand({
        FunctionName: aws.outputs.ScheduleFunctionName,
        Payload: text,
        ...(product === undefined ? {} : { Qualifier: product }),
      }),
    );
    return { failed: FunctionError !== undefined, answer: JSON.parse(Payload?.transformToString() ?? 'null') };
  }

  /** One call of a product, made again where time mends its failure: what it did is found then. @throws when it failed */
  async function call(request: unknown, product?: string): Promise<unknown> {
    for (let tries = 1; ; tries += 1) {
      const { failed, answer } = await invokeText(JSON.stringify(request), product);
      if (!failed) return answer;
      const told = JSON.stringify(answer);
      if (tries === 5 || !/: (unavailable|busy), ran: /.test(told)) throw new Error(`schedule failed: ${told}`);
    }
  }

  const command = async (one: object, product?: string) => (await call(one, product)) as CommandAnswer;
  const commands = async (all: readonly object[], product?: string) =>
    ((await call({ commands: all }, product)) as { answers: CommandAnswer[] }).answers;

  let lastUnsent = 0;

  return {
    directory,
    caFile,
    aws,
    /** What shall happen to functions at their fault points, when it was started with `faults`. */
    plans: new FaultPlans(faultDirectory),
    receiver,
    arrivals,
    sqs,
    sql,
    invokeText,
    call,
    command,
    commands,

    /** Registers a destination at a path of the receiver. Answers its name. */
    async destination(path: string, contract = 'honours-key'): Promise<string> {
      const id = uuid();
      await sql(
        `INSERT INTO destination (destination_id, name, url, owner, contract, state, state_since, created_at)
         VALUES ($1, $2, $3, 'test', $4, 'active', now(), now())`,
        [id, `d-${id}`, receiver.url(path), contract],
      );
      return `d-${id}`;
    },

    /** Schedules reminders in one call, each a minute ahead and with a payload of its own unless told otherwise. */
    async schedule(
      destination: string,
      wishes: readonly (Partial<ScheduleCommand> & { dueInMs?: number })[],
      product?: string,
    ): Promise<Asked[]> {
      const all = wishes.map(({ dueInMs = 60_000, ...wish }) => {
        const { key = `key-${uuid()}`, dueAt = new Date(Date.now() + dueInMs).toISOString() } = wish;
        const payloadText = wish.payload === undefined ? `{"of":"${key}"}` : undefined;
        return { verb: 'schedule' as const, destination, userId: 'user-1', payloadText, ...wish, key, dueAt };
      });
      const answers = await commands(all, product);
      return all.map(({ key, payload, payloadText, dueAt }, place) => {
        const answer = answers[place];
        expect(answer?.answer).toMatch(/^(scheduled|duplicate)$/);
        const deliveryId = answer && 'deliveryId' in answer ? (answer.deliveryId ?? '') : '';
        return { deliveryId, key, payload: payloadText ?? JSON.stringify(payload), dueAt: Date.parse(dueAt) };
      });
    },

    /** The reminder's row. */
    async row(deliveryId: string) {
      const [found] = await sql<Record<string, unknown> & { state: string; wake_at: Date | null; attempt_no: number }>(
        'SELECT * FROM reminder_delivery WHERE delivery_id = $1',
        [deliveryId],
      );
      if (found === undefined) throw new Error(`there is no reminder ${deliveryId}`);
      return found;
    },

    /** The outcomes of a reminder's attempts, in order. */
    outcomes: (deliveryId: string) =>
      sql<{ attempt_no: number; outcome: string; recorded_by: string; status: number | null; moved_to: string | null }>(
        `SELECT attempt_no, outcome, recorded_by, status, moved_to FROM attempt_outcome WHERE delivery_id = $1
         ORDER BY attempt_no, recorded_at`,
        [deliveryId],
      ),

    /** What the receiver got for a reminder. */
    received: (deliveryId: string) => receiver.requests.filter(({ webhookId }) => webhookId === deliveryId),

    /**
     * A reminder that is due at once, whose message the queue accepts and forgets: it waits for a sender that the test
     * starts, or for its allowance to pass.
     */
    async scheduleUnsent(destination: string, more: Partial<ScheduleCommand> = {}): Promise<Asked> {
      // A message tells its reminder by its time: no other may have it.
      lastUnsent = Math.max(Date.now(), lastUnsent + 1);
      aws.queue.faults.next({ kind: 'lose', match: new RegExp(`"not_before":${lastUnsent}\\b`) });
      const [asked] = await this.schedule(destination, [{ ...more, dueAt: new Date(lastUnsent).toISOString() }]);
      if (asked === undefined) throw new Error('nothing was scheduled');
      await this.settled([asked.deliveryId], 'queued');
      return asked;
    },

    /** Waits until all the reminders are in the state. */
    async settled(deliveryIds: readonly string[], state = 'delivered', limitMs?: number): Promise<void> {
      const look = async () => {
        const there = await sql('SELECT FROM reminder_delivery WHERE delivery_id = ANY ($1) AND state = $2', [
          deliveryIds,
          state,
        ]);
        return there.length === deliveryIds.length;
      };
      await eventually(`${deliveryIds.length} reminders are ${state}`, look, limitMs);
    },

    /** Runs a claim and answers its counts; waits while as many as may run are at work already. */
    tick: () =>
      eventually('a claim may run', () =>
        aws.invoke('claim', {}).then(
          (counts) => counts as Record<string, number | string>,
          (error: Error) => {
            if (error.name !== 'TooManyRequestsException') throw error;
            return false as const;
          },
        ),
      ),

    /** Invokes a sender with a batch of its own. Answers the places of the messages that failed. */
    async deliver(bodies: readonly string[]): Promise<string[]> {
      const answer = (await aws.invoke('webhook-sender', sqsEvent(bodies))) as {
        batchItemFailures: { itemIdentifier: string }[];
      };
      return answer.batchItemFailures.map(({ itemIdentifier }) => itemIdentifier);
    },

    /** Puts messages into the invitation queue, in one call. */
    async sendMessages(bodies: readonly string[]): Promise<void> {
      const Entries = bodies.map((MessageBody, place) => ({ Id: String(place), MessageBody }));
      await sqs.send(new SendMessageBatchCommand({ QueueUrl: aws.queue.url, Entries }));
    },

    /** What lies in a queue, left where it is. */
    async messages(QueueUrl: string): Promise<Message[]> {
      const ask = { QueueUrl, MaxNumberOfMessages: 10, VisibilityTimeout: 0, MessageSystemAttributeNames: ['All'] };
      return (await sqs.send(new ReceiveMessageCommand(ask as never))).Messages ?? [];
    },

    /** All that the functions wrote. */
    logs(): string {
      const folder = join(directory, 'logs');
      const files = readdirSync(folder).filter((file) => file.endsWith('.log'));
      return files.map((file) => readFileSync(join(folder, file), 'utf8')).join('');
    },

    async stop(): Promise<void> {
      lambda.destroy();
      sqs.destroy();
      await pool.end();
      await aws.stop();
      await receiver.close();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}
