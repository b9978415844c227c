// The metrics that the functions publish themselves, by names that their contracts know.
import { Metric } from 'aws-cdk-lib/aws-cloudwatch';
import type { canaryLateness } from '../../lambdas/canary-receiver/contract.ts';
import type { ClaimMetric } from '../../lambdas/claim/contract.ts';
import { type leaseUsed, metricDimension, metricNamespace } from '../../lambdas/core/function-contract.ts';
import type { heartbeat, Measure } from '../../lambdas/observe/contract.ts';
import type { CommandAnswer } from '../../lambdas/schedule/contract.ts';
import type { SenderMetric } from '../../lambdas/webhook-sender/contract.ts';
import { minute } from './watch.ts';

/** What each function publishes that something here reads. */
interface PublishedMetrics {
  readonly observe: Measure | typeof heartbeat;
  readonly claim: ClaimMetric | typeof leaseUsed;
  readonly schedule: CommandAnswer['answer'];
  readonly 'webhook-sender': SenderMetric | typeof leaseUsed;
  readonly 'canary-receiver': typeof canaryLateness;
}

/** Any other set of dimensions would be a metric without data. */
export function published<Name extends keyof PublishedMetrics>(
  functionName: Name,
  metricName: PublishedMetrics[Name],
  statistic: 'Maximum' | 'Sum' | 'p50' | 'p99',
): Metric {
  const dimensionsMap = { [metricDimension]: functionName };
  return new Metric({ namespace: metricNamespace, metricName, dimensionsMap, statistic, period: minute });
}

/** A measure of the observer. It may be published twice: a gauge, of which the greatest counts. */
export function observed(name: Measure): Metric {
  return published('observe', name, 'Maximum');
}
