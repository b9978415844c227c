// The dead-letter queue as operators need it: messages are looked at, given back, or deleted; and what both queues hold.

/** A message that was received, and is hidden from others until it is given back or its time is over. */
export interface DeadLetter {
  readonly messageId: string;
  /** What it says; it may say anything. */
  readonly body: string;
  /** How often it was received, here and before. */
  readonly receives: number;
  /** ISO 8601. */
  readonly sentAt: string;
  /** What the queue knows it by. */
  readonly handle: string;
}

/** How many messages a queue holds, as it says itself: about a minute late, and approximately. */
export interface QueueCounts {
  readonly visible: number;
  readonly notVisible: number;
  readonly delayed: number;
}

/** Messages that were looked at. */
export interface Look {
  readonly letters: readonly DeadLetter[];
  /** Whether the queue held no others. */
  readonly all: boolean;
}

/** The dead-letter queue, and the counts of both queues. */
export interface DeadLetters {
  /** Receives messages, each once. @throws {QueueError} when the queue did not answer; none is then kept hidden */
  look(most: number): Promise<Look>;
  /** Shows them again at once. Never rejects: what it misses is shown when its time is over. */
  putBack(letters: readonly DeadLetter[]): Promise<void>;
  /** Deletes messages, and answers which. Never rejects: what may still be there is not among them. */
  remove(letters: readonly DeadLetter[]): Promise<readonly DeadLetter[]>;
  /** @throws {QueueError} when a queue did not answer */
  counts(): Promise<{ readonly queue: QueueCounts; readonly deadLetters: QueueCounts }>;
}

/** The queue did not answer. What was asked of it may be asked again. */
export class QueueError extends Error {
  override readonly name = 'QueueError';
  readonly call: string;

  constructor(call: string, cause: unknown) {
    super(`${call}: ${cause instanceof Error ? `${cause.name}: ${cause.message}` : String(cause)}`, { cause });
    this.call = call;
  }
}

/** Whether a message of the reminder is there. `not_looked`: none was seen, and there are more than were looked at. */
export async function sighting(
  deadLetters: DeadLetters,
  most: number,
  isOfIt: (body: string) => boolean,
): Promise<'seen' | 'not_seen' | 'not_looked'> {
  const { letters, all } = await deadLetters.look(most);
  await deadLetters.putBack(letters);
  if (letters.some(({ body }) => isOfIt(body))) return 'seen';
  return all ? 'not_seen' : 'not_looked';
}
