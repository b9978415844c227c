// What the stack and local AWS must know alike of a function, so that both run the same thing.
import type { DatabaseRole } from './database-roles.ts';
import type { Settings } from './settings.ts';

/** Every environment variable that some function reads. */
export type EnvironmentName =
  | 'STAGE'
  | 'DATABASE_ARN'
  | 'DATABASE_SECRET_ARN'
  | 'DATABASE_NAME'
  | 'LOGIN_SECRET_ARNS'
  | 'INVITATION_QUEUE_URL'
  | 'DEAD_LETTER_QUEUE_URL'
  | 'EVENT_BUS_NAME'
  | 'SIGNING_SECRET_ARN'
  | 'ARCHIVE_BUCKET'
  | 'RETENTION_POLICY'
  | 'SCHEDULE_FUNCTION'
  | 'CANARY_URL'
  | 'WEBHOOK_TRUSTED_CIDRS';

/** One deployed function. Its bundle is `dist/functions/<name>/index.mjs`, its handler `index.handler`. */
export interface FunctionContract {
  readonly name:
    | 'schedule'
    | 'claim'
    | 'webhook-sender'
    | 'migrate'
    | 'rotate'
    | 'observe'
    | 'retain'
    | 'operate'
    | 'canary'
    | 'canary-receiver'
    | 'widget';
  readonly purpose: string;
  /** Whose grants it works with in the database. `owner`: those of the cluster's owner, who may do anything. Null: it has none. */
  readonly databaseRole: DatabaseRole | 'owner' | null;
  readonly environment: readonly EnvironmentName[];
  /** Read when present; never set by the stack. */
  readonly localEnvironment: readonly EnvironmentName[];
  readonly memoryMegabytes: number;
  readonly timeoutSeconds: (settings: Settings) => number;
}

/** The CloudWatch namespace of every metric that a function publishes. */
export const metricNamespace = 'ReminderLedger';

/** The one dimension of such a metric; its value is the name of the function. An alarm with any other set sees no data. */
export const metricDimension = 'service';

/** The metric of what a claim or a sender used of its lease, in percent, from before it asked for it until it was done. */
export const leaseUsed = 'lease_used';
