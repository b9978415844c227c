// The webhook client against receivers that behave in every bad way: each end is a value, in time, and leaves no socket.
import { connect as connectTcp, createServer as createTcpServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { createServer as createTlsServer } from 'node:tls';
import { generate } from 'selfsigned';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { AttemptResult } from '../../lambdas/core/ports.ts';
import { webhookClient } from '../../lambdas/webhook/webhook-client.ts';
import { type Receiver, startReceiver } from '../../lib/local/receiver.ts';
import type { TestAuthority } from '../../lib/local/test-authority.ts';
import { answering, hangUp, listen, saying, unusedUrl } from './bad-peers.ts';
import { loopback, partner, resolvesTo, roots, send, socketsOpenedBy, trustedAuthority } from './sending.ts';

let authority: TestAuthority;
let receiver: Receiver;

beforeAll(async () => {
  authority = await trustedAuthority();
  receiver = await startReceiver({ authority });
});
afterAll(async () => {
  hangUp();
  await receiver.close();
});

describe('a failure before bytes leave is definite', () => {
  test('nobody listens', async () => {
    expect(await send({ url: await unusedUrl() })).toMatchObject({
      outcome: 'retry',
      phase: 'connect',
      errorClass: 'connect_refused',
      status: null,
    });
  });

  test('nobody listens at any of several addresses', async () => {
    const { port } = new URL(await unusedUrl());
    const result = await send({ url: `https://${partner}:${port}/` }, { lookup: resolvesTo('127.0.0.1', '127.0.0.9') });
    expect(result).toMatchObject({ outcome: 'retry', phase: 'connect', errorClass: 'connect_refused' });
    expect(result.detail).toContain('127.0.0.9');
  });

  test('the name is not known', async () => {
    const result = await send({ url: 'https://no-such-partner.invalid/' });
    expect(result).toMatchObject({ outcome: 'retry', phase: 'dns' });
    expect(result.errorClass).toMatch(/^dns_/);
  });

  test('the certificate is not under a trusted authority', async () => {
    const alien = await generate([{ name: 'commonName', value: 'localhost' }], { keyType: 'ec', algorithm: 'sha256' });
    const url = await listen(createTlsServer({ key: alien.private, cert: alien.cert }));
    const opened = await socketsOpenedBy(async () => {
      expect(await send({ url })).toMatchObject({ outcome: 'retry', phase: 'tls', errorClass: 'tls_certificate' });
    });
    expect(opened.map((socket) => socket.closed)).toEqual([true]);
  });

  test('the certificate is for another name', async () => {
    const { port } = new URL(receiver.url('/'));
    const before = receiver.requests.length;
    const result = await send({ url: `https://other.example:${port}/ok` }, { lookup: resolvesTo('127.0.0.1') });
    expect(result).toMatchObject({ outcome: 'retry', phase: 'tls', errorClass: 'tls_certificate' });
    expect(receiver.requests).toHaveLength(before);
  });

  test('it does not speak TLS', async () => {
    const url = await listen(createTcpServer((socket) => void socket.write('HTTP/1.1 400 Bad Request\r\n\r\n')));
    const opened = await socketsOpenedBy(async () => {
      expect(await send({ url })).toMatchObject({ outcome: 'retry', phase: 'tls', errorClass: 'tls_failed' });
    });
    expect(opened.map((socket) => socket.closed)).toEqual([true]);
  });

  test('it hangs up in the handshake', async () => {
    const url = await listen(createTcpServer((socket) => void socket.once('data', () => socket.destroy())));
    expect(await send({ url })).toMatchObject({ outcome: 'retry', phase: 'tls', errorClass: 'connection_closed' });
  });

  test('the deadline passes in the handshake', async () => {
    const url = await listen(createTcpServer());
    const opened = await socketsOpenedBy(async () => {
      const result = await send({ url, deadlineMs: 300 });
      expect(result).toMatchObject({ outcome: 'retry', phase: 'tls', errorClass: 'deadline' });
    });
    expect(opened.map((socket) => socket.closed)).toEqual([true]);
  });

  test('the deadline passes while the name is resolved', async () => {
    const never = () => new Promise<never>(() => undefined);
    const result = await send({ url: 'https://partner.example/', deadlineMs: 50 }, { lookup: never });
    expect(result).toMatchObject({ outcome: 'retry', phase: 'dns', errorClass: 'deadline' });
  });
});

describe.concurrent('without an answer after bytes may have left it is unknown', () => {
  test('the connection is cut', async () => {
    const result = await send({ url: receiver.url('/reset/once') });
    expect(result).toMatchObject({ outcome: 'unknown', phase: 'written', errorClass: 'connection_closed' });
    // One request: nothing sends it again behind our back.
    await sleep(100);
    expect(receiver.requests.filter(({ path }) => path === '/reset/once')).toHaveLength(1);
  });

  test('the peer ends politely', async () => {
    const result = await send({ url: await answering(authority, (socket) => socket.end()) });
    expect(result).toMatchObject({ outcome: 'unknown', phase: 'written', errorClass: 'connection_closed' });
  });

  test('it never answers', async () => {
    const result = await send({ url: receiver.url('/hang'), deadlineMs: 2500 });
    expect(result).toMatchObject({ outcome: 'unknown', phase: 'written', errorClass: 'deadline' });
    expect(result.latencyMs).toBeGreaterThanOrEqual(2490);
    expect(result.latencyMs).toBeLessThan(10_000);
  });

  test('its headers do not end', async () => {
    // Cut off at a size, long before the deadline.
    const result = await send({ url: receiver.url('/headers'), deadlineMs: 4000 });
    expect(result).toMatchObject({ outcome: 'unknown', phase: 'written', errorClass: 'response_headers_too_large' });
  });

  test('its headers come a byte at a time', async () => {
    const url = await answering(authority, async (socket) => {
      for (const letter of `HTTP/1.1 200 OK\r\nx: ${'y'.repeat(1000)}`) {
        if (!socket.writable) return;
        socket.write(letter);
        await sleep(30);
      }
    });
    const result = await send({ url, deadlineMs: 2500 });
    expect(result).toMatchObject({ outcome: 'unknown', phase: 'written', errorClass: 'deadline' });
  });

  test('it answers no HTTP', async () => {
    const result = await send({ url: await saying(authority, '220 mail.example ESMTP\r\n') });
    expect(result).toMatchObject({ outcome: 'unknown', phase: 'written', errorClass: 'response_malformed' });
  });

  test('it only ever says that an answer will come', async () => {
    const url = await answering(authority, async (socket) => {
      while (socket.writable) {
        socket.write('HTTP/1.1 103 Early Hints\r\n\r\n');
        await sleep(30);
      }
    });
    const result = await send({ url, deadlineMs: 2500 });
    expect(result).toMatchObject({ outcome: 'unknown', phase: 'written', status: null, errorClass: 'deadline' });
  });

  test('it changes the protocol', async () => {
    const url = await saying(
      authority,
      'HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n',
    );
    expect(await send({ url })).toMatchObject({ outcome: 'unknown', phase: 'written', status: null });
  });
});

describe.concurrent('an answer decides when its headers are in', () => {
  test.each([
    ['/ok', 200, 'delivered', null],
    ['/status/204', 204, 'delivered', null],
    ['/status/400', 400, 'permanent', 'http_400'],
    ['/status/410', 410, 'gone', 'http_410'],
    ['/status/503', 503, 'retry', 'http_503'],
    ['/huge/200', 200, 'delivered', null],
    ['/huge/500', 500, 'retry', 'http_500'],
  ])('%s', async (path, status, outcome, errorClass) => {
    const result = await send({ url: receiver.url(path) });
    expect(result).toMatchObject({ status, outcome, errorClass, phase: 'body' });
    expect(result.latencyMs).toBeLessThan(20_000);
  });

  test.each([
    ['/stall/200', 'delivered', 'headers'],
    ['/stall/503', 'retry', 'headers'],
    ['/trickle/200', 'delivered', 'body'],
    ['/trickle/422', 'permanent', 'body'],
  ])('%s, whose body has no end, at the deadline', async (path, outcome, phase) => {
    const result = await send({ url: receiver.url(path), deadlineMs: 2500 });
    expect(result).toMatchObject({ outcome, phase });
    expect(result.latencyMs).toBeLessThan(10_000);
  });

  test('a body that breaks off', async () => {
    const url = await answering(authority, (socket) => {
      socket.write('HTTP/1.1 202 Accepted\r\ncontent-length: 100\r\n\r\nshort', () =>
        setTimeout(() => socket.destroy(), 50),
      );
    });
    expect(await send({ url })).toMatchObject({ outcome: 'delivered', status: 202, phase: 'body' });
  });

  test('after hints', async () => {
    const url = await saying(authority, 'HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n');
    expect(await send({ url })).toMatchObject({ outcome: 'delivered', status: 200 });
  });

  test('and says when to ask again', async () => {
    expect(await send({ url: receiver.url('/status/429/17') })).toMatchObject({
      outcome: 'retry',
      retryAfterSeconds: 17,
    });
    // By the receiver's own clock, which is decades behind.
    const url = await saying(
      authority,
      'HTTP/1.1 503 Busy\r\ndate: Sun, 06 Nov 1994 08:49:37 GMT\r\nretry-after: Sun, 06 Nov 1994 08:50:37 GMT\r\ncontent-length: 0\r\n\r\n',
    );
    expect(await send({ url })).toMatchObject({ outcome: 'retry', retryAfterSeconds: 60, detail: '503 Busy' });
  });
});

describe('a fault of ours is not sent', () => {
  test.each([
    ['a key that no header can carry', { key: 'a\nb' }, 'request_invalid'],
    ['a deadline that is no number', { deadlineMs: Number.NaN }, 'internal'],
  ])('%s', async (_name, fault, errorClass) => {
    const before = receiver.requests.length;
    expect(await send({ url: receiver.url('/ok'), ...fault })).toMatchObject({ outcome: 'not_sent', errorClass });
    expect(receiver.requests).toHaveLength(before);
  });
});

describe('the caller may give up', () => {
  test('before it begins', async () => {
    const opened = await socketsOpenedBy(async () => {
      const result = await send({ url: receiver.url('/ok') }, { signal: AbortSignal.abort() });
      expect(result).toMatchObject({ outcome: 'not_sent', phase: 'none', errorClass: 'aborted' });
    });
    expect(opened).toHaveLength(0);
  });

  test('in the handshake', async () => {
    const url = await listen(createTcpServer());
    const result = await send({ url }, { signal: AbortSignal.timeout(200) });
    expect(result).toMatchObject({ outcome: 'not_sent', phase: 'tls', errorClass: 'aborted' });
  });

  test('after bytes left', async () => {
    const controller = new AbortController();
    const url = await answering(authority, () => controller.abort());
    const result = await send({ url }, { signal: controller.signal });
    expect(result).toMatchObject({ outcome: 'unknown', phase: 'written', errorClass: 'aborted' });
  });

  test('by closing the session', async () => {
    const arrived = Promise.withResolvers<void>();
    const url = await answering(authority, () => arrived.resolve());
    const session = await webhookClient({ signingKeys: async () => roots, trusted: loopback }).prepare();
    const request = { deliveryId: 'x', key: 'k', destination: 'd', url, payload: '{}', deadlineMs: 20_000 };
    const attempt = session.post(request, new AbortController().signal);
    await arrived.promise;
    await session.close();
    expect(await attempt).toMatchObject({ outcome: 'unknown', phase: 'written', errorClass: 'aborted' });
  });
});

describe('a session', () => {
  test('is refused when the keys cannot be had', async () => {
    const failing = webhookClient({
      signingKeys: async () => {
        throw new Error('no keys');
      },
    });
    await expect(failing.prepare()).rejects.toThrow('no keys');
  });

  test('sends side by side: one that hangs delays no other', async () => {
    const session = await webhookClient({ signingKeys: async () => roots, trusted: loopback }).prepare();
    const paths = ['/hang', '/stall/200', ...Array.from({ length: 8 }, (_, no) => `/ok/${no}`)];
    const ended: string[] = [];
    const results = await Promise.all(
      paths.map(async (path, no): Promise<AttemptResult> => {
        const names = {
          deliveryId: `delivery-${no}`,
          key: `key-${no}`,
          destination: 'partner',
          url: receiver.url(path),
        };
        const signal = new AbortController().signal;
        const result = await session.post({ ...names, payload: `"${no}"`, deadlineMs: 4000 }, signal);
        ended.push(path);
        return result;
      }),
    );
    await session.close();
    expect(results.map(({ outcome }) => outcome)).toEqual(['unknown', ...Array(9).fill('delivered')]);
    expect(ended.slice(-2).sort()).toEqual(['/hang', '/stall/200']);
  });
});

// Apart from the others, whose deadlines it would use up: signing so much takes the processor.
test('a peer that stops taking what is sent is left at the deadline', async () => {
  const behind = new URL(receiver.url('/ok'));
  let taken = 0;
  const url = await listen(
    createTcpServer((socket) => {
      const onward = connectTcp(Number(behind.port), behind.hostname);
      onward.on('error', () => undefined).pipe(socket);
      socket.on('data', (chunk) => {
        taken += chunk.length;
        onward.write(chunk);
        if (taken > 100_000) socket.pause();
      });
    }),
  );
  const payload = 'x'.repeat(20_000_000);
  const result = await send({ url, payload, deadlineMs: 6000 });
  expect(result).toMatchObject({ outcome: 'unknown', phase: 'written', errorClass: 'deadline' });
  expect(taken).toBeLessThan(payload.length);
});

test('the name that is asked for is told in the handshake and in the request, whichever address is dialled', async () => {
  const told: unknown[] = [];
  const url = await listen(
    createTlsServer({ key: authority.key, cert: authority.cert }, (socket) => {
      socket.once('data', (data) => {
        told.push(socket.servername, /^host: .*$/im.exec(data.toString('latin1'))?.[0]);
        socket.end('HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n');
      });
    }),
  );
  const { port } = new URL(url);
  const result = await send({ url: `https://${partner}:${port}/` }, { lookup: resolvesTo('127.0.0.1') });
  expect(result).toMatchObject({ outcome: 'delivered' });
  expect(told).toEqual([partner, `host: ${partner}:${port}`]);
});

test.each([
  ['/ok', 'delivered'],
  ['/status/500', 'retry'],
  ['/hang', 'unknown'],
  ['/reset', 'unknown'],
  ['/headers', 'unknown'],
  ['/huge/200', 'delivered'],
  ['/stall/200', 'delivered'],
])('when %s has ended its socket is closed', async (path, outcome) => {
  const sockets = await socketsOpenedBy(async () => {
    const session = await webhookClient({ signingKeys: async () => roots, trusted: loopback }).prepare();
    const request = { deliveryId: 'x', key: 'k', destination: 'd', url: receiver.url(path), payload: '{}' };
    const result = await session.post({ ...request, deadlineMs: 2500 }, new AbortController().signal);
    expect(result).toMatchObject({ outcome });
  });
  expect(sockets.map((socket) => socket.closed)).toEqual([true]);
});
