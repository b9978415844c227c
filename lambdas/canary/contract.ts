// The canary function: what starts it, what it answers, what it needs from its environment.
import type { CanaryReminder } from '../core/canary.ts';
import type { FunctionContract } from '../core/function-contract.ts';

export { canaryMinutes, canaryProduct } from '../core/canary.ts';

/** The function as deployed. Registering a destination is what the operator's role may, and nothing calls this but its schedule. */
export const canaryFunction: FunctionContract = {
  name: 'canary',
  purpose: 'Every five minutes: schedules a reminder to the receiver of the ledger’s own, as a product would',
  databaseRole: 'ledger_operator',
  environment: ['STAGE', 'DATABASE_ARN', 'DATABASE_SECRET_ARN', 'DATABASE_NAME', 'SCHEDULE_FUNCTION', 'CANARY_URL'],
  localEnvironment: [],
  memoryMegabytes: 256,
  // The call of the schedule function is tried twice.
  timeoutSeconds: (settings) => 2 * settings.scheduleTimeoutSeconds + 2,
};

/** EventBridge Scheduler's event. Nothing in it is used. */
export type CanaryRequest = unknown;

/** What was asked for. */
export type CanaryResponse = CanaryReminder;
