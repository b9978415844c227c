// Local AWS: all the services together, running the very bundles that deploy.
import { randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { canaryFunction, canaryMinutes, canaryProduct } from '../../lambdas/canary/contract.ts';
import { canaryReceiverAlias, canaryReceiverFunction } from '../../lambdas/canary-receiver/contract.ts';
import { claimFunction } from '../../lambdas/claim/contract.ts';
import type { DatabaseRole } from '../../lambdas/core/database-roles.ts';
import type { EnvironmentName, FunctionContract } from '../../lambdas/core/function-contract.ts';
import { type Settings, type Stage, settingsOf } from '../../lambdas/core/settings.ts';
import { functions as contracts } from '../../lambdas/functions.ts';
import { observeFunction } from '../../lambdas/observe/contract.ts';
import { operateFunction } from '../../lambdas/operate/contract.ts';
import { rotateFunction } from '../../lambdas/rotate/contract.ts';
import { scheduleFunction } from '../../lambdas/schedule/contract.ts';
import { webhookSenderFunction } from '../../lambdas/webhook-sender/contract.ts';
import { accountId, region } from './addresses.ts';
import { type Bucket, startBucket } from './bucket.ts';
import { type DataApi, startDataApi } from './data-api.ts';
import { type EventBus, startEventBus } from './event-bus.ts';
import { type EventSourceMapping, startEventSourceMapping } from './event-source-mapping.ts';
import { startFunctionUrl } from './function-urls.ts';
import { startLambdaApi } from './lambda-api.ts';
import type { HostedFunction } from './lambda-environment.ts';
import { type LambdaHost, type Rehearsal, startLambdaHost } from './lambda-host.ts';
import {
  databaseSecretArn,
  loginSecretArn,
  loginSecretArns,
  loginSecrets,
  loginsIn,
  owner,
  ownerSecretArn,
  signingSecret,
  signingSecretArn,
} from './ledger-secrets.ts';
import { type Postgres, startPostgres } from './postgres.ts';
import { type Queue, startQueue } from './queue.ts';
import { type Scheduler, startScheduler } from './scheduler.ts';
import { type Secrets, startSecrets } from './secrets.ts';

export { loginSecretArn, loginSecretArns } from './ledger-secrets.ts';

/** How to start. */
export interface LocalAwsOptions {
  readonly stage: Stage;
  /** Where data, logs and `endpoints.json` lie. */
  readonly directory: string;
  /** Begin with an empty ledger. */
  readonly fresh: boolean;
  /** What `npm run build` made. @default dist/functions of this checkout */
  readonly functionsDirectory?: string;
  /** Whose logins `migrate` makes: another release may know fewer. @default those of every role */
  readonly loginRoles?: readonly DatabaseRole[];
  /** The scheduler's ticks: the same seed, the same instants. @default 1 */
  readonly schedulerSeed?: number;
  /** One tick in so many is lost. @default 0, none */
  readonly tickLossOneIn?: number;
  /** Ranges that the sender may dial although they are not public. @default the loopback */
  readonly trustedCidrs?: string;
  /** A certificate authority, PEM, that the sender trusts beside the public ones. @default none */
  readonly caFile?: string;
  /** What the canary's receiver speaks https with; the sender must trust it by `caFile`. @default none: no canary is sent */
  readonly canary?: { readonly key: string; readonly cert: string };
  /** The most messages one invocation of the sender gets. @default the stage's */
  readonly senderBatchSize?: number;
  /** What a rehearsal does to the processes of the functions: fault plans, a wall clock that is wrong. @default nothing */
  readonly rehearsal?: Rehearsal;
}

/** What runs, and every handle a person or a test needs. */
export interface LocalAws {
  readonly settings: Settings;
  /** Environment variables that point an AWS SDK here. */
  readonly environment: Readonly<Record<string, string>>;
  /** The same names as the deployed stack's outputs. */
  readonly outputs: Readonly<Record<string, string>>;
  readonly postgres: Postgres;
  /** A connection string of the ledger's database, as superuser. */
  readonly databaseUrl: string;
  readonly dataApi: DataApi;
  readonly queue: Queue;
  readonly bus: EventBus;
  readonly archive: Bucket;
  readonly secrets: Secrets;
  readonly host: LambdaHost;
  /** The functions as they are hosted, for another host beside this one. */
  readonly functions: readonly HostedFunction[];
  readonly scheduler: Scheduler;
  readonly eventSource: EventSourceMapping;
  /** Invokes a function and reads its answer. @throws {Error} when the function failed */
  invoke(name: FunctionContract['name'], request: unknown, qualifier?: string): Promise<unknown>;
  /** Gives a login secret its next version, as Secrets Manager does. @throws {Error} when a step failed; another call goes on */
  rotateSecret(arn: string): Promise<void>;
  /** Only the beginning of that: a version that is pending. Answers its id. */
  announceVersion(arn: string): string;
  stop(): Promise<void>;
}

const databaseName = 'ledger';

/** How many environments of a function may run at once. A claim never overlaps itself by much: a tick ends within its period. */
const concurrency: Readonly<Record<FunctionContract['name'], (settings: Settings) => number>> = {
  schedule: () => 4,
  claim: () => 2,
  'webhook-sender': ({ senderConcurrency }) => senderConcurrency,
  migrate: () => 1,
  rotate: () => 1,
  observe: () => 2,
  retain: () => 1,
  operate: () => 2,
  canary: () => 1,
  'canary-receiver': () => 2,
  widget: () => 2,
};

/**
 * Starts everything, in the order a deployment has: database, schema, then schedule and event source.
 * @throws {Error} when the bundles are missing, another local AWS runs on the directory, or a migration fails
 */
export async function startLocalAws(options: LocalAwsOptions): Promise<LocalAws> {
  const settings = settingsOf(options.stage);
  const directory = resolve(options.directory);
  const functions = options.functionsDirectory ?? fileURLToPath(new URL('../../dist/functions', import.meta.url));
  const missing = contracts.find(({ name }) => !existsSync(join(functions, name, 'index.mjs')));
  if (missing) throw new Error(`${functions} has no bundle of ${missing.name}; run \`npm run build\``);

  const stops: (() => unknown)[] = [];
  const stop = async () => {
    for (const end of stops.splice(0).reverse()) await end();
  };
  try {
    await mkdir(directory, { recursive: true });
    const postgres = await startPostgres({ directory, fresh: options.fresh });
    stops.push(() => postgres.stop());
    await createDatabase(postgres);
    const queue = await startQueue(settings);
    stops.push(() => queue.stop());
    const bus = await startEventBus();
    stops.push(() => bus.close());
    const archive = await startBucket();
    stops.push(() => archive.stop());
    const secrets = await startSecrets(
      new Map([
        [signingSecretArn, await signingSecret(directory, options.fresh)],
        [ownerSecretArn, JSON.stringify({ username: owner.user, password: owner.password })],
      ]),
      await loginSecrets(directory, options.fresh),
    );
    stops.push(() => secrets.close());
    const dataApi = await startDataApi({ postgres, accounts: loginsIn(secrets) });
    stops.push(() => dataApi.close());

    // What functions call by Lambda is there before they are.
    const late: Pick<LambdaHost, 'invoke' | 'invokeAsync'> = {
      invoke: (...call) => host.invoke(...call),
      invokeAsync: (...call) => host.invokeAsync(...call),
    };
    const lambda = await startLambdaApi(late);
    stops.push(() => lambda.close());
    const urlOf = async (functionName: string, qualifier: string, open?: LocalAwsOptions['canary']) => {
      const url = await startFunctionUrl({ host: late, functionName, qualifier, ...(open && { open }) });
      stops.push(() => url.close());
      return `${url.endpoint}/`;
    };
    const canaryUrl = options.canary
      ? await urlOf(canaryReceiverFunction.name, canaryReceiverAlias, options.canary)
      : '';

    const environment = {
      AWS_REGION: region,
      AWS_ACCESS_KEY_ID: accountId,
      AWS_SECRET_ACCESS_KEY: 'local',
      AWS_ENDPOINT_URL_RDS_DATA: dataApi.endpoint,
      AWS_ENDPOINT_URL_SQS: queue.endpoint,
      AWS_ENDPOINT_URL_EVENTBRIDGE: bus.endpoint,
      AWS_ENDPOINT_URL_SECRETS_MANAGER: secrets.endpoint,
      AWS_ENDPOINT_URL_S3: archive.endpoint,
      AWS_ENDPOINT_URL_LAMBDA: lambda.endpoint,
    };
    const trustedCidrs = options.trustedCidrs ?? '127.0.0.0/8,::1/128';
    const variables: Readonly<Record<Exclude<EnvironmentName, 'DATABASE_SECRET_ARN'>, string>> = {
      STAGE: options.stage,
      DATABASE_ARN: dataApi.resourceArn,
      DATABASE_NAME: databaseName,
      LOGIN_SECRET_ARNS: loginSecretArns(options.loginRoles),
      INVITATION_QUEUE_URL: queue.url,
      DEAD_LETTER_QUEUE_URL: queue.deadLetterUrl,
      EVENT_BUS_NAME: bus.name,
      SIGNING_SECRET_ARN: signingSecretArn,
      ARCHIVE_BUCKET: archive.name,
      SCHEDULE_FUNCTION: `${scheduleFunction.name}:${canaryProduct}`,
      CANARY_URL: canaryUrl,
      RETENTION_POLICY: JSON.stringify({ finishedDays: 90, byProducer: {} }),
      WEBHOOK_TRUSTED_CIDRS: trustedCidrs,
    };
    const hosted = contracts.map(
      (contract): HostedFunction => ({
        name: contract.name,
        folder: join(functions, contract.name),
        timeoutSeconds: contract.timeoutSeconds(settings),
        memoryMegabytes: contract.memoryMegabytes,
        concurrency: concurrency[contract.name](settings),
        environment: {
          ...environment,
          ...Object.fromEntries(
            [...contract.environment, ...contract.localEnvironment].map((name) => [
              name,
              name === 'DATABASE_SECRET_ARN' ? databaseSecretArn(contract) : variables[name],
            ]),
          ),
          ...(options.caFile === undefined ? {} : { NODE_EXTRA_CA_CERTS: options.caFile }),
        },
      }),
    );
    const host = await startLambdaHost(hosted, join(directory, 'logs'), options.rehearsal);
    stops.push(() => host.stop());
    const invoke = async (name: FunctionContract['name'], request: unknown, qualifier?: string): Promise<unknown> => {
      const answer = await host.invoke(name, JSON.stringify(request ?? {}), qualifier);
      if (answer.functionError) throw new Error(`${name} failed: ${answer.payload}`);
      return JSON.parse(answer.payload);
    };
    await invoke('migrate', {});
    const announceVersion = (secretArn: string) => secrets.announceVersion(secretArn, randomUUID());
    const rotateSecret = async (secretArn: string): Promise<void> => {
      const token = announceVersion(secretArn);
      for (const Step of ['createSecret', 'setSecret', 'testSecret', 'finishSecret']) {
        await invoke(rotateFunction.name, { Step, SecretId: secretArn, ClientRequestToken: token });
      }
    };

    const eventSource = startEventSourceMapping({
      host,
      functionName: webhookSenderFunction.name,
      qualifier: 'invitations',
      queue,
      batchSize: options.senderBatchSize ?? settings.senderBatchSize,
      maximumConcurrency: settings.senderConcurrency,
    });
    stops.push(() => eventSource.stop());
    const scheduler = startScheduler({
      periodSeconds: settings.tickSeconds,
      invoke: () => host.invokeAsync(claimFunction.name, '{}', 'tick'),
      ...(options.schedulerSeed === undefined ? {} : { seed: options.schedulerSeed }),
      ...(options.tickLossOneIn === undefined ? {} : { lossOneIn: options.tickLossOneIn }),
    });
    stops.push(() => scheduler.stop());
    const observing = startScheduler({
      periodSeconds: settings.tickSeconds,
      invoke: () => host.invokeAsync(observeFunction.name, '{}', 'tick'),
    });
    stops.push(() => observing.stop());
    if (options.canary) {
      const singing = startScheduler({
        periodSeconds: canaryMinutes * 60,
        invoke: () => host.invokeAsync(canaryFunction.name, '{}', 'tick'),
      });
      stops.push(() => singing.stop());
    }

    const outputs = {
      ScheduleFunctionName: scheduleFunction.name,
      ClaimFunctionName: claimFunction.name,
      DatabaseArn: dataApi.resourceArn,
      DatabaseName: databaseName,
      DatabaseOwnerSecretArn: ownerSecretArn,
      DatabaseOperatorSecretArn: loginSecretArn('ledger_operator'),
      DatabaseObserverSecretArn: loginSecretArn('ledger_observer'),
      SigningSecretArn: signingSecretArn,
      InvitationQueueUrl: queue.url,
      DeadLetterQueueUrl: queue.deadLetterUrl,
      EventBusName: bus.name,
      ArchiveBucketName: archive.name,
      InspectUrl: await urlOf(operateFunction.name, 'inspect'),
      DecideUrl: await urlOf(operateFunction.name, 'decide'),
      RecoverUrl: await urlOf(operateFunction.name, 'recover'),
      ControlUrl: await urlOf(operateFunction.name, 'control'),
    };
    const endpoints = join(directory, 'endpoints.json');
    const running = { pid: process.pid, stage: options.stage, environment, outputs, trustedCidrs };
    await writeFile(endpoints, `${JSON.stringify(running, null, 2)}\n`);
    stops.push(() => rm(endpoints, { force: true }));
    return {
      settings,
      environment,
      outputs,
      postgres,
      databaseUrl: postgres.url(databaseName),
      dataApi,
      queue,
      bus,
      archive,
      secrets,
      host,
      functions: hosted,
      scheduler,
      eventSource,
      invoke,
      rotateSecret,
      announceVersion,
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** What is there already stays as it is. */
async function createDatabase(postgres: Postgres): Promise<void> {
  const client = new pg.Client(postgres.url('postgres'));
  await client.connect();
  const unless = async (found: string, name: string, create: string) => {
    if ((await client.query(found, [name])).rowCount === 0) await client.query(create);
  };
  const login = `CREATE ROLE ${owner.user} LOGIN CREATEDB CREATEROLE PASSWORD '${owner.password}'`;
  const database = `CREATE DATABASE ${databaseName} OWNER ${owner.user}`;
  try {
    await unless('SELECT FROM pg_roles WHERE rolname = $1', owner.user, login);
    await unless('SELECT FROM pg_database WHERE datname = $1', databaseName, database);
  } finally {
    await client.end();
  }
}
