// Shifts an alias to a new version in steps, and back when an alarm rings meanwhile.
import { Validations } from 'aws-cdk-lib';
import type { Alarm } from 'aws-cdk-lib/aws-cloudwatch';
import { type ILambdaDeploymentConfig, LambdaDeploymentGroup } from 'aws-cdk-lib/aws-codedeploy';
import type { Alias } from 'aws-cdk-lib/aws-lambda';
import { Construct } from 'constructs';

/** What a {@link GradualDeployment} is made from. */
export interface GradualDeploymentProps {
  readonly alias: Alias;
  readonly config: ILambdaDeploymentConfig;
  /** Any of these in alarm sends the traffic back to the former version, and fails the deployment. */
  readonly alarms: readonly Alarm[];
}

/** A CodeDeploy deployment group of one alias. Both versions work on one schema meanwhile, as migrations allow. */
export class GradualDeployment extends Construct {
  constructor(scope: Construct, id: string, { alias, config, alarms }: GradualDeploymentProps) {
    super(scope, id);
    const group = new LambdaDeploymentGroup(this, 'Group', {
      alias,
      deploymentConfig: config,
      alarms: [...alarms],
      autoRollback: { failedDeployment: true, stoppedDeployment: true, deploymentInAlarm: true },
    });
    Validations.of(group).acknowledge({
      id: 'AwsSolutions::AwsSolutions-IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/service-role/AWSCodeDeployRoleForLambdaLimited]',
      reason: 'What CodeDeploy needs to move an alias is what AWS keeps in that policy.',
    });
  }
}
