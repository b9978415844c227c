// One batch of invitations: waits until they are due, opens attempts, sends, settles as answers come, and last what must be alone.
import { LedgerError } from './errors.ts';
import { leaseUsed } from './function-contract.ts';
import type {
  AttemptResult,
  Clock,
  CommandToken,
  Ledger,
  Log,
  Meter,
  OpenAnswer,
  Opened,
  Outcome,
  Webhook,
  WebhookSession,
  Worker,
} from './ports.ts';
import type { Settings } from './settings.ts';

/** How long an answer waits for others to be settled with it. */
const gatherMs = 20;

export interface SenderTools {
  readonly ledger: Pick<Ledger, 'open' | 'settle'>;
  readonly webhook: Webhook;
  readonly clock: Clock;
  readonly settings: Settings;
  readonly newToken: () => CommandToken;
}

/** The run this batch is delivered in. */
export interface SenderRun {
  readonly worker: Worker;
  /** Aborted shortly before the function's time is up. */
  readonly signal: AbortSignal;
  readonly remainingMs: () => number;
  readonly log: Log;
  readonly meter: Meter;
}

/** An invitation as it came from the queue. */
export interface Invited {
  readonly deliveryId: string;
  /** Epoch milliseconds; a hint. */
  readonly notBefore: number;
}

/** Answers the ids whose message must stay in the queue: unknown to the ledger, or sent but not settled. */
export async function deliverInvitations(
  tools: SenderTools,
  run: SenderRun,
  invited: readonly Invited[],
): Promise<Set<string>> {
  const session = await tools.webhook.prepare();
  try {
    return await new Delivery(tools, run, session).deliver(invited);
  } finally {
    await session.close();
  }
}

class Delivery {
  readonly #tools: SenderTools;
  readonly #run: SenderRun;
  readonly #session: WebhookSession;
  readonly #failed = new Set<string>();
  readonly #answered: Outcome[] = [];
  #settling: Promise<void> | null = null;
  /** When each lease was asked for, monotonic, by the token of its open. */
  readonly #begun = new Map<CommandToken, number>();
  /** Ids that must be opened alone. */
  readonly #alone: string[] = [];
  #waitLeftMs: number;

  constructor(tools: SenderTools, run: SenderRun, session: WebhookSession) {
    this.#tools = tools;
    this.#run = run;
    this.#session = session;
    this.#waitLeftMs = tools.settings.waitLimitMs;
  }

  async deliver(invited: readonly Invited[]): Promise<Set<string>> {
    const ids = [...new Set(invited.map(({ deliveryId }) => deliveryId))];
    const now = this.#tools.clock.wall();
    await this.#wait(Math.max(0, ...invited.map(({ notBefore }) => notBefore - now)));
    await this.#attempt(ids);
    await this.#settled();
    // Last, and one after the other, each settled before the next: what kills this process takes nothing with it.
    for (const id of this.#alone) {
      // What finds no time now is invited again at its wake_at.
      if (this.#run.remainingMs() < this.#reserveMs()) break;
      await this.#attemptApart([id], true);
      await this.#settled();
    }
    return this.#failed;
  }

  /**
   * Opens the ids and sends what was opened. What is due in a moment by the database's clock is tried once more.
   * @param alone whether a row may be opened that must not be opened beside others
   */
  async #attempt(ids: readonly string[], alone = ids.length === 1): Promise<void> {
    const { ledger, newToken, clock } = this.#tools;
    const token = newToken();
    const since = { monotonic: clock.monotonic(), wall: clock.wall() };
    this.#begun.set(token, since.monotonic);
    let answers: OpenAnswer[];
    try {
      answers = await this.#whileTime(
        this.#reserveMs(),
        () => ledger.open({ token, worker: this.#run.worker, deliveryIds: ids, alone }),
        // Beside others a row in trouble is not waited for.
        (error) => ids.length === 1 || !error.concernsRows,
      );
    } catch (error) {
      if (ids.length === 1 || !(error instanceof LedgerError && error.concernsRows)) throw error;
      return this.#attemptEach(ids);
    }
    const opened = answers.filter((answer) => answer.answer === 'opened');
    const early: string[] = [];
    let earlyByMs = 0;
    for (const answer of answers) {
      if (answer.answer === 'opened') continue;
      this.#run.log.info('open', { deliveryId: answer.deliveryId, answer: answer.answer, state: answer.state });
      if (answer.answer === 'not_found') this.#failed.add(answer.deliveryId);
      if (answer.answer === 'alone') this.#alone.push(answer.deliveryId);
      if (answer.answer !== 'not_due' || answer.dueInMs === null || answer.dueInMs > this.#waitLeftMs) continue;
      early.push(answer.deliveryId);
      earlyByMs = Math.max(earlyByMs, answer.dueInMs);
    }
    await Promise.all([
      ...opened.map((attempt) => this.#send(attempt, token, since)),
      early.length > 0 && this.#timeForAnotherOpen(earlyByMs)
        ? this.#wait(earlyByMs).then(() => this.#attemptApart(early, alone))
        : undefined,
    ]);
  }

  /** Each by itself, side by side, so that a row in trouble keeps no neighbour. @throws what the first met, when no id could be opened */
  async #attemptEach(ids: readonly string[]): Promise<void> {
    const errors = await Promise.all(ids.map((id) => this.#attemptApart([id], false)));
    if (errors.every((error) => error !== null)) throw errors[0];
  }

  /** An attempt whose failure abandons no send that is under way: its ids stay in the queue. Answers what it met. */
  async #attemptApart(ids: readonly string[], alone: boolean): Promise<unknown> {
    try {
      await this.#attempt(ids, alone);
      return null;
    } catch (error) {
      this.#run.log.error('open_failed', { ids, error });
      for (const id of ids) this.#failed.add(id);
      return error;
    }
  }

  async #send(attempt: Opened, openToken: CommandToken, since: { monotonic: number; wall: number }): Promise<void> {
    const { clock, settings } = this.#tools;
    const deadlineMs = Math.min(attempt.deadlineMs ?? settings.webhookDeadlineMs, settings.webhookDeadlineMs);
    // The larger of the two: a clock that was set back, or an environment that was frozen, must not lengthen the lease.
    const elapsed = Math.max(clock.monotonic() - since.monotonic, clock.wall() - since.wall);
    const leaseLeft = settings.leaseSeconds * 1000 - elapsed;
    const { deliveryId, key, destination, url, payload } = attempt;
    const result =
      leaseLeft < deadlineMs + settings.leaseMarginMs
        ? notSent('lease_too_short')
        : this.#run.signal.aborted || this.#run.remainingMs() < deadlineMs + this.#commandMs()
          ? notSent('time_too_short')
          : await this.#session.post({ deliveryId, key, destination, url, payload, deadlineMs }, this.#run.signal);
    this.#run.log.info('attempt', {
      deliveryId,
      attemptNo: attempt.attemptNo,
      destination,
      token: openToken,
      outcome: result.outcome,
      phase: result.phase,
      status: result.status,
      errorClass: result.errorClass,
      latencyMs: Math.round(result.latencyMs),
    });
    this.#run.meter.count(`attempt_${result.outcome}`);
    this.#run.meter.milliseconds('attempt', result.latencyMs);
    this.#answered.push({ ...result, deliveryId, attemptNo: attempt.attemptNo, openToken });
    this.#settling ??= this.#settleAnswered().finally(() => {
      this.#settling = null;
    });
  }

  /** Ends when every answer so far is settled. */
  async #settled(): Promise<void> {
    await this.#settling;
    if (this.#answered.length > 0) await this.#settleAnswered();
  }

  /** Settles in small groups, so that one slow receiver keeps no other's answer. */
  async #settleAnswered(): Promise<void> {
    while (this.#answered.length > 0) {
      await this.#tools.clock.sleep(gatherMs);
      await this.#settle(this.#answered.splice(0));
    }
  }

  /** An answer is worth the rest of the time: lost, the reminder would be sent again. */
  async #settle(outcomes: readonly Outcome[], token = this.#tools.newToken()): Promise<void> {
    const { ledger } = this.#tools;
    try {
      const settle = () => ledger.settle({ token, outcomes });
      // In a group only a lost answer is worth waiting for: one locked row must not keep its neighbours.
      const settled = outcomes.length > 1 ? await settle() : await this.#whileTime(0, settle);
      for (const one of settled) this.#run.log.info('settle', { ...one, token });
      for (const { openToken } of outcomes) this.#measure(openToken);
    } catch (error) {
      if (outcomes.length === 1) return this.#settleFailed(outcomes, error);
      // Under the same token: what the group may have recorded after all is not recorded again.
      await Promise.all(outcomes.map((outcome) => this.#settle([outcome], token)));
    }
  }

  #measure(openToken: CommandToken): void {
    const { clock, settings } = this.#tools;
    const now = clock.monotonic();
    const took = now - (this.#begun.get(openToken) ?? now);
    this.#run.meter.percent(leaseUsed, (100 * took) / (settings.leaseSeconds * 1000));
  }

  /** Runs a command again, with its token, while `reserveMs` and its own longest time are left. */
  async #whileTime<Answer>(
    reserveMs: number,
    command: () => Promise<Answer>,
    worthwhile: (error: LedgerError) => boolean = () => true,
  ): Promise<Answer> {
    for (;;) {
      try {
        return await command();
      } catch (error) {
        const again = error instanceof LedgerError && error.retry !== 'never' && worthwhile(error);
        if (!again || this.#run.remainingMs() < reserveMs + this.#commandMs()) throw error;
        await this.#tools.clock.sleep(gatherMs * 5);
      }
    }
  }

  #settleFailed(outcomes: readonly Outcome[], error: unknown): void {
    for (const { deliveryId, attemptNo, outcome } of outcomes) {
      this.#run.log.error('settle_failed', { deliveryId, attemptNo, outcome, error });
      if (outcome === 'delivered') this.#run.meter.count('settle_failed_after_success');
      this.#failed.add(deliveryId);
    }
  }

  async #wait(ms: number): Promise<void> {
    const waited = Math.min(ms, this.#waitLeftMs);
    this.#waitLeftMs -= waited;
    if (waited > 0) await this.#tools.clock.sleep(waited);
  }

  /** A command's longest time: all its tries. */
  #commandMs(): number {
    return this.#tools.settings.dataApiTries * this.#tools.settings.dataApiTimeoutMs;
  }

  /** What must be left after an open: for the send and its settle. */
  #reserveMs(): number {
    const { webhookDeadlineMs, leaseMarginMs } = this.#tools.settings;
    return webhookDeadlineMs + leaseMarginMs + this.#commandMs();
  }

  #timeForAnotherOpen(waitMs: number): boolean {
    return this.#run.remainingMs() > waitMs + this.#commandMs() + this.#reserveMs();
  }
}

/** Nothing was dialled: ours to answer for, not the destination's. */
function notSent(errorClass: string): AttemptResult {
  return {
    outcome: 'not_sent',
    phase: 'none',
    status: null,
    errorClass,
    detail: null,
    latencyMs: 0,
    retryAfterSeconds: null,
  };
}
