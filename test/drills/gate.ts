// A gate before the receiver: a network that refuses, swallows or cuts the first connection, and lets the others through.
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/** `refuse`: closed before TLS begins. `swallow`: taken, and never answered. `through`: passed on. */
export type FirstConnection = 'refuse' | 'swallow' | 'through';

export interface Gate {
  readonly port: number;
  /** When the first connection came, epoch milliseconds; undefined: none yet. */
  metAt(): number | undefined;
  /** Cuts every connection: what the receiver has answered does not arrive. */
  cut(): void;
  close(): Promise<void>;
}

/** Listens on 127.0.0.1 before a receiver's port. */
export async function startGate(receiverPort: number, first: FirstConnection): Promise<Gate> {
  const sockets = new Set<Socket>();
  let metAt: number | undefined;
  const server = createServer((socket) => {
    const is = metAt === undefined ? first : 'through';
    metAt ??= Date.now();
    sockets.add(socket);
    socket.on('error', () => undefined);
    socket.on('close', () => sockets.delete(socket));
    if (is === 'refuse') socket.resetAndDestroy();
    if (is !== 'through') return;
    const onward = connect(receiverPort, '127.0.0.1');
    onward.on('error', () => socket.destroy());
    socket.on('close', () => onward.destroy());
    onward.on('close', () => socket.destroy());
    socket.pipe(onward).pipe(socket);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    metAt: () => metAt,
    cut() {
      for (const socket of sockets) socket.resetAndDestroy();
    },
    async close() {
      const closed = once(server, 'close');
      server.close();
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}
