// One TLS connection for one webhook: dialled only to checked addresses, closed for good when the attempt is cut.
import { once } from 'node:events';
import { connect as connectTcp, isIP, type Socket } from 'node:net';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import type { AttemptPhase } from '../core/ports.ts';
import { admitHost, hostOf, type Lookup, type TrustedRange } from './address-wall.ts';

export interface Connection {
  /** Encrypted, the peer's certificate checked. */
  readonly socket: TLSSocket;
  /** Resolves when the sockets are closed. What has not left the machine by then never will. */
  close(): Promise<void>;
}

/**
 * Resolves the URL's host once, checks every address, dials those and no others, and does the TLS handshake.
 * @param reached told each phase as it begins, so that a failure can be placed
 * @param deadlineMs how long the whole attempt may take, in milliseconds; each address gets an equal share of it
 * @param cut ends the connection at any time, also after this function has resolved
 */
export async function dial(
  url: URL,
  wall: { readonly trusted: readonly TrustedRange[]; readonly lookup: Lookup },
  reached: (phase: AttemptPhase) => void,
  deadlineMs: number,
  cut: AbortSignal,
): Promise<Connection> {
  const host = hostOf(url);
  reached('dns');
  const addresses = await unlessCut(admitHost(host, wall.trusted, wall.lookup), cut);

  reached('connect');
  const tcp = connectTcp({
    host,
    port: Number(url.port || 443),
    // Called for names alone; a literal address was checked as it stands.
    lookup: (_host, _options, callback) =>
      callback(
        null,
        addresses.map((address) => ({ address, family: isIP(address) })),
      ),
    autoSelectFamily: true,
    // Node.js gives an address up for good to try the next: by its own short time a far receiver, whose other address
    // cannot be reached from here, would never be reached. One share is left for the exchange.
    autoSelectFamilyAttemptTimeout: Math.ceil(deadlineMs / (addresses.length + 1)),
    noDelay: true,
  });
  const close = closerOf(tcp);
  cut.addEventListener('abort', () => void close(), { once: true });
  try {
    await once(tcp, 'connect', { signal: cut });
    reached('tls');
    const socket = connectTls({
      socket: tcp,
      host,
      ...(isIP(host) === 0 ? { servername: host } : {}),
      ALPNProtocols: ['http/1.1'],
      // Said aloud, because an environment variable could turn the default off.
      rejectUnauthorized: true,
    });
    socket.on('error', ignore);
    await once(socket, 'secureConnect', { signal: cut });
    return { socket, close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** A socket that fails when nobody waits for it must not end the process: whoever waits hears of it by the close. */
const ignore = (): void => undefined;

function closerOf(tcp: Socket): () => Promise<void> {
  tcp.on('error', ignore);
  const closed = new Promise<void>((resolve) => tcp.once('close', () => resolve()));
  return () => {
    // A reset drops what waits in the kernel's send buffer, which a plain close would still deliver.
    if (tcp.connecting) tcp.destroy();
    else if (!tcp.destroyed) tcp.resetAndDestroy();
    return closed;
  };
}

function unlessCut<Value>(work: Promise<Value>, cut: AbortSignal): Promise<Value> {
  return new Promise((resolve, reject) => {
    cut.addEventListener('abort', () => reject(cut.reason), { once: true });
    work.then(resolve, reject);
  });
}
