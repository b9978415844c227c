// The RDS Data API over a local PostgreSQL, with the manners of AWS: limits, error names, zone-less times, SQLSTATE.
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { arn } from './addresses.ts';
import { Faults, type PlannedFault } from './faults.ts';
import { ServiceError, serve } from './http-service.ts';
import type { Postgres } from './postgres.ts';
import { bindParameters, type Field, type Parameter } from './sql-parameters.ts';

/** Limits of the Data API (Amazon Aurora User Guide, "Limitations with the RDS Data API" and "Calling the Data API"). */
export interface DataApiLimits {
  /** @default 4 MiB */
  readonly requestBytes: number;
  /** @default 1 MiB */
  readonly responseBytes: number;
  /** A row of the result, counted as the JSON of its fields, which is never less than the database's own count. @default 64 KiB */
  readonly rowBytes: number;
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

/** A login: the secret that a caller names, and the database user it stands for. */
export interface DatabaseLogin {
  readonly secretArn: string;
  readonly user: string;
  readonly password: string;
}

/** Something that shall go wrong with statements to come; `match` looks at their SQL. */
export interface DataApiFault extends PlannedFault {
  /** `reset-*`: the connection breaks before or after the statement ran. `error-*`: an error answer before or after. */
  readonly kind: 'reset-before' | 'reset-after' | 'error-before' | 'error-after' | 'delay';
  /** The error's name for `error-*`. @default ServiceUnavailableError */
  readonly error?: string;
  /** The error's message for `error-*`, such as `ERROR: …; SQLState: 40001`. */
  readonly message?: string;
  /** How long the statement is kept back, for `delay`. */
  readonly ms?: number;
}

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
  readonly includeResultMetadata?: boolean;
}

/** Parts of a request that change an answer and are not imitated: refused, so that nobody builds on them unnoticed. */
const notImitated = ['schema', 'continueAfterTimeout', 'resultSetOptions', 'formatRecordsAs'];

interface Transaction {
  readonly client: pg.PoolClient;
  readonly expiry: NodeJS.Timeout;
}

/** The HTTP status of each error that is not 400 (service model of the RDS Data API). */
const statusOf: Readonly<Record<string, number>> = {
  ForbiddenException: 403,
  AccessDeniedException: 403,
  NotFoundException: 404,
  TransactionNotFoundException: 404,
  DatabaseNotFoundException: 404,
  ThrottlingException: 429,
  InternalServerErrorException: 500,
  ServiceUnavailableError: 503,
  DatabaseUnavailableException: 504,
};
const failure = (name: string, message: string) => new ServiceError(name, statusOf[name] ?? 400, message);

/** Serves one cluster, {@link DataApi.resourceArn}, to the given logins. */
export async function startDataApi(options: {
  postgres: Postgres;
  accounts: readonly DatabaseLogin[];
  /** @default 0, any free port */
  port?: number;
  limits?: Partial<DataApiLimits>;
}): Promise<DataApi> {
  const resourceArn = arn('rds', 'cluster:reminder-ledger');
  const limits = { ...awsLimits, ...options.limits };
  const pools = new Map<string, pg.Pool>();
  const transactions = new Map<string, Transaction>();
  const faults = new Faults<DataApiFault>();
  let statements = 0;

  function connect(request: Request): Promise<pg.PoolClient> {
    if (request.resourceArn !== resourceArn) {
      throw failure('BadRequestException', `HttpEndpoint is not enabled for resource ${request.resourceArn}`);
    }
    const login = options.accounts.find(({ secretArn }) => secretArn === request.secretArn);
    if (login === undefined) throw failure('InvalidSecretException', 'The secret is not valid for this cluster');
    const { secretArn, user, password } = login;
    const { host, port } = options.postgres;
    const database = request.database ?? 'postgres';
    const key = JSON.stringify([secretArn, database]);
    let pool = pools.get(key);
    if (pool === undefined) {
      pool = new pg.Pool({
        ...{ host, port, user, password, database, max: 40, idleTimeoutMillis: 5000 },
        query_timeout: limits.statementMs,
        // The second one ends a statement whose connection was given up at the time limit.
        options: '-c TimeZone=UTC -c client_connection_check_interval=500',
      });
      // A server that stops ends idle connections; the next call meets the error itself.
      pool.on('error', () => undefined);
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
    };
    const { transactionId } = request;
    const client = transactionId === undefined ? await connect(request) : take(transactionId);
    statements += 1;
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
  }

  const routes: Readonly<Record<string, (request: Request) => Promise<unknown>>> = {
    '/Execute': async (request) => answerOf(await query(request, request.parameters ?? []), request, limits),
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
      const fault = faults.take(request.sql ?? '');
      const injected = () => failure(fault?.error ?? 'ServiceUnavailableError', fault?.message ?? 'Injected fault');
      if (fault?.kind === 'delay') await sleep(fault.ms ?? 0);
      if (fault?.kind === 'reset-before') return null;
      if (fault?.kind === 'error-before') throw injected();
      const answer = await route(request).catch((error: unknown) => {
        throw serviceError(error);
      });
      if (fault?.kind === 'reset-after') return null;
      if (fault?.kind === 'error-after') throw injected();
      return { body: answer };
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
      await Promise.all([...pools.values()].map((pool) => pool.end()));
    },
  };
}

/** Each column is kept as PostgreSQL's text: the Data API gives times in UTC without a zone and decimals as strings. */
const textOf = (text: string): string => text;

/** Type numbers of PostgreSQL's catalog, pg_type. */
const integerTypes = new Set([20, 21, 23, 26]);
const floatTypes = new Set([700, 701]);
const booleanType = 16;
const byteaType = 17;
const textType = 25;
const timestamptzType = 1184;

function fieldOf(text: string | null, type: number): Field {
  if (text === null) return { isNull: true };
  if (integerTypes.has(type)) return { longValue: Number(text) };
  if (floatTypes.has(type)) return { doubleValue: Number(text) };
  if (type === booleanType) return { booleanValue: text === 't' };
  if (type === byteaType) return { blobValue: Buffer.from(text.slice(2), 'hex').toString('base64') };
  if (type === timestamptzType) return { stringValue: text.replace(/[+-]\d\d(:\d\d)?$/, '') };
  return { stringValue: text };
}

/** By the time a result is too large the statement has run and is committed: that is what makes this error dangerous. */
function answerOf(result: pg.QueryArrayResult, request: Request, limits: DataApiLimits): string {
  const rows = result.fields.length > 0;
  const records = result.rows.map((row) => {
    const fields = row.map((text, place) => fieldOf(text, result.fields[place]?.dataTypeID ?? textType));
    if (Buffer.byteLength(JSON.stringify(fields)) <= limits.rowBytes) return fields;
    throw failure('UnsupportedResultException', `A row of the result exceeds ${limits.rowBytes} bytes`);
  });
  const answer = JSON.stringify({
    ...(rows ? { records } : {}),
    numberOfRecordsUpdated: rows ? 0 : (result.rowCount ?? 0),
    generatedFields: [],
    ...(request.includeResultMetadata ? { columnMetadata: result.fields.map(({ name }) => ({ name })) } : {}),
  });
  if (Buffer.byteLength(answer) <= limits.responseBytes) return answer;
  throw failure('UnsupportedResultException', `Database response exceeded size limit of ${limits.responseBytes} bytes`);
}

/**
 * The detail, which can hold a row's values, stands in the message as it does on AWS (seen in issue 46 of
 * cloud-utils/sqlalchemy-aurora-data-api), so that a log that leaks it leaks it here too.
 */
function serviceError(error: unknown): unknown {
  if (error instanceof ServiceError) return error;
  if (error instanceof pg.DatabaseError) {
    const { severity = 'ERROR', message, detail, position, code } = error;
    const more = `${detail ? `\n  Detail: ${detail}` : ''}${position ? `; Position: ${position}` : ''}`;
    return failure('DatabaseErrorException', `${severity}: ${message}${more}; SQLState: ${code}`);
  }
  const text = error instanceof Error ? error.message : String(error);
  if (text === 'Query read timeout') return failure('StatementTimeoutException', 'Request timed out');
  return failure('DatabaseUnavailableException', text);
}
