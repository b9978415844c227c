// Nothing that was sent comes back in what is kept of an answer.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { redactor } from '../../lambdas/webhook/redaction.ts';
import { type Receiver, startReceiver } from '../../lib/local/receiver.ts';
import { send, trustedAuthority } from './sending.ts';

const canaries = {
  payload: 'canaryPayload7731',
  name: 'Zoë',
  number: '4929123456',
  key: 'canary-key-5512',
  query: 'canaryQuery9204',
  path: 'canaryPath1188',
};
const payload = JSON.stringify({ token: canaries.payload, name: canaries.name, card: Number(canaries.number) });

describe('an attempt', () => {
  let receiver: Receiver;
  beforeAll(async () => {
    receiver = await startReceiver({ authority: await trustedAuthority() });
  });
  afterAll(() => receiver.close());

  test.each(['/echo/500', '/echo/422', '/echo/200', '/status/503', '/reset', '/redirect', '/headers'])(
    'that ends as %s leaks nothing',
    async (path) => {
      const url = `${receiver.url(path)}/${canaries.path}?token=${canaries.query}`;
      const result = await send({ url, payload, key: canaries.key });
      const kept = JSON.stringify(result);
      for (const canary of Object.values(canaries)) expect(kept).not.toContain(canary);
      if (result.status === 200) expect(result.detail).toBeNull();
    },
  );

  test.each([
    'not-a-url',
    'http://partner.example',
    'https://10.0.0.1',
    'https://user:word@partner.example',
    'https://127.0.0.1:1',
  ])('to %s leaks nothing', async (origin) => {
    const url = `${origin}/${canaries.path}?token=${canaries.query}`;
    const result = await send({ url, payload, key: canaries.key });
    expect(result.outcome).toBe('retry');
    const kept = JSON.stringify(result);
    for (const canary of Object.values(canaries)) expect(kept).not.toContain(canary);
    expect(kept).not.toContain('word@');
  });

  test('keeps what the receiver says in its own words', async () => {
    const result = await send({ url: receiver.url('/echo/422'), payload, key: canaries.key });
    expect(result.detail).toMatch(/^422 Unprocessable Entity: refused \*\*\*/);
  });
});

describe('redaction', () => {
  const redact = redactor([payload, canaries.key, `/hook/${canaries.path}?q=blue+velvet&city=Z%C3%BCrich`]);

  test.each([
    ['the whole', payload],
    ['a word of it', `invalid value ${canaries.name}`],
    ['another case', canaries.payload.toUpperCase()],
    ['within another word', `x${canaries.payload}y`],
    ['a part of it', canaries.payload.slice(3, 12)],
    ['its decomposed letters', canaries.name.normalize('NFD')],
    ['a number', canaries.number],
    ['the last digits of a number', canaries.number.slice(-6)],
    ['a parameter', 'blue velvet'],
    ['a parameter, decoded', 'Zürich'],
  ])('strikes %s', (_name, text) => {
    const kept = redact(`error: ${text}`).normalize('NFC').toLowerCase();
    for (const word of ['canary', 'zoë', '4929', '123456', 'blue', 'velvet', 'rich', 'payload'])
      expect(kept).not.toContain(word);
    expect(kept).toMatch(/^error: .*\*\*\*/);
  });

  test('strikes what was sent in escapes and comes back as letters', () => {
    expect(redactor(['{"name":"Ren\\u00e9e"}'])('no Renée here')).toBe('no *** here');
  });

  test('keeps one line, below 1 KiB, that PostgreSQL can hold', () => {
    expect(redact('\r\n first line\nsecond')).toBe('first line');
    expect(redact('a\u0000b\tc')).toBe('a b c');
    for (const letter of ['x', 'é', '漢', '👩']) {
      const kept = redact(letter.repeat(5000));
      expect(Buffer.byteLength(kept)).toBeLessThanOrEqual(1020);
      expect(kept.isWellFormed()).toBe(true);
      expect(kept.length).toBeGreaterThan(300);
    }
  });
});
