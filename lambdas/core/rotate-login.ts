// Gives a role another login: the four steps of a rotation, each of which may be run again.
import { type DatabaseLogin, LoginSecretError, type Logins, newPassword, readLogin } from './database-logins.ts';
import { otherLogin } from './database-roles.ts';
import type { Log } from './ports.ts';

/**
 * The steps in their order, as Secrets Manager calls them (AWS Secrets Manager User Guide, "Lambda rotation functions").
 */
export const rotationSteps = ['createSecret', 'setSecret', 'testSecret', 'finishSecret'] as const;
export type RotationStep = (typeof rotationSteps)[number];

/** The secrets that logins are kept in: versions under labels, of which the current one is used. */
export interface LoginSecrets {
  readCurrent(secretArn: string): Promise<string>;
  /** null: the version has no value yet. */
  readPending(secretArn: string, versionId: string): Promise<string | null>;
  /** The labels of each version. */
  labels(secretArn: string): Promise<ReadonlyMap<string, readonly string[]>>;
  /** A version that has its value already keeps it. */
  putPending(secretArn: string, versionId: string, text: string): Promise<void>;
  moveCurrent(secretArn: string, fromVersionId: string, toVersionId: string): Promise<void>;
}

export interface RotationTools {
  readonly secrets: LoginSecrets;
  readonly logins: Logins;
}

/** One call: the step, of the secret, towards the version. */
export interface Rotation {
  readonly step: RotationStep;
  readonly secretArn: string;
  readonly versionId: string;
}

/**
 * Does one step. The role's two logins take turns: the one that nobody uses gets a new password, then the secret names
 * it. The former one stays valid until the next rotation, so who read the secret before works on.
 * @throws {LoginSecretError} when the version is not pending, the secret holds no login of the ledger, or the new login
 * is refused; the secret then names the former login, as before
 */
export async function rotateLogin(tools: RotationTools, log: Log, rotation: Rotation): Promise<void> {
  const { secrets, logins } = tools;
  const { step, secretArn, versionId } = rotation;
  const labels = await secrets.labels(secretArn);
  if (labels.get(versionId)?.includes('AWSCURRENT')) return log.info('rotate', { step, secretArn, done: 'before' });
  if (!labels.get(versionId)?.includes('AWSPENDING')) {
    const sentence = `${step}: version ${versionId} is not pending; start a rotation with RotateSecret`;
    throw new LoginSecretError(secretArn, sentence);
  }
  const former = readLogin(secretArn, await secrets.readCurrent(secretArn));
  switch (step) {
    case 'createSecret': {
      if ((await secrets.readPending(secretArn, versionId)) === null) {
        const next: DatabaseLogin = { username: otherLogin(former.username), password: newPassword() };
        await secrets.putPending(secretArn, versionId, JSON.stringify(next));
      }
      break;
    }
    case 'setSecret':
      await logins.set(await pendingLogin(tools, rotation, former));
      break;
    case 'testSecret': {
      // The Data API logs in with a secret's current version alone: whether the password fits shows in the next step.
      const { username } = await pendingLogin(tools, rotation, former);
      if (await logins.works(username)) break;
      throw new LoginSecretError(
        secretArn,
        `${username} may not log in with its role's grants; run the rotation again`,
      );
    }
    case 'finishSecret':
      await finish(tools, log, rotation, former, labels);
  }
  log.info('rotate', { step, secretArn });
}

async function pendingLogin(
  { secrets }: RotationTools,
  { secretArn, versionId }: Rotation,
  former: DatabaseLogin,
): Promise<DatabaseLogin> {
  const text = await secrets.readPending(secretArn, versionId);
  if (text === null)
    throw new LoginSecretError(secretArn, `version ${versionId} has no value; createSecret comes first`);
  const next = readLogin(secretArn, text);
  // The password of the login in use must not change under its users.
  if (next.username === otherLogin(former.username)) return next;
  const sentence = `pending ${next.username} is not the other login of ${former.username}; cancel the rotation, start another`;
  throw new LoginSecretError(secretArn, sentence);
}

async function finish(
  tools: RotationTools,
  log: Log,
  { secretArn, versionId }: Rotation,
  former: DatabaseLogin,
  labels: ReadonlyMap<string, readonly string[]>,
): Promise<void> {
  const { secrets, logins } = tools;
  const next = await pendingLogin(tools, { step: 'finishSecret', secretArn, versionId }, former);
  const [formerVersion] = [...labels].find(([, names]) => names.includes('AWSCURRENT')) ?? [''];
  await secrets.moveCurrent(secretArn, formerVersion, versionId);
  try {
    const username = await logins.logInWith(secretArn);
    // Credentials that were kept for a while: both logins are valid.
    if (username !== next.username) log.warn('rotate_not_seen_yet', { secretArn, username });
  } catch (error) {
    await secrets.moveCurrent(secretArn, versionId, formerVersion);
    const reason = error instanceof Error ? error.message : String(error);
    const sentence = `${next.username} could not log in, so ${former.username} stays; run the rotation again: ${reason}`;
    throw new LoginSecretError(secretArn, sentence, error);
  }
}
