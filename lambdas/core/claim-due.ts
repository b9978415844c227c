// One tick: gives parked rows back, drains what is due in batches around rows that fail, and announces what came to an end.
import { type DispatchAnswer, type DispatchTools, dispatch } from './dispatch.ts';
import { LedgerError } from './errors.ts';
import { leaseUsed } from './function-contract.ts';
import type { Announcements, ClaimAnswer, CommandToken, Ledger, Log, Meter, Worker } from './ports.ts';
import type { Settings } from './settings.ts';

/** How many events one round of the outbox takes. */
const announceBatchSize = 100;

/** How many rows one search sets aside at most: where more fail, something else is wrong than a row. */
const excludedAtOnce = 10;

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
  excluded: number;
  announced: number;
  /** Why the drain ended. */
  stopped: 'drained' | 'budget' | 'queue_refused';
}

/** The run that a tick is. */
interface TickRun {
  readonly worker: Worker;
  readonly log: Log;
  readonly meter: Meter;
}

/**
 * Runs one tick within the claim's budget. Killed at any point it leaves nothing that the next tick does not find.
 * @throws {LedgerError} when the ledger did not answer; the next tick is the retry
 */
export async function claimDue(tools: ClaimTools, run: TickRun): Promise<TickAnswer> {
  return new Tick(tools, run).run();
}

class Tick {
  readonly #tools: ClaimTools;
  readonly #run: TickRun;
  readonly #begun: number;
  readonly #answer: TickAnswer = {
    batches: 0,
    claimed: 0,
    enqueued: 0,
    released: 0,
    recovered: 0,
    expired: 0,
    parked: 0,
    unparked: 0,
    excluded: 0,
    announced: 0,
    stopped: 'budget',
  };

  constructor(tools: ClaimTools, run: TickRun) {
    this.#tools = tools;
    this.#run = run;
    this.#begun = tools.clock.monotonic();
  }

  async run(): Promise<TickAnswer> {
    const { meter } = this.#run;
    this.#answer.unparked = await unparked(this.#tools, this.#run.log);
    try {
      await this.#drain();
    } catch (error) {
      // What stops the drain may stop it at every tick: events of other reminders go out all the same.
      await this.#announce().catch(() => undefined);
      throw error;
    }
    await this.#announce();
    for (const [name, value] of Object.entries(this.#answer)) if (typeof value === 'number') meter.count(name, value);
    meter.milliseconds('claim', this.#tools.clock.monotonic() - this.#begun);
    return this.#answer;
  }

  /** Whether the drain has time left, and a queue that takes what it claims. */
  #goesOn(): boolean {
    return this.#inBudget() && this.#answer.stopped === 'budget';
  }

  #inBudget(): boolean {
    return this.#tools.clock.monotonic() - this.#begun < this.#tools.settings.claimBudgetSeconds * 1000;
  }

  async #drain(): Promise<void> {
    const limit = this.#tools.settings.claimBatchSize;
    let lowWater: string | null = null;
    while (this.#goesOn()) {
      try {
        const { taken, highWater } = await this.#claim({ limit, lowWater });
        if (taken < limit && this.#answer.stopped === 'budget') this.#answer.stopped = 'drained';
        lowWater = highWater;
      } catch (error) {
        await this.#claimAround(error);
      }
    }
  }

  /** One round at least: a backlog that takes the whole budget, tick after tick, must not hold every event back. */
  async #announce(): Promise<void> {
    let announced: number;
    do {
      announced = await announce(this.#tools);
      this.#answer.announced += announced;
    } while (announced === announceBatchSize && this.#inBudget());
  }

  /** Claims one batch and hands it over. Answers how many rows it took, and where the next one may begin to look. */
  async #claim(
    what: { limit: number; lowWater: string | null; only?: readonly string[] },
    token = this.#tools.newToken(),
  ): Promise<{ taken: number; highWater: string | null }> {
    const { log, worker } = this.#run;
    const batch = await this.#tools.ledger.claim({ token, worker, ...what });
    const handed = await this.#dispatch(token, batch);
    const taken = batch.claimed.length + batch.recovered.length + batch.expired.length + batch.parked.length;
    if (taken > 0) log.info('claim', { token, claimed: batch.claimed.length, ...handed });
    for (const deliveryId of batch.recovered) log.warn('recover', { deliveryId, token });
    this.#answer.batches += 1;
    this.#answer.claimed += batch.claimed.length;
    this.#answer.recovered += batch.recovered.length;
    this.#answer.expired += batch.expired.length;
    this.#answer.parked += batch.parked.length;
    this.#answer.enqueued += handed.enqueued;
    this.#answer.released += handed.released;
    if (handed.queueRefused) this.#answer.stopped = 'queue_refused';
    return { taken, highWater: batch.highWater };
  }

  /** A row that cannot be marked keeps its neighbours unmarked, and no more: their invitations do their work without it. */
  async #dispatch(token: CommandToken, batch: ClaimAnswer): Promise<DispatchAnswer> {
    try {
      const handed = await dispatch(this.#tools, token, batch);
      if (batch.claimed.length > 0) this.#measure(batch, handed);
      return handed;
    } catch (error) {
      if (!(error instanceof LedgerError && error.concernsRows)) throw error;
      this.#run.log.error('dispatch_failed', { token, error });
      this.#run.meter.count('dispatch_failed');
      return { enqueued: 0, released: 0, publishMs: 0, queueRefused: false };
    }
  }

  /** What the hand-over took of the lease: past it another claim takes the same rows. */
  #measure({ askedAt }: ClaimAnswer, { publishMs }: DispatchAnswer): void {
    const { clock, settings } = this.#tools;
    this.#run.meter.milliseconds('publish', publishMs);
    this.#run.meter.percent(leaseUsed, (100 * (clock.monotonic() - askedAt)) / (settings.leaseSeconds * 1000));
  }

  /**
   * Goes around rows whose update fails: what is due is claimed in halves, and a row that fails alone is set aside.
   * Only where another row of the same lot went through: what fails for all of them is no fault of theirs.
   */
  async #claimAround(failure: unknown): Promise<void> {
    if (!isRefusal(failure)) throw failure;
    const { ledger, settings } = this.#tools;
    const refused: { deliveryId: string; token: CommandToken; error: LedgerError }[] = [];
    let taken = 0;
    const claimPart = async (ids: readonly string[]): Promise<void> => {
      const token = this.#tools.newToken();
      try {
        taken += (await this.#claim({ limit: ids.length, lowWater: null, only: ids }, token)).taken;
      } catch (error) {
        if (!isRefusal(error)) throw error;
        const [deliveryId] = ids;
        if (deliveryId !== undefined && ids.length === 1) refused.push({ deliveryId, token, error });
        else await claimHalves(ids);
      }
    };
    const claimHalves = async (ids: readonly string[]): Promise<void> => {
      const middle = Math.ceil(ids.length / 2);
      for (const half of [ids.slice(0, middle), ids.slice(middle)]) {
        if (half.length > 0 && refused.length < excludedAtOnce && this.#goesOn()) await claimPart(half);
      }
    };
    await claimHalves(await ledger.listDue({ limit: settings.claimBatchSize }));
    if (taken === 0) throw failure;
    for (const { deliveryId, token, error } of refused) {
      const { sqlState, message } = error;
      await ledger.exclude({ deliveryId, token, sqlState: sqlState ?? '', reason: message });
      this.#answer.excluded += 1;
      this.#run.log.error('exclude', { deliveryId, token, sqlState, error });
    }
  }
}

/** Whether the database refused a row, for good: another try of the same claim would fail alike. */
function isRefusal(error: unknown): error is LedgerError {
  return error instanceof LedgerError && error.concernsRows && error.retry === 'never';
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
