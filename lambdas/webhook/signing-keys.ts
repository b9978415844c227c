// Fetches the signing roots from Secrets Manager, once for many runs.
import { GetSecretValueCommand, SecretsManagerClient } from '@aws-sdk/client-secrets-manager';
import * as z from 'zod';
import { atFaultPoint } from '../core/fault-points.ts';
import type { SigningRoots } from './signing.ts';

/** The signing roots could not be had. The message never holds any of the secret. */
export class SigningKeysError extends Error {
  override readonly name = 'SigningKeysError';
}

/** Answers the signing roots, from memory while they are fresh. Rejects with {@link SigningKeysError}. */
export type SigningKeys = () => Promise<SigningRoots>;

/** How long roots are used before they are fetched again; a rotation must overlap for longer. */
export const signingKeysFreshMs = 5 * 60_000;

const root = z.string().min(32);
const secret = z.strictObject({ current: root, previous: root.optional() });

/**
 * The client to fetch with. Its time-outs are short, for a run waits for it: 1 s to connect, 1.5 s for an answer, two
 * tries.
 */
export function secretsClient(): SecretsManagerClient {
  return new SecretsManagerClient({
    maxAttempts: 2,
    requestHandler: { connectionTimeout: 1000, requestTimeout: 1500, throwOnRequestTimeout: true },
  });
}

/**
 * @param secretArn the secret whose SecretString is `{"current": "...", "previous"?: "..."}`, each of 32 characters or more
 * @param client @default {@link secretsClient}
 * @param now the wall clock, epoch milliseconds @default Date.now
 */
export function signingKeys(secretArn: string, client = secretsClient(), now = Date.now): SigningKeys {
  let held: { readonly fetchedAt: number; readonly roots: Promise<SigningRoots> } | undefined;
  return () => {
    const at = now();
    const age = held === undefined ? Number.POSITIVE_INFINITY : at - held.fetchedAt;
    if (held !== undefined && age >= 0 && age < signingKeysFreshMs) return held.roots;
    const roots = fetchRoots(secretArn, client);
    const fetch = { fetchedAt: at, roots };
    held = fetch;
    // A failure is not kept: the next run asks again.
    roots.catch(() => {
      if (held === fetch) held = undefined;
    });
    return roots;
  };
}

async function fetchRoots(secretArn: string, client: SecretsManagerClient): Promise<SigningRoots> {
  const fail = (what: string): SigningKeysError => new SigningKeysError(`signing secret ${secretArn}: ${what}`);
  const fetch = () => client.send(new GetSecretValueCommand({ SecretId: secretArn }));
  const answer = await atFaultPoint({ point: 'fetch-signing-secret' }, fetch).catch((error: unknown) => {
    const name = error instanceof Error ? error.name : 'an error';
    throw fail(`Secrets Manager answered ${name}; check that it exists and that this function may read it`);
  });
  const parsed = secret.safeParse(jsonOrNothing(answer.SecretString));
  // Neither the text nor the parser's message may be shown: both can hold the secret.
  if (!parsed.success) {
    const paths = parsed.error.issues.map(({ path }) => path.join('.') || 'the whole').join(', ');
    throw fail(
      `its value does not fit at ${paths}; store {"current": "...", "previous"?: "..."}, 32 characters or more each`,
    );
  }
  return parsed.data;
}

function jsonOrNothing(text: string | undefined): unknown {
  try {
    return JSON.parse(text ?? '');
  } catch {
    return undefined;
  }
}
