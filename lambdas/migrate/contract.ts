// The migrate function: brings the schema to the newest version its bundle knows, and makes the functions' logins.
import type { FunctionContract } from '../core/function-contract.ts';

/**
 * The function as deployed. `DATABASE_SECRET_ARN` is the owner's. `LOGIN_SECRET_ARNS`: those of the login secrets, joined
 * by commas.
 */
export const migrateFunction: FunctionContract = {
  name: 'migrate',
  purpose:
    "Brings the schema to the newest version its bundle knows and makes the functions' logins, before anything else runs",
  databaseRole: 'owner',
  environment: ['STAGE', 'DATABASE_ARN', 'DATABASE_SECRET_ARN', 'DATABASE_NAME', 'LOGIN_SECRET_ARNS'],
  localEnvironment: [],
  memoryMegabytes: 512,
  timeoutSeconds: () => 840,
};

/** A CDK trigger's payload is empty; so is the command line's. */
export type MigrateRequest = unknown;

export interface MigrateResponse {
  /** How many migrations this run applied. */
  readonly applied: number;
  /** The newest version the schema has, which may be newer than this bundle knows (after a rollback). */
  readonly schemaVersion: number;
  /** How many logins have the password that their secret holds now. */
  readonly logins: number;
}
