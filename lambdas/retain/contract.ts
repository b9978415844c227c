// The retain function: what starts it, what it answers, what it needs from its environment.
import type { Retained } from '../core/archive-finished.ts';
import type { FunctionContract } from '../core/function-contract.ts';

export { archivePrefix } from '../core/archive-finished.ts';
export type { RetentionPolicy } from '../core/retention-policy.ts';
export { readRetentionPolicy, writeRetentionPolicy } from '../core/retention-policy.ts';

/** The function as deployed. */
export const retainFunction: FunctionContract = {
  name: 'retain',
  purpose: 'Each day: moves payload and evidence of what is long finished to the archive, and leaves its key',
  databaseRole: 'ledger_retain',
  environment: ['STAGE', 'DATABASE_ARN', 'DATABASE_SECRET_ARN', 'DATABASE_NAME', 'ARCHIVE_BUCKET', 'RETENTION_POLICY'],
  localEnvironment: [],
  memoryMegabytes: 512,
  // The longest that Lambda gives (AWS Lambda Developer Guide, "Lambda quotas"): what is left waits for the next day.
  timeoutSeconds: () => 900,
};

/** EventBridge Scheduler's event. Nothing in it is used. */
export type RetainRequest = unknown;

/** What the run did. */
export type RetainResponse = Retained;
