// The local Data API keeps AWS's manners: fields, hints, limits, errors, transactions, and faults on demand.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  BatchExecuteStatementCommand,
  BeginTransactionCommand,
  CommitTransactionCommand,
  ExecuteStatementCommand,
  type ExecuteStatementCommandInput,
  RDSDataClient,
  RollbackTransactionCommand,
} from '@aws-sdk/client-rds-data';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { region } from '../../lib/local/addresses.ts';
import { type DataApi, startDataApi } from '../../lib/local/data-api.ts';
import { type Postgres, startPostgres } from '../../lib/local/postgres.ts';

const directory = mkdtempSync(join(tmpdir(), 'reminder-ledger-data-api-'));
const secretArn = 'arn:aws:secretsmanager:us-east-1:000000000000:secret:owner';
const wrongSecretArn = 'arn:aws:secretsmanager:us-east-1:000000000000:secret:wrong';
let postgres: Postgres;
let api: DataApi;
let client: RDSDataClient;
let target: { resourceArn: string; secretArn: string; database: string };

beforeAll(async () => {
  postgres = await startPostgres({ directory, fresh: true });
  const { user, password } = postgres;
  const accounts = [
    { secretArn, user, password },
    { secretArn: wrongSecretArn, user, password: 'wrong' },
  ];
  api = await startDataApi({ postgres, accounts, limits: { statementMs: 1000, transactionIdleMs: 700 } });
  target = { resourceArn: api.resourceArn, secretArn, database: 'postgres' };
  const credentials = { accessKeyId: 'test', secretAccessKey: 'test' };
  client = new RDSDataClient({ endpoint: api.endpoint, region, credentials, maxAttempts: 1 });
  await execute('CREATE TABLE note (id uuid PRIMARY KEY, text text)');
});
afterEach(() => api.faults.clear());
afterAll(async () => {
  client.destroy();
  await api.close();
  await postgres.stop();
  rmSync(directory, { recursive: true });
});

const execute = (sql: string, more: Partial<ExecuteStatementCommandInput> = {}) =>
  client.send(new ExecuteStatementCommand({ ...target, sql, ...more }));
const first = async (sql: string, more: Partial<ExecuteStatementCommandInput> = {}) =>
  (await execute(sql, more)).records?.[0];
const count = async (id: string) => (await first(`SELECT count(*) FROM note WHERE id = '${id}'`))?.[0]?.longValue;
const insert = (id: string) => `INSERT INTO note VALUES ('${id}', 'x')`;

test('a result carries each type in its field: whole numbers, floats, booleans, bytes, decimals and times as text', async () => {
  const record =
    await first(`SELECT 3000000000::int8, 1::int2, 0.5::float8, true, '\\x00ff'::bytea, NULL::int4, 1.50::numeric,
    '{"b":1,"a":2}'::json, '2026-01-02T03:04:05.678+02:00'::timestamptz, '2026-01-02'::date, 'ä'::text`);
  expect(record).toEqual([
    { longValue: 3_000_000_000 },
    { longValue: 1 },
    { doubleValue: 0.5 },
    { booleanValue: true },
    { blobValue: new Uint8Array([0, 255]) },
    { isNull: true },
    { stringValue: '1.50' },
    { stringValue: '{"b":1,"a":2}' },
    { stringValue: '2026-01-02 01:04:05.678' },
    { stringValue: '2026-01-02' },
    { stringValue: 'ä' },
  ]);
});

test('counts come with writes, records with RETURNING, names with the metadata when asked', async () => {
  const id = crypto.randomUUID();
  expect(await execute(insert(id))).toMatchObject({ numberOfRecordsUpdated: 1, generatedFields: [] });
  expect((await execute(`UPDATE note SET text = 'y' WHERE id = '${id}' RETURNING text`)).records).toEqual([
    [{ stringValue: 'y' }],
  ]);
  const { columnMetadata } = await execute('SELECT 1 AS one', { includeResultMetadata: true });
  expect(columnMetadata?.map(({ name }) => name)).toEqual(['one']);
});

test('parameters are found outside quotes, dollar quotes, comments and casts alone, and may repeat', async () => {
  const sql = `SELECT ':a', "c:a", $t$ :a $t$, E'\\':a', 'it''s :a', :a || :a, '1'::int4 /* :a */ -- :a
    FROM (SELECT 1 AS "c:a") AS t`;
  const parameters = [{ name: 'a', value: { stringValue: 'X' } }];
  expect((await first(sql, { parameters }))?.map((field) => field.stringValue ?? field.longValue)).toEqual([
    ':a',
    1,
    ' :a ',
    "':a",
    "it's :a",
    'XX',
    1,
  ]);
});

test('a parameter has the type of its value or its hint: text does not become a uuid by itself', async () => {
  const value = { stringValue: crypto.randomUUID() };
  const types =
    'SELECT pg_typeof(:s)::text, pg_typeof(:l)::text, pg_typeof(:d)::text, pg_typeof(:b)::text, pg_typeof(:u)::text';
  const parameters = [
    { name: 's', value },
    { name: 'l', value: { longValue: 1 } },
    { name: 'd', value: { doubleValue: 1 } },
    { name: 'b', value: { booleanValue: true } },
    { name: 'u', value, typeHint: 'UUID' as const },
  ];
  expect((await first(types, { parameters }))?.map(({ stringValue }) => stringValue)).toEqual([
    'character varying',
    'bigint',
    'double precision',
    'boolean',
    'uuid',
  ]);
  const into = "INSERT INTO note VALUES (:id, 'x')";
  await expect(execute(into, { parameters: [{ name: 'id', value }] })).rejects.toThrow('column "id" is of type uuid');
  await execute("INSERT INTO note VALUES (CAST(:id AS uuid), 'x')", { parameters: [{ name: 'id', value }] });
  await execute('SELECT 1 WHERE CAST(:id AS uuid) IS NULL', { parameters: [{ name: 'id', value: { isNull: true } }] });
});

test('arrays, missing parameters, several statements and what is not imitated are refused', async () => {
  const array = { name: 'a', value: { arrayValue: { longValues: [1] } } };
  await expect(execute('SELECT :a', { parameters: [array] })).rejects.toThrow('Array parameters are not supported: a');
  await expect(execute('SELECT :a')).rejects.toThrow('Cannot find parameter: a');
  await expect(execute('SELECT 1; SELECT 2')).rejects.toThrow('SQLState: 42601');
  await expect(execute('SELECT 1', { formatRecordsAs: 'JSON' })).rejects.toThrow('formatRecordsAs is not imitated');
});

test('an error of the database has its name, position and SQLSTATE; the detail tells the values', async () => {
  await expect(execute('SELECT nothing')).rejects.toMatchObject({
    name: 'DatabaseErrorException',
    message: 'ERROR: column "nothing" does not exist; Position: 8; SQLState: 42703',
    $metadata: { httpStatusCode: 400 },
  });
  const id = crypto.randomUUID();
  await execute(insert(id));
  await expect(execute(insert(id))).rejects.toThrow(
    `"note_pkey"\n  Detail: Key (id)=(${id}) already exists.; SQLState: 23505`,
  );
});

test('an unknown cluster, an unknown secret and a wrong password are typed errors', async () => {
  await expect(execute('SELECT 1', { resourceArn: 'arn:other' })).rejects.toMatchObject({
    name: 'BadRequestException',
  });
  await expect(execute('SELECT 1', { secretArn: 'arn:other' })).rejects.toMatchObject({
    name: 'InvalidSecretException',
  });
  await expect(execute('SELECT 1', { secretArn: wrongSecretArn })).rejects.toThrow('SQLState: 28P01');
  await expect(execute('SELECT 1', { database: 'none' })).rejects.toThrow('SQLState: 3D000');
});

test('a row above 64 KB is refused after the statement ran; so is a response above 1 MiB', async () => {
  const id = crypto.randomUUID();
  const row = `INSERT INTO note VALUES ('${id}', repeat('x', 65536)) RETURNING text`;
  await expect(execute(row)).rejects.toMatchObject({ name: 'UnsupportedResultException' });
  expect(await count(id)).toBe(1);
  await expect(execute("SELECT repeat('x', 60000) FROM generate_series(1, 18)")).rejects.toMatchObject({
    name: 'UnsupportedResultException',
  });
  expect((await execute("SELECT repeat('x', 60000) FROM generate_series(1, 16)")).records).toHaveLength(16);
});

test('a request above 4 MiB is refused before anything runs', async () => {
  const id = crypto.randomUUID();
  await expect(execute(`${insert(id)} /* ${'x'.repeat(4 * 1024 * 1024)} */`)).rejects.toMatchObject({
    $metadata: { httpStatusCode: 413 },
  });
  expect(await count(id)).toBe(0);
});

test('a statement ends at the time limit', async () => {
  const sql = 'SELECT pg_sleep(20) /* endless */';
  await expect(execute(sql)).rejects.toMatchObject({ name: 'StatementTimeoutException' });
  const running =
    "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%endless%' AND pid <> pg_backend_pid()";
  for (let tries = 0; (await first(running))?.[0]?.longValue !== 0; tries += 1) {
    expect(tries).toBeLessThan(50);
    await sleep(100);
  }
});

test('a transaction is seen when committed, not when rolled back, and ends by an error or by idling', async () => {
  const begin = async () => (await client.send(new BeginTransactionCommand(target))).transactionId ?? '';
  const end = { resourceArn: target.resourceArn, secretArn };
  const [kept, undone] = [crypto.randomUUID(), crypto.randomUUID()];
  let transactionId = await begin();
  await execute(insert(kept), { transactionId });
  expect(await count(kept)).toBe(0);
  const { transactionStatus } = await client.send(new CommitTransactionCommand({ ...end, transactionId }));
  expect(transactionStatus).toBe('Transaction Committed');
  expect(await count(kept)).toBe(1);

  transactionId = await begin();
  await execute(insert(undone), { transactionId });
  await client.send(new RollbackTransactionCommand({ ...end, transactionId }));
  expect(await count(undone)).toBe(0);

  transactionId = await begin();
  await expect(execute(insert(kept), { transactionId })).rejects.toThrow('23505');
  const missing = { name: 'TransactionNotFoundException', message: `Transaction ${transactionId} is not found` };
  await expect(execute('SELECT 1', { transactionId })).rejects.toMatchObject(missing);

  transactionId = await begin();
  await execute(insert(undone), { transactionId });
  await sleep(1200);
  await expect(execute('SELECT 1', { transactionId })).rejects.toMatchObject({ name: 'TransactionNotFoundException' });
  expect(await count(undone)).toBe(0);
});

test('a batch runs its statement once for each set', async () => {
  const ids = [crypto.randomUUID(), crypto.randomUUID()];
  const parameterSets = ids.map((id) => [{ name: 'id', value: { stringValue: id }, typeHint: 'UUID' as const }]);
  const sql = "INSERT INTO note VALUES (:id, 'x')";
  const answer = await client.send(new BatchExecuteStatementCommand({ ...target, sql, parameterSets }));
  expect(answer.updateResults).toHaveLength(2);
  expect(await Promise.all(ids.map(count))).toEqual([1, 1]);
});

test('a database has its own sessions, in UTC, with the search path the database sets', async () => {
  await postgres.createDatabase('elsewhere');
  await execute('CREATE SCHEMA sim', { database: 'elsewhere' });
  await execute('ALTER DATABASE elsewhere SET search_path = sim', { database: 'postgres' });
  await execute("ALTER DATABASE elsewhere SET timezone = 'Asia/Tokyo'", { database: 'postgres' });
  await api.close();
  const { user, password } = postgres;
  api = await startDataApi({ postgres, accounts: [{ secretArn, user, password }] });
  client = new RDSDataClient({
    endpoint: api.endpoint,
    region,
    credentials: { accessKeyId: 'a', secretAccessKey: 'b' },
    maxAttempts: 1,
  });
  const sql = "SELECT current_database()::text, current_setting('search_path'), current_setting('TimeZone')";
  expect((await first(sql, { database: 'elsewhere' }))?.map(({ stringValue }) => stringValue)).toEqual([
    'elsewhere',
    'sim',
    'UTC',
  ]);
});

test.each([
  ['reset-before', 0, { code: 'ECONNRESET' }],
  ['reset-after', 1, { code: 'ECONNRESET' }],
  ['error-before', 0, { name: 'DatabaseResumingException' }],
  ['error-after', 1, { name: 'DatabaseResumingException' }],
] as const)('%s: %i rows were written, and the fault hits one matching statement', async (kind, rows, error) => {
  const id = crypto.randomUUID();
  api.faults.next({ kind, match: new RegExp(`INSERT.*${id}`), error: 'DatabaseResumingException' });
  expect(await count(id)).toBe(0);
  await expect(execute(insert(id))).rejects.toMatchObject(error);
  expect(await count(id)).toBe(rows);
  await expect(execute('SELECT 1')).resolves.toBeDefined();
});

test('a fault can delay a statement, carry a message and hit several times; statements are counted', async () => {
  api.faults.next({ kind: 'delay', ms: 300, match: /slow/ });
  const begun = performance.now();
  await execute('SELECT 1 /* slow */');
  expect(performance.now() - begun).toBeGreaterThanOrEqual(295);
  const message = 'ERROR: deadlock detected; SQLState: 40P01';
  api.faults.next({ kind: 'error-before', error: 'DatabaseErrorException', message, times: 2 });
  const before = api.statements();
  await expect(execute('SELECT 1')).rejects.toThrow(message);
  await expect(execute('SELECT 1')).rejects.toThrow(message);
  await execute('SELECT 1');
  expect(api.statements() - before).toBe(1);
});

test.each([
  ['timeout-before', 0],
  ['timeout-after', 1],
] as const)('%s: no answer comes, and %i rows were written', async (kind, rows) => {
  const id = crypto.randomUUID();
  const fault = { kind, naming: id };
  api.faults.next(fault);
  const impatient = new RDSDataClient({
    ...{ endpoint: api.endpoint, region, credentials: { accessKeyId: 'a', secretAccessKey: 'b' }, maxAttempts: 1 },
    requestHandler: { requestTimeout: 300, throwOnRequestTimeout: true },
  });
  const sql = "INSERT INTO note VALUES (CAST(:id AS uuid), 'x')";
  const other = [{ name: 'id', value: { stringValue: crypto.randomUUID() } }];
  await impatient.send(new ExecuteStatementCommand({ ...target, sql, parameters: other }));
  expect(api.faults.taken(fault), 'it names another').toEqual([]);
  const own = [{ name: 'id', value: { stringValue: id } }];
  const asked = impatient.send(new ExecuteStatementCommand({ ...target, sql, parameters: own }));
  await expect(asked).rejects.toMatchObject({ name: 'TimeoutError' });
  impatient.destroy();
  expect(await count(id)).toBe(rows);
  expect(api.faults.taken(fault)).toHaveLength(1);
});

test('a statement runs twice and its second answer is given; an answer is lost by what it names', async () => {
  const id = crypto.randomUUID();
  api.faults.next({ kind: 'twice', naming: id });
  await expect(execute(insert(id)), 'the second meets the first').rejects.toThrow('23505');
  expect(await count(id)).toBe(1);
  api.faults.next({ kind: 'error-after', naming: id });
  await expect(execute("SELECT 'nothing of it'")).resolves.toBeDefined();
  await expect(execute('SELECT id::text FROM note')).rejects.toMatchObject({ name: 'ServiceUnavailableError' });
});
