// Where drills take place: one local AWS with the bundles that deploy, one receiver, and turns for what concerns all.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { SendMessageBatchCommand, SQSClient } from '@aws-sdk/client-sqs';
import pg from 'pg';
import { FaultPlans } from '../../lib/local/fault-plans.ts';
import { type LambdaHost, startLambdaHost } from '../../lib/local/lambda-host.ts';
import { type LocalAws, startLocalAws } from '../../lib/local/local-aws.ts';
import { type Receiver, startReceiver } from '../../lib/local/receiver.ts';
import { testAuthority } from '../../lib/local/test-authority.ts';

/** A host of one cell's own, whose processes no other cell can meet. */
export interface OwnHost {
  readonly host: LambdaHost;
  readonly plans: FaultPlans;
}

/** The stage and all its handles. */
export interface Stage {
  readonly aws: LocalAws;
  readonly receiver: Receiver;
  readonly pool: pg.Pool;
  readonly plans: FaultPlans;
  /** Where the plans lie. */
  readonly faultDirectory: string;
  /** Another host of a function, of the same AWS, with fault plans of its own. Ends with the stage. */
  ownHost(functionName: string, more?: { readonly timeoutSeconds?: number }): Promise<OwnHost>;
  /**
   * A cell's turn with the claim, which takes whatever is due of anybody: waits until no other reminder is due within a
   * tick, then stops the ticks and waits until no claim runs. During the turn only `tickNow` runs one.
   */
  inTurn<Result>(ownIds: readonly string[], body: () => Promise<Result>): Promise<Result>;
  /** Puts messages into the invitation queue. */
  sendMessages(bodies: readonly string[]): Promise<void>;
  /** All that a function wrote. */
  logOf(functionName: string): string;
  stop(): Promise<void>;
}

/** How long a turn waits for the others to be quiet; after that it begins all the same, and may delay them. */
const quietLimitMs = 15_000;

/** @param clockSkewMs how wrong the wall clock of every function is @default it is right */
export async function startStage(clockSkewMs?: number): Promise<Stage> {
  const directory = mkdtempSync(join(tmpdir(), 'reminder-ledger-drills-'));
  const faultDirectory = join(directory, 'faults');
  const authority = await testAuthority({ directory: join(directory, 'test-authority') });
  const receiver = await startReceiver({ authority, journalFile: join(directory, 'receiver.jsonl') });
  const aws = await startLocalAws({
    stage: 'rehearsal',
    directory,
    fresh: true,
    caFile: authority.caFile,
    // A process that is killed or frozen takes no other cell's reminder with it.
    senderBatchSize: 1,
    rehearsal: { faultDirectory, ...(clockSkewMs === undefined ? {} : { clockSkewMs }) },
  });
  const pool = new pg.Pool({ connectionString: aws.databaseUrl, max: 4 });
  pool.on('error', () => undefined);
  const credentials = { accessKeyId: 'drills', secretAccessKey: 'drills' };
  const sqs = new SQSClient({ region: aws.environment.AWS_REGION, endpoint: aws.queue.endpoint, credentials });
  const ownHosts: LambdaHost[] = [];
  let turn: Promise<unknown> = Promise.resolve();

  async function quiet(ownIds: readonly string[]): Promise<void> {
    const soon = `SELECT FROM reminder_delivery
      WHERE wake_at < now() + make_interval(secs => $1) AND NOT delivery_id = ANY ($2) LIMIT 1`;
    const { tickSeconds } = aws.settings;
    for (const end = Date.now() + quietLimitMs; Date.now() < end; await sleep(200)) {
      if ((await pool.query(soon, [tickSeconds, ownIds])).rows.length === 0) return;
    }
  }

  async function noClaimRuns(): Promise<void> {
    const runs = () =>
      aws.host
        .environments()
        .some(({ functionName, requestId }) => functionName === 'claim' && requestId !== undefined);
    for (const end = Date.now() + 10_000; runs() && Date.now() < end; ) await sleep(20);
  }

  return {
    aws,
    receiver,
    pool,
    plans: new FaultPlans(faultDirectory),
    faultDirectory,
    async ownHost(functionName, more = {}) {
      const name = join(directory, `own-${ownHosts.length}`);
      const functions = aws.functions.filter((fn) => fn.name === functionName).map((fn) => ({ ...fn, ...more }));
      const host = await startLambdaHost(functions, join(name, 'logs'), { faultDirectory: join(name, 'faults') });
      ownHosts.push(host);
      return { host, plans: new FaultPlans(join(name, 'faults')) };
    },
    inTurn(ownIds, body) {
      const mine = turn.then(async () => {
        await quiet(ownIds);
        aws.scheduler.pause();
        try {
          await noClaimRuns();
          return await body();
        } finally {
          aws.scheduler.resume();
          // For the ticks that the others have missed meanwhile.
          aws.scheduler.tickNow();
        }
      });
      turn = mine.catch(() => undefined);
      return mine;
    },
    async sendMessages(bodies) {
      const Entries = bodies.map((MessageBody, place) => ({ Id: String(place), MessageBody }));
      await sqs.send(new SendMessageBatchCommand({ QueueUrl: aws.queue.url, Entries }));
    },
    logOf: (functionName) => readFileSync(join(directory, 'logs', `${functionName}.log`), 'utf8'),
    async stop() {
      sqs.destroy();
      for (const host of ownHosts) await host.stop();
      await pool.end();
      await aws.stop();
      await receiver.close();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}
