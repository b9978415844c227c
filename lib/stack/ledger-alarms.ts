// The alarms: each with its severity, who must act, and what to do.
import { Duration, Stack } from 'aws-cdk-lib';
import {
  Alarm,
  type AlarmBase,
  AlarmRule,
  AlarmState,
  ComparisonOperator,
  CompositeAlarm,
} from 'aws-cdk-lib/aws-cloudwatch';
import { SnsAction } from 'aws-cdk-lib/aws-cloudwatch-actions';
import { PolicyStatement, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import type { ITopic } from 'aws-cdk-lib/aws-sns';
import { Construct } from 'constructs';
import type { LedgerFunction } from './ledger-function.ts';
import { nextCommand } from './next-commands.ts';
import { canaryLate, flowWatches, observerSilent, stateWatches } from './observer-watches.ts';
import type { ReminderLedgerProps } from './reminder-ledger-props.ts';
import {
  functionWatches,
  justDeployed,
  serviceWatches,
  tickNotRunning,
  type WatchedServices,
} from './service-watches.ts';
import type { Watch } from './watch.ts';

/** What holds back alarms on states: none of the two is the trouble that these ring for. */
const nothingToGoBy = {
  id: 'nothing-to-go-by',
  severity: 'warn',
  duty: 'inspect',
  says: 'Nobody looks at the ledger, or it was migrated a moment ago, so that what is measured of it may be missing. This tells nobody, and alarms that ring meanwhile for want of data do not either.',
} as const;

/** What {@link LedgerAlarms} watch. */
export interface LedgerAlarmsProps extends WatchedServices, Pick<ReminderLedgerProps, 'alarmTopics' | 'owners'> {
  readonly functions: readonly LedgerFunction[];
  /** Whether there is a canary. */
  readonly canary: boolean;
}

/**
 * Those for which silence is a fault exist only once the schedules run, and tell nobody while there is another cause of it: a
 * deployment that has just been, or an observer that is silent. Their names are the one kind of physical name in the stack: a
 * person reads them in the night.
 */
export class LedgerAlarms extends Construct {
  /** Those that tell somebody: not those that another one follows. */
  readonly telling: AlarmBase[] = [];
  readonly #alarms = new Map<string, Alarm>();
  readonly #props: LedgerAlarmsProps;

  constructor(scope: Construct, id: string, props: LedgerAlarmsProps) {
    super(scope, id);
    this.#props = props;
    for (const topic of new Set(Object.values(props.alarmTopics ?? {}))) this.#letPublish(topic);
    // The functions' own wait for nothing: a gradual deployment makes an alias wait for them, and the schedule waits for it.
    for (const watch of props.functions.flatMap(functionWatches)) this.#tell(watch, this.#alarm(watch));
    for (const watch of [...serviceWatches(props), ...flowWatches()]) this.#tell(watch, this.#afterTicks(watch));
    const deployed = this.#alarm(justDeployed(props.migrate));
    const silent = this.#tellUnless(deployed, observerSilent);
    this.#tellUnless(deployed, tickNotRunning(props.claim));
    if (props.canary) this.#tellUnless(deployed, canaryLate);
    const blind = new CompositeAlarm(this, nothingToGoBy.id, {
      compositeAlarmName: alarmName(this, nothingToGoBy.id),
      alarmDescription: this.#description(nothingToGoBy),
      alarmRule: AlarmRule.anyOf(...[silent, deployed].map((cause) => AlarmRule.fromAlarm(cause, AlarmState.ALARM))),
    });
    for (const watch of stateWatches()) this.#tellUnless(blind, watch);
  }

  /** The alarms of one function. */
  of({ contract }: LedgerFunction): Alarm[] {
    return [...this.#alarms].flatMap(([id, alarm]) => (id.startsWith(`${contract.name}-`) ? [alarm] : []));
  }

  #alarm(watch: Watch, id = watch.id): Alarm {
    const alarm = new Alarm(this, id, {
      alarmName: alarmName(this, id),
      alarmDescription: this.#description(watch),
      metric: watch.metric,
      threshold: watch.threshold,
      comparisonOperator: watch.below
        ? ComparisonOperator.LESS_THAN_THRESHOLD
        : ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
      datapointsToAlarm: watch.points[0],
      evaluationPeriods: watch.points[1],
      treatMissingData: watch.missing,
    });
    this.#alarms.set(id, alarm);
    return alarm;
  }

  #afterTicks(watch: Watch, alarmId?: string): Alarm {
    const alarm = this.#alarm(watch, alarmId);
    alarm.node.addDependency(this.#props.schedules);
    return alarm;
  }

  /**
   * An alarm that is measured, and one that follows it and tells nobody while `cause` rings: then the other rings for want of
   * data alone. A composite tells of its own changes only, so each follows one: of two that followed together, the second would
   * be missed. Answers the one that is measured.
   */
  #tellUnless(cause: AlarmBase, watch: Watch): Alarm {
    const measured = this.#afterTicks(watch, `${watch.id}-measured`);
    const following = new CompositeAlarm(this, watch.id, {
      compositeAlarmName: alarmName(this, watch.id),
      alarmDescription: this.#description(watch),
      alarmRule: AlarmRule.fromAlarm(measured, AlarmState.ALARM),
      actionsSuppressor: cause,
      // The cause must ring first. What looks at as many minutes rings with it; what looks at one may be minutes earlier.
      actionsSuppressorWaitPeriod: Duration.minutes(watch.points[1] < observerSilent.points[1] ? 5 : 2),
      // The first data after a silence end both, not in the same second.
      actionsSuppressorExtensionPeriod: Duration.minutes(2),
    });
    this.#tell(watch, following);
    return measured;
  }

  #description({ id, says, duty, severity }: Pick<Watch, 'id' | 'says' | 'duty' | 'severity'>): string {
    const acts = this.#props.owners?.[duty] ?? `whoever may ${duty}`;
    return `${says} Acts: ${acts} (${severity}). Next: ${nextCommand(id, Stack.of(this).stackName)}`;
  }

  /**
   * A policy of its own, such as the one that enforces TLS, takes the place of the one by which SNS lets the account's services
   * publish. A topic that is imported keeps the policy that it has.
   */
  #letPublish(topic: ITopic): void {
    topic.addToResourcePolicy(
      new PolicyStatement({
        actions: ['sns:Publish'],
        principals: [new ServicePrincipal('cloudwatch.amazonaws.com')],
        resources: [topic.topicArn],
        conditions: { StringEquals: { 'aws:SourceAccount': Stack.of(this).account } },
      }),
    );
  }

  #tell({ severity }: Watch, alarm: AlarmBase): void {
    this.telling.push(alarm);
    const topic = this.#props.alarmTopics?.[severity];
    if (!topic) return;
    alarm.addAlarmAction(new SnsAction(topic));
    alarm.addOkAction(new SnsAction(topic));
  }
}

/** `<stack> <place of the ledger in it> <alarm>`: two ledgers of one stack have alarms of their own. */
export function alarmName(alarms: Construct, id: string): string {
  const stack = Stack.of(alarms);
  const place = alarms.node.scopes.slice(stack.node.scopes.length, -1).map(({ node }) => node.id);
  return `${stack.stackName} ${place.join('/')} ${id}`;
}
