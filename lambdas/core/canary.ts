// The canary: a reminder of the ledger's own every few minutes, the whole way to an endpoint of its own, and how late it came.
import { createHash } from 'node:crypto';
import type { Clock, CommandToken, Log, Meter, Worker } from './ports.ts';
import type { Settings } from './settings.ts';

/** How often one is sent. */
export const canaryMinutes = 5;

/** The product that its reminders are of: no other may have that name. */
export const canaryProduct = 'canary';

/** From due to arrival, in milliseconds, published by the function `canary-receiver` alone. */
export const canaryLateness = 'canary_lateness';

/** A reminder of the canary, as it is asked for. Times are ISO 8601. */
export interface CanaryReminder {
  readonly key: string;
  readonly destination: string;
  readonly userId: string;
  readonly dueAt: string;
  readonly expiresAt: string;
  readonly payload: { readonly dueAt: string };
}

/** What {@link sendCanary} works with. */
export interface CanaryTools {
  /** Registers a destination; one that is there already stays as it is. Answers null where another command is at it. */
  readonly register: (destination: { name: string; url: string }) => Promise<'added' | 'unchanged' | 'conflict' | null>;
  /** Asks the schedule function, as a product. */
  readonly schedule: (reminder: CanaryReminder) => Promise<{ answer: string; deliveryId?: string }>;
  /** Where the receiver listens. */
  readonly url: string;
  readonly clock: Clock;
  readonly settings: Settings;
}

/** The canary could not be sent. The message says what answered, and what to look at. */
export class CanaryError extends Error {
  override readonly name = 'CanaryError';
}

/**
 * The destination of the receiver at this host. A destination's URL never changes, and a function URL that is made anew has
 * another host: so it has another name.
 * @param host with the port, where there is one
 */
export function canaryDestination(host: string): string {
  return `canary-${createHash('sha256').update(host).digest('hex').slice(0, 12)}`;
}

/**
 * Sends one. It is due a second past the lookahead, so that it goes the whole way, by the calendar and a claim, and expires
 * when the next one is due: what comes later tells nothing new.
 * @throws {CanaryError} when the destination or the reminder was refused; the next turn is the retry
 */
export async function sendCanary(
  { register, schedule, url, clock, settings }: CanaryTools,
  { worker, log, meter }: { worker: Worker; log: Log; meter: Meter },
): Promise<CanaryReminder> {
  const destination = canaryDestination(new URL(url).host);
  const registered = await register({ name: destination, url });
  if (registered === null || registered === 'conflict') {
    const what =
      registered === null ? 'is being registered at this moment' : 'is registered otherwise than it should be';
    throw new CanaryError(`destination ${destination} ${what}: look at it with reminders destination list`);
  }
  const due = clock.wall() + (settings.lookaheadSeconds + 1) * 1000;
  const dueAt = new Date(due).toISOString();
  const reminder: CanaryReminder = {
    // Lambda may run one event twice, under the same id.
    key: `canary-${worker.requestId}`,
    ...{ destination, userId: canaryProduct, dueAt, payload: { dueAt } },
    expiresAt: new Date(due + canaryMinutes * 60_000).toISOString(),
  };
  const { answer, deliveryId } = await schedule(reminder);
  if (answer !== 'scheduled' && answer !== 'duplicate') {
    throw new CanaryError(`schedule answered ${answer} to the canary: look at the log of the function schedule`);
  }
  log.info('canary', { deliveryId, destination, dueAt, answer });
  meter.count('canary_sent');
  return reminder;
}

/** Publishes how late one came: its attempts after the first come later still. */
export function receiveCanary(
  { dueAt, deliveryId }: { dueAt: string; deliveryId: CommandToken },
  clock: Clock,
  { log, meter }: { log: Log; meter: Meter },
): number {
  // Its clock may be a little behind the database's.
  const lateness = Math.max(0, clock.wall() - Date.parse(dueAt));
  log.info('canary', { deliveryId, dueAt, lateness });
  meter.milliseconds(canaryLateness, lateness);
  return lateness;
}
