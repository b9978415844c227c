// What the contract's cases look at: a deployed stack when one is named, else local AWS.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { LambdaClient } from '@aws-sdk/client-lambda';
import {
  BeginTransactionCommand,
  ExecuteStatementCommand,
  type ExecuteStatementCommandInput,
  type ExecuteStatementCommandOutput,
  type Field,
  RDSDataClient,
  RollbackTransactionCommand,
} from '@aws-sdk/client-rds-data';
import { GetSecretValueCommand, SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
import { SQSClient } from '@aws-sdk/client-sqs';
import { checkedOutputs, stackOutputs } from '../../bin/stack-outputs.ts';
import { type Settings, settingsOf } from '../../lambdas/core/settings.ts';
import { type DataApiLimits, startDataApi } from '../../lib/local/data-api.ts';
import { type LocalAws, startLocalAws } from '../../lib/local/local-aws.ts';

/** The outputs that the cases need, named alike by a stack and by local AWS. */
const outputNames = [
  'ScheduleFunctionName',
  'ClaimFunctionName',
  'DatabaseArn',
  'DatabaseName',
  'DatabaseOwnerSecretArn',
  'DatabaseOperatorSecretArn',
  'DatabaseObserverSecretArn',
  'SigningSecretArn',
  'InvitationQueueUrl',
  'ArchiveBucketName',
  'InspectUrl',
  'DecideUrl',
  'RecoverUrl',
  'ControlUrl',
  'DeadLetterQueueUrl',
] as const;
type OutputName = (typeof outputNames)[number];

/** Whose secret a statement runs with. */
export type Login = 'owner' | 'operator' | 'observer';
export const logins: readonly Login[] = ['owner', 'operator', 'observer'];

/** More of a statement than its text. */
export interface StatementOptions extends Partial<ExecuteStatementCommandInput> {
  /** @default observer */
  readonly login?: Login;
  /** @default the target's client */
  readonly client?: RDSDataClient;
}

/** Statements through the Data API. Nothing is tried again: a case sees the first answer. */
export interface Database {
  readonly client: RDSDataClient;
  readonly secretArn: Readonly<Record<Login, string>>;
  execute(sql: string, options?: StatementOptions): Promise<ExecuteStatementCommandOutput>;
  /** The first row. */
  row(sql: string, options?: StatementOptions): Promise<Field[]>;
  /** Runs `work` in a transaction that is rolled back, whatever happens. */
  inTransaction<Result>(login: Login, work: (transactionId: string) => Promise<Result>): Promise<Result>;
  begin(login: Login): Promise<string>;
  rollback(login: Login, transactionId: string): Promise<void>;
}

/** Where the cases run. */
export interface Target {
  readonly kind: 'aws' | 'local';
  /** The numbers of the stage; those of `dev` and `production` are the same. */
  readonly settings: Settings;
  readonly outputs: Readonly<Record<OutputName, string>>;
  readonly lambda: LambdaClient;
  readonly sqs: SQSClient;
  readonly secrets: SecretsManagerClient;
  readonly database: Database;
  /** A product: an alias of the schedule function. */
  readonly product: string;
  /** The name of a destination that reminders may be scheduled to. */
  destination(): Promise<string>;
  /** Present on `local`. */
  readonly local?: LocalAws;
  /** The database behind a Data API whose limits are short; in an account the one there is, with its own. */
  withShortLimits(limits: Partial<DataApiLimits>, work: (database: Database) => Promise<void>): Promise<void>;
  close(): Promise<void>;
}

/** The stack that REMINDER_LEDGER_STACK names, with the SDK's ordinary credentials and region; else a local AWS of its own. */
export function openTarget(): Promise<Target> {
  const stack = process.env.REMINDER_LEDGER_STACK;
  return stack === undefined ? localTarget() : stackTarget(stack);
}

async function stackTarget(stack: string): Promise<Target> {
  const outputs = await stackOutputs(stack, outputNames);
  const clients = newClients();
  const database = databaseOf(outputs, clients.rdsData);
  return {
    ...{ kind: 'aws', settings: settingsOf('production'), outputs, database, ...clients },
    product: process.env.REMINDER_LEDGER_PRODUCT ?? '',
    destination: async () => process.env.REMINDER_LEDGER_DESTINATION ?? '',
    withShortLimits: (_limits, work) => work(database),
    close: async () => clients.destroy(),
  };
}

async function localTarget(): Promise<Target> {
  const directory = mkdtempSync(join(tmpdir(), 'reminder-ledger-contract-'));
  const local = await startLocalAws({ stage: 'rehearsal', directory, fresh: true });
  const outputs = checkedOutputs('local AWS', local.outputs, outputNames);
  // The clients read their endpoints from the environment, as those of the product do.
  Object.assign(process.env, local.environment);
  const clients = newClients();
  const database = databaseOf(outputs, clients.rdsData);
  return {
    ...{ kind: 'local', settings: local.settings, outputs, database, local, ...clients },
    product: 'contract',
    async destination() {
      const name = `contract-${crypto.randomUUID()}`;
      const values = `(gen_random_uuid(), '${name}', 'https://contract.invalid/', 'contract', 'none', 'active', now(), now())`;
      const columns = 'destination_id, name, url, owner, contract, state, state_since, created_at';
      await database.execute(`INSERT INTO destination (${columns}) VALUES ${values}`, { login: 'operator' });
      return name;
    },
    async withShortLimits(limits, work) {
      const accounts = await Promise.all(
        Object.values(database.secretArn).map(async (secretArn) => {
          const secret = await clients.secrets.send(new GetSecretValueCommand({ SecretId: secretArn }));
          const { username, password } = JSON.parse(secret.SecretString ?? '{}');
          return { secretArn, user: username as string, password: password as string };
        }),
      );
      const api = await startDataApi({ postgres: local.postgres, accounts, limits });
      const client = new RDSDataClient({ endpoint: api.endpoint, maxAttempts: 1 });
      try {
        await work(databaseOf({ ...outputs, DatabaseArn: api.resourceArn }, client));
      } finally {
        client.destroy();
        await api.close();
      }
    },
    async close() {
      clients.destroy();
      await local.stop();
      rmSync(directory, { recursive: true, force: true });
    },
  };
}

function newClients() {
  // A case sees the first answer.
  const once = { maxAttempts: 1 };
  const clients = {
    lambda: new LambdaClient(once),
    sqs: new SQSClient(once),
    secrets: new SecretsManagerClient(once),
    rdsData: new RDSDataClient(once),
  };
  const destroy = () => {
    for (const client of Object.values(clients)) client.destroy();
  };
  return { ...clients, destroy };
}

function databaseOf(outputs: Readonly<Record<OutputName, string>>, client: RDSDataClient): Database {
  const secretArn = {
    owner: outputs.DatabaseOwnerSecretArn,
    operator: outputs.DatabaseOperatorSecretArn,
    observer: outputs.DatabaseObserverSecretArn,
  };
  const at = (login: Login) => ({ resourceArn: outputs.DatabaseArn, secretArn: secretArn[login] });
  const database: Database = {
    client,
    secretArn,
    execute(sql, { login = 'observer', client: other, ...more } = {}) {
      const input = { ...at(login), database: outputs.DatabaseName, sql, ...more };
      return (other ?? client).send(new ExecuteStatementCommand(input));
    },
    async row(sql, options) {
      return (await database.execute(sql, options)).records?.[0] ?? [];
    },
    async begin(login) {
      const { transactionId = '' } = await client.send(
        new BeginTransactionCommand({ ...at(login), database: outputs.DatabaseName }),
      );
      return transactionId;
    },
    async rollback(login, transactionId) {
      await client.send(new RollbackTransactionCommand({ ...at(login), transactionId }));
    },
    async inTransaction(login, work) {
      const transactionId = await database.begin(login);
      try {
        return await work(transactionId);
      } finally {
        // An error ended it already.
        await database.rollback(login, transactionId).catch(() => undefined);
      }
    },
  };
  return database;
}

/** What an operation failed with. */
export interface Failure {
  readonly name: string;
  readonly message: string;
  readonly status: number | undefined;
}

/** The failure of an operation, as the SDK tells it. @throws {Error} when it succeeds */
export async function failureOf(operation: Promise<unknown>): Promise<Failure> {
  const error: Error & { $metadata?: { httpStatusCode?: number } } = await operation.then(
    () => {
      throw new Error('expected a failure, seen: it succeeded');
    },
    (thrown) => thrown,
  );
  return { name: error.name, message: error.message, status: error.$metadata?.httpStatusCode };
}
