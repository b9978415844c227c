// What the webhook tests share: a trusted test authority, a client with known keys, and a watch over opened sockets.
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { readFile } from 'node:fs/promises';
import type { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import type { AttemptResult, WebhookRequest } from '../../lambdas/core/ports.ts';
import { type Lookup, parseTrustedCidrs, type TrustedRange } from '../../lambdas/webhook/address-wall.ts';
import type { SigningRoots } from '../../lambdas/webhook/signing.ts';
import { webhookClient } from '../../lambdas/webhook/webhook-client.ts';
import { type TestAuthority, testAuthority } from '../../lib/local/test-authority.ts';

/** The names that the test certificate covers, beside the addresses of this machine. */
export const partner = 'partner.receiver.localhost';
export const loopback = parseTrustedCidrs('127.0.0.0/8');
export const roots: SigningRoots = { current: 'a root secret of thirty-two characters or more' };

/** The test authority, trusted by every TLS connection of this process as `NODE_EXTRA_CA_CERTS` would make it. */
export async function trustedAuthority(): Promise<TestAuthority> {
  const authority = await testAuthority({ directory: join(tmpdir(), 'reminder-ledger-test-authority') });
  setDefaultCACertificates([...getCACertificates('default'), await readFile(authority.caFile, 'utf8')]);
  return authority;
}

export interface Sending {
  readonly roots?: SigningRoots;
  readonly trusted?: readonly TrustedRange[];
  readonly lookup?: Lookup;
  readonly signal?: AbortSignal;
}

/** A resolver double that knows one answer for every name. */
export const resolvesTo =
  (...addresses: string[]): Lookup =>
  async () =>
    addresses;

/** Sends one webhook by the real client, loopback being trusted unless said otherwise. */
export async function send(
  request: Partial<WebhookRequest> & { readonly url: string },
  sending: Sending = {},
): Promise<AttemptResult> {
  const client = webhookClient({
    signingKeys: async () => sending.roots ?? roots,
    trusted: sending.trusted ?? loopback,
    ...(sending.lookup === undefined ? {} : { lookup: sending.lookup }),
  });
  const session = await client.prepare();
  const whole: WebhookRequest = {
    deliveryId: '01980000-0000-7000-8000-000000000001',
    key: 'order-77',
    destination: 'partner',
    payload: '{"text":"hello"}',
    deadlineMs: 20_000,
    ...request,
  };
  try {
    return await session.post(whole, sending.signal ?? new AbortController().signal);
  } finally {
    await session.close();
  }
}

/** Every TCP socket that this process opens as a client while `run` runs. */
export async function socketsOpenedBy(run: () => Promise<unknown>): Promise<Socket[]> {
  const sockets: Socket[] = [];
  const note = (message: unknown): void => void sockets.push((message as { socket: Socket }).socket);
  subscribe('net.client.socket', note);
  try {
    await run();
  } finally {
    unsubscribe('net.client.socket', note);
  }
  return sockets;
}
