// The dashboards of a synthesized stack, read as CloudWatch would, with paths for what CloudFormation puts in.
import type { Synthesized } from './synthesized.ts';

/** One widget of a dashboard. */
export interface DashboardWidget {
  readonly type: 'alarm' | 'custom' | 'metric' | 'text';
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
  readonly properties: {
    readonly title?: string;
    readonly markdown?: string;
    readonly metrics?: readonly (readonly unknown[])[];
    readonly alarms?: readonly string[];
    readonly endpoint?: string;
    readonly params?: object;
  };
}

/** A metric of a graph. */
export interface ShownMetric {
  readonly namespace: string;
  readonly name: string;
  readonly dimensions: Readonly<Record<string, string>>;
  readonly label: string;
}

export function dashboardOf(
  { properties, text }: Synthesized,
  path: string,
): { widgets: DashboardWidget[]; bytes: number } {
  const body = text(properties<{ DashboardBody: unknown }>(path).DashboardBody);
  return { widgets: (JSON.parse(body) as { widgets: DashboardWidget[] }).widgets, bytes: body.length };
}

/** `["namespace", "name", "dimension", "value", …, {options}]`, in full: the CDK writes no abbreviations. */
export function metricsOf({ properties }: DashboardWidget): ShownMetric[] {
  return (properties.metrics ?? []).map((entry) => {
    const [namespace = '', name = '', ...rest] = entry.filter((part): part is string => typeof part === 'string');
    const pairs = rest.flatMap((value, place) => (place % 2 === 1 ? [[rest[place - 1] ?? '', value]] : []));
    const { label = name } = (entry.find((part) => typeof part === 'object') ?? {}) as { label?: string };
    return { namespace, name, dimensions: Object.fromEntries(pairs), label };
  });
}
