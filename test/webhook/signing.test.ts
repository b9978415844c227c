// Signing: what the Standard Webhooks verifier accepts, over the exact bytes that arrived, also during a rotation.
import type { IncomingHttpHeaders } from 'node:http';
import { Webhook } from 'standardwebhooks';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { deriveSigningSecret, type SigningRoots } from '../../lambdas/webhook/signing.ts';
import { type Receiver, startReceiver } from '../../lib/local/receiver.ts';
import { roots, send, trustedAuthority } from './sending.ts';

const older: SigningRoots = { current: 'the root secret that is about to be replaced' };
const rotating: SigningRoots = { current: roots.current, previous: older.current };
const secretOf = (one: SigningRoots, destination = 'partner'): Webhook =>
  new Webhook(deriveSigningSecret(one.current, destination));

describe('a signature', () => {
  let receiver: Receiver;
  let arrived: { headers: Record<string, string>; rawHeaders: IncomingHttpHeaders; body: Buffer };

  beforeAll(async () => {
    receiver = await startReceiver({
      authority: await trustedAuthority(),
      inspect: (_request, rawHeaders, body) => {
        arrived = { headers: rawHeaders as Record<string, string>, rawHeaders, body };
      },
    });
  });
  afterAll(() => receiver.close());

  const post = async (payload: string, signedWith: SigningRoots = roots): Promise<void> => {
    const result = await send({ url: receiver.url('/ok'), payload }, { roots: signedWith });
    expect(result).toMatchObject({ outcome: 'delivered', phase: 'body', status: 200, errorClass: null, detail: null });
  };
  const verify = (webhook: Webhook): unknown => webhook.verify(arrived.body, arrived.headers, { jsonParse: false });

  test.each([
    ['an object', '{"b":1,"a":2}', 'application/json'],
    ['a number no double can hold', '12345678901234567890', 'application/json'],
    ['composed and decomposed letters', '{"é":"é","name":"Zoë 👩‍👩‍👧"}', 'application/json'],
    ['32 KiB of quotes', '"'.repeat(32_768), 'text/plain; charset=utf-8'],
    ['32 KiB of JSON', JSON.stringify('\\'.repeat(16_383)), 'application/json'],
    ['text with line ends', 'a\r\nb\n', 'text/plain; charset=utf-8'],
    ['nothing', '', 'text/plain; charset=utf-8'],
  ])('verifies over %s, byte for byte', async (_name, payload, contentType) => {
    await post(payload);
    expect(arrived.body.equals(Buffer.from(payload, 'utf8'))).toBe(true);
    expect(arrived.rawHeaders['content-type']).toBe(contentType);
    expect(() => verify(secretOf(roots))).not.toThrow();
  });

  test('names the delivery and carries the key', async () => {
    await post('{}');
    expect(arrived.rawHeaders).toMatchObject({
      'webhook-id': '01980000-0000-7000-8000-000000000001',
      'idempotency-key': 'order-77',
      'user-agent': 'reminder-ledger/1',
      'accept-encoding': 'identity',
    });
  });

  test('verifies with the old and with the new secret while they overlap, and with the new alone after', async () => {
    await post('{}', older);
    expect(() => verify(secretOf(older))).not.toThrow();
    expect(() => verify(secretOf(roots))).toThrow('No matching signature');
    await post('{}', rotating);
    expect(() => verify(secretOf(older))).not.toThrow();
    expect(() => verify(secretOf(roots))).not.toThrow();
    await post('{}', roots);
    expect(() => verify(secretOf(older))).toThrow('No matching signature');
    expect(() => verify(secretOf(roots))).not.toThrow();
  });

  test('does not verify with the secret of another destination, over other bytes, or under another id', async () => {
    await post('{"amount":1}');
    expect(() => verify(secretOf(roots, 'other'))).toThrow('No matching signature');
    expect(() => secretOf(roots).verify('{"amount":2}', arrived.headers)).toThrow('No matching signature');
    expect(() => secretOf(roots).verify(arrived.body, { ...arrived.headers, 'webhook-id': 'x' })).toThrow(
      'No matching signature',
    );
  });
});

test('a derived secret is stable: partners hold it', () => {
  // Computed once from RFC 5869 with two HMACs, apart from the code under test.
  expect(deriveSigningSecret(roots.current, 'partner')).toBe('whsec_JMmbLIRFfCynp2lnEx0M8vZfQfkZxLEGGQ6OAgcFiD4=');
  expect(deriveSigningSecret(roots.current, 'partner-2')).not.toBe(deriveSigningSecret(roots.current, 'partner'));
});
