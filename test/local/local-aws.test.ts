// Local AWS as a whole: the bundles that deploy carry a reminder from schedule to delivered, and its data last.
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { InvokeCommand, LambdaClient } from '@aws-sdk/client-lambda';
import { ExecuteStatementCommand, RDSDataClient } from '@aws-sdk/client-rds-data';
import { GetSecretValueCommand, SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type LocalAws, type LocalAwsOptions, startLocalAws } from '../../lib/local/local-aws.ts';
import { type Receiver, startReceiver } from '../../lib/local/receiver.ts';
import { testAuthority } from '../../lib/local/test-authority.ts';

const directory = mkdtempSync(join(tmpdir(), 'reminder-ledger-local-aws-'));
let options: LocalAwsOptions;
let receiver: Receiver;
let aws: LocalAws;

beforeAll(async () => {
  const authority = await testAuthority({ directory: join(directory, 'test-authority') });
  receiver = await startReceiver({ authority });
  options = { stage: 'rehearsal', directory, fresh: true, caFile: authority.caFile };
  aws = await startLocalAws(options);
}, 60_000);
afterAll(async () => {
  await aws.stop();
  await receiver.close();
  rmSync(directory, { recursive: true });
});

async function sql(text: string, values: unknown[] = []): Promise<Record<string, unknown>[]> {
  const client = new pg.Client(aws.databaseUrl);
  await client.connect();
  const { rows } = await client.query(text, values).finally(() => client.end());
  return rows;
}
async function eventually<Value>(look: () => Promise<Value | undefined> | Value | undefined): Promise<Value> {
  for (const end = Date.now() + 20_000; ; await sleep(50)) {
    const found = await look();
    if (found !== undefined) return found;
    expect(Date.now(), 'in time').toBeLessThan(end);
  }
}
const client = () => ({
  region: aws.environment.AWS_REGION,
  credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
  maxAttempts: 1,
});

test('a reminder goes from schedule to delivered, not before it is due, and is announced', async () => {
  await sql(
    `INSERT INTO destination (destination_id, name, url, owner, contract, state, state_since, policy, created_at)
     VALUES (gen_random_uuid(), 'partner', $1, 'test', 'honours-key', 'active', now(), '{}', now())`,
    [receiver.url('/ok')],
  );
  const dueAt = Date.now() + 1500;
  const command = { verb: 'schedule', key: 'k1', destination: 'partner', userId: 'u', payload: { a: 1 } };
  const answer = await aws.invoke('schedule', { ...command, dueAt: new Date(dueAt).toISOString() }, 'shop');
  expect(answer).toMatchObject({ answer: 'scheduled' });
  const received = await eventually(() => receiver.requests[0]);
  expect(received.idempotencyKey).toBe('k1');
  expect(received.at).toBeGreaterThanOrEqual(dueAt);
  const row = await eventually(async () => (await sql("SELECT * FROM reminder_delivery WHERE state = 'delivered'"))[0]);
  expect(row).toMatchObject({ producer: 'shop', idempotency_key: 'k1' });
  aws.scheduler.tickNow();
  const event = await eventually(() => aws.bus.events[0]);
  expect(JSON.parse(event.Detail ?? '')).toMatchObject({ state: 'delivered' });
  expect(aws.host.environments().map(({ functionName }) => functionName)).toContain('webhook-sender');
}, 30_000);

test('a command line finds it by endpoints.json, and its errors come as AWS gives them', async () => {
  const running = JSON.parse(readFileSync(join(directory, 'endpoints.json'), 'utf8'));
  expect(running).toMatchObject({ pid: process.pid, stage: 'rehearsal', outputs: aws.outputs });
  const lambda = new LambdaClient({ ...client(), endpoint: running.environment.AWS_ENDPOINT_URL_LAMBDA });
  const FunctionName = running.outputs.ScheduleFunctionName;
  const Payload = JSON.stringify({ verb: 'get', key: 'k1' });
  const { Payload: answer } = await lambda.send(new InvokeCommand({ FunctionName, Payload, Qualifier: 'shop' }));
  expect(JSON.parse(answer?.transformToString() ?? '')).toMatchObject({ answer: 'found', state: 'delivered' });
  lambda.destroy();
});

test('the owner of the database is no superuser; its login is a secret like the signing key', async () => {
  const data = new RDSDataClient({ ...client(), endpoint: aws.dataApi.endpoint });
  const target = {
    resourceArn: aws.outputs.DatabaseArn,
    secretArn: aws.outputs.DatabaseOwnerSecretArn,
    database: 'ledger',
  };
  const text = 'SELECT current_user::text, rolsuper FROM pg_roles WHERE rolname = current_user';
  const { records } = await data.send(new ExecuteStatementCommand({ ...target, sql: text }));
  expect(records).toEqual([[{ stringValue: 'ledger_owner' }, { booleanValue: false }]]);
  data.destroy();
  const secrets = new SecretsManagerClient({ ...client(), endpoint: aws.environment.AWS_ENDPOINT_URL_SECRETS_MANAGER });
  const secret = async (SecretId = '') =>
    JSON.parse((await secrets.send(new GetSecretValueCommand({ SecretId }))).SecretString ?? '');
  expect(await secret(aws.outputs.DatabaseOwnerSecretArn)).toMatchObject({ username: 'ledger_owner' });
  expect((await secret(aws.outputs.SigningSecretArn)).current.length).toBeGreaterThanOrEqual(32);
  secrets.destroy();
});

test('a second one on the same directory is refused and harms nothing', async () => {
  await expect(startLocalAws({ ...options, fresh: true })).rejects.toThrow(
    /process \d+ already runs.*another directory/,
  );
  expect(existsSync(join(directory, 'endpoints.json'))).toBe(true);
  expect(await sql('SELECT state FROM reminder_delivery')).toEqual([{ state: 'delivered' }]);
});

test('it stops without leftovers, and starts again with its reminders, its signing key and its rotated logins', async () => {
  const pids = aws.host.environments().map(({ pid }) => pid);
  const key = readFileSync(join(directory, 'signing-secret.json'), 'utf8');
  const observer = aws.outputs.DatabaseObserverSecretArn ?? '';
  await aws.rotateSecret(observer);
  await aws.stop();
  expect(existsSync(join(directory, 'endpoints.json'))).toBe(false);
  for (const pid of pids) expect(() => process.kill(pid, 0), `process ${pid}`).toThrow('ESRCH');
  aws = await startLocalAws({ ...options, fresh: false });
  expect(await sql('SELECT state FROM reminder_delivery')).toEqual([{ state: 'delivered' }]);
  expect(readFileSync(join(directory, 'signing-secret.json'), 'utf8')).toBe(key);
  const data = new RDSDataClient({ ...client(), endpoint: aws.dataApi.endpoint });
  const target = { resourceArn: aws.outputs.DatabaseArn, secretArn: observer, database: 'ledger' };
  const { records } = await data.send(new ExecuteStatementCommand({ ...target, sql: 'SELECT current_user::text' }));
  expect(records).toEqual([[{ stringValue: 'ledger_observer_b' }]]);
  data.destroy();
}, 30_000);

test('missing bundles are named, with what to do', async () => {
  const missing = startLocalAws({ ...options, functionsDirectory: join(directory, 'nowhere') });
  await expect(missing).rejects.toThrow(/no bundle of migrate; run `npm run build`/);
});
