// The receivers of a soak, in a process of their own: they act on what comes, and write a line for every request.
import { createHash } from 'node:crypto';
import { openSync, writeSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { draw, pick } from './draw.ts';

/** What the process is started with, as JSON in its first argument. */
export interface ReceiversOptions {
  /** PEM. */
  readonly key: string;
  /** PEM. */
  readonly cert: string;
  /** Lines of {@link Received} are appended to it. */
  readonly file: string;
  readonly seed: number;
}

/** One request as the receiver's file tells it. */
export interface Received {
  /** When its headers had arrived, epoch milliseconds. */
  readonly at: number;
  readonly id: string;
  readonly key: string;
  readonly destination: string;
  /** Null: its body never came to its end. */
  readonly sha256: string | null;
  /** Whether the receiver acted on it. */
  readonly processed: boolean;
  /** What it was answered; null: nothing. */
  readonly status: number | null;
}

/** What a receiver does with a request. */
interface Reaction {
  readonly processed: boolean;
  /** Null: it never answers. */
  readonly status: number | null;
  readonly afterMs?: number;
  /** Cuts the connection instead of answering. */
  readonly cut?: boolean;
}

const good: Reaction = { processed: true, status: 200 };

if (import.meta.main) {
  const { key, cert, file, seed }: ReceiversOptions = JSON.parse(process.argv[2] ?? '');
  const journal = openSync(file, 'a');
  const counts = new Map<string, number>();
  /** From then on every receiver is as it should be. */
  let well = false;

  /** By the key and how often it came: the ids are others in each run. */
  const react = (destination: string, of: string, earlier: number): Reaction => {
    if (well || !(destination === 'slow' || destination === 'failing' || destination === 'silent')) return good;
    if (destination === 'slow') return { ...good, afterMs: 200 + draw(seed, 'slow', of, earlier) * 500 };
    if (draw(seed, destination, of, earlier) > 0.3) return good;
    if (destination === 'silent') return { processed: true, status: null };
    const status = pick([500, 503, 429, null], seed, 'status', of, earlier);
    return { processed: false, status, cut: status === null };
  };

  const handle = async (incoming: IncomingMessage, response: ServerResponse): Promise<void> => {
    const at = Date.now();
    const header = (name: string) => String(incoming.headers[name] ?? '');
    const destination = (incoming.url ?? '').slice(1);
    const came = { at, id: header('webhook-id'), key: header('idempotency-key'), destination };
    const write = (rest: Pick<Received, 'sha256' | 'processed' | 'status'>) => {
      // Synchronous, so that the line stands before whatever the answer causes.
      writeSync(journal, `${JSON.stringify({ ...came, ...rest } satisfies Received)}\n`);
    };
    const body = await buffer(incoming).catch(() => null);
    if (body === null) return write({ sha256: null, processed: false, status: null });
    const sha256 = createHash('sha256').update(body).digest('hex');
    const earlier = counts.get(came.key) ?? 0;
    counts.set(came.key, earlier + 1);
    const { processed, status, afterMs = 0, cut = false } = react(destination, came.key, earlier);
    write({ sha256, processed, status });
    if (cut) return void incoming.socket.destroy();
    if (status === null) return;
    await sleep(afterMs);
    response.writeHead(status, status === 429 ? { 'retry-after': '1' } : {}).end();
  };

  const server = createServer({ key, cert }, (incoming, response) => {
    response.on('error', () => response.destroy());
    void handle(incoming, response);
  });
  server.listen(0, '127.0.0.1', () => process.send?.((server.address() as AddressInfo).port));
  process.on('message', () => {
    well = true;
  });
  process.on('disconnect', () => process.exit());
}
