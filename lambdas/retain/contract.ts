// The retain function: what starts it, what it answers, what it needs from its environment.
import * as z from 'zod';
import type { Retained } from '../core/archive-finished.ts';
import type { FunctionContract } from '../core/function-contract.ts';

export { archivePrefix, type RetentionPolicy } from '../core/archive-finished.ts';

const days = z.int().min(1);

/** What `RETENTION_POLICY` holds, as JSON. */
export const retentionPolicy = z.strictObject({ finishedDays: days, byProducer: z.record(z.string(), days) });

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
