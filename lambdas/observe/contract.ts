// The observe function: what starts it, what it answers, what it needs from its environment.
import type { FunctionContract } from '../core/function-contract.ts';
import type { Observation } from '../core/observe-ledger.ts';

export { heartbeat, type Measure, measures } from '../core/observe-ledger.ts';

/** The function as deployed. */
export const observeFunction: FunctionContract = {
  name: 'observe',
  purpose:
    'Each minute: counts what is due, in flight, left behind or waiting for a person, and publishes it as metrics',
  databaseRole: 'ledger_observer',
  environment: ['STAGE', 'DATABASE_ARN', 'DATABASE_SECRET_ARN', 'DATABASE_NAME'],
  localEnvironment: [],
  memoryMegabytes: 256,
  // As a claim, it ends before its next tick.
  timeoutSeconds: (settings) => settings.claimTimeoutSeconds,
};

/** EventBridge Scheduler's event. Nothing in it is used. */
export type ObserveRequest = unknown;

/** What was published, by the names of the metrics. */
export type ObserveResponse = Observation['measured'];
