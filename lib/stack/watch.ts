// What an alarm is made from: the metric, the threshold, what silence means, who acts and what to do.
import { Duration } from 'aws-cdk-lib';
import type { IMetric, TreatMissingData } from 'aws-cdk-lib/aws-cloudwatch';
import type { Duty, Severity } from './reminder-ledger-props.ts';

/** The period of every alarm. */
export const minute: Duration = Duration.minutes(1);

/** One alarm, before it is made. */
export interface Watch {
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
  /** What it means, and where to look. What to type next stands in a table of its own. */
  readonly says: string;
}
