// A receiver of webhooks for one machine: the path of a destination chooses how it behaves, a journal keeps what came.
import { createHash } from 'node:crypto';
import { EventEmitter, once } from 'node:events';
import { closeSync, openSync, writeSync } from 'node:fs';
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import type { TestAuthority } from './test-authority.ts';

/** One request as the receiver saw it; the last four fields are filled in as it goes on. */
export interface ReceivedRequest {
  /** In order of arrival, from 1. */
  readonly no: number;
  /** When its headers had arrived, epoch milliseconds. */
  readonly at: number;
  /** The same instant by this process's `performance.now()`. */
  readonly monotonic: number;
  readonly method: string;
  readonly path: string;
  readonly webhookId: string;
  readonly idempotencyKey: string;
  readonly webhookTimestamp: string;
  readonly signature: string;
  /** Null until the body is complete, which it never is when the sender dies while it sends. */
  bodySha256: string | null;
  bodyBytes: number | null;
  /** Null until an answer begins. */
  status: number | null;
  /** `cut`: the connection ended without an answer. */
  end: 'open' | 'answered' | 'cut';
}

export interface ReceiverOptions {
  readonly authority: TestAuthority;
  /** @default one that is free */
  readonly port?: number;
  /** The address to listen at, and the host of `url`. @default '127.0.0.1' */
  readonly host?: string;
  /**
   * A file that JSON lines are appended to: one as a request's headers arrive, one right before it is answered or once it
   * was cut. @default none
   */
  readonly journalFile?: string;
  /** Told of each request with all that came, once its body is complete. For tests that compare bytes. @default none */
  readonly inspect?: (request: ReceivedRequest, headers: IncomingHttpHeaders, body: Buffer) => void;
}

export interface Receiver {
  readonly port: number;
  /** Every request so far, in order of arrival. */
  readonly requests: readonly ReceivedRequest[];
  /** The URL of a path, such as `url('/fail/2')`. */
  url(path: string): string;
  /** Calls the listener as each request's headers arrive. */
  on(event: 'request', listener: (request: ReceivedRequest) => void): void;
  /**
   * Calls the hook once, as the headers of the next request with this webhook id arrive; its answer waits for what the hook
   * returns. For a drill that kills the sender in the middle of a POST.
   */
  onArrival(webhookId: string, hook: (request: ReceivedRequest) => void | Promise<void>): void;
  /** Cuts what is still open and stops listening. */
  close(): Promise<void>;
}

/** What a behaviour has to work with. */
interface Exchange {
  /** The segments of the path after the behaviour's name. */
  readonly rest: readonly string[];
  /** How many requests with this webhook id came to this path before. */
  readonly earlier: number;
  readonly body: Buffer;
  readonly incoming: IncomingMessage;
  readonly response: ServerResponse;
  /** Notes the status and sends the headers of an answer. */
  begin(status: number, headers?: Record<string, string>): void;
}

/** How the receiver behaves, by the first segment of the path. Segments that a behaviour does not read are free to use. */
const behaviours: Readonly<Record<string, (exchange: Exchange) => void | Promise<void>>> = {
  /** `/ok`: 200. */
  ok: (exchange) => answer(exchange, 200),
  /** `/fail/<n>`: 500 to the first n requests of each webhook id, then 200. */
  fail: (exchange) => answer(exchange, exchange.earlier < Number(exchange.rest[0]) ? 500 : 200),
  /** `/status/<code>[/<seconds>]`: that status, with `Retry-After`. */
  status: (exchange) => {
    const [code, seconds] = exchange.rest;
    answer(exchange, Number(code), seconds === undefined ? {} : { 'retry-after': seconds });
  },
  /** `/slow/<ms>`: 200 after that time. */
  slow: async (exchange) => {
    await sleep(Number(exchange.rest[0]), undefined, { ref: false });
    answer(exchange, 200);
  },
  /** `/hang`: takes everything and never answers. */
  hang: () => undefined,
  /** `/reset`: takes everything, then cuts the connection. */
  reset: ({ incoming }) => void incoming.socket.destroy(),
  /** `/redirect[/<code>]`: 302, or that status, to `/ok` of this receiver. */
  redirect: (exchange) => answer(exchange, Number(exchange.rest[0] ?? 302), { location: '/ok' }),
  /** `/echo/<code>`: that status, and back comes what was sent: key, URL and body. */
  echo: ({ rest, incoming, response, body, begin }) => {
    begin(Number(rest[0]));
    response.end(`refused ${incoming.headers['idempotency-key']} at ${incoming.url} for ${body}`);
  },
  /** `/stall/<code>`: the headers of an answer, and never its body. */
  stall: ({ rest, response, begin }) => {
    begin(Number(rest[0]));
    response.flushHeaders();
  },
  /** `/trickle/<code>`: the headers of an answer, then a byte every 50 ms for ever. */
  trickle: ({ rest, response, begin }) => {
    begin(Number(rest[0]));
    return pipeline(endless('.', 50), response);
  },
  /** `/huge/<code>`: an answer without an end, as fast as it is taken. */
  huge: ({ rest, response, begin }) => {
    begin(Number(rest[0]));
    return pipeline(endless('x'.repeat(64 * 1024)), response);
  },
  /** `/headers`: header lines without an end, as fast as they are taken. */
  headers: ({ incoming: { socket } }) => {
    socket.write('HTTP/1.1 200 OK\r\n');
    return pipeline(endless(`x-line: ${'x'.repeat(1000)}\r\n`), socket);
  },
};

async function* endless(piece: string, pauseMs = 0): AsyncGenerator<string> {
  for (;;) {
    yield piece;
    if (pauseMs > 0) await sleep(pauseMs, undefined, { ref: false });
  }
}

function answer({ begin, response }: Exchange, status: number, headers: Record<string, string> = {}): void {
  begin(status, headers);
  response.end(`${status}\n`);
}

/** Starts a receiver that speaks https under the test authority. Paths: see {@link behaviours}; others answer 404. */
export async function startReceiver(options: ReceiverOptions): Promise<Receiver> {
  const host = options.host ?? '127.0.0.1';
  const requests: ReceivedRequest[] = [];
  const counts = new Map<string, number>();
  const arrivals = new EventEmitter<{ request: [ReceivedRequest] }>();
  const hooks = new Map<string, (request: ReceivedRequest) => void | Promise<void>>();
  let journal = options.journalFile === undefined ? undefined : openSync(options.journalFile, 'a');
  const write = (request: ReceivedRequest): void => {
    // Synchronous, so that a line stands before whatever the request causes.
    if (journal !== undefined) writeSync(journal, `${JSON.stringify(request)}\n`);
  };

  const handle = async (incoming: IncomingMessage, response: ServerResponse): Promise<void> => {
    const request = arrived(incoming, requests.length + 1);
    const counted = `${request.webhookId} ${request.path}`;
    const earlier = counts.get(counted) ?? 0;
    counts.set(counted, earlier + 1);
    requests.push(request);
    write(request);
    response.once('close', () => {
      if (request.end !== 'open') return;
      request.end = 'cut';
      write(request);
    });
    arrivals.emit('request', request);
    const hook = hooks.get(request.webhookId);
    hooks.delete(request.webhookId);
    await hook?.(request);

    const body = await buffer(incoming);
    request.bodySha256 = createHash('sha256').update(body).digest('hex');
    request.bodyBytes = body.length;
    options.inspect?.(request, incoming.headers, body);
    const begin = (status: number, headers: Record<string, string> = {}): void => {
      if (response.destroyed) return;
      Object.assign(request, { status, end: 'answered' });
      write(request);
      response.writeHead(status, headers);
    };
    const [name = '', ...rest] = request.path.split('/').slice(1);
    const exchange = { rest, earlier, body, incoming, response, begin };
    await (behaviours[name] ?? (() => answer(exchange, 404)))(exchange);
  };

  const server = createServer({ key: options.authority.key, cert: options.authority.cert }, (incoming, response) => {
    // A sender that goes away ends the exchange; the journal has it as `cut`.
    response.on('error', () => response.destroy());
    handle(incoming, response).catch(() => response.destroy());
  });
  server.listen(options.port ?? 0, host);
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    port,
    requests,
    url: (path) => `https://${host.includes(':') ? `[${host}]` : host}:${port}${path}`,
    on: (event, listener) => void arrivals.on(event, listener),
    onArrival: (webhookId, hook) => void hooks.set(webhookId, hook),
    async close() {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
      if (journal !== undefined) closeSync(journal);
      journal = undefined;
    },
  };
}

function arrived(incoming: IncomingMessage, no: number): ReceivedRequest {
  const header = (name: string): string => [incoming.headers[name]].flat()[0] ?? '';
  return {
    no,
    at: Date.now(),
    monotonic: performance.now(),
    method: incoming.method ?? '',
    path: (incoming.url ?? '').replace(/\?.*$/, ''),
    webhookId: header('webhook-id'),
    idempotencyKey: header('idempotency-key'),
    webhookTimestamp: header('webhook-timestamp'),
    signature: header('webhook-signature'),
    bodySha256: null,
    bodyBytes: null,
    status: null,
    end: 'open',
  };
}
