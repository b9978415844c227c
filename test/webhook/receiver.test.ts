// The local receiver and its test authority: what demo and drills rely on when they read its journal.
import { createHash } from 'node:crypto';
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type ReceivedRequest, type Receiver, startReceiver } from '../../lib/local/receiver.ts';
import { testAuthority } from '../../lib/local/test-authority.ts';
import { send, trustedAuthority } from './sending.ts';

let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'receiver-'));
});
afterAll(() => rm(directory, { recursive: true }));

describe('the receiver', () => {
  let receiver: Receiver;
  let journalFile: string;
  beforeAll(async () => {
    journalFile = join(directory, 'journal.jsonl');
    receiver = await startReceiver({ authority: await trustedAuthority(), journalFile });
  });
  afterAll(() => receiver.close());

  const journal = async (webhookId: string): Promise<ReceivedRequest[]> => {
    const lines = (await readFile(journalFile, 'utf8')).trimEnd().split('\n');
    return lines.map((line) => JSON.parse(line) as ReceivedRequest).filter((one) => one.webhookId === webhookId);
  };

  test('journals a request as it arrives and as it is answered', async () => {
    const seen: number[] = [];
    receiver.on('request', ({ no }) => void seen.push(no));
    const payload = '{"text":"héllo"}';
    const started = Date.now();
    await send({ url: receiver.url('/ok'), deliveryId: 'journalled', key: 'its-key', payload });
    const [arrived, answered, ...more] = await journal('journalled');
    expect(more).toEqual([]);
    expect(arrived).toMatchObject({ end: 'open', status: null, bodySha256: null, bodyBytes: null });
    expect(answered).toMatchObject({
      ...arrived,
      end: 'answered',
      status: 200,
      bodySha256: createHash('sha256').update(payload).digest('hex'),
      bodyBytes: Buffer.byteLength(payload),
    });
    expect(answered).toMatchObject({ method: 'POST', path: '/ok', idempotencyKey: 'its-key' });
    expect(answered?.signature).toMatch(/^v1,/);
    expect(Math.abs(Number(answered?.webhookTimestamp) * 1000 - started)).toBeLessThan(60_000);
    expect(answered?.at).toBeGreaterThanOrEqual(started);
    expect(seen).toContain(answered?.no);
  });

  test('fails as often as the path says, for each webhook id', async () => {
    const statuses = async (deliveryId: string): Promise<(number | null)[]> => {
      const all: (number | null)[] = [];
      for (let no = 0; no < 4; no += 1) all.push((await send({ url: receiver.url('/fail/2'), deliveryId })).status);
      return all;
    };
    expect(await statuses('first')).toEqual([500, 500, 200, 200]);
    expect(await statuses('second')).toEqual([500, 500, 200, 200]);
  });

  test.each([
    ['/slow/50', 200],
    ['/status/418', 418],
    ['/redirect', 302],
    ['/unheard-of', 404],
  ])('%s answers %i', async (path, status) => {
    expect((await send({ url: receiver.url(path) })).status).toBe(status);
  });

  test('lets a drill kill the sender in the middle of a POST, once', async () => {
    const sender = new AbortController();
    let kills = 0;
    receiver.onArrival('killed', () => {
      kills += 1;
      sender.abort();
    });
    const url = receiver.url('/ok');
    const first = await send({ url, deliveryId: 'killed' }, { signal: sender.signal });
    expect(first).toMatchObject({ outcome: 'unknown', phase: 'written' });
    const second = await send({ url, deliveryId: 'killed' });
    expect(second).toMatchObject({ outcome: 'delivered' });
    expect(kills).toBe(1);
    const lines = await journal('killed');
    expect(lines.filter(({ end }) => end === 'open')).toHaveLength(2);
    expect(lines.filter(({ end }) => end === 'answered').map(({ no }) => no)).toContain(lines.at(-1)?.no);
    expect(new Set(lines.map(({ idempotencyKey }) => idempotencyKey)).size).toBe(1);
  });

  test('holds the answer until the hook is done', async () => {
    const order: string[] = [];
    receiver.onArrival('held', async () => {
      await new Promise((resolve) => setTimeout(resolve, 100));
      order.push('hook');
    });
    await send({ url: receiver.url('/ok'), deliveryId: 'held' }).then(() => order.push('answer'));
    expect(order).toEqual(['hook', 'answer']);
  });

  test('journals what it never answered as cut', async () => {
    await send({ url: receiver.url('/reset'), deliveryId: 'cut' });
    await expect.poll(async () => (await journal('cut')).map(({ end }) => end)).toEqual(['open', 'cut']);
  });
});

describe('the test authority', () => {
  test('is kept, keeps no authority key, and is made anew when a name is missing or it is unreadable', async () => {
    const place = join(directory, 'authority');
    const first = await testAuthority({ directory: place });
    expect(await testAuthority({ directory: place })).toEqual(first);
    expect((await readdir(place)).filter((file) => file.endsWith('.pem'))).toHaveLength(1);
    expect(await readFile(first.caFile, 'utf8')).not.toContain('PRIVATE KEY');
    expect((await stat(join(place, 'receiver.json'))).mode & 0o077).toBe(0);

    const second = await testAuthority({ directory: place, names: ['partner.test'] });
    expect(second.cert).not.toBe(first.cert);
    await rm(second.caFile);
    expect((await testAuthority({ directory: place })).cert).not.toBe(second.cert);
    await writeFile(join(place, 'receiver.json'), 'not json');
    expect((await testAuthority({ directory: place })).caFile).toContain(place);
  });

  test('made by several at once serves each with what it trusts', async () => {
    const place = join(directory, 'at-once');
    const made = await Promise.all([1, 2, 3].map(() => testAuthority({ directory: place })));
    for (const { caFile } of made) expect(await readFile(caFile, 'utf8')).toContain('BEGIN CERTIFICATE');
    expect(made).toContainEqual(await testAuthority({ directory: place }));
  });
});
