// CloudWatch as far as the alarms of a template need it: evaluates them minute by minute, and keeps whom they tell.
import { type NamedMetric, nameOf } from './alarm-metrics.ts';
import type { Synthesized } from './synthesized.ts';

/** What a metric was in a minute; undefined where nothing was published. */
export type Series = (metric: string, minute: number) => number | undefined;

/** An action of an alarm: it rings, or it is over. */
export interface Told {
  readonly minute: number;
  readonly alarm: string;
  readonly state: 'ALARM' | 'OK';
}

interface Stat {
  readonly Metric: NamedMetric;
  readonly Period: number;
  readonly Stat: string;
}
interface MetricAlarm {
  readonly Metrics?: readonly { readonly Id: string; readonly Expression?: string; readonly MetricStat?: Stat }[];
  readonly Period?: number;
  readonly Statistic?: string;
  readonly ExtendedStatistic?: string;
  readonly Threshold: number;
  readonly ComparisonOperator: 'LessThanThreshold' | 'GreaterThanOrEqualToThreshold';
  readonly EvaluationPeriods: number;
  readonly DatapointsToAlarm: number;
  readonly TreatMissingData: 'breaching' | 'notBreaching' | 'missing';
  readonly AlarmActions?: unknown;
}
interface Composite {
  readonly AlarmRule: unknown;
  readonly ActionsSuppressor?: unknown;
  readonly ActionsSuppressorWaitPeriod?: number;
  readonly ActionsSuppressorExtensionPeriod?: number;
  readonly AlarmActions?: unknown;
}

type State = 'OK' | 'ALARM' | 'INSUFFICIENT_DATA';

/**
 * The state of a metric alarm after a minute (CloudWatch User Guide, "Evaluating an alarm" and "Configuring how CloudWatch
 * alarms treat missing data"): of somewhat more periods than it looks at the newest points count, and what still lacks is
 * filled as the alarm says.
 */
function stateOf(alarm: MetricAlarm, series: Series, minute: number): State {
  const { EvaluationPeriods: periods, DatapointsToAlarm: needed, TreatMissingData: missing } = alarm;
  const period = (alarm.Period ?? alarm.Metrics?.find(({ MetricStat }) => MetricStat)?.MetricStat?.Period ?? 60) / 60;
  // Whole periods alone, the newest first.
  const last = Math.floor((minute + 1) / period) - 1;
  const points = Array.from({ length: periods + 2 }, (_, ago) => pointOf(alarm, series, (last - ago) * period, period))
    .filter((point) => point !== undefined)
    .slice(0, periods);
  const isBad = (point: number) =>
    alarm.ComparisonOperator === 'LessThanThreshold' ? point < alarm.Threshold : point >= alarm.Threshold;
  if (points.length === 0 && missing === 'missing') return 'INSUFFICIENT_DATA';
  const filled = missing === 'breaching' ? periods - points.length : 0;
  const bad = points.filter(isBad).length + filled;
  return bad >= needed ? 'ALARM' : 'OK';
}

function pointOf(alarm: MetricAlarm, series: Series, from: number, minutes: number): number | undefined {
  const of = (metric: NamedMetric, statistic = ''): number | undefined => {
    const all = Array.from({ length: minutes }, (_, minute) => series(nameOf(metric), from + minute));
    const values = all.filter((value) => value !== undefined);
    if (values.length === 0) return undefined;
    // One value a minute: of one, every other statistic is that.
    return statistic === 'Sum' ? values.reduce((sum, value) => sum + value, 0) : Math.max(...values);
  };
  if (alarm.Metrics === undefined) {
    return of(alarm as unknown as NamedMetric, alarm.Statistic ?? alarm.ExtendedStatistic);
  }
  const expression = alarm.Metrics.find(({ Expression }) => Expression !== undefined)?.Expression ?? '';
  const values = alarm.Metrics.flatMap(({ Id, MetricStat }) =>
    MetricStat === undefined ? [] : [[Id, of(MetricStat.Metric, MetricStat.Stat)] as const],
  );
  if (values.some(([, value]) => value === undefined)) return undefined;
  // Metric math of the template: IF, comparison and arithmetic, which JavaScript writes alike.
  const IF = (condition: boolean, yes: number, no: number) => (condition ? yes : no);
  const compute = new Function('IF', ...values.map(([id]) => id), `return ${expression}`);
  return Number(compute(IF, ...values.map(([, value]) => value)));
}

/**
 * Runs the alarms of a template.
 * @param from the minute in which they are made
 * @param until the last minute
 * @returns what each told, in order
 */
export function runAlarms(
  { resources, text }: Pick<Synthesized, 'resources' | 'text'>,
  series: Series,
  { from = 0, until }: { from?: number; until: number },
): Told[] {
  const idOf = (path: string) => path.replace(/^.*Alarms\//, '').replace(/\.Arn$/, '');
  const named = [...resources].map(([path, { Type, Properties }]) => ({ id: idOf(path), Type, Properties }));
  const of = <Shape>(type: string) =>
    named.filter(({ Type }) => Type === type).map(({ id, Properties }) => ({ id, alarm: Properties as Shape }));
  const metricAlarms = of<MetricAlarm>('AWS::CloudWatch::Alarm');
  const composites = of<Composite>('AWS::CloudWatch::CompositeAlarm');
  const states = new Map<string, State>();
  const told: Told[] = [];
  const ringing = new Map<string, { since: number; heldUntil: number; told: boolean }>();
  const follows = (rule: unknown) => [...text(rule).matchAll(/ALARM\("(.+?)"\)/g)].map(([, path = '']) => idOf(path));
  const inAlarm = (id: string): boolean => {
    const composite = composites.find((one) => one.id === id);
    return composite === undefined ? states.get(id) === 'ALARM' : follows(composite.alarm.AlarmRule).some(inAlarm);
  };

  for (let minute = from; minute <= until; minute += 1) {
    for (const { id, alarm } of metricAlarms) {
      const before = states.get(id) ?? 'INSUFFICIENT_DATA';
      const state = stateOf(alarm, series, minute);
      states.set(id, state);
      const changed = state !== before && (state === 'ALARM' || before === 'ALARM');
      if (changed && alarm.AlarmActions) told.push({ minute, alarm: id, state: state === 'ALARM' ? 'ALARM' : 'OK' });
    }
    for (const { id, alarm } of composites) {
      const wait = Number(alarm.ActionsSuppressorWaitPeriod ?? 0) / 60;
      const extension = Number(alarm.ActionsSuppressorExtensionPeriod ?? 0) / 60;
      const ring = ringing.get(id) ?? { since: minute, heldUntil: minute + wait, told: false };
      if (alarm.ActionsSuppressor !== undefined && inAlarm(idOf(text(alarm.ActionsSuppressor)))) {
        ring.heldUntil = Math.max(ring.heldUntil, minute + extension);
      }
      if (!alarm.AlarmActions) continue;
      if (!inAlarm(id)) {
        if (ring.told) told.push({ minute, alarm: id, state: 'OK' });
        ringing.delete(id);
        continue;
      }
      if (!ring.told && minute >= ring.heldUntil) {
        told.push({ minute, alarm: id, state: 'ALARM' });
        ring.told = true;
      }
      ringing.set(id, ring);
    }
  }
  return told;
}
