// The alarms on what the functions measure of the ledger: reminders that are late, left behind, failing or for a person.
import { Duration } from 'aws-cdk-lib';
import { MathExpression, TreatMissingData } from 'aws-cdk-lib/aws-cloudwatch';
import { canaryLateness, canaryMinutes } from '../../lambdas/canary-receiver/contract.ts';
import { leaseUsed } from '../../lambdas/core/function-contract.ts';
import { heartbeat, type Measure } from '../../lambdas/observe/contract.ts';
import { observed, published } from './ledger-metrics.ts';
import { minute, type Watch } from './watch.ts';

/** The alarm that rings when nobody looks at the ledger: what the others then lack says nothing. */
export const observerSilent: Watch = {
  id: 'observer-silent',
  metric: published('observe', heartbeat, 'Sum'),
  ...{ threshold: 1, below: true, points: [3, 3], missing: TreatMissingData.BREACHING },
  ...{ severity: 'page', duty: 'control' },
  says: 'Nobody looks at the ledger, and no alarm on its reminders can ring. Look at the log of the function observe, its schedule and the database.',
};

const seconds = 1000;
const hours = 3600 * seconds;

/**
 * The alarms on states. The observer publishes each minute, zeros too, so silence is a fault: a metric that is not there
 * must not look like one that is well. While all of it is silent {@link observerSilent} speaks for it.
 */
export function stateWatches(): Watch[] {
  const silence = { missing: TreatMissingData.BREACHING } as const;
  const lasting = { points: [3, 3], ...silence } as const;
  const atOnce = { points: [1, 1], ...silence } as const;
  return [
    {
      id: 'scheduler-lag',
      metric: observed('overdue_age'),
      ...{ threshold: 180 * seconds, ...lasting, severity: 'warn', duty: 'recover' },
      says: 'A reminder is due for more than 180 s and no claim has taken it. Look at the log of the claim: whether it fails, or its budget ends before the work.',
    },
    {
      id: 'scheduler-lag-long',
      metric: observed('overdue_age'),
      ...{ threshold: 600 * seconds, ...lasting, severity: 'page', duty: 'recover' },
      says: 'A reminder is due for more than 600 s and no claim has taken it. Look at the log of the claim, then invoke it out of turn.',
    },
    {
      id: 'abandoned-dispatching',
      metric: observed('dispatching_abandoned_age'),
      ...{ threshold: 180 * seconds, ...lasting, severity: 'page', duty: 'recover' },
      says: 'A claim took reminders, its lease passed 180 s ago, and no other has taken them over. Look at the errors of the claim and of the queue.',
    },
    {
      id: 'broken-handoff',
      metric: observed('queued_age'),
      ...{ threshold: 600 * seconds, ...lasting, severity: 'page', duty: 'recover' },
      says: 'A reminder is due and was invited, and no sender has opened it for 600 s. See whether it is lost: reminders handoffs. If not, look at the sender’s errors and throttles.',
    },
    {
      id: 'abandoned-delivering',
      metric: observed('delivering_abandoned_age'),
      ...{ threshold: 180 * seconds, ...lasting, severity: 'page', duty: 'recover' },
      says: 'A sender’s lease passed 180 s ago, and no claim has closed its attempt. Look at why senders end early, and whether the claim runs.',
    },
    {
      id: 'dead-unreviewed',
      metric: observed('dead_unreviewed_age'),
      ...{ threshold: 4 * hours, ...atOnce, severity: 'warn', duty: 'decide' },
      says: 'A reminder is dead for more than 4 h and nobody has reviewed it. Look at it, then decide.',
    },
    {
      id: 'held-unreviewed',
      metric: observed('held_unreviewed_age'),
      ...{ threshold: 4 * hours, ...atOnce, severity: 'warn', duty: 'decide' },
      says: 'A reminder is held for more than 4 h: it may have been processed. Ask its receiver, then decide.',
    },
    {
      id: 'parked-but-active',
      metric: observed('parked_active_age'),
      ...{ threshold: 180 * seconds, ...lasting, severity: 'page', duty: 'recover' },
      says: 'Reminders are parked though their destination is active for more than 180 s. Look at the claim’s metric unparked: it gives back some each minute, so many take their time.',
    },
    {
      id: 'rows-excluded',
      metric: observed('excluded'),
      ...{ threshold: 1, ...lasting, severity: 'page', duty: 'recover' },
      says: 'Claims pass over a reminder whose update fails: it will not be sent. Find out why it fails, then: reminders recover readmit ID.',
    },
    {
      id: 'paused-too-long',
      metric: observed('paused_age'),
      ...{ threshold: 1800 * seconds, ...atOnce, severity: 'page', duty: 'control' },
      says: 'All dispatch is paused for more than 30 min: no reminder goes out. Resume it, or tell the products.',
    },
    {
      id: 'outbox-lag',
      metric: observed('unannounced_age'),
      ...{ threshold: 900 * seconds, ...lasting, severity: 'warn', duty: 'recover' },
      says: 'The end of a reminder has not been announced for 900 s. Look at the event bus and at the log of the claim.',
    },
  ];
}

/** The alarms on what happens. No attempt, no trouble: their silence is the observer’s or the sender’s, and told there. */
export function flowWatches(): Watch[] {
  const quiet = { missing: TreatMissingData.NOT_BREACHING } as const;
  return [
    {
      id: 'dead-reminder',
      metric: observed('recent_dead'),
      ...{ threshold: 1, points: [1, 1], ...quiet, severity: 'warn', duty: 'decide' },
      says: 'A reminder died within the last minutes: its receiver refused it, or failed too often. Look at what it answered.',
    },
    {
      id: 'endpoint-trouble',
      metric: observed('most_failing'),
      ...{ threshold: 10, points: [15, 15], ...quiet, severity: 'warn', duty: 'control' },
      says: 'At one destination ten reminders or more have failed three times. The log of observe names it; ask its owner, or pause it.',
    },
    {
      id: 'dead-rate',
      metric: share('recent_dead', 10),
      ...{ threshold: 1, points: [3, 5], ...quiet, severity: 'page', duty: 'recover' },
      says: 'More than 1 % of the attempts end in a dead reminder. Look at what receivers answer, and at what was deployed last.',
    },
    {
      id: 'unknown-outcomes',
      metric: share('recent_unknown', 5),
      ...{ threshold: 1, points: [3, 5], ...quiet, severity: 'warn', duty: 'recover' },
      says: 'Of more than 1 % of the attempts nobody knows whether they were processed. Look at time-outs of receivers and at killed senders.',
    },
    {
      id: 'rescue-rate',
      metric: share('recent_rescued', 10),
      ...{ threshold: 2, points: [3, 5], ...quiet, severity: 'warn', duty: 'recover' },
      says: 'More than 2 % of the attempts were closed by a claim, since their sender never reported. Look at the sender’s memory, time-outs and errors.',
    },
    {
      id: 'settle-failed',
      metric: published('webhook-sender', 'settle_failed_after_success', 'Sum'),
      ...{ threshold: 1, points: [1, 1], ...quiet, severity: 'warn', duty: 'recover' },
      says: 'A receiver took a reminder, and the ledger could not record it: it will be sent again. Look at the sender’s log and the database.',
    },
    ...(['claim', 'webhook-sender'] as const).map(
      (name): Watch => ({
        id: `lease-headroom-${name}`,
        metric: published(name, leaseUsed, 'p99'),
        ...{ threshold: 70, points: [5, 5], ...quiet, severity: 'warn', duty: 'recover' },
        says: `The slowest of ${name} use more than 70 % of their lease; past it another takes the same reminders. Look at how long the database and the queue take.`,
      }),
    ),
  ];
}

/** The alarm on the canary. It comes every five minutes or is late itself, so silence is a fault. */
export const canaryLate: Watch = {
  id: 'canary-late',
  metric: published('canary-receiver', canaryLateness, 'Maximum').with({
    period: Duration.minutes(canaryMinutes),
  }),
  ...{
    threshold: 60 * seconds,
    points: [2, 3],
    missing: TreatMissingData.BREACHING,
    severity: 'page',
    duty: 'recover',
  },
  says: 'The reminder that the ledger sends itself every 5 min came more than 60 s late, or not at all: those of products do neither. The log of canary has its id; look at the other alarms too.',
};

/** What share of the recent attempts it is, in percent; zero while it is fewer than `atLeast`. */
function share(name: Extract<Measure, `recent_${string}`>, atLeast: number): MathExpression {
  return new MathExpression({
    expression: `IF(some >= ${atLeast}, 100 * some / attempts, 0)`,
    label: '% of the attempts',
    period: minute,
    usingMetrics: { some: observed(name), attempts: observed('recent_attempts') },
  });
}
