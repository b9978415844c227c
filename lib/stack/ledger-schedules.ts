// The schedules: functions that run by the clock, and that nothing retries but their next turn.
import { Duration, RemovalPolicy, Stack, Validations } from 'aws-cdk-lib';
import { Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import { Schedule, ScheduleExpression, ScheduleGroup, TimeWindow } from 'aws-cdk-lib/aws-scheduler';
import { LambdaInvoke } from 'aws-cdk-lib/aws-scheduler-targets';
import { Queue, QueueEncryption } from 'aws-cdk-lib/aws-sqs';
import { Construct } from 'constructs';
import type { Settings } from '../../lambdas/core/settings.ts';
import type { LedgerFunction } from './ledger-function.ts';

/** What a {@link LedgerSchedules} is made from. */
export interface LedgerSchedulesProps {
  readonly settings: Settings;
}

/** Neither has a retry. 60 s is the shortest age that both Scheduler and Lambda let an event have (their API References). */
const once = { retryAttempts: 0, maxEventAge: Duration.seconds(60) };

/**
 * EventBridge schedules in a group of their own, since only a group has metrics of its own. Nothing retries a tick,
 * neither the scheduler nor Lambda's asynchronous invocation: the next tick does the same work.
 */
export class LedgerSchedules extends Construct {
  readonly group: ScheduleGroup;
  /** Ticks that the scheduler could not hand to Lambda. A function that fails is seen in Lambda's errors, not here. */
  readonly lostTicks: Queue;
  readonly #role: Role;
  readonly #settings: Settings;

  constructor(scope: Construct, id: string, { settings }: LedgerSchedulesProps) {
    super(scope, id);
    this.#settings = settings;
    this.group = new ScheduleGroup(this, 'Group', { removalPolicy: RemovalPolicy.DESTROY });
    this.lostTicks = new Queue(this, 'LostTicks', {
      retentionPeriod: Duration.days(settings.deadLetterRetentionDays),
      encryption: QueueEncryption.SQS_MANAGED,
      enforceSSL: true,
    });
    Validations.of(this.lostTicks).acknowledge({
      id: 'AwsSolutions::AwsSolutions-SQS3',
      reason: 'It is itself the dead-letter queue, of schedules; a schedule is not a queue that could name it.',
    });
    this.#role = new Role(this, 'Role', {
      assumedBy: new ServicePrincipal('scheduler.amazonaws.com', {
        conditions: {
          StringEquals: {
            'aws:SourceAccount': Stack.of(this).account,
            'aws:SourceArn': this.group.scheduleGroupArn,
          },
        },
      }),
    });
  }

  /**
   * Runs a function by its alias `tick`.
   * @param id of the schedule
   * @param after what must be deployed before the first tick
   * @param every @default the tick of the calendar, a minute
   */
  run(
    fn: LedgerFunction,
    id: string,
    after: Construct,
    every: Duration = Duration.seconds(this.#settings.tickSeconds),
  ): void {
    const tick = fn.alias('tick');
    tick.configureAsyncInvoke(once);
    const schedule = new Schedule(this, id, {
      description: `${fn.contract.purpose}.`,
      schedule: ScheduleExpression.rate(every),
      timeWindow: TimeWindow.off(),
      scheduleGroup: this.group,
      target: new LambdaInvoke(tick, { ...once, role: this.#role, deadLetterQueue: this.lostTicks }),
    });
    // The schedule names its group by a literal and its role without the policy, so CloudFormation sees neither need.
    schedule.node.addDependency(this.group, this.#role, after);
  }
}
