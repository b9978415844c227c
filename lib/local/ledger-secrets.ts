// The secrets of local AWS: the logins of the database, its owner's, and the root of the signatures.
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type DatabaseRole, databaseRoles, firstLogin } from '../../lambdas/core/database-roles.ts';
import type { FunctionContract } from '../../lambdas/core/function-contract.ts';
import { arn } from './addresses.ts';
import type { Secrets } from './secrets.ts';

/** No superuser, as the owner of an Aurora cluster is none: what it may not do there fails here. */
export const owner = { user: 'ledger_owner', password: 'local' };
export const ownerSecretArn = arn('secretsmanager', 'secret:database-owner');
/** The secret with the login of a role. */
export const loginSecretArn = (role: DatabaseRole): string =>
  arn('secretsmanager', `secret:${role.replaceAll('_', '-')}`);
const roles = Object.keys(databaseRoles) as DatabaseRole[];
/** As `LOGIN_SECRET_ARNS` has them. @param some @default all */
export const loginSecretArns = (some: readonly DatabaseRole[] = roles): string => some.map(loginSecretArn).join(',');
export const signingSecretArn = arn('secretsmanager', 'secret:signing');

/** The secret that a function logs in with; empty for one that does not. */
export function databaseSecretArn({ databaseRole }: FunctionContract): string {
  if (databaseRole === null) return '';
  return databaseRole === 'owner' ? ownerSecretArn : loginSecretArn(databaseRole);
}

/** Kept with the data, as rotations left them; migrate gives the database what they hold. */
export async function loginSecrets(directory: string, fresh: boolean) {
  const file = join(directory, 'login-secrets.json');
  if (fresh) await rm(file, { force: true });
  const secretOf = (role: DatabaseRole) =>
    JSON.stringify({ username: firstLogin(role), password: randomBytes(20).toString('hex') });
  return { file, begin: new Map(roles.map((role) => [loginSecretArn(role), secretOf(role)])) };
}

/** As the Data API does: it reads the secret that a caller names. */
export function loginsIn(secrets: Secrets) {
  return (secretArn: string) => {
    const { username: user, password } = JSON.parse(secrets.current(secretArn) ?? '{}');
    return typeof user === 'string' && typeof password === 'string' ? { user, password } : undefined;
  };
}

/** Kept with the data: receivers know the secrets that are derived from it. */
export async function signingSecret(directory: string, fresh: boolean): Promise<string> {
  const file = join(directory, 'signing-secret.json');
  if (!fresh && existsSync(file)) return readFile(file, 'utf8');
  const secret = JSON.stringify({ current: randomBytes(32).toString('base64url') });
  await writeFile(file, secret, { mode: 0o600 });
  return secret;
}
