// The stages that are deployed, and what differs between them besides the numbers in the settings.
import { Duration, RemovalPolicy } from 'aws-cdk-lib';
import { RetentionDays } from 'aws-cdk-lib/aws-logs';
import type { Stage } from '../../lambdas/core/settings.ts';

/** A stage that EventBridge Scheduler can keep: `rehearsal` ticks faster than it, and runs in local AWS alone. */
export type DeploymentStage = Exclude<Stage, 'rehearsal'>;

/** Aurora capacity units, in halves from 0.5 to 256. */
export interface Capacity {
  readonly minimum: number;
  readonly maximum: number;
}

/** What a stage deploys when a prop does not say otherwise. */
export interface StageDefaults {
  readonly capacity: Capacity;
  /** Whether a second instance stands by in another availability zone. */
  readonly reader: boolean;
  /** How far back the database can be restored, to the second. */
  readonly backupRetention: Duration;
  readonly logRetention: RetentionDays;
  /** Whether a canary goes the whole way every five minutes. */
  readonly canary: boolean;
  /** What becomes of the database, the dead letters, the signing root and the logs when the stack is deleted. */
  readonly removalPolicy: RemovalPolicy.RETAIN | RemovalPolicy.DESTROY;
}

const stages: Readonly<Record<DeploymentStage, StageDefaults>> = {
  production: {
    capacity: { minimum: 0.5, maximum: 8 },
    reader: true,
    backupRetention: Duration.days(35),
    logRetention: RetentionDays.THREE_MONTHS,
    canary: true,
    removalPolicy: RemovalPolicy.RETAIN,
  },
  dev: {
    capacity: { minimum: 0.5, maximum: 2 },
    reader: false,
    backupRetention: Duration.days(1),
    logRetention: RetentionDays.ONE_WEEK,
    canary: false,
    removalPolicy: RemovalPolicy.DESTROY,
  },
};

/** The names that {@link deploymentStageOf} knows. */
export const knownDeploymentStages = Object.keys(stages) as readonly DeploymentStage[];

/** No stage of that name is deployed; the message names the known ones. */
export class UnknownStageError extends Error {
  override readonly name = 'UnknownStageError';
}

/** @throws {UnknownStageError} when no stage of that name is deployed */
export function deploymentStageOf(name: string): DeploymentStage {
  const stage = knownDeploymentStages.find((known) => known === name);
  if (stage === undefined) {
    throw new UnknownStageError(`stage: got ${JSON.stringify(name)}; use one of ${knownDeploymentStages.join(', ')}`);
  }
  return stage;
}

/** What a stage deploys. */
export function defaultsOf(stage: DeploymentStage): StageDefaults {
  return stages[stage];
}
