// Hands claimed reminders to the queue and records, entry by entry, what the queue accepted.
import type { ClaimAnswer, Clock, CommandToken, Invitations, Ledger } from './ports.ts';

export interface DispatchTools {
  readonly ledger: Pick<Ledger, 'enqueue' | 'release'>;
  readonly invitations: Invitations;
  readonly clock: Clock;
  readonly newToken: () => CommandToken;
}

export interface DispatchAnswer {
  readonly enqueued: number;
  readonly released: number;
  /** How long the queue took, in milliseconds. */
  readonly publishMs: number;
  /** A whole SendMessageBatch was refused: the queue is in trouble, claiming more helps nobody. */
  readonly queueRefused: boolean;
}

/**
 * Publishes one invitation for each claimed reminder, delayed until it is due by the database's clock (the queue rounds
 * down, and the sender waits out the rest), then marks what was accepted and gives back the rest. If this stops half way the rows'
 * own `wake_at` brings them back under the same ids.
 */
export async function dispatch(
  tools: DispatchTools,
  claimToken: CommandToken,
  { claimed, askedAt }: ClaimAnswer,
): Promise<DispatchAnswer> {
  if (claimed.length === 0) return { enqueued: 0, released: 0, publishMs: 0, queueRefused: false };
  const begun = tools.clock.monotonic();
  const { accepted, refused, batchRefused } = await tools.invitations.publish(
    claimed.map(({ deliveryId, notBefore, dueInMs }) => ({
      deliveryId,
      notBefore,
      delaySeconds: (dueInMs - (begun - askedAt)) / 1000,
    })),
  );
  const publishMs = tools.clock.monotonic() - begun;
  // First what nothing else will advance: an accepted message does its work without its mark.
  const released =
    refused.length === 0
      ? 0
      : await tools.ledger.release({ token: tools.newToken(), claimToken, deliveryIds: refused });
  const enqueued = accepted.length === 0 ? 0 : await tools.ledger.enqueue({ claimToken, receipts: accepted });
  return { enqueued, released, publishMs, queueRefused: batchRefused };
}
