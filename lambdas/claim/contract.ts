// The claim function: what starts it, what it answers, what it needs from its environment.
import type { TickAnswer } from '../core/claim-due.ts';
import type { FunctionContract } from '../core/function-contract.ts';

/** The function as deployed. */
export const claimFunction: FunctionContract = {
  name: 'claim',
  purpose:
    'Each minute: claims reminders close to their due time, hands them to the queue, recovers what was left behind',
  databaseRole: 'ledger_claim',
  environment: [
    'STAGE',
    'DATABASE_ARN',
    'DATABASE_SECRET_ARN',
    'DATABASE_NAME',
    'INVITATION_QUEUE_URL',
    'EVENT_BUS_NAME',
  ],
  localEnvironment: [],
  memoryMegabytes: 512,
  timeoutSeconds: (settings) => settings.claimTimeoutSeconds,
};

/** EventBridge Scheduler's event. Nothing in it is used: a tick only asks for whatever is due. */
export type ClaimRequest = unknown;

/** What one tick did, in counts. */
export type ClaimResponse = TickAnswer;

/** What it publishes: each count of a tick, and how long the tick took. */
export type ClaimMetric = Exclude<keyof TickAnswer, 'stopped'> | 'claim' | 'dispatch_failed';
