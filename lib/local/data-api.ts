// The RDS Data API over a local PostgreSQL, with the manners of AWS: limits, error names, zone-less times, SQLSTATE.
import { randomUUID } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { arn } from './addresses.ts';
import type { Postgres } from './postgres.ts';
import { bindParameters, type Field, type Parameter } from './sql-parameters.ts';

/** Limits of the Data API (Amazon Aurora User Guide, "Limitations with the RDS Data API"). */
const limits = { requestBytes: 4 * 1024 * 1024, responseBytes: 1024 * 1024, rowBytes: 64 * 1024, statementMs: 45_000 };
const transactionIdleMs = 180_000;

/** A login: the secret that a caller names, and the database user it stands for. */
export interface DatabaseLogin {
  readonly secretArn: string;
  readonly user: string;
  readonly password: string;
}

/** Something that shall go wrong with statements to come. */
export interface DataApiFault {
  /** Which statements; default: any. */
  readonly match?: RegExp;
  /** `reset-*`: the connection breaks before or after the statement ran. `error-*`: an error answer before or after. */
  readonly kind: 'reset-before' | 'reset-after' | 'error-before' | 'error-after' | 'delay';
  /** The error's name for `error-*`. @default ServiceUnavailableError */
  readonly error?: string;
  /** For `delay`. */
  readonly ms?: number;
  /** @default 1 */
  readonly times?: number;
}

export interface DataApi {
  readonly endpoint: string;
  readonly resourceArn: string;
  readonly faults: { next(fault: DataApiFault): void; clear(): void };
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

interface Transaction {
  readonly client: pg.PoolClient;
  expiry: NodeJS.Timeout;
}

/** The HTTP status of each error (service model of the RDS Data API). */
const statusOf: Readonly<Record<string, number>> = {
  ForbiddenException: 403,
  AccessDeniedException: 403,
  TransactionNotFoundException: 404,
  DatabaseNotFoundException: 404,
  InternalServerErrorException: 500,
  ServiceUnavailableError: 503,
  DatabaseUnavailableException: 504,
};

class ServiceError extends Error {
  constructor(name: string, message: string) {
    super(message);
    this.name = name;
  }
}

/** Serves the cluster `resourceArn` to the given logins. */
export async function startDataApi(options: {
  postgres: Postgres;
  accounts: readonly DatabaseLogin[];
  port?: number;
}): Promise<DataApi> {
  const resourceArn = arn('rds', 'cluster:reminder-ledger');
  const pools = new Map<string, pg.Pool>();
  const transactions = new Map<string, Transaction>();
  let faults: (DataApiFault & { left: number })[] = [];
  let statements = 0;

  function poolFor(request: Request): pg.Pool {
    if (request.resourceArn !== resourceArn) {
      throw new ServiceError('BadRequestException', `HttpEndpoint is not enabled for resource ${request.resourceArn}`);
    }
    const login = options.accounts.find(({ secretArn }) => secretArn === request.secretArn);
    if (login === undefined)
      throw new ServiceError('InvalidSecretException', 'The secret is not valid for this cluster');
    const database = request.database ?? 'postgres';
    const key = JSON.stringify([login.user, database]);
    let pool = pools.get(key);
    if (pool === undefined) {
      const { host, port } = options.postgres;
      pool = new pg.Pool({
        host,
        port,
        user: login.user,
        password: login.password,
        database,
        max: 40,
        idleTimeoutMillis: 5000,
        query_timeout: limits.statementMs,
        options: '-c TimeZone=UTC',
      });
      // A server that stops ends idle connections; the next call meets the error itself.
      pool.on('error', () => undefined);
      pools.set(key, pool);
    }
    return pool;
  }

  function transactionOf(id: string): Transaction {
    const transaction = transactions.get(id);
    if (transaction === undefined)
      throw new ServiceError('TransactionNotFoundException', `Transaction ${id} is not found`);
    transaction.expiry.refresh();
    return transaction;
  }

  async function end(id: string, command: 'COMMIT' | 'ROLLBACK'): Promise<void> {
    const { client, expiry } = transactionOf(id);
    transactions.delete(id);
    clearTimeout(expiry);
    try {
      await client.query(command);
    } finally {
      client.release();
    }
  }

  async function query(request: Request, parameters: readonly Parameter[]): Promise<pg.QueryArrayResult> {
    const bound = bindParameters(request.sql ?? '', parameters);
    // The extended protocol refuses a second statement in one call, as the Data API does.
    const config = {
      ...bound,
      rowMode: 'array' as const,
      queryMode: 'extended',
      types: { getTypeParser: () => textOf },
    };
    const transaction = request.transactionId === undefined ? undefined : transactionOf(request.transactionId);
    const client = transaction?.client ?? (await poolFor(request).connect());
    let broken: Error | undefined;
    try {
      statements += 1;
      return await client.query(config);
    } catch (error) {
      if (transaction !== undefined) await end(request.transactionId ?? '', 'ROLLBACK').catch(() => undefined);
      broken = error instanceof Error && !('code' in error) ? error : undefined;
      throw error;
    } finally {
      if (transaction === undefined) client.release(broken);
    }
  }

  const routes: Readonly<Record<string, (request: Request) => Promise<unknown>>> = {
    '/Execute': async (request) => executeAnswer(await query(request, request.parameters ?? []), request),
    '/BatchExecute': async (request) => {
      for (const parameters of request.parameterSets ?? [[]]) await query(request, parameters);
      return { updateResults: (request.parameterSets ?? []).map(() => ({ generatedFields: [] })) };
    },
    '/BeginTransaction': async (request) => {
      const client = await poolFor(request).connect();
      await client.query('BEGIN');
      const transactionId = randomUUID();
      const expiry = setTimeout(() => void end(transactionId, 'ROLLBACK').catch(() => undefined), transactionIdleMs);
      expiry.unref();
      transactions.set(transactionId, { client, expiry });
      return { transactionId };
    },
    '/CommitTransaction': async (request) => {
      await end(request.transactionId ?? '', 'COMMIT');
      return { transactionStatus: 'Transaction Committed' };
    },
    '/RollbackTransaction': async (request) => {
      await end(request.transactionId ?? '', 'ROLLBACK');
      return { transactionStatus: 'Rollback Complete' };
    },
  };

  function takeFault(sql: string): DataApiFault | undefined {
    const fault = faults.find(({ match }) => match === undefined || match.test(sql));
    if (fault === undefined) return undefined;
    fault.left -= 1;
    if (fault.left <= 0) faults = faults.filter((other) => other !== fault);
    return fault;
  }

  async function handle(message: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      const body = await bodyOf(message);
      const request = JSON.parse(body) as Request;
      const route = routes[message.url ?? ''];
      if (route === undefined) throw new ServiceError('BadRequestException', `Unknown operation ${message.url}`);
      const fault = takeFault(request.sql ?? '');
      const injected = () => new ServiceError(fault?.error ?? 'ServiceUnavailableError', 'Injected fault');
      if (fault?.kind === 'delay') await sleep(fault.ms ?? 0);
      if (fault?.kind === 'reset-before') return void message.socket.destroy();
      if (fault?.kind === 'error-before') throw injected();
      const answer = await route(request);
      if (fault?.kind === 'reset-after') return void message.socket.destroy();
      if (fault?.kind === 'error-after') throw injected();
      send(response, 200, JSON.stringify(answer));
    } catch (error) {
      const { name, message: text } = serviceError(error);
      send(response, statusOf[name] ?? 400, JSON.stringify({ message: text }), { 'x-amzn-errortype': name });
    }
  }

  const server = createServer((message, response) => void handle(message, response));
  server.listen(options.port ?? 0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  return {
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    resourceArn,
    faults: {
      next: (fault) => void faults.push({ ...fault, left: fault.times ?? 1 }),
      clear: () => {
        faults = [];
      },
    },
    statements: () => statements,
    async close() {
      for (const id of [...transactions.keys()]) await end(id, 'ROLLBACK').catch(() => undefined);
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      await Promise.all([...pools.values()].map((pool) => pool.end()));
    },
  };
}

async function bodyOf(message: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of message as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes <= limits.requestBytes) chunks.push(chunk);
  }
  if (bytes > limits.requestBytes) throw new ServiceError('BadRequestException', 'Request size exceeds 4 MiB');
  return Buffer.concat(chunks).toString('utf8');
}

function send(response: ServerResponse, status: number, body: string, headers: Record<string, string> = {}): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(body);
}

/** Each column is kept as PostgreSQL's text: the Data API gives times in UTC without a zone and decimals as strings. */
const textOf = (text: string): string => text;

const integerTypes = new Set([20, 21, 23, 26]);
const floatTypes = new Set([700, 701]);
const booleanType = 16;
const byteaType = 17;
const timestamptz = 1184;

function fieldOf(text: unknown, type: number): Field {
  if (text === null || typeof text !== 'string') return { isNull: true };
  if (integerTypes.has(type)) return { longValue: Number(text) };
  if (floatTypes.has(type)) return { doubleValue: Number(text) };
  if (type === booleanType) return { booleanValue: text === 't' };
  if (type === byteaType) return { blobValue: Buffer.from(text.slice(2), 'hex').toString('base64') };
  if (type === timestamptz) return { stringValue: text.replace(/[+-]\d\d(:\d\d)?$/, '') };
  return { stringValue: text };
}

function executeAnswer(result: pg.QueryArrayResult, request: Request): unknown {
  let total = 0;
  const records = result.rows.map((row) => {
    const fields = row.map((value: unknown, place: number) => fieldOf(value, result.fields[place]?.dataTypeID ?? 25));
    const bytes = Buffer.byteLength(JSON.stringify(fields));
    total += bytes;
    // The statement has run and is committed by now: that is what makes this error dangerous.
    if (bytes > limits.rowBytes) throw new ServiceError('UnsupportedResultException', 'The result row exceeds 64 KB');
    return fields;
  });
  if (total > limits.responseBytes) {
    throw new ServiceError('UnsupportedResultException', 'Database response exceeded size limit');
  }
  const select = result.fields.length > 0;
  return {
    ...(select ? { records } : {}),
    numberOfRecordsUpdated: select ? 0 : (result.rowCount ?? 0),
    generatedFields: [],
    ...(request.includeResultMetadata ? { columnMetadata: result.fields.map(({ name }) => ({ name })) } : {}),
  };
}

function serviceError(error: unknown): Error {
  if (error instanceof pg.DatabaseError) {
    const position = error.position === undefined ? '' : `; Position: ${error.position}`;
    return new ServiceError('DatabaseErrorException', `ERROR: ${error.message}${position}; SQLState: ${error.code}`);
  }
  if (error instanceof ServiceError || (error instanceof Error && error.name.endsWith('Exception'))) return error;
  const text = error instanceof Error ? error.message : String(error);
  if (text === 'Query read timeout') return new ServiceError('StatementTimeoutException', 'Request timed out');
  return new ServiceError('DatabaseUnavailableException', text);
}
