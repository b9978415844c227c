// The metrics of a function, as CloudWatch embedded metric format on standard output.
import { Metrics, MetricUnit } from '@aws-lambda-powertools/metrics';
import { metricNamespace } from '../core/function-contract.ts';
import type { Meter } from '../core/ports.ts';

/** A {@link Meter} whose values are kept until they are published. */
export interface FunctionMeter extends Meter {
  /** Prints what was measured since the last time, and forgets it. Prints nothing when nothing was measured. */
  publish(): void;
}

/**
 * The metrics of one function. Each is published under exactly one dimension, `service` = the function's name in its
 * contract: an alarm with any other set of dimensions sees no data. Units: `Count`, `Milliseconds`, `Percent`.
 */
export function functionMeter(functionName: string): FunctionMeter {
  const metrics = new Metrics({ namespace: metricNamespace, serviceName: functionName });
  return {
    count: (name, value = 1) => void metrics.addMetric(name, MetricUnit.Count, value),
    milliseconds: (name, value) => void metrics.addMetric(name, MetricUnit.Milliseconds, value),
    percent: (name, value) => void metrics.addMetric(name, MetricUnit.Percent, value),
    publish: () => {
      if (metrics.hasStoredMetrics()) metrics.publishStoredMetrics();
    },
  };
}
