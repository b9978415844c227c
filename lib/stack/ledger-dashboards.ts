// The two dashboards: is anything wrong, and why.
import { Duration } from 'aws-cdk-lib';
import {
  AlarmStatusWidget,
  CustomWidget,
  Dashboard,
  GraphWidget,
  type IMetric,
  type IWidget,
  type Metric,
  Row,
  TextWidget,
} from 'aws-cdk-lib/aws-cloudwatch';
import type { Alias } from 'aws-cdk-lib/aws-lambda';
import { Construct } from 'constructs';
import { heartbeat, type Measure, measures } from '../../lambdas/observe/contract.ts';
import type { WidgetRequest } from '../../lambdas/widget/contract.ts';
import type { InvitationQueue } from './invitation-queue.ts';
import type { LedgerAlarms } from './ledger-alarms.ts';
import type { LedgerDatabase } from './ledger-database.ts';
import type { LedgerFunction } from './ledger-function.ts';
import { observed, published } from './ledger-metrics.ts';
import type { LedgerSchedules } from './ledger-schedules.ts';
import { minute } from './watch.ts';

/** What {@link LedgerDashboards} show. */
export interface LedgerDashboardsProps {
  readonly alarms: LedgerAlarms;
  readonly functions: readonly LedgerFunction[];
  readonly queue: InvitationQueue;
  readonly schedules: LedgerSchedules;
  readonly database: LedgerDatabase;
  /** Whom CloudWatch invokes with the permissions of the person who looks. */
  readonly widget: Alias;
  readonly widgetParameters: Pick<WidgetRequest, 'stack' | 'logGroup'>;
}

/** CloudWatch gives them names, which begin with that of the stack. */
export class LedgerDashboards extends Construct {
  readonly wrong: Dashboard;
  readonly why: Dashboard;

  constructor(scope: Construct, id: string, props: LedgerDashboardsProps) {
    super(scope, id);
    const defaultInterval = Duration.hours(3);
    this.wrong = new Dashboard(this, 'Wrong', { defaultInterval, widgets: wrongRows(props) });
    this.why = new Dashboard(this, 'Why', { defaultInterval, widgets: whyRows(props) });
  }
}

function wrongRows({ alarms, queue, schedules }: LedgerDashboardsProps): IWidget[][] {
  return rows(
    [
      new TextWidget({
        ...{ width: 24, height: 2 },
        markdown:
          '## Is anything wrong?\nWhat rings says what it means, who acts and what to do in its description. Why it rings: the other dashboard of this stack.',
      }),
    ],
    [new AlarmStatusWidget({ title: 'Alarms', alarms: alarms.telling, width: 24, height: 8 })],
    [
      graph('Oldest, by state', [
        ...gauges('overdue_age', 'queued_age', 'dispatching_abandoned_age', 'delivering_abandoned_age'),
        ...gauges('parked_active_age', 'paused_age', 'unannounced_age'),
      ]),
      graph('Oldest that waits for a person', gauges('held_unreviewed_age', 'dead_unreviewed_age')),
      graph('Late by', gauges('lateness_p50', 'lateness_p99')),
    ],
    [
      graph('For a person', gauges('held_unreviewed', 'dead_unreviewed', 'excluded', 'most_failing', 'most_parked')),
      graph('Queues', [
        queue.queue.metricApproximateAgeOfOldestMessage(greatest('oldest invitation, s')),
        queue.deadLetters.metricApproximateNumberOfMessagesVisible(greatest('dead letters')),
        queue.deadLetters.metricApproximateNumberOfMessagesNotVisible(greatest('dead letters, hidden')),
        schedules.lostTicks.metricApproximateNumberOfMessagesVisible(greatest('lost ticks')),
      ]),
      graph('Alive', [published('observe', heartbeat, 'Sum'), published('claim', 'batches', 'Sum')]),
    ],
  );
}

function whyRows({
  functions,
  queue,
  schedules,
  database,
  widget,
  widgetParameters,
}: LedgerDashboardsProps): IWidget[][] {
  const perFunction = (title: string, metric: (fn: LedgerFunction) => IMetric) => graph(title, functions.map(metric));
  const of = (label: string, statistic: string) => ({ label, statistic, period: minute });
  return rows(
    [
      new CustomWidget({
        ...{ title: 'The recovery ledger', width: 24, height: 16 },
        functionArn: widget.functionArn,
        params: widgetParameters,
        // What it shows is now, whatever the time range; and a look costs four statements.
        ...{ updateOnResize: false, updateOnTimeRangeChange: false },
      }),
    ],
    [
      graph('Into the calendar', counts('schedule', 'scheduled', 'duplicate', 'conflict', 'cancelled', 'rescheduled')),
      graph('Through the claim', counts('claim', 'claimed', 'enqueued', 'released', 'recovered', 'expired', 'parked')),
      graph('Attempts', [
        ...counts('webhook-sender', 'attempt_delivered', 'attempt_retry', 'attempt_permanent', 'attempt_unknown'),
      ]),
    ],
    [
      graph('In flight', gauges('dispatching', 'queued', 'delivering', 'overdue')),
      graph('Leases: over for', gauges('dispatching_abandoned_age', 'delivering_abandoned_age')),
      graph('An attempt takes, and a tick', [
        published('webhook-sender', 'attempt', 'p50').with({ label: 'an attempt, p50, ms' }),
        published('webhook-sender', 'attempt', 'p99').with({ label: 'an attempt, p99, ms' }),
        published('claim', 'claim', 'Maximum').with({ label: 'a tick, ms' }),
      ]),
    ],
    [
      graph('Ended within five ticks', [
        ...gauges('recent_attempts', 'recent_delivered', 'recent_unknown', 'recent_rescued', 'recent_dead'),
      ]),
      graph('In the calendar', gauges('in_calendar', 'due_next_hour')),
      graph('Schedules', [
        schedules.group.metricAttempts({ ...of('invoked', 'Sum') }),
        schedules.group.metricDropped({ ...of('dropped', 'Sum') }),
      ]),
    ],
    [
      perFunction('Errors', ({ contract, lambda }) => lambda.metricErrors(of(contract.name, 'Sum'))),
      perFunction('Throttles', ({ contract, lambda }) => lambda.metricThrottles(of(contract.name, 'Sum'))),
      perFunction('Duration, p99', ({ contract, lambda }) => lambda.metricDuration(of(contract.name, 'p99'))),
    ],
    [
      graph('Invitations', [
        queue.queue.metricNumberOfMessagesSent(of('sent', 'Sum')),
        queue.queue.metricNumberOfMessagesReceived(of('received', 'Sum')),
        queue.queue.metricApproximateNumberOfMessagesVisible(greatest('visible')),
        queue.queue.metricApproximateNumberOfMessagesNotVisible(greatest('in flight')),
        queue.queue.metricApproximateNumberOfMessagesDelayed(greatest('delayed')),
      ]),
      graph('Database, % of its capacity', [database.cluster.metricACUUtilization(greatest('used'))]),
      graph('Database, capacity units', [database.cluster.metricServerlessDatabaseCapacity(greatest('units'))]),
    ],
  );
}

const rows = (...all: IWidget[][]): IWidget[][] => all.map((widgets) => [new Row(...widgets)]);

/** A third of a row. What is published in milliseconds is shown so. */
const graph = (title: string, left: IMetric[]): GraphWidget =>
  new GraphWidget({ title, left, width: 8, height: 6, period: minute, leftYAxis: { min: 0 } });

const greatest = (label: string) => ({ label, statistic: 'Maximum', period: minute });

/** Measures of the observer, an age with its unit. */
const gauges = (...names: Measure[]): Metric[] =>
  names.map((name) => observed(name).with({ label: measures[name] === 'milliseconds' ? `${name}, ms` : name }));

const counts: <Name extends Parameters<typeof published>[0]>(
  functionName: Name,
  ...names: Parameters<typeof published<Name>>[1][]
) => Metric[] = (functionName, ...names) => names.map((name) => published(functionName, name, 'Sum'));
