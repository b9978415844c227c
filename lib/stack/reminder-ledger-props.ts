// How a ledger may differ from the default: the props of the construct.
import type { Duration } from 'aws-cdk-lib';
import type { ILambdaDeploymentConfig } from 'aws-cdk-lib/aws-codedeploy';
import type { IVpc, SubnetSelection } from 'aws-cdk-lib/aws-ec2';
import type { IManagedPolicy } from 'aws-cdk-lib/aws-iam';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import type { RetentionDays } from 'aws-cdk-lib/aws-logs';
import type { AuroraPostgresEngineVersion } from 'aws-cdk-lib/aws-rds';
import type { ITopic } from 'aws-cdk-lib/aws-sns';
import type { FunctionContract } from '../../lambdas/core/function-contract.ts';
import type { Settings } from '../../lambdas/core/settings.ts';
import type { Capacity, DeploymentStage } from './deployment-stages.ts';

/** `page`: a person must act now, for reminders go out late or not at all. `warn`: within a working day. */
export type Severity = 'page' | 'warn';

/** What people do to a ledger, each a team's: look, recover what was left behind, decide about a reminder, switch. */
export type Duty = 'inspect' | 'recover' | 'decide' | 'control';

/** The numbers of the queue that stand in the template alone: no function reads them. */
export type QueueSettings = Pick<
  Settings,
  | 'senderConcurrency'
  | 'visibilityTimeoutSeconds'
  | 'maxReceiveCount'
  | 'queueRetentionDays'
  | 'deadLetterRetentionDays'
>;

/**
 * How long what is finished stays as it was. Then its payload and evidence go to the archive; its key, what it asked for and
 * how it ended stay for good, so that it is never sent again.
 */
export interface Retention {
  /**
   * From the later of a reminder's last due time and its end, in whole days. At least as long as a copy of what came before
   * can return: `backupRetention`, then the queue's and the dead letters' retention (a redrive begins a message's
   * age anew), then `exports`. Synthesis fails with the sum.
   * @default 90 days
   */
  readonly finished?: Duration;
  /**
   * Instead of `finished`, by product.
   * @default none
   */
  readonly byProducer?: Readonly<Record<string, Duration>>;
  /**
   * How long anybody may still bring back a file that was taken out of the database or the dead letters.
   * @default 30 days
   */
  readonly exports?: Duration;
}

/** How a `ReminderLedger` may differ from the default. */
export interface ReminderLedgerProps {
  /**
   * Which numbers the functions run with, and what is kept when the stack is deleted. `dev` keeps nothing.
   * @default 'production'
   */
  readonly stage?: DeploymentStage;
  /**
   * The network that the database lies in. Nothing connects to it there: every function uses the Data API.
   * Another network later is most likely another, empty cluster: see what `npx cdk diff` says of it first.
   * @default a network of its own, two isolated subnets without a way in or out
   */
  readonly vpc?: IVpc;
  /**
   * The subnets of `vpc` for the database, in two availability zones or more.
   * @default the isolated ones
   */
  readonly vpcSubnets?: SubnetSelection;
  /**
   * Encrypts the database with its backups, and every secret. Its policy must let the account's IAM policies decide, as
   * the policy of a key made by the CDK or the console does. Another key later replaces the database.
   * @default the keys that AWS manages
   */
  readonly encryptionKey?: IKey;
  /**
   * The permissions boundary of every role, those of CDK's own helper functions in this stack included.
   * @default none
   */
  readonly permissionsBoundary?: IManagedPolicy;
  /**
   * Put on every resource that takes tags.
   * @default none
   */
  readonly tags?: Readonly<Record<string, string>>;
  /**
   * Where alarms of each severity are told. They exist without a topic too, and then tell nobody.
   * A topic that is made in the app lets CloudWatch publish from then on; an imported one must allow it, and so must a key that
   * encrypts a topic: `kms:Decrypt` and `kms:GenerateDataKey*` for `cloudwatch.amazonaws.com`.
   * @default none
   */
  readonly alarmTopics?: Readonly<Partial<Record<Severity, ITopic>>>;
  /**
   * The team of each duty. An alarm's description names the team that must act.
   * @default none: the description names the duty
   */
  readonly owners?: Readonly<Partial<Record<Duty, string>>>;
  /**
   * How long each log is kept: the functions', and the exported one of the database.
   * @default 3 months in production, a week in dev
   */
  readonly logRetention?: RetentionDays;
  /**
   * Aurora capacity units. A tick each minute keeps the database awake, so a minimum of 0 would save nothing.
   * @default 0.5 to 8 in production, 0.5 to 2 in dev
   */
  readonly capacity?: Capacity;
  /**
   * A second instance in another availability zone, which takes over when the first is lost. Taken away later in
   * production, it is kept outside the stack and goes on costing until it is deleted by hand.
   * @default true in production, false in dev
   */
  readonly reader?: boolean;
  /**
   * How far back the database can be restored, to the second: 1 to 35 days.
   * @default 35 days in production, 1 day in dev
   */
  readonly backupRetention?: Duration;
  /**
   * When payload and evidence of finished reminders leave the database for the archive.
   * @default 90 days for every product
   */
  readonly retention?: Retention;
  /**
   * The version of Aurora PostgreSQL. Minor versions move with this number alone, never by themselves.
   * @default 17.7
   */
  readonly engineVersion?: AuroraPostgresEngineVersion;
  /**
   * A network with a NAT gateway, behind which the webhook sender runs, so that partners see fixed addresses. The
   * address wall stays as it is: no private address is dialled. Every other function stays outside.
   * @default none: the sender runs outside any network of yours
   */
  readonly egress?: { readonly vpc: IVpc; readonly subnets?: SubnetSelection };
  /**
   * Concurrency that is set aside for a function, and its limit. It fails to deploy where the account's limit would
   * leave less than 100 unreserved, as in a new account.
   * @default none
   */
  readonly reservedConcurrency?: Readonly<Partial<Record<FunctionContract['name'], number>>>;
  /**
   * Shifts the traffic of a new claim and of a new sender in steps, and back when an alarm of theirs rings.
   * @default none: all at once
   */
  readonly gradualDeployment?: ILambdaDeploymentConfig;
  /**
   * Traces invocations with AWS X-Ray.
   * @default true
   */
  readonly tracing?: boolean;
  /**
   * A reminder every five minutes, as a product would ask for it, to a receiver of the ledger's own, and an alarm on its
   * lateness. The receiver's function URL is open to everybody, and takes what the ledger signed for it alone.
   * @default true in production, false in dev
   */
  readonly canary?: boolean;
  /**
   * Numbers of the queue. Synthesis fails with the inequality that does not hold between them.
   * @default the stage's settings
   */
  readonly queue?: Partial<QueueSettings>;
  /**
   * The folder that holds `<name>/index.mjs` of each function.
   * @default dist/functions of this package, which `npm run build` fills
   */
  readonly bundles?: string;
}
