// A certificate authority for one machine, and a certificate under it for receivers that run there.
import { createHash, X509Certificate } from 'node:crypto';
import { access, mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { generate } from 'selfsigned';

/** What a receiver serves with, and what its clients must trust (`NODE_EXTRA_CA_CERTS=<caFile>`). */
export interface TestAuthority {
  /** Path of the authority's certificate, PEM. */
  readonly caFile: string;
  /** Private key of the receiver, PEM. */
  readonly key: string;
  /** Certificate of the receiver, PEM. */
  readonly cert: string;
}

export interface TestAuthorityOptions {
  /** Where the files are kept; made when it does not exist. */
  readonly directory: string;
  /** Further names of the certificate, beside `localhost`, `*.receiver.localhost`, 127.0.0.1 and ::1. @default none */
  readonly names?: readonly string[];
}

const lifeDays = 365;
const renewBeforeDays = 7;
const dayMs = 24 * 3600 * 1000;

/**
 * The test authority of a directory: the one kept there while it is valid for a week more and for all names, else a new
 * one. The authority's own key is thrown away, so that nothing can ever be signed under it again.
 */
export async function testAuthority(options: TestAuthorityOptions): Promise<TestAuthority> {
  const names = ['localhost', '*.receiver.localhost', ...(options.names ?? [])];
  const identityFile = join(options.directory, 'receiver.json');
  return (await kept(identityFile, names)) ?? (await made(options.directory, identityFile, names));
}

async function kept(identityFile: string, names: readonly string[]): Promise<TestAuthority | undefined> {
  try {
    const authority: TestAuthority = JSON.parse(await readFile(identityFile, 'utf8'));
    const certificate = new X509Certificate(authority.cert);
    const lastsUntil = certificate.validToDate.getTime() - renewBeforeDays * dayMs;
    const covers = names.every((name) => certificate.subjectAltName?.includes(`DNS:${name}`));
    // Throws when the receiver's certificate is there and the authority's is not.
    await access(authority.caFile);
    return lastsUntil > Date.now() && covers ? authority : undefined;
  } catch {
    return undefined;
  }
}

async function made(directory: string, identityFile: string, names: readonly string[]): Promise<TestAuthority> {
  const common = {
    keyType: 'ec' as const,
    algorithm: 'sha256',
    // A clock that is a little behind must not refuse it.
    notBeforeDate: new Date(Date.now() - dayMs),
    notAfterDate: new Date(Date.now() + lifeDays * dayMs),
  };
  const authority = await generate([{ name: 'commonName', value: 'Reminder Ledger test authority' }], {
    ...common,
    extensions: [
      { name: 'basicConstraints', cA: true, critical: true },
      { name: 'keyUsage', keyCertSign: true, critical: true },
    ],
  });
  const receiver = await generate([{ name: 'commonName', value: 'localhost' }], {
    ...common,
    ca: { key: authority.private, cert: authority.cert },
    extensions: [
      { name: 'basicConstraints', cA: false, critical: true },
      { name: 'extKeyUsage', serverAuth: true },
      {
        name: 'subjectAltName',
        altNames: [
          ...names.map((value) => ({ type: 2 as const, value })),
          ...['127.0.0.1', '::1'].map((ip) => ({ type: 7 as const, ip })),
        ],
      },
    ],
  });
  await mkdir(directory, { recursive: true });
  // Named by what is in it: two processes that make one at once do not overwrite each other's.
  const fingerprint = createHash('sha256').update(authority.cert).digest('hex').slice(0, 16);
  const caFile = join(directory, `test-authority-${fingerprint}.pem`);
  await writeFile(caFile, authority.cert);
  const identity: TestAuthority = { caFile, key: receiver.private, cert: receiver.cert };
  const draft = `${identityFile}.${fingerprint}`;
  await writeFile(draft, JSON.stringify(identity), { mode: 0o600 });
  await rename(draft, identityFile);
  return identity;
}
