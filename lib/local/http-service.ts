// A small HTTP service on the loopback: what the imitated AWS services have in common.
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';

/** A request, read whole. */
export interface ServiceRequest {
  readonly method: string;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/**
 * The answer; `body` is sent as it is when a string, else as JSON. `null`: the connection breaks instead. `never`: nothing
 * comes until the caller gives up.
 */
export type ServiceAnswer =
  | {
      /** @default 200 */
      readonly status?: number;
      readonly headers?: Readonly<Record<string, string>>;
      readonly body?: unknown;
    }
  | null
  | 'never';

/** An error as AWS answers it; the SDKs make it an exception of that name. */
export class ServiceError extends Error {
  readonly status: number;
  constructor(name: string, status: number, message: string) {
    super(message);
    this.name = name;
    this.status = status;
  }
}

/** How a service listens and speaks. */
export interface ServiceOptions {
  /** @default 0, any free port */
  readonly port?: number;
  /** @default application/json */
  readonly contentType?: string;
  /** The longest body; a longer one is refused with 413. @default 12 MiB */
  readonly limitBytes?: number;
  /** Key and certificate, PEM, to speak https. @default plain http */
  readonly tls?: { readonly key: string; readonly cert: string };
}

/** A listening service. */
export interface Service {
  /** Such as `http://127.0.0.1:4566`, without a path. */
  readonly endpoint: string;
  /** Breaks open connections and stops listening. */
  close(): Promise<void>;
}

/**
 * Listens on 127.0.0.1.
 * @param handle throws {@link ServiceError} to answer an error; anything else thrown is an `InternalFailure`, 500
 */
export async function serve(
  options: ServiceOptions,
  handle: (request: ServiceRequest) => Promise<ServiceAnswer>,
): Promise<Service> {
  const { port = 0, contentType = 'application/json', limitBytes = 12 * 1024 * 1024, tls } = options;
  const answer = async (message: IncomingMessage, response: ServerResponse) => {
    const answered = await read(message, limitBytes).then(handle).catch(errorAnswer);
    if (answered === 'never') return;
    if (answered === null) return void message.socket.destroy();
    const { status = 200, headers, body = '' } = answered;
    response.writeHead(status, { 'content-type': contentType, 'x-amzn-requestid': randomUUID(), ...headers });
    response.end(typeof body === 'string' ? body : JSON.stringify(body));
  };
  const server = tls === undefined ? createServer(answer) : createTlsServer(tls, answer);
  // A frozen execution environment keeps its connections for minutes; closing one meanwhile would be a fault nobody asked for.
  server.keepAliveTimeout = 3_600_000;
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  return {
    endpoint: `${tls === undefined ? 'http' : 'https'}://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async close() {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}

async function read(message: IncomingMessage, limitBytes: number): Promise<ServiceRequest> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of message as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes <= limitBytes) chunks.push(chunk);
  }
  if (bytes > limitBytes) {
    throw new ServiceError(
      'RequestEntityTooLargeException',
      413,
      `The request has ${bytes} bytes, above ${limitBytes}`,
    );
  }
  const { pathname, searchParams } = new URL(message.url ?? '/', 'http://localhost');
  return {
    method: message.method ?? 'GET',
    path: decodeURIComponent(pathname),
    query: searchParams,
    headers: message.headers,
    body: Buffer.concat(chunks).toString('utf8'),
  };
}

function errorAnswer(error: unknown): ServiceAnswer {
  const known = error instanceof ServiceError ? error : new ServiceError('InternalFailure', 500, String(error));
  const { name, message, status } = known;
  return { status, headers: { 'x-amzn-errortype': name }, body: { __type: name, message } };
}
