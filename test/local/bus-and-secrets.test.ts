// The event bus keeps what it accepts and refuses entry by entry; secrets are found by their ARN.
import { EventBridgeClient, PutEventsCommand } from '@aws-sdk/client-eventbridge';
import { GetSecretValueCommand, SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
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
  await expect(client.send(new GetSecretValueCommand({ SecretId: `${arn}2` }))).rejects.toMatchObject({
    name: 'ResourceNotFoundException',
  });
  client.destroy();
  await secrets.close();
});
