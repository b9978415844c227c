// Servers that misbehave below HTTP, for the webhook client to meet.
import { once } from 'node:events';
import { type AddressInfo, createServer as createTcpServer, type Server, type Socket } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import type { TestAuthority } from '../../lib/local/test-authority.ts';

const servers: Server[] = [];
const held: Socket[] = [];

/** Ends every server that a test started here, and all that is connected to them. */
export function hangUp(): void {
  for (const socket of held) socket.destroy();
  for (const server of servers) server.close();
}

/** Listens on a free port and answers the URL of the server. */
export async function listen(server: Server): Promise<string> {
  servers.push(server);
  server.on('connection', (socket: Socket) => {
    held.push(socket);
    socket.on('error', () => undefined);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return `https://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}

/** The URL of a server that speaks TLS, and after the request's first bytes does as told. */
export const answering = (authority: TestAuthority, behave: (socket: Socket) => unknown): Promise<string> =>
  listen(
    createTlsServer({ key: authority.key, cert: authority.cert }, (socket) => {
      socket.on('error', () => undefined);
      socket.once('data', () => void behave(socket));
    }),
  );

/** The same, saying one thing whatever it is asked. */
export const saying = (authority: TestAuthority, text: string): Promise<string> =>
  answering(authority, (socket) => socket.write(text));

/** A URL at which nobody listens. */
export async function unusedUrl(): Promise<string> {
  const server = createTcpServer();
  const url = await listen(server);
  server.close();
  await once(server, 'close');
  return url;
}
