// The signing roots by the real AWS client, against a server that answers as Secrets Manager does.
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import {
  SigningKeysError,
  secretsClient,
  signingKeys,
  signingKeysFreshMs,
} from '../../lambdas/webhook/signing-keys.ts';

const arn = 'arn:aws:secretsmanager:us-east-1:000000000000:secret:signing';
const current = 'the root secret that signs at present';
const previous = 'the root secret that signed before that';

let server: Server;
let answer: () => { status: number; body: unknown } | undefined;
let asked: unknown[] = [];
const before = { ...process.env };

beforeAll(async () => {
  server = createServer(async (incoming, response) => {
    asked.push(JSON.parse((await incoming.toArray()).join('')));
    const given = answer();
    if (given === undefined) return;
    response.writeHead(given.status, { 'content-type': 'application/x-amz-json-1.1' });
    response.end(JSON.stringify(given.body));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  Object.assign(process.env, {
    AWS_ENDPOINT_URL_SECRETS_MANAGER: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    AWS_REGION: 'us-east-1',
    AWS_ACCESS_KEY_ID: 'test',
    AWS_SECRET_ACCESS_KEY: 'test',
  });
});
afterAll(() => {
  process.env = before;
  server.closeAllConnections();
  server.close();
});
beforeEach(() => {
  asked = [];
});

const secretString = (text: string) => () => ({ status: 200, body: { ARN: arn, Name: 'signing', SecretString: text } });

test('are fetched once for all who wait, and again when they are five minutes old', async () => {
  answer = secretString(JSON.stringify({ current }));
  let now = 1_000_000;
  const keys = signingKeys(arn, secretsClient(), () => now);
  expect(await Promise.all([keys(), keys(), keys()])).toEqual(Array(3).fill({ current }));
  expect(asked).toEqual([{ SecretId: arn }]);

  answer = secretString(JSON.stringify({ current: previous, previous: current }));
  now += signingKeysFreshMs - 1;
  expect(await keys()).toEqual({ current });
  now += 1;
  expect(await keys()).toEqual({ current: previous, previous: current });
  expect(asked).toHaveLength(2);
  now -= 60_000;
  await keys();
  expect(asked).toHaveLength(3);
});

test('that cannot be had are a typed error, and the next asks again', async () => {
  answer = () => ({ status: 400, body: { __type: 'ResourceNotFoundException', message: `no ${current}` } });
  const keys = signingKeys(arn, secretsClient());
  const failed = await Promise.allSettled([keys(), keys()]);
  for (const one of failed) {
    expect(one).toMatchObject({ status: 'rejected', reason: expect.any(SigningKeysError) });
    expect(String((one as PromiseRejectedResult).reason)).toContain('ResourceNotFoundException');
    expect(String((one as PromiseRejectedResult).reason)).not.toContain(current);
  }
  expect(asked).toHaveLength(1);
  answer = secretString(JSON.stringify({ current }));
  expect(await keys()).toEqual({ current });
});

test('that do not come in time are a typed error after two tries', async () => {
  answer = () => undefined;
  await expect(signingKeys(arn, secretsClient())()).rejects.toThrow(SigningKeysError);
  expect(asked).toHaveLength(2);
});

test.each([
  ['no JSON', `{"current": "${current}`, 'the whole'],
  ['no object', JSON.stringify(current), 'the whole'],
  ['another field', JSON.stringify({ current, next: previous }), 'the whole'],
  ['no current root', JSON.stringify({ previous }), 'current'],
  ['a short root', JSON.stringify({ current: 'the root secret' }), 'current'],
  ['a previous root that is no text', JSON.stringify({ current, previous: 7 }), 'previous'],
])('with %s are refused, and the error does not tell them', async (_name, text, path) => {
  answer = secretString(text);
  const error = await signingKeys(arn, secretsClient())().catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(SigningKeysError);
  expect(String(error)).toContain(arn);
  expect(String(error)).toContain(`at ${path};`);
  expect(String(error)).not.toContain('the root secret');
  expect((error as Error).cause).toBeUndefined();
});
