// The event bus keeps what it accepts and refuses entry by entry; secrets are found by their ARN.
import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { EventBridgeClient, PutEventsCommand } from '@aws-sdk/client-eventbridge';
import {
  DescribeSecretCommand,
  GetSecretValueCommand,
  PutSecretValueCommand,
  SecretsManagerClient,
  UpdateSecretVersionStageCommand,
} from '@aws-sdk/client-secrets-manager';
import { expect, test } from 'vitest';
import { region } from '../../lib/local/addresses.ts';
import { startEventBus } from '../../lib/local/event-bus.ts';
import { startSecrets } from '../../lib/local/secrets.ts';

const common = { region, credentials: { accessKeyId: 'test', secretAccessKey: 'test' }, maxAttempts: 1 };

test('a bus keeps entries in order and answers each in its place', async () => {
  const bus = await startEventBus();
  const client = new EventBridgeClient({ ...common, endpoint: bus.endpoint });
  const entry = (Detail: string) => ({ Source: 'test', DetailType: 'x', Detail, EventBusName: bus.name });
  const put = (...Entries: ReturnType<typeof entry>[]) => client.send(new PutEventsCommand({ Entries }));
  bus.faults.next({ match: /"b"/, code: 'ThrottlingException' });
  const large = JSON.stringify({ text: 'x'.repeat(256 * 1024) });
  const answer = await put(entry('{"n":"a"}'), entry('{"n":"b"}'), entry('{"n":"c"}'), entry('no json'), entry(large));
  expect(answer.FailedEntryCount).toBe(3);
  expect(answer.Entries?.map(({ EventId, ErrorCode }) => (EventId === undefined ? ErrorCode : 'accepted'))).toEqual([
    'accepted',
    'ThrottlingException',
    'accepted',
    'MalformedDetail',
    'InvalidArgument',
  ]);
  expect((await put(entry('{"n":"b"}'))).FailedEntryCount).toBe(0);
  expect(bus.events.map(({ Detail }) => Detail)).toEqual(['{"n":"a"}', '{"n":"c"}', '{"n":"b"}']);
  await expect(put(...Array.from({ length: 11 }, () => entry('{}')))).rejects.toThrow('got 11 entries');
  bus.faults.next({ kind: 'error-after', naming: '"n":"d"' });
  await expect(put(entry('{"n":"d"}'))).rejects.toMatchObject({ name: 'InternalException' });
  bus.faults.next({ kind: 'twice', match: /"e"/ });
  await put(entry('{"n":"e"}'));
  expect(bus.events.slice(3).map(({ Detail }) => Detail)).toEqual(['{"n":"d"}', '{"n":"e"}', '{"n":"e"}']);
  client.destroy();
  await bus.close();
});

test('a secret is answered by its ARN, another is not found', async () => {
  const arn = 'arn:aws:secretsmanager:us-east-1:000000000000:secret:one';
  const secrets = await startSecrets(new Map([[arn, '{"a":1}']]));
  const client = new SecretsManagerClient({ ...common, endpoint: secrets.endpoint });
  expect(await client.send(new GetSecretValueCommand({ SecretId: arn }))).toMatchObject({
    SecretString: '{"a":1}',
    ARN: arn,
  });
  secrets.faults.next({ kind: 'error-before', match: /^GetSecretValue .*:one$/ });
  await expect(client.send(new GetSecretValueCommand({ SecretId: arn }))).rejects.toMatchObject({
    name: 'InternalServiceError',
  });
  await expect(client.send(new GetSecretValueCommand({ SecretId: `${arn}2` }))).rejects.toMatchObject({
    name: 'ResourceNotFoundException',
  });
  client.destroy();
  await secrets.close();
});

test('a secret goes from version to version by its labels, and what is kept outlives a restart', async () => {
  const SecretId = 'arn:aws:secretsmanager:us-east-1:000000000000:secret:login';
  const directory = mkdtempSync(join(tmpdir(), 'reminder-ledger-secrets-'));
  const kept = { file: join(directory, 'kept.json'), begin: new Map([[SecretId, 'one']]) };
  let secrets = await startSecrets(new Map(), kept);
  const client = new SecretsManagerClient({ ...common, endpoint: secrets.endpoint });
  const labels = async () => (await client.send(new DescribeSecretCommand({ SecretId }))).VersionIdsToStages ?? {};
  const value = async (more: object) =>
    (await client.send(new GetSecretValueCommand({ SecretId, ...more }))).SecretString;
  const put = (SecretString: string) =>
    client.send(
      new PutSecretValueCommand({ SecretId, ClientRequestToken: token, VersionStages: ['AWSPENDING'], SecretString }),
    );
  const move = (RemoveFromVersionId: string, MoveToVersionId: string) =>
    client.send(
      new UpdateSecretVersionStageCommand({
        SecretId,
        VersionStage: 'AWSCURRENT',
        RemoveFromVersionId,
        MoveToVersionId,
      }),
    );
  const token = '11111111-1111-4111-8111-111111111111';
  const [first = ''] = Object.keys(await labels());

  expect(secrets.announceVersion(SecretId, token)).toBe(token);
  expect(secrets.announceVersion(SecretId, 'another')).toBe(token);
  const pending = { VersionId: token, VersionStage: 'AWSPENDING' };
  await expect(value(pending)).rejects.toMatchObject({ name: 'ResourceNotFoundException' });
  await put('two');
  await put('two');
  await expect(put('three')).rejects.toMatchObject({ name: 'ResourceExistsException' });
  expect([await value(pending), await value({}), secrets.current(SecretId)]).toEqual(['two', 'one', 'one']);

  await expect(move(token, token)).rejects.toMatchObject({ name: 'InvalidParameterException' });
  await move(first, token);
  expect(await labels()).toEqual({ [first]: ['AWSPREVIOUS'], [token]: ['AWSPENDING', 'AWSCURRENT'] });
  await move(token, first);
  expect(await labels()).toEqual({ [first]: ['AWSCURRENT'], [token]: ['AWSPENDING', 'AWSPREVIOUS'] });
  await move(first, token);

  client.destroy();
  await secrets.close();
  expect(statSync(kept.file).mode & 0o777).toBe(0o600);
  secrets = await startSecrets(new Map(), { ...kept, begin: new Map([[SecretId, 'other']]) });
  expect(secrets.current(SecretId)).toBe('two');
  await secrets.close();
  rmSync(directory, { recursive: true });
});
