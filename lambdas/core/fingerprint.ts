// The fingerprint of a schedule command: one short hash a field, so that a conflict can name the fields for ever.
import { createHash } from 'node:crypto';
import type { NewReminder } from './ports.ts';

/** The fields a repeated key is compared by, in the fingerprint's order. */
export const fingerprintFields = ['destination', 'dueAt', 'expiresAt', 'userId', 'payload'] as const;
export type FingerprintField = (typeof fingerprintFields)[number];

const version = 'v1';

/** `v1` and 96 bits of SHA-256 a field, in base64url, separated by dots. Instants compare as instants, not as text. */
export function fingerprintOf(reminder: Pick<NewReminder, FingerprintField>): string {
  const hashes = fingerprintFields.map((field) =>
    createHash('sha256').update(JSON.stringify(reminder[field])).digest('base64url').slice(0, 16),
  );
  return [version, ...hashes].join('.');
}

/** The fields in which two fingerprints differ; all of them when their versions do. */
export function differingFields(one: string, other: string): FingerprintField[] {
  const [oneVersion, ...ones] = one.split('.');
  const [otherVersion, ...others] = other.split('.');
  return fingerprintFields.filter((_, place) => oneVersion !== otherVersion || ones[place] !== others[place]);
}
