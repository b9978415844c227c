// The alarms on what AWS itself measures: ticks, functions, queues, capacity.
import { MathExpression, type Metric, TreatMissingData } from 'aws-cdk-lib/aws-cloudwatch';
import type { Alias } from 'aws-cdk-lib/aws-lambda';
import type { InvitationQueue } from './invitation-queue.ts';
import type { LedgerDatabase } from './ledger-database.ts';
import type { LedgerFunction } from './ledger-function.ts';
import type { LedgerSchedules } from './ledger-schedules.ts';
import { minute, type Watch } from './watch.ts';

/** What {@link serviceWatches} are about. */
export interface WatchedServices {
  readonly migrate: LedgerFunction;
  readonly claim: LedgerFunction;
  readonly queue: InvitationQueue;
  readonly schedules: LedgerSchedules;
  readonly database: LedgerDatabase;
}

/** The alarm on the tick, for which silence is the fault. */
export function tickNotRunning(claim: LedgerFunction): Watch {
  return {
    id: 'tick-not-running',
    metric: invocations(claim.alias('tick')),
    ...{ threshold: 1, below: true, points: [3, 5], missing: TreatMissingData.BREACHING },
    ...{ severity: 'page', duty: 'control' },
    says: 'The claim did not run: nothing that becomes due is handed over. Look at the schedule and the claim’s log.',
  };
}

/** The alarms on the schedule, the queues and the database. */
export function serviceWatches({ queue, schedules, database }: WatchedServices): Watch[] {
  const quiet = TreatMissingData.NOT_BREACHING;
  return [
    {
      id: 'schedule-drops',
      metric: schedules.group.metricDropped({ period: minute, statistic: 'Sum' }),
      ...{ threshold: 1, points: [1, 1], missing: quiet, severity: 'warn', duty: 'control' },
      says: 'EventBridge Scheduler gave a tick up; the next one does its work. Look at the queue of lost ticks for why.',
    },
    {
      id: 'lost-ticks',
      metric: schedules.lostTicks.metricApproximateNumberOfMessagesVisible({ period: minute, statistic: 'Maximum' }),
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
      says: 'No sender could finish with an invitation. Its reminder goes on by the calendar. Look, then redrive: reminders recover redrive.',
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

/**
 * Not trouble: there was a deployment that migrated, as the first one does. Until there are data of what it made, alarms for
 * which silence is a fault would ring.
 */
export function justDeployed(migrate: LedgerFunction): Watch {
  return {
    id: 'just-deployed',
    metric: migrate.lambda.metricInvocations({ period: minute, statistic: 'Sum' }),
    ...{ threshold: 1, points: [1, 20], missing: TreatMissingData.NOT_BREACHING, severity: 'warn', duty: 'inspect' },
    says: 'The schema was migrated within the last 20 min, which is no trouble and tells nobody. Alarms that ring for want of data tell nobody meanwhile.',
  };
}

/** The alarms of one function. */
export function functionWatches(fn: LedgerFunction): Watch[] {
  const { name } = fn.contract;
  const onCall = { missing: TreatMissingData.NOT_BREACHING, severity: 'warn', duty: 'recover' } as const;
  const of = { statistic: 'Sum', period: minute };
  const rare = ['migrate', 'rotate', 'retain', 'canary', 'canary-receiver'].includes(name);
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

/** Calls by one alias. */
function invocations(alias: Alias): Metric {
  return alias.metricInvocations({ period: minute, statistic: 'Sum' }) as Metric;
}
