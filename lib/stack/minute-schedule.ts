// The tick: each minute the claim function runs, and nothing retries it but the next tick.
import { Duration, RemovalPolicy, Stack, Validations } from 'aws-cdk-lib';
import { Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import { Schedule, ScheduleExpression, ScheduleGroup, TimeWindow } from 'aws-cdk-lib/aws-scheduler';
import { LambdaInvoke } from 'aws-cdk-lib/aws-scheduler-targets';
import { Queue, QueueEncryption } from 'aws-cdk-lib/aws-sqs';
import { Construct } from 'constructs';
import type { Settings } from '../../lambdas/core/settings.ts';
import type { LedgerFunction } from './ledger-function.ts';

/** What a {@link MinuteSchedule} is made from. */
export interface MinuteScheduleProps {
  readonly claim: LedgerFunction;
  readonly settings: Settings;
  /** What must be deployed before the first tick. */
  readonly after: Construct;
}

/**
 * An EventBridge schedule in a group of its own, since only a group has metrics of its own. Nothing retries a tick,
 * neither the scheduler nor Lambda's asynchronous invocation: the next tick does the same work. 60 s is the shortest age
 * that both let an event have (Amazon EventBridge Scheduler and AWS Lambda API References).
 */
export class MinuteSchedule extends Construct {
  readonly group: ScheduleGroup;
  /** Ticks that the scheduler could not hand to Lambda. A claim that fails is seen in Lambda's errors, not here. */
  readonly lostTicks: Queue;

  constructor(scope: Construct, id: string, { claim, settings, after }: MinuteScheduleProps) {
    super(scope, id);
    const once = { retryAttempts: 0, maxEventAge: Duration.seconds(60) };
    const tick = claim.alias('tick');
    tick.configureAsyncInvoke(once);

    this.group = new ScheduleGroup(this, 'Group', { removalPolicy: RemovalPolicy.DESTROY });
    this.lostTicks = new Queue(this, 'LostTicks', {
      retentionPeriod: Duration.days(settings.deadLetterRetentionDays),
      encryption: QueueEncryption.SQS_MANAGED,
      enforceSSL: true,
    });
    Validations.of(this.lostTicks).acknowledge({
      id: 'AwsSolutions::AwsSolutions-SQS3',
      reason: 'It is itself the dead-letter queue, of a schedule; a schedule is not a queue that could name it.',
    });
    const role = new Role(this, 'Role', {
      assumedBy: new ServicePrincipal('scheduler.amazonaws.com', {
        conditions: {
          StringEquals: {
            'aws:SourceAccount': Stack.of(this).account,
            'aws:SourceArn': this.group.scheduleGroupArn,
          },
        },
      }),
    });
    const schedule = new Schedule(this, 'Tick', {
      description: `${claim.contract.purpose}.`,
      schedule: ScheduleExpression.rate(Duration.seconds(settings.tickSeconds)),
      timeWindow: TimeWindow.off(),
      scheduleGroup: this.group,
      target: new LambdaInvoke(tick, { ...once, role, deadLetterQueue: this.lostTicks }),
    });
    // The schedule names its group by a literal and its role without the policy, so CloudFormation sees neither need.
    schedule.node.addDependency(this.group, role, after);
  }
}
