// The webhook-sender function: reads invitations from the queue's records and has them delivered.
import type { SQSEvent } from 'aws-lambda';
import { v7 as newToken } from 'uuid';
import { deliverInvitations, type Invited } from '../core/deliver-invitations.ts';
import { functionHandler } from '../runtime/handler-stack.ts';
import { openDatabase } from '../store/data-api.ts';
import { PostgresLedger } from '../store/ledger.ts';
import { parseTrustedCidrs } from '../webhook/address-wall.ts';
import { signingKeys } from '../webhook/signing-keys.ts';
import { webhookClient } from '../webhook/webhook-client.ts';
import { invitationMessage, type WebhookSenderResponse, webhookSenderFunction } from './contract.ts';

/** Lambda's entry point. */
export const handler = functionHandler<SQSEvent, WebhookSenderResponse>(
  webhookSenderFunction,
  (environment, { log, clock }) => {
    const trustedCidrs = environment.find('WEBHOOK_TRUSTED_CIDRS');
    if (trustedCidrs !== undefined) log.warn('address_wall_opened', { trustedCidrs });
    const tools = {
      ledger: new PostgresLedger(openDatabase(environment)),
      webhook: webhookClient({
        signingKeys: signingKeys(environment.read('SIGNING_SECRET_ARN')),
        trusted: parseTrustedCidrs(trustedCidrs),
      }),
      clock,
      settings: environment.settings,
      newToken: () => newToken(),
    };
    return async ({ Records: records }, run) => {
      const failed = new Set<string>();
      const invited = new Map<string, Invited>();
      for (const { messageId, body } of records) {
        const invitation = readInvitation(body);
        if (invitation) {
          invited.set(messageId, invitation);
          continue;
        }
        // Left to the redrive policy: the dead-letter queue sets it aside for a person. Its text may hold anything.
        run.log.error('not_an_invitation', { messageId });
        failed.add(messageId);
      }
      if (invited.size > 0) {
        const unfinished = await deliverInvitations(tools, run, [...invited.values()]);
        for (const [messageId, { deliveryId }] of invited) if (unfinished.has(deliveryId)) failed.add(messageId);
      }
      return { batchItemFailures: [...failed].map((itemIdentifier) => ({ itemIdentifier })) };
    };
  },
);

function readInvitation(body: string): Invited | null {
  try {
    const parsed = invitationMessage.safeParse(JSON.parse(body));
    return parsed.success ? { deliveryId: parsed.data.delivery_id, notBefore: parsed.data.not_before } : null;
  } catch {
    return null;
  }
}
