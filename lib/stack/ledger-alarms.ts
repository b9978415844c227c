// Alarms on what AWS itself measures: each with its severity, who must act, and what to do.
import { Duration, Stack } from 'aws-cdk-lib';
import {
  Alarm,
  ComparisonOperator,
  type IMetric,
  MathExpression,
  type Metric,
  TreatMissingData,
} from 'aws-cdk-lib/aws-cloudwatch';
import { SnsAction } from 'aws-cdk-lib/aws-cloudwatch-actions';
import type { Alias } from 'aws-cdk-lib/aws-lambda';
import { Construct } from 'constructs';
import type { InvitationQueue } from './invitation-queue.ts';
import type { LedgerDatabase } from './ledger-database.ts';
import type { LedgerFunction } from './ledger-function.ts';
import type { MinuteSchedule } from './minute-schedule.ts';
import type { Duty, ReminderLedgerProps, Severity } from './reminder-ledger-props.ts';

/** What {@link LedgerAlarms} watch. */
export interface LedgerAlarmsProps extends Pick<ReminderLedgerProps, 'alarmTopics' | 'owners'> {
  readonly functions: readonly LedgerFunction[];
  readonly claim: LedgerFunction;
  readonly queue: InvitationQueue;
  readonly minute: MinuteSchedule;
  readonly database: LedgerDatabase;
}

interface Watch {
  readonly id: string;
  readonly metric: IMetric;
  /** In alarm at this value or above; below it where `below` is set. */
  readonly threshold: number;
  readonly below?: true;
  /** So many of so many minutes. */
  readonly points: readonly [bad: number, of: number];
  /** What silence means. `breaching`: silence is itself the fault. `notBreaching`: nothing happened. */
  readonly missing: TreatMissingData;
  readonly severity: Severity;
  readonly duty: Duty;
  /** What it means, and what to do. */
  readonly says: string;
}

const minute = Duration.minutes(1);

/**
 * The alarms that need no function to measure for them. Those for which silence is a fault exist only once the schedule runs,
 * so that a first deployment rings none. Their names are the one kind of physical name in the stack: a person reads them in
 * the night.
 */
export class LedgerAlarms extends Construct {
  readonly #alarms = new Map<string, Alarm>();

  constructor(scope: Construct, id: string, props: LedgerAlarmsProps) {
    super(scope, id);
    // The functions' own wait for nothing: a gradual deployment makes an alias wait for them, and the schedule waits for it.
    for (const watch of props.functions.flatMap(functionWatches)) this.#add(watch, props);
    for (const watch of watches(props)) this.#add(watch, props).node.addDependency(props.minute);
  }

  /** The alarms of one function. */
  of({ contract }: LedgerFunction): Alarm[] {
    return [...this.#alarms].flatMap(([id, alarm]) => (id.startsWith(`${contract.name}-`) ? [alarm] : []));
  }

  #add(watch: Watch, { alarmTopics = {}, owners = {} }: LedgerAlarmsProps): Alarm {
    const alarm = new Alarm(this, watch.id, {
      alarmName: alarmName(this, watch.id),
      alarmDescription: `${watch.says} Acts: ${owners[watch.duty] ?? `whoever may ${watch.duty}`} (${watch.severity}).`,
      metric: watch.metric,
      threshold: watch.threshold,
      comparisonOperator: watch.below
        ? ComparisonOperator.LESS_THAN_THRESHOLD
        : ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
      datapointsToAlarm: watch.points[0],
      evaluationPeriods: watch.points[1],
      treatMissingData: watch.missing,
    });
    const topic = alarmTopics[watch.severity];
    if (topic) {
      alarm.addAlarmAction(new SnsAction(topic));
      alarm.addOkAction(new SnsAction(topic));
    }
    this.#alarms.set(watch.id, alarm);
    return alarm;
  }
}

function watches({ claim, queue, minute: schedule, database }: LedgerAlarmsProps): Watch[] {
  const quiet = TreatMissingData.NOT_BREACHING;
  return [
    {
      id: 'tick-not-running',
      metric: invocations(claim.alias('tick')),
      ...{ threshold: 1, below: true, points: [3, 5], missing: TreatMissingData.BREACHING },
      ...{ severity: 'page', duty: 'control' },
      says: 'The claim did not run: nothing that becomes due is handed over. Look at the schedule and the claim’s log.',
    },
    {
      id: 'schedule-drops',
      metric: schedule.group.metricDropped({ period: minute, statistic: 'Sum' }),
      ...{ threshold: 1, points: [1, 1], missing: quiet, severity: 'warn', duty: 'control' },
      says: 'EventBridge Scheduler gave a tick up; the next one does its work. Look at the queue of lost ticks for why.',
    },
    {
      id: 'lost-ticks',
      metric: schedule.lostTicks.metricApproximateNumberOfMessagesVisible({ period: minute, statistic: 'Maximum' }),
      ...{ threshold: 1, points: [1, 1], missing: quiet, severity: 'warn', duty: 'control' },
      says: 'A tick that could not be handed to Lambda waits to be looked at. Read it, mend what it names, delete it.',
    },
    {
      id: 'dead-letters',
      metric: new MathExpression({
        expression: 'visible + hidden',
        label: 'messages',
        period: minute,
        usingMetrics: {
          visible: queue.deadLetters.metricApproximateNumberOfMessagesVisible({ statistic: 'Maximum' }),
          hidden: queue.deadLetters.metricApproximateNumberOfMessagesNotVisible({ statistic: 'Maximum' }),
        },
      }),
      ...{ threshold: 1, points: [1, 1], missing: quiet, severity: 'warn', duty: 'recover' },
      says: 'No sender could finish with an invitation. Its reminder goes on by the calendar; look for what the message is.',
    },
    {
      id: 'queue-age',
      metric: queue.queue.metricApproximateAgeOfOldestMessage({ period: minute, statistic: 'Maximum' }),
      ...{ threshold: 300, points: [3, 3], missing: quiet, severity: 'page', duty: 'recover' },
      says: 'Invitations wait for more than 300 s: reminders go out late. Look at the sender’s errors and throttles.',
    },
    {
      id: 'database-capacity',
      metric: database.cluster.metricACUUtilization({ period: minute, statistic: 'Average' }),
      // Missing: an instance that restarts reports nothing for a while.
      ...{ threshold: 85, points: [10, 15], missing: TreatMissingData.MISSING, severity: 'warn', duty: 'control' },
      says: 'The database uses more than 85 % of its capacity. Raise the maximum of `capacity`.',
    },
  ];
}

function functionWatches(fn: LedgerFunction): Watch[] {
  const { name } = fn.contract;
  const onCall = { missing: TreatMissingData.NOT_BREACHING, severity: 'warn', duty: 'recover' } as const;
  const of = { statistic: 'Sum', period: minute };
  const rare = name === 'migrate' || name === 'rotate';
  const errors: Watch = {
    id: `${name}-errors`,
    ...onCall,
    ...(rare
      ? { metric: fn.lambda.metricErrors(of), threshold: 1, points: [1, 1] }
      : {
          metric: new MathExpression({
            expression: 'IF(calls > 0, 100 * failed / calls, 0)',
            label: '% of the calls',
            period: minute,
            usingMetrics: { calls: fn.lambda.metricInvocations(of), failed: fn.lambda.metricErrors(of) },
          }),
          threshold: 5,
          points: [3, 5],
        }),
    says: `The function ${name} fails. Its log says why; what it left open is recovered by the calendar.`,
  };
  const throttles: Watch = {
    id: `${name}-throttles`,
    ...onCall,
    metric: fn.lambda.metricThrottles(of),
    ...{ threshold: 1, points: [3, 5] },
    says: `Lambda refuses calls of ${name}. Raise the account’s concurrent executions, or what is reserved for it.`,
  };
  return rare ? [errors] : [errors, throttles];
}

/** `<stack> <place of the ledger in it> <alarm>`: two ledgers of one stack have alarms of their own. */
export function alarmName(alarms: Construct, id: string): string {
  const stack = Stack.of(alarms);
  const place = alarms.node.scopes.slice(stack.node.scopes.length, -1).map(({ node }) => node.id);
  return `${stack.stackName} ${place.join('/')} ${id}`;
}

/** Calls by one alias. */
function invocations(alias: Alias): Metric {
  return alias.metricInvocations({ period: minute, statistic: 'Sum' }) as Metric;
}
