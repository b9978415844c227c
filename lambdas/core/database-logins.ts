// Logins of the database: what their secrets hold, and who keeps secrets and logins.
import { randomInt } from 'node:crypto';
import { roleOfLogin } from './database-roles.ts';

/** A login of one of the database's roles. */
export interface DatabaseLogin {
  /** `ledger_claim_a`, say. */
  readonly username: string;
  /** Letters and digits. */
  readonly password: string;
}

/** A login's secret, or what was asked of it, cannot be used. The message names the secret's ARN and never its text. */
export class LoginSecretError extends Error {
  override readonly name = 'LoginSecretError';
  readonly secretArn: string;

  constructor(secretArn: string, sentence: string, cause?: unknown) {
    super(`login secret ${secretArn}: ${sentence}`, { cause });
    this.secretArn = secretArn;
  }
}

/** Makes logins in the database, and asks about them. */
export interface Logins {
  /** Makes the login, or gives it this password. Run again it changes nothing. */
  set(login: DatabaseLogin): Promise<void>;
  /** Whether there is such a login that may log in and has its role's grants. */
  works(username: string): Promise<boolean>;
  /** Logs in as whom a secret names now, and answers as whom the database knows it. */
  logInWith(secretArn: string): Promise<string>;
}

const passwordLength = 40;
const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789';

/** 40 random letters and digits: 238 bits. */
export function newPassword(): string {
  return Array.from({ length: passwordLength }, () => letters[randomInt(letters.length)]).join('');
}

/**
 * Reads a login's secret, `{"username": "...", "password": "..."}`.
 * @throws {LoginSecretError} when it is not that, or the user is no login of the ledger
 */
export function readLogin(secretArn: string, text: string): DatabaseLogin {
  const { username, password } = jsonObject(text);
  if (typeof username !== 'string' || roleOfLogin(username) === undefined) {
    throw new LoginSecretError(secretArn, `its username is no login of the ledger; store ${expected}`);
  }
  if (typeof password !== 'string' || !/^[A-Za-z0-9]{32,128}$/.test(password)) {
    throw new LoginSecretError(secretArn, `its password is not 32 to 128 letters and digits; store ${expected}`);
  }
  return { username, password };
}

const expected = '{"username": "<role>_a", "password": "<40 letters and digits>"}';

function jsonObject(text: string): Record<string, unknown> {
  try {
    return Object(JSON.parse(text));
  } catch {
    // The parser's message quotes the text.
    return {};
  }
}
