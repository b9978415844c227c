// The RDS Data API over a local PostgreSQL, with the manners of AWS: limits, error names, zone-less times, SQLSTATE.
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { arn } from './addresses.ts';
import { type AnswerLimits, answerOf, failure, serviceError, textOf } from './data-api-answers.ts';
import { type CallFault, Faults, withFaults } from './faults.ts';
import { serve } from './http-service.ts';
import type { Postgres } from './postgres.ts';
import { bindParameters, type Parameter } from './sql-parameters.ts';

/** Limits of the Data API (Amazon Aurora User Guide, "Limitations with the RDS Data API" and "Calling the Data API"). */
export interface DataApiLimits extends AnswerLimits {
  /** @default 4 MiB */
  readonly requestBytes: number;
  /** @default 45 s */
  readonly statementMs: number;
  /** How long a transaction lives without a call. @default 180 s */
  readonly transactionIdleMs: number;
}

const awsLimits: DataApiLimits = {
  requestBytes: 4 * 1024 * 1024,
  responseBytes: 1024 * 1024,
  rowBytes: 64 * 1024,
  statementMs: 45_000,
  transactionIdleMs: 180_000,
};

/** The longest that a timer of Node can be set to. */
const longestTimerMs = 2 ** 31 - 1;

/** A login: the secret that a caller names, and the database user it stands for. */
export interface DatabaseLogin {
  readonly secretArn: string;
  readonly user: string;
  readonly password: string;
}

/** The user and password that a secret holds at this moment. */
export type LoginLookup = (secretArn: string) => Omit<DatabaseLogin, 'secretArn'> | undefined;

/** Something that shall go wrong with statements to come; `match` looks at their SQL. */
export type DataApiFault = CallFault;

/** A Data API that listens. */
export interface DataApi {
  readonly endpoint: string;
  readonly resourceArn: string;
  readonly faults: Faults<DataApiFault>;
  /** How many statements ran so far. */
  statements(): number;
  close(): Promise<void>;
}

interface Request {
  readonly resourceArn?: string;
  readonly secretArn?: string;
  readonly database?: string;
  readonly sql?: string;
  readonly parameters?: readonly Parameter[];
  readonly parameterSets?: readonly (readonly Parameter[])[];
  readonly transactionId?: string;
  readonly continueAfterTimeout?: boolean;
  readonly includeResultMetadata?: boolean;
}

/** Parts of a request that change an answer and are not imitated: refused, so that nobody builds on them unnoticed. */
const notImitated = ['schema', 'resultSetOptions', 'formatRecordsAs'];

interface Transaction {
  readonly client: pg.PoolClient;
  readonly expiry: NodeJS.Timeout;
}

/** Serves one cluster, {@link DataApi.resourceArn}, to the given logins. */
export async function startDataApi(options: {
  postgres: Postgres;
  /** Fixed logins, or where to look one up at each call: the Data API is given a secret's ARN and reads it itself. */
  accounts: readonly DatabaseLogin[] | LoginLookup;
  /** @default 0, any free port */
  port?: number;
  limits?: Partial<DataApiLimits>;
}): Promise<DataApi> {
  const resourceArn = arn('rds', 'cluster:reminder-ledger');
  const limits = { ...awsLimits, ...options.limits };
  const { accounts } = options;
  const lookUp: LoginLookup =
    typeof accounts === 'function' ? accounts : (arn) => accounts.find(({ secretArn }) => secretArn === arn);
  const pools = new Map<string, pg.Pool>();
  const transactions = new Map<string, Transaction>();
  /** Statements that go on after their caller was told of the time limit. */
  const goingOn = new Set<pg.PoolClient>();
  const faults = new Faults<DataApiFault>();
  let statements = 0;

  function connect(request: Request): Promise<pg.PoolClient> {
    if (request.resourceArn !== resourceArn) {
      throw failure('BadRequestException', `HttpEndpoint is not enabled for resource ${request.resourceArn}`);
    }
    const login = lookUp(request.secretArn ?? '');
    if (login === undefined) throw failure('InvalidSecretException', 'The secret is not valid for this cluster');
    const { user, password } = login;
    const { host, port } = options.postgres;
    const database = request.database ?? 'postgres';
    const key = JSON.stringify([user, password, database]);
    let pool = pools.get(key);
    if (pool === undefined) {
      pool = new pg.Pool({
        ...{ host, port, user, password, database, max: 40, idleTimeoutMillis: 5000 },
        query_timeout: limits.statementMs,
        // Settings of the database reach new sessions only: no session lasts for ever.
        maxLifetimeSeconds: 60,
        // The second one ends a statement whose connection was given up at the time limit.
        options: '-c TimeZone=UTC -c client_connection_check_interval=500',
      });
      // A server that stops ends connections, idle or in a caller's hands; the next call meets the error itself.
      pool.on('error', () => undefined);
      pool.on('connect', (client) => client.on('error', () => undefined));
      pools.set(key, pool);
    }
    return pool.connect();
  }

  /** Takes a transaction out: whoever ends it, or lets it run out, does so alone. */
  function take(id = ''): pg.PoolClient {
    const transaction = transactions.get(id);
    if (transaction === undefined) throw failure('TransactionNotFoundException', `Transaction ${id} is not found`);
    transactions.delete(id);
    clearTimeout(transaction.expiry);
    return transaction.client;
  }

  function keep(id: string, client: pg.PoolClient): void {
    const rollBack = () => void end(id, 'ROLLBACK').catch(() => undefined);
    transactions.set(id, { client, expiry: setTimeout(rollBack, limits.transactionIdleMs).unref() });
  }

  async function end(id: string | undefined, command: 'COMMIT' | 'ROLLBACK'): Promise<void> {
    const client = take(id);
    let broken = true;
    try {
      await client.query(command);
      broken = false;
    } finally {
      client.release(broken);
    }
  }

  async function query(request: Request, parameters: readonly Parameter[]): Promise<pg.QueryArrayResult> {
    const config = {
      ...bindParameters(request.sql ?? '', parameters),
      rowMode: 'array' as const,
      // The extended protocol refuses a second statement in one call, as the Data API does.
      queryMode: 'extended',
      types: { getTypeParser: () => textOf },
      ...(request.continueAfterTimeout ? { query_timeout: longestTimerMs } : {}),
    };
    const { transactionId } = request;
    const client = transactionId === undefined ? await connect(request) : take(transactionId);
    statements += 1;
    const answer = async () => {
      try {
        const result = await client.query(config);
        if (transactionId === undefined) client.release();
        else keep(transactionId, client);
        return result;
      } catch (error) {
        // An error ends the transaction; a connection that gave no definite answer is not used again.
        const usable = error instanceof pg.DatabaseError && transactionId === undefined;
        client.release(!usable);
        throw error;
      }
    };
    if (!request.continueAfterTimeout) return answer();
    goingOn.add(client);
    const limit = sleep(limits.statementMs, undefined, { ref: false }).then(() => {
      throw failure('StatementTimeoutException', 'Request timed out');
    });
    return Promise.race([answer().finally(() => goingOn.delete(client)), limit]);
  }

  const routes: Readonly<Record<string, (request: Request) => Promise<unknown>>> = {
    '/Execute': async (request) =>
      answerOf(await query(request, request.parameters ?? []), limits, request.includeResultMetadata),
    '/BatchExecute': async (request) => {
      const sets = request.parameterSets ?? [[]];
      for (const parameters of sets) await query(request, parameters);
      return { updateResults: sets.map(() => ({ generatedFields: [] })) };
    },
    '/BeginTransaction': async (request) => {
      const client = await connect(request);
      const transactionId = randomUUID();
      await client.query('BEGIN').catch((error) => {
        client.release(true);
        throw error;
      });
      keep(transactionId, client);
      return { transactionId };
    },
    '/CommitTransaction': async (request) => {
      await end(request.transactionId, 'COMMIT');
      return { transactionStatus: 'Transaction Committed' };
    },
    '/RollbackTransaction': async (request) => {
      await end(request.transactionId, 'ROLLBACK');
      return { transactionStatus: 'Rollback Complete' };
    },
  };

  const service = await serve(
    { port: options.port ?? 0, limitBytes: limits.requestBytes },
    async ({ method, path, body }) => {
      const route = method === 'POST' ? routes[path] : undefined;
      if (route === undefined) throw failure('BadRequestException', `Unknown operation ${method} ${path}`);
      const request: Request = JSON.parse(body);
      const odd = notImitated.find((name) => name in request);
      if (odd !== undefined) throw failure('BadRequestException', `${odd} is not imitated by the local Data API`);
      return withFaults(
        faults,
        { text: request.sql ?? '', request: body },
        async () => ({
          body: await route(request).catch((error: unknown) => {
            throw serviceError(error);
          }),
        }),
        ({ error = 'ServiceUnavailableError', message = 'Injected fault' }) => failure(error, message),
      );
    },
  );
  return {
    endpoint: service.endpoint,
    resourceArn,
    faults,
    statements: () => statements,
    async close() {
      for (const id of [...transactions.keys()]) await end(id, 'ROLLBACK').catch(() => undefined);
      await service.close();
      for (const client of goingOn) client.release(true);
      await Promise.all([...pools.values()].map((pool) => pool.end()));
    },
  };
}
