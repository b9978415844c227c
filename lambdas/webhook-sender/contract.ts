// The webhook-sender function: the queue message it takes, the answer it gives, its environment.
import * as z from 'zod';
import type { FunctionContract } from '../core/function-contract.ts';
import type { OutcomeKind } from '../core/ports.ts';

/** The function as deployed. `WEBHOOK_TRUSTED_CIDRS` is for local AWS alone. */
export const webhookSenderFunction: FunctionContract = {
  name: 'webhook-sender',
  purpose: 'Takes invitations from the queue, opens an attempt under its own lease, sends the webhook, settles the row',
  databaseRole: 'ledger_webhook_sender',
  environment: ['STAGE', 'DATABASE_ARN', 'DATABASE_SECRET_ARN', 'DATABASE_NAME', 'SIGNING_SECRET_ARN'],
  localEnvironment: ['WEBHOOK_TRUSTED_CIDRS'],
  memoryMegabytes: 512,
  timeoutSeconds: (settings) => settings.senderTimeoutSeconds,
};

/** The body of a queue message: an invitation to advance a reminder, and nothing about the person it is for. */
export const invitationMessage = z.strictObject({
  v: z.literal(1),
  delivery_id: z.uuid(),
  /** Epoch milliseconds of the database's clock. A hint: `open` decides. */
  not_before: z.int().nonnegative(),
});
export type InvitationMessage = z.infer<typeof invitationMessage>;

/** What Lambda expects back from an SQS event source with `ReportBatchItemFailures`. */
export interface WebhookSenderResponse {
  readonly batchItemFailures: { readonly itemIdentifier: string }[];
}

/** What it publishes: attempts by their outcome, how long each took, and successes that it could not record. */
export type SenderMetric = `attempt_${OutcomeKind}` | 'attempt' | 'settle_failed_after_success';
