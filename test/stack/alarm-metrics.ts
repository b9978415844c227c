// Metrics by their names: what an alarm of the template reads, and what a function's log holds.
import { vi } from 'vitest';
import type { Meter } from '../../lambdas/core/ports.ts';
import { functionMeter } from '../../lambdas/runtime/meter.ts';
import type { Resource } from './synthesized.ts';

interface Dimension {
  readonly Name: string;
  readonly Value: unknown;
}
export interface NamedMetric {
  readonly Namespace: string;
  readonly MetricName: string;
  readonly Dimensions?: readonly Dimension[];
}

/** `namespace metric dimension=value`, by which CloudWatch tells one metric from another. */
export const nameOf = ({ Namespace, MetricName, Dimensions = [] }: NamedMetric) =>
  [
    Namespace,
    MetricName,
    ...Dimensions.map(
      ({ Name, Value }) => `${Name}=${typeof Value === 'string' ? Value : JSON.stringify(Value)}`,
    ).toSorted(),
  ].join(' ');

/** The metrics that an alarm reads, its own or those of its expression. */
export function readBy({ Properties }: Resource): string[] {
  const { Metrics } = Properties as { Metrics?: { MetricStat?: { Metric: NamedMetric } }[] };
  if (Metrics === undefined) return [nameOf(Properties as unknown as NamedMetric)];
  return Metrics.flatMap(({ MetricStat }) => (MetricStat === undefined ? [] : [nameOf(MetricStat.Metric)]));
}

/** The metrics that lines of a log hold in CloudWatch's embedded format, with the values of the last. */
export function printedIn(log: string): Map<string, { value: unknown; unit: string }> {
  const printed = new Map<string, { value: unknown; unit: string }>();
  for (const line of log.split('\n').filter((text) => text.includes('"_aws"'))) {
    const { _aws, ...values } = JSON.parse(line) as {
      _aws: {
        CloudWatchMetrics: { Namespace: string; Dimensions: string[][]; Metrics: { Name: string; Unit: string }[] }[];
      };
      [name: string]: unknown;
    };
    for (const { Namespace, Dimensions: sets, Metrics } of _aws.CloudWatchMetrics) {
      for (const { Name: MetricName, Unit: unit } of Metrics) {
        for (const names of sets) {
          const Dimensions = names.map((Name) => ({ Name, Value: String(values[Name]) }));
          printed.set(nameOf({ Namespace, MetricName, Dimensions }), { value: values[MetricName], unit });
        }
      }
    }
  }
  return printed;
}

/** What a function of that name prints as its metrics while it does something. */
export async function printedBy(functionName: string, act: (meter: Meter) => Promise<unknown>) {
  const lines: string[] = [];
  const keep = (line: unknown) => void lines.push(String(line));
  const spies = [
    vi.spyOn(console, 'log').mockImplementation(keep),
    vi.spyOn(process.stdout, 'write').mockImplementation((line) => {
      keep(line);
      return true;
    }),
  ];
  try {
    const meter = functionMeter(functionName);
    await act(meter);
    meter.publish();
  } finally {
    for (const spy of spies) spy.mockRestore();
  }
  return printedIn(lines.join('\n'));
}
