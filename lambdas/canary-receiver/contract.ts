// The canary-receiver function: the webhook it takes, what it answers, what it needs from its environment.
import * as z from 'zod';
import type { FunctionContract } from '../core/function-contract.ts';

export { canaryLateness, canaryMinutes } from '../core/canary.ts';

/** The function as deployed. Its URL is open to everybody, as a webhook's receiver is: it takes what the ledger signed. */
export const canaryReceiverFunction: FunctionContract = {
  name: 'canary-receiver',
  purpose: 'Takes the webhooks of the canary, signed for it by the ledger, and publishes how late each came',
  databaseRole: null,
  environment: ['STAGE', 'SIGNING_SECRET_ARN'],
  localEnvironment: [],
  memoryMegabytes: 256,
  timeoutSeconds: (settings) => settings.webhookDeadlineMs / 1000,
};

/** The alias that has the URL. */
export const canaryReceiverAlias = 'receive';

/** The payload of a canary. */
export const canaryPayload = z.strictObject({ dueAt: z.iso.datetime() });
