// One tick: gives parked rows back, drains what is due in batches, and announces what came to an end.
import { type DispatchTools, dispatch } from './dispatch.ts';
import type { Announcements, Ledger, Log, Meter, Worker } from './ports.ts';
import type { Settings } from './settings.ts';

/** How many events one round of the outbox takes. */
const announceBatchSize = 100;

export interface ClaimTools extends DispatchTools {
  readonly ledger: Ledger;
  readonly announcements: Announcements;
  readonly settings: Settings;
}

/** What one tick did, in counts. */
export interface TickAnswer {
  batches: number;
  claimed: number;
  enqueued: number;
  released: number;
  recovered: number;
  expired: number;
  parked: number;
  unparked: number;
  announced: number;
  /** Why the drain ended. */
  stopped: 'drained' | 'budget' | 'queue_refused';
}

/**
 * Runs one tick within the claim's budget. Killed at any point it leaves nothing that the next tick does not find.
 * @throws {LedgerError} when the ledger did not answer; the next tick is the retry
 */
export async function claimDue(
  tools: ClaimTools,
  { worker, log, meter }: { worker: Worker; log: Log; meter: Meter },
): Promise<TickAnswer> {
  const { ledger, clock, settings, newToken } = tools;
  const begun = clock.monotonic();
  const inBudget = () => clock.monotonic() - begun < settings.claimBudgetSeconds * 1000;
  const tick: TickAnswer = {
    batches: 0,
    claimed: 0,
    enqueued: 0,
    released: 0,
    recovered: 0,
    expired: 0,
    parked: 0,
    unparked: await unparked(tools, log),
    announced: 0,
    stopped: 'budget',
  };
  let lowWater: string | null = null;
  while (inBudget()) {
    const token = newToken();
    const batch = await ledger.claim({ token, worker, limit: settings.claimBatchSize, lowWater });
    const handed = await dispatch(tools, token, batch);
    const taken = batch.claimed.length + batch.recovered.length + batch.expired.length + batch.parked.length;
    if (taken > 0) log.info('claim', { token, claimed: batch.claimed.length, ...handed });
    tick.batches += 1;
    tick.claimed += batch.claimed.length;
    tick.recovered += batch.recovered.length;
    tick.expired += batch.expired.length;
    tick.parked += batch.parked.length;
    tick.enqueued += handed.enqueued;
    tick.released += handed.released;
    for (const deliveryId of batch.recovered) log.warn('recover', { deliveryId, token });
    if (handed.queueRefused) {
      tick.stopped = 'queue_refused';
      break;
    }
    if (taken < settings.claimBatchSize) {
      tick.stopped = 'drained';
      break;
    }
    lowWater = batch.highWater;
  }
  while (inBudget()) {
    const announced = await announce(tools);
    tick.announced += announced;
    if (announced < announceBatchSize) break;
  }
  for (const [name, value] of Object.entries(tick)) if (typeof value === 'number') meter.count(name, value);
  meter.milliseconds('claim', clock.monotonic() - begun);
  return tick;
}

/** The drain is the main job: it goes on when this one fails, and the next tick tries again. */
async function unparked({ ledger, newToken, settings }: ClaimTools, log: Log): Promise<number> {
  try {
    return await ledger.unpark({ token: newToken(), limit: settings.claimBatchSize });
  } catch (error) {
    log.error('unpark_failed', { error });
    return 0;
  }
}

async function announce({ ledger, announcements }: ClaimTools): Promise<number> {
  const events = await ledger.unannounced({ limit: announceBatchSize });
  if (events.length === 0) return 0;
  const accepted = await announcements.publish(events);
  if (accepted.length > 0) await ledger.announce({ eventNos: accepted });
  return accepted.length;
}
