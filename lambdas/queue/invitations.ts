// Hands invitations to SQS and says, id by id, what it accepted.
import { SendMessageBatchCommand, SQSClient } from '@aws-sdk/client-sqs';
import { atFaultPoint, deliveryIdsIn } from '../core/fault-points.ts';
import type { Invitation, Invitations, Log, PublishAnswer, Receipt } from '../core/ports.ts';

/** The most messages a SendMessageBatch takes (Amazon SQS API Reference, SendMessageBatch). */
const callSize = 10;
/** The longest delay of a message (Amazon SQS API Reference, SendMessageBatchRequestEntry). */
const longestDelaySeconds = 900;
const callsAtOnce = 10;

/** What {@link sqsInvitations} needs. */
export interface SqsInvitationsOptions {
  readonly queueUrl: string;
  readonly log: Log;
  /** How long one try of one call may take, in milliseconds. Each call is tried twice. @default 2000 */
  readonly requestTimeoutMs?: number;
}

/**
 * The queue of invitations on Amazon SQS. Messages go in calls of ten, ten calls at a time. Once a whole call failed or
 * was refused, no further call starts. `publish` never rejects: what was not surely accepted is `refused`, and may be in
 * the queue all the same when an answer was lost.
 */
export function sqsInvitations({ queueUrl, log, requestTimeoutMs = 2000 }: SqsInvitationsOptions): Invitations {
  const sqs = new SQSClient({
    maxAttempts: 2,
    // Without throwOnRequestTimeout the time-out only warns.
    requestHandler: { requestTimeout: requestTimeoutMs, throwOnRequestTimeout: true },
  });
  const queue = queueUrl.slice(queueUrl.lastIndexOf('/') + 1);

  /** One call: the receipts of the entries that SQS accepted. */
  async function send(invitations: readonly Invitation[]): Promise<Receipt[]> {
    const delays = invitations.map(({ delaySeconds }) => wholeDelay(delaySeconds));
    const command = new SendMessageBatchCommand({
      QueueUrl: queueUrl,
      Entries: invitations.map(({ deliveryId, notBefore }, position) => ({
        Id: String(position),
        MessageBody: JSON.stringify({ v: 1, delivery_id: deliveryId, not_before: notBefore }),
        DelaySeconds: delays[position],
      })),
    });
    const effect = { point: 'send-message-batch', deliveryIds: () => deliveryIdsIn(invitations) };
    const { Successful = [], Failed = [] } = await atFaultPoint(effect, () => sqs.send(command));
    if (Failed.length > 0) log.warn('enqueue_refused', { queue, refused: Failed.length, code: Failed[0]?.Code });
    return Successful.flatMap(({ Id, MessageId }) => {
      const invitation = invitations[Number(Id)];
      return invitation && MessageId
        ? [{ deliveryId: invitation.deliveryId, messageId: MessageId, queue, delaySeconds: delays[Number(Id)] ?? 0 }]
        : [];
    });
  }

  return {
    async publish(invitations): Promise<PublishAnswer> {
      const calls: Invitation[][] = [];
      for (let first = 0; first < invitations.length; first += callSize) {
        calls.push(invitations.slice(first, first + callSize));
      }
      const waiting = calls.values();
      const accepted: Receipt[] = [];
      let batchRefused = false;
      // The lanes share one iterator, so that each call is taken once.
      const lane = async (): Promise<void> => {
        for (const call of waiting) {
          const receipts = await send(call).catch((error: unknown) => {
            log.warn('enqueue_failed', { queue, refused: call.length, error });
            return [];
          });
          accepted.push(...receipts);
          if (receipts.length === 0) batchRefused = true;
          if (batchRefused) return;
        }
      };
      await Promise.all(Array.from({ length: Math.min(callsAtOnce, calls.length) }, lane));
      const acceptedIds = new Set(accepted.map(({ deliveryId }) => deliveryId));
      const refused = invitations.map(({ deliveryId }) => deliveryId).filter((id) => !acceptedIds.has(id));
      return { accepted, refused, batchRefused };
    },
  };
}

/** Rounded down, so that the queue never lets a message out late because of rounding; the sender waits out the rest. */
function wholeDelay(seconds: number): number {
  return Math.floor(Math.min(longestDelaySeconds, Math.max(0, seconds)));
}
