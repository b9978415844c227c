// Shifts an alias to a new version in steps, and back when an alarm rings meanwhile.
import { Duration, Validations } from 'aws-cdk-lib';
import { Alarm, ComparisonOperator, TreatMissingData } from 'aws-cdk-lib/aws-cloudwatch';
import { type ILambdaDeploymentConfig, LambdaDeploymentGroup } from 'aws-cdk-lib/aws-codedeploy';
import { Construct } from 'constructs';
import { alarmName } from './ledger-alarms.ts';
import type { LedgerFunction } from './ledger-function.ts';

/** What a {@link GradualDeployment} is made from. */
export interface GradualDeploymentProps {
  readonly of: LedgerFunction;
  /** The alias that is shifted. */
  readonly alias: string;
  readonly config: ILambdaDeploymentConfig;
  /** The function's alarms. Any in alarm sends the traffic back to the former version, and fails the deployment. */
  readonly alarms: readonly Alarm[];
}

/**
 * A CodeDeploy deployment group of one alias. Both versions work on one schema meanwhile, as migrations allow. Besides the
 * function's alarms a single failed call through the alias sends the traffic back: a step may bring the claim no more than a
 * call or two, which no share of failures over minutes would notice.
 */
export class GradualDeployment extends Construct {
  constructor(scope: Construct, id: string, { of: fn, alias: name, config, alarms }: GradualDeploymentProps) {
    super(scope, id);
    const alias = fn.alias(name);
    const failed = new Alarm(this, 'Failed', {
      alarmName: alarmName(this, `${fn.contract.name}-shift-failed`),
      alarmDescription: `A call of ${fn.contract.name} failed. While a new version is shifted to, its traffic goes back; otherwise nothing follows. Acts: CodeDeploy (warn).`,
      metric: alias.metricErrors({ period: Duration.minutes(1), statistic: 'Sum' }),
      threshold: 1,
      comparisonOperator: ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
      evaluationPeriods: 1,
      // No call, no failure.
      treatMissingData: TreatMissingData.NOT_BREACHING,
    });
    const group = new LambdaDeploymentGroup(this, 'Group', {
      alias,
      deploymentConfig: config,
      alarms: [failed, ...alarms],
      autoRollback: { failedDeployment: true, stoppedDeployment: true, deploymentInAlarm: true },
    });
    Validations.of(group).acknowledge({
      id: 'AwsSolutions::AwsSolutions-IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/service-role/AWSCodeDeployRoleForLambdaLimited]',
      reason: 'What CodeDeploy needs to move an alias is what AWS keeps in that policy.',
    });
  }
}
