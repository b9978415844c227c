// What PostgreSQL keeps instead of a password: a SCRAM-SHA-256 verifier, from which the password cannot be had.
import { createHash, createHmac, pbkdf2Sync, randomBytes } from 'node:crypto';

/** PostgreSQL's own number (`scram_iterations`). Passwords here are random, so more would only slow down logins. */
const iterations = 4096;

/**
 * The verifier of a password, as `pg_authid.rolpassword` holds it: `SCRAM-SHA-256$4096:salt$StoredKey:ServerKey`
 * (RFC 5802 section 3 with the hash of RFC 7677).
 * @param password letters and digits only: others would first have to be prepared by SASLprep
 * @param salt 16 bytes @default random ones
 */
export function scramVerifier(password: string, salt: Buffer = randomBytes(16)): string {
  if (!/^[A-Za-z0-9]+$/.test(password)) throw new Error('password: has other characters than letters and digits');
  const saltedPassword = pbkdf2Sync(password, salt, iterations, 32, 'sha256');
  const keyed = (name: string) => createHmac('sha256', saltedPassword).update(name).digest();
  const storedKey = createHash('sha256').update(keyed('Client Key')).digest('base64');
  const serverKey = keyed('Server Key').toString('base64');
  return `SCRAM-SHA-256$${iterations}:${salt.toString('base64')}$${storedKey}:${serverKey}`;
}
