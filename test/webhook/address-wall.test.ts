// The address wall: what the real client dials and what it must not, watched over every socket this process opens.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { AttemptResult } from '../../lambdas/core/ports.ts';
import {
  checkWebhookUrl,
  type Lookup,
  parseTrustedCidrs,
  TrustedCidrError,
  WebhookUrlError,
} from '../../lambdas/webhook/address-wall.ts';
import { type Receiver, startReceiver } from '../../lib/local/receiver.ts';
import { partner, resolvesTo, send, socketsOpenedBy, trustedAuthority } from './sending.ts';

/** Addresses that must not be dialled, each with the range it lies in. */
const blocked = [
  ['unspecified', '0.0.0.0'],
  ['"this network"', '0.1.2.3'],
  ['private', '10.0.0.1'],
  ['carrier-grade NAT', '100.64.0.1'],
  ['carrier-grade NAT, its end', '100.127.255.255'],
  ['loopback', '127.0.0.1'],
  ['loopback, its end', '127.255.255.254'],
  ['link-local, where cloud metadata is', '169.254.169.254'],
  ['private', '172.16.0.1'],
  ['private, its end', '172.31.255.255'],
  ['protocol assignments', '192.0.0.1'],
  ['documentation', '192.0.2.1'],
  ['6to4 relays', '192.88.99.1'],
  ['private', '192.168.1.1'],
  ['benchmarking', '198.18.0.1'],
  ['benchmarking, its end', '198.19.255.255'],
  ['documentation', '198.51.100.1'],
  ['documentation', '203.0.113.1'],
  ['multicast', '224.0.0.1'],
  ['reserved', '240.0.0.1'],
  ['broadcast', '255.255.255.255'],
  ['unspecified', '::'],
  ['loopback', '::1'],
  ['IPv4-compatible loopback', '::127.0.0.1'],
  ['IPv4-compatible metadata', '::a9fe:a9fe'],
  ['IPv4-mapped loopback', '::ffff:127.0.0.1'],
  ['IPv4-mapped, public', '::ffff:8.8.8.8'],
  ['IPv4-translated', '::ffff:0:127.0.0.1'],
  ['NAT64', '64:ff9b::7f00:1'],
  ['NAT64 for local use', '64:ff9b:1::a00:1'],
  ['discard', '100::1'],
  ['Teredo', '2001::1'],
  ['benchmarking', '2001:2::1'],
  ['ORCHID', '2001:20::1'],
  ['documentation', '2001:db8::1'],
  ['6to4 of loopback', '2002:7f00:1::1'],
  ['documentation', '3fff::1'],
  ['not allocated', '4000::1'],
  ['segment routing', '5f00::1'],
  ['unique local', 'fc00::1'],
  ['unique local, where EC2 metadata is', 'fd00:ec2::254'],
  ['link-local', 'fe80::1'],
  ['site-local', 'fec0::1'],
  ['multicast', 'ff02::1'],
] as const;

/** Other ways of writing such a host in a URL. */
const disguises = [
  'https://2130706433/',
  'https://0x7f000001/',
  'https://0x7f.1/',
  'https://017700000001/',
  'https://0177.0.0.1/',
  'https://127.1/',
  'https://0/',
  'https://3232235777/',
  'https://①②⑦.⓪.⓪.①/',
  'https://１２７。０。０。１/',
  'https://127.0.0.1%2e/',
  'https://[::ffff:7f00:1]/',
  'https://[0:0:0:0:0:ffff:127.0.0.1]/',
  'https://[::ffff:0x7f.1]/',
  'https://[fe80::1%25eth0]/',
] as const;

/** URLs that no webhook has. */
const malformed = [
  ['http://partner.example/', 'scheme'],
  ['ftp://partner.example/', 'scheme'],
  ['file:///etc/passwd', 'scheme'],
  ['javascript:alert(1)', 'scheme'],
  ['https://user@partner.example/', 'user'],
  ['https://:word@partner.example/', 'user'],
  ['https://partner.example:443@127.0.0.1/', 'user'],
  ['https://partner.example./', 'dot'],
  ['https://127.0.0.1./', 'blocked'],
  ['https://partner.example:0/', 'port'],
  ['https://partner.example:65536/', 'no URL'],
  ['https://', 'no URL'],
  ['partner.example/hook', 'no URL'],
  ['', 'no URL'],
  [`https://partner.example/${'x'.repeat(2048)}`, 'characters'],
] as const;

const bracketed = (address: string): string => (address.includes(':') ? `[${address}]` : address);

describe('the wall', () => {
  let canary: Server;
  let port: number;
  const seen: Socket[] = [];

  beforeAll(async () => {
    canary = createServer((socket) => void seen.push(socket));
    canary.listen(0, '0.0.0.0');
    await once(canary, 'listening');
    port = (canary.address() as { port: number }).port;
  });
  afterAll(() => void canary.close());

  /** Sends with nothing trusted, and says what came of it and that nothing was dialled. */
  async function refused(url: string, lookup: Lookup): Promise<AttemptResult> {
    const results: AttemptResult[] = [];
    const opened = await socketsOpenedBy(
      async () => void results.push(await send({ url, deadlineMs: 3000 }, { trusted: [], lookup })),
    );
    expect(opened).toHaveLength(0);
    expect(seen).toHaveLength(0);
    const [result] = results;
    if (result === undefined) throw new Error('no result');
    return result;
  }
  const unused: Lookup = async (host) => {
    throw new Error(`resolved ${host}`);
  };

  test.each(blocked)('lets no name lead to %s %s', async (_range, address) => {
    const result = await refused(`https://partner.example:${port}/`, resolvesTo(address));
    expect(result).toMatchObject({ outcome: 'retry', phase: 'dns', errorClass: 'address_blocked', status: null });
    expect(result.detail).toContain('WEBHOOK_TRUSTED_CIDRS');
  });

  test.each(blocked)('dials no literal: %s %s', async (_range, address) => {
    const result = await refused(`https://${bracketed(address)}:${port}/`, unused);
    expect(result).toMatchObject({ outcome: 'retry', phase: 'none', errorClass: 'address_blocked' });
  });

  test.each(disguises)('sees through %s', async (url) => {
    const result = await refused(url.replace(/\/$/, `:${port}/`), unused);
    expect(result.outcome).toBe('retry');
    expect(result.errorClass).toMatch(/^(address_blocked|url_refused)$/);
  });

  test.each(malformed)('refuses %s', async (url) => {
    const result = await refused(url, unused);
    expect(result).toMatchObject({ outcome: 'retry', phase: 'none' });
    expect(result.errorClass).toMatch(/^(address_blocked|url_refused)$/);
  });

  test.each([
    ['a private address behind a public one', ['93.184.216.34', '10.0.0.1']],
    ['a private address before a public one', ['10.0.0.1', '93.184.216.34']],
    ['loopback by IPv6 beside a public IPv4', ['93.184.216.34', '::1']],
    ['a zone', ['fe80::1%lo']],
    ['a zone on a public address', ['2606:2800:220::1%lo']],
    ['what is no address', ['127.1']],
  ])('checks every address of an answer: %s', async (_name, addresses) => {
    const result = await refused(`https://partner.example:${port}/`, resolvesTo(...addresses));
    expect(result).toMatchObject({ outcome: 'retry', phase: 'dns', errorClass: 'address_blocked' });
  });

  test('takes an empty answer for a host that does not exist', async () => {
    const result = await refused(`https://partner.example:${port}/`, resolvesTo());
    expect(result).toMatchObject({ outcome: 'retry', phase: 'dns', errorClass: 'dns_not_found' });
  });

  test('names localhost as blocked by the lookup of the operating system too', async () => {
    const opened = await socketsOpenedBy(async () => {
      const result = await send({ url: `https://localhost:${port}/` }, { trusted: [] });
      expect(result).toMatchObject({ outcome: 'retry', phase: 'dns', errorClass: 'address_blocked' });
    });
    expect(opened).toHaveLength(0);
  });
});

describe('what is dialled', () => {
  let receiver: Receiver;
  let canary: Server;
  let seen = 0;

  beforeAll(async () => {
    receiver = await startReceiver({ authority: await trustedAuthority(), host: '127.0.0.2' });
    canary = createServer((socket) => {
      seen += 1;
      socket.destroy();
    });
    canary.listen(receiver.port, '127.0.0.1');
    await once(canary, 'listening');
  });
  afterAll(async () => {
    canary.close();
    await receiver.close();
  });

  test('is what was checked, though the name leads elsewhere a moment later', async () => {
    let asked = 0;
    const rebinding: Lookup = async () => {
      asked += 1;
      return [asked === 1 ? '127.0.0.2' : '127.0.0.1'];
    };
    const url = `https://${partner}:${receiver.port}/ok`;
    const sending = { lookup: rebinding, trusted: parseTrustedCidrs('127.0.0.2/32') };
    const opened = await socketsOpenedBy(async () => {
      expect(await send({ url }, sending)).toMatchObject({ outcome: 'delivered' });
    });
    expect({ asked, seen, opened: opened.length }).toEqual({ asked: 1, seen: 0, opened: 1 });
    expect(await send({ url }, sending)).toMatchObject({ errorClass: 'address_blocked' });
    expect({ asked, seen }).toEqual({ asked: 2, seen: 0 });
  });

  test('is the next of several checked addresses when one refuses', async () => {
    const url = `https://${partner}:${receiver.port}/ok`;
    const result = await send({ url }, { lookup: resolvesTo('127.0.0.3', '127.0.0.2') });
    expect(result).toMatchObject({ outcome: 'delivered' });
  });

  test('is the first of several addresses though its handshake is slow, and the next refuses', async () => {
    // Stopped, it accepts nothing: once its backlog is full a handshake waits for the packet that is sent again after a second.
    const slow = spawn(process.execPath, [
      '-e',
      `const { connect, createServer } = require('node:net');
       const forward = (from) => from.pipe(connect(${receiver.port}, '127.0.0.2')).on('error', () => {}).pipe(from);
       createServer((socket) => forward(socket.on('error', () => {})))
         .listen({ port: ${receiver.port}, host: '127.0.0.4', backlog: 1 }, () => console.log('listening'));`,
    ]);
    const queued: Socket[] = [];
    try {
      await once(slow.stdout, 'data');
      slow.kill('SIGSTOP');
      for (let place = 0; place < 4; place += 1) queued.push(connect(receiver.port, '127.0.0.4').on('error', () => {}));
      await sleep(100);
      const sent = send(
        { url: `https://${partner}:${receiver.port}/ok` },
        { lookup: resolvesTo('127.0.0.4', '127.0.0.5') },
      );
      await sleep(600);
      for (const socket of queued) socket.destroy();
      slow.kill('SIGCONT');
      expect(await sent).toMatchObject({ outcome: 'delivered' });
    } finally {
      slow.kill('SIGKILL');
    }
  });

  test.each([301, 302, 303, 307, 308])('is never where a %i points', async (status) => {
    const before = receiver.requests.length;
    const url = `https://${partner}:${receiver.port}/redirect/${status}`;
    const result = await send({ url }, { lookup: resolvesTo('127.0.0.2') });
    expect(result).toMatchObject({ status, errorClass: `http_${status}`, phase: 'body' });
    expect(result.outcome).toBe([301, 308].includes(status) ? 'permanent' : 'retry');
    expect(receiver.requests.slice(before).map(({ path }) => path)).toEqual([`/redirect/${status}`]);
  });
});

describe('the check at registration', () => {
  test.each(malformed.filter(([, part]) => part !== 'blocked'))('%s: names what is wrong', (url, part) => {
    expect(() => checkWebhookUrl(url)).toThrow(WebhookUrlError);
    expect(() => checkWebhookUrl(url)).toThrow(part);
  });

  test.each([
    'https://partner.example/hook?token=x',
    'https://partner.example:8443/hook',
    'https://8.8.8.8/',
    'https://[2606:4700::1111]/',
    'https://bücher.example/',
  ])('%s passes', (url) => {
    expect(checkWebhookUrl(url).href).toBe(new URL(url).href);
  });

  test('opens what is trusted and nothing beside it', () => {
    const trusted = parseTrustedCidrs(' 127.0.0.0/8, ::1/128 ');
    expect(checkWebhookUrl('https://127.0.0.1:8443/ok', trusted).port).toBe('8443');
    expect(checkWebhookUrl('https://[::1]/', trusted).hostname).toBe('[::1]');
    for (const url of [
      'https://10.0.0.1/',
      'https://[::2]/',
      'https://[::ffff:127.0.0.1]/',
      'https://[::127.0.0.1]/',
    ]) {
      expect(() => checkWebhookUrl(url, trusted)).toThrow('public');
    }
  });

  test('shows neither path nor query of what it refuses', () => {
    for (const url of ['http://partner.example/secret?token=secret', 'https://10.0.0.1/secret?token=secret']) {
      expect(() => checkWebhookUrl(url)).toThrow(
        expect.objectContaining({ message: expect.not.stringContaining('secret') }),
      );
    }
  });
});

describe('WEBHOOK_TRUSTED_CIDRS', () => {
  test('absent or empty opens nothing', () => {
    for (const text of [undefined, '', ' ', ',']) expect(parseTrustedCidrs(text)).toEqual([]);
  });

  test.each([
    '127.0.0.1',
    '127.0.0.0/33',
    '127.0.0.0/-1',
    '127.0.0.0/',
    '127.1/8',
    '0x7f.0.0.0/8',
    '::1/129',
    'localhost/8',
    '127.0.0.0/8/8',
    '10.0.0.0/8;127.0.0.0/8',
  ])('refuses %s, naming it', (entry) => {
    expect(() => parseTrustedCidrs(`10.0.0.0/8,${entry}`)).toThrow(TrustedCidrError);
    expect(() => parseTrustedCidrs(`10.0.0.0/8,${entry}`)).toThrow(JSON.stringify(entry));
  });
});
