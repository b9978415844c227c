// Where drills take place: one local AWS with the bundles that deploy, one receiver, and turns for what concerns all.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { SendMessageBatchCommand, SQSClient } from '@aws-sdk/client-sqs';
import pg from 'pg';
import { FaultPlans } from '../../lib/local/fault-plans.ts';
import type { HostedFunction } from '../../lib/local/lambda-environment.ts';
import { type LambdaHost, startLambdaHost } from '../../lib/local/lambda-host.ts';
import { type LocalAws, startLocalAws } from '../../lib/local/local-aws.ts';
import type { Queue } from '../../lib/local/queue.ts';
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
  ownHost(
    functionName: string,
    more?: Partial<Pick<HostedFunction, 'timeoutSeconds' | 'environment'>>,
  ): Promise<OwnHost>;
  /**
   * A cell's turn with the claim, which takes whatever is due of anybody: waits until no other reminder is due within a
   * tick, then stops the ticks and waits until no claim runs. During the turn only `tickNow` runs one.
   */
  inTurn<Result>(ownIds: readonly string[], body: () => Promise<Result>): Promise<Result>;
  /** Runs the operators' command line. Answers its exit code; null: it was killed. */
  operate(words: readonly string[]): Promise<number | null>;
  /** Puts messages into a queue. @param queue @default the invitation queue */
  sendMessages(bodies: readonly string[], queue?: Pick<Queue, 'endpoint' | 'url'>): Promise<void>;
  /** All that a function wrote. */
  logOf(functionName: string): string;
  stop(): Promise<void>;
}

/** How long a turn waits for the others to be quiet; after that it begins all the same, and may delay them. */
const quietLimitMs = 15_000;

const commandLine = fileURLToPath(new URL('../../bin/reminders.ts', import.meta.url));

/**
 * @param clockSkewMs how wrong the wall clock of every function is @default it is right
 * @param canary whether the ledger sends its canary @default false: a turn is nobody else's
 */
export async function startStage(clockSkewMs?: number, canary = false): Promise<Stage> {
  const directory = mkdtempSync(join(tmpdir(), 'reminder-ledger-drills-'));
  const faultDirectory = join(directory, 'faults');
  const authority = await testAuthority({ directory: join(directory, 'test-authority') });
  const receiver = await startReceiver({ authority, journalFile: join(directory, 'receiver.jsonl') });
  const aws = await startLocalAws({
    stage: 'rehearsal',
    directory,
    fresh: true,
    caFile: authority.caFile,
    ...(canary ? { canary: authority } : {}),
    // A process that is killed or frozen takes no other cell's reminder with it.
    senderBatchSize: 1,
    rehearsal: { faultDirectory, ...(clockSkewMs === undefined ? {} : { clockSkewMs }) },
  });
  const pool = new pg.Pool({ connectionString: aws.databaseUrl, max: 4 });
  pool.on('error', () => undefined);
  const credentials = { accessKeyId: 'drills', secretAccessKey: 'drills' };
  const ownHosts: LambdaHost[] = [];
  let ownPlansMade = 0;
  let turn: Promise<unknown> = Promise.resolve();

  async function quiet(ownIds: readonly string[]): Promise<void> {
    const soon = `SELECT FROM reminder_delivery
      WHERE wake_at < now() + make_interval(secs => $1) AND NOT delivery_id = ANY ($2) LIMIT 1`;
    const { tickSeconds } = aws.settings;
    for (const end = Date.now() + quietLimitMs; Date.now() < end; await sleep(200)) {
      if ((await pool.query(soon, [tickSeconds, ownIds])).rows.length === 0) return;
    }
  }

  function ownPlans(): FaultPlans {
    ownPlansMade += 1;
    return new FaultPlans(join(directory, `own-${ownPlansMade}`));
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
      const plans = ownPlans();
      const functions = aws.functions
        .filter((fn) => fn.name === functionName)
        .map((fn) => ({ ...fn, ...more, environment: { ...fn.environment, ...more.environment } }));
      const host = await startLambdaHost(functions, join(plans.directory, 'logs'), { faultDirectory: plans.directory });
      ownHosts.push(host);
      return { host, plans };
    },
    async operate(words) {
      const child = spawn(process.execPath, [commandLine, '--local', directory, ...words], { stdio: 'ignore' });
      const [code]: (number | null)[] = await once(child, 'exit');
      return code ?? null;
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
    async sendMessages(bodies, queue = aws.queue) {
      const Entries = bodies.map((MessageBody, place) => ({ Id: String(place), MessageBody }));
      const sqs = new SQSClient({ region: aws.environment.AWS_REGION, endpoint: queue.endpoint, credentials });
      await sqs.send(new SendMessageBatchCommand({ QueueUrl: queue.url, Entries }));
      sqs.destroy();
    },
    logOf: (functionName) => readFileSync(join(directory, 'logs', `${functionName}.log`), 'utf8'),
    async stop() {
      for (const host of ownHosts) await host.stop();
      await pool.end();
      await aws.stop();
      await receiver.close();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}
