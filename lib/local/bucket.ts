// S3 on this machine: one bucket of fauxqs, kept in memory.
import type { AddressInfo } from 'node:net';
import { buildApp } from 'fauxqs';

/** A bucket; the SDK's own client lists and reads it. */
export interface Bucket {
  readonly endpoint: string;
  readonly name: string;
  stop(): Promise<void>;
}

/** Starts S3 with one empty bucket. @param port 0: any free port */
export async function startBucket(port = 0): Promise<Bucket> {
  const name = 'reminder-archive';
  const fauxqs = buildApp({ logger: false });
  await fauxqs.listen({ host: '127.0.0.1', port });
  const endpoint = `http://127.0.0.1:${(fauxqs.server.address() as AddressInfo).port}`;
  const created = await fetch(`${endpoint}/${name}`, { method: 'PUT' });
  if (!created.ok) throw new Error(`bucket ${name}: ${created.status} ${await created.text()}`);
  return {
    endpoint,
    name,
    async stop() {
      const closed = fauxqs.close();
      fauxqs.server.closeAllConnections();
      await closed;
    },
  };
}
