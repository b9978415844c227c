// One look at the whole ledger: counts, oldest ages and recent outcomes, published as metrics each minute.
import type { Log, Meter } from './ports.ts';

/** What each look measures, and in which unit. An age is that of the oldest. All are published, zeros too. */
export const measures = {
  /** Rows with a time at which the calendar looks at them: an estimate of the database. */
  in_calendar: 'count',
  /** Rows that come due within the hour, counted up to 100,000. */
  due_next_hour: 'count',
  dispatching: 'count',
  queued: 'count',
  delivering: 'count',
  /** Rows that no claim can advance, set aside until a person readmits them. They count in no age. */
  excluded: 'count',
  /** Rows that are due and that no claim has taken, though nothing keeps it from that: not parked, not paused. */
  overdue: 'count',
  overdue_age: 'milliseconds',
  /** Since a claim's lease passed that never handed its rows to the queue. */
  dispatching_abandoned_age: 'milliseconds',
  /** Since a row is due and has been invited first; being invited again does not begin it anew. */
  queued_age: 'milliseconds',
  /** Since a sender's lease passed that never reported. */
  delivering_abandoned_age: 'milliseconds',
  /** Since all dispatch is paused. */
  paused_age: 'milliseconds',
  /** Since an end happened that the event bus was not told of. */
  unannounced_age: 'milliseconds',
  /** Rows parked at the destination that has the most. */
  most_parked: 'count',
  /** Since rows are parked though their destination is active. */
  parked_active_age: 'milliseconds',
  /** Rows with three failures or more at the active destination that has the most. */
  most_failing: 'count',
  /** Attempts whose outcome was recorded within the last five ticks; the next four are among them. */
  recent_attempts: 'count',
  recent_unknown: 'count',
  /** Attempts that a claim closed, because their sender never reported. */
  recent_rescued: 'count',
  recent_delivered: 'count',
  recent_dead: 'count',
  /** From due to delivered, of the last 1,000 recently delivered. */
  lateness_p50: 'milliseconds',
  lateness_p99: 'milliseconds',
  held_unreviewed: 'count',
  held_unreviewed_age: 'milliseconds',
  dead_unreviewed: 'count',
  dead_unreviewed_age: 'milliseconds',
} as const satisfies Readonly<Record<string, keyof Meter>>;

/** The metric of a look that was complete: its silence is an observer that sees nothing. */
export const heartbeat = 'observed';

/** The name of a metric, published by the function `observe` alone. */
export type Measure = keyof typeof measures;

export type DestinationMeasure = 'most_parked' | 'parked_active_age' | 'most_failing';
export type OutcomeMeasure = Extract<
  Measure,
  `recent_${string}` | `lateness_${string}` | `${string}_unreviewed${string}`
>;
export type CalendarMeasure = Exclude<Measure, DestinationMeasure | OutcomeMeasure>;

/** A destination with parked or failing rows; counted up to 1,000. */
export interface DestinationTrouble {
  readonly name: string;
  readonly state: string;
  readonly parked: number;
  readonly failing: number;
}

/** What one look saw. */
export interface Observation {
  /** Counts, and ages in milliseconds. */
  readonly measured: Readonly<Record<Measure, number>>;
  /** Those with the most rows, twenty at most. */
  readonly destinations: readonly DestinationTrouble[];
}

/** Looks at the ledger and changes nothing. */
export interface Observations {
  look(): Promise<Observation>;
}

/**
 * Publishes what one look saw. Names of destinations stand in the log alone: as a dimension each would be a metric.
 * @throws {LedgerError} when the ledger did not answer; then nothing is published, the heartbeat neither
 */
export async function observeLedger(
  observations: Observations,
  { log, meter }: { log: Log; meter: Meter },
): Promise<Observation['measured']> {
  const { measured, destinations } = await observations.look();
  for (const name of Object.keys(measures) as Measure[]) meter[measures[name]](name, measured[name]);
  meter.count(heartbeat);
  if (destinations.length > 0) log.info('observe', { destinations });
  return measured;
}
