// One drill in its own cell: a product, a destination and reminders of its own on the stage that all share.
import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { v7 as uuid } from 'uuid';
import type { Settings } from '../../lambdas/core/settings.ts';
import type { Command, CommandAnswer } from '../../lambdas/schedule/contract.ts';
import type { FaultPlan, FaultPlans } from '../../lib/local/fault-plans.ts';
import type { Faults, PlannedFault } from '../../lib/local/faults.ts';
import type { LambdaHost } from '../../lib/local/lambda-host.ts';
import { type AskedReminder, readTables, type Tables } from './checker.ts';
import type { Stage } from './stage.ts';

/** A reminder of the cell; it changes as the cell goes on. */
export interface Reminder {
  readonly key: string;
  readonly payloadText: string;
  /** What the product was told; empty until then. */
  deliveryId: string;
  dueAt: number;
  cancelled: boolean;
}

/** How long a fault may take to be met before the drill counts as not exercised. */
const exercisedLimitMs = 45_000;
/** How long ticks may stand still for one cell. */
const turnLimitMs = 10_000;
/** How long a product asks before it gives up. */
const productLimitMs = 60_000;

/** What a drill works with. */
export class Cell {
  readonly stage: Stage;
  /** The alias the cell's product calls by, so that its reminders are told from all others. */
  readonly producer: string;
  readonly reminders: Reminder[] = [];
  readonly #toldIds = new Map<string, Set<string>>();
  readonly #faults: {
    readonly takenAt: () => readonly number[];
    readonly lastsMs: number;
    readonly away: () => void;
  }[] = [];
  readonly #ends: (() => unknown)[] = [];
  #kept: Tables | undefined;
  /** The fault points at which it planned to stop a process. */
  readonly points = new Set<string>();
  #destination: string | undefined;
  #path = '/ok';
  /** What is not seen to happen before this instant does not happen any more. */
  #effectsUntil = 0;

  constructor(stage: Stage, place: number) {
    this.stage = stage;
    this.producer = `drill-${place}`;
  }

  get settings(): Settings {
    return this.stage.aws.settings;
  }

  get destination(): string {
    return this.#destination ?? '';
  }

  /** The path of the receiver that only this cell's requests come to. */
  get path(): string {
    return `${this.#path}/${this.producer}`;
  }

  /** When the last fault was met, epoch milliseconds; 0: none was planned. */
  get lastFaultAt(): number {
    return Math.max(0, ...this.#faults.flatMap(({ takenAt }) => takenAt()));
  }

  /** Every planned fault was met. */
  get exercised(): boolean {
    return this.#faults.every(({ takenAt }) => takenAt().length > 0);
  }

  get asked(): AskedReminder[] {
    return this.reminders.map(({ key, payloadText, dueAt, cancelled }) => ({
      key,
      payloadSha256: createHash('sha256').update(payloadText).digest('hex'),
      dueAt,
      cancelled,
      toldIds: [...(this.#toldIds.get(key) ?? [])],
    }));
  }

  /** Registers the cell's destination. @param port where to dial instead of the receiver @default the receiver's */
  async register(path = '/ok', port = this.stage.receiver.port): Promise<void> {
    this.#path = path;
    this.#destination = `to-${this.producer}`;
    await this.sql(
      `INSERT INTO destination (destination_id, name, url, owner, contract, state, state_since, created_at)
       VALUES ($1, $2, $3, 'drills', 'honours-key', 'active', now(), now())`,
      [uuid(), this.#destination, `https://127.0.0.1:${port}${this.path}`],
    );
  }

  async sql<Row extends Record<string, unknown>>(text: string, values: unknown[] = []): Promise<Row[]> {
    return (await this.stage.pool.query<Row>(text, values)).rows;
  }

  /** A reminder nobody has asked for yet. */
  newReminder(dueInMs = 3_600_000): Reminder {
    const key = `${this.producer}-${this.reminders.length}-${uuid()}`;
    const payloadText = `{"of":"${key}"}`;
    const reminder = { key, payloadText, deliveryId: '', dueAt: Date.now() + dueInMs, cancelled: false };
    this.reminders.push(reminder);
    return reminder;
  }

  /** Schedules a reminder as a product does: it asks until it is answered. An hour ahead unless told otherwise. */
  async schedule(reminder = this.newReminder(), host?: LambdaHost): Promise<Reminder> {
    if (this.#destination === undefined) await this.register();
    const { key, payloadText, dueAt } = reminder;
    const when = new Date(dueAt).toISOString();
    const { destination } = this;
    const answer = await this.product(
      { verb: 'schedule', key, destination, payloadText, userId: 'user', dueAt: when },
      host,
    );
    if (answer.answer !== 'scheduled' && answer.answer !== 'duplicate') {
      throw new Error(`schedule was answered ${JSON.stringify(answer)}`);
    }
    reminder.deliveryId = answer.deliveryId;
    return reminder;
  }

  /** Moves a reminder so close that it goes to the queue at once. */
  async bringNear(reminder: Reminder, dueInMs = 1200): Promise<void> {
    reminder.dueAt = Date.now() + dueInMs;
    const { deliveryId, dueAt } = reminder;
    const answer = await this.product({ verb: 'reschedule', deliveryId, dueAt: new Date(dueAt).toISOString() });
    if (!['rescheduled', 'unchanged', 'finished', 'too_late'].includes(answer.answer)) {
      throw new Error(`reschedule was answered ${JSON.stringify(answer)}`);
    }
  }

  /** A command of the cell's product, asked again until it is answered. @param host which one runs it @default all cells' */
  async product(command: Command, host = this.stage.aws.host): Promise<CommandAnswer> {
    for (const end = Date.now() + productLimitMs; ; await sleep(300)) {
      const called = await host.invoke('schedule', JSON.stringify(command), this.producer).catch(() => undefined);
      if (called !== undefined && !called.functionError) {
        const answer: CommandAnswer = JSON.parse(called.payload);
        const named = (one: Reminder) =>
          'deliveryId' in command && command.deliveryId !== undefined
            ? command.deliveryId === one.deliveryId
            : command.key === one.key;
        const reminder = this.reminders.find(named);
        if (reminder !== undefined && 'deliveryId' in answer && answer.deliveryId !== undefined) {
          const told = this.#toldIds.get(reminder.key) ?? new Set();
          this.#toldIds.set(reminder.key, told.add(answer.deliveryId));
        }
        return answer;
      }
      if (Date.now() > end) throw new Error(`${command.verb}: no answer in ${productLimitMs} ms`);
    }
  }

  /** Keeps what the tables say at this moment: what is archived later takes its evidence out of them. */
  async keepEvidence(): Promise<void> {
    this.#kept = await this.tables();
  }

  /** What the tables say of the cell's reminders, or said when it was kept. */
  async tables(): Promise<Tables> {
    const now = await readTables(this.stage.pool, this.producer);
    if (this.#kept === undefined) return now;
    const archivedAt = (id: string) => now.rows.find(({ deliveryId }) => deliveryId === id)?.archivedAt ?? null;
    const rows = this.#kept.rows.map((row) => ({ ...row, archivedAt: archivedAt(row.deliveryId) }));
    return { ...this.#kept, rows };
  }

  /** Plans a fault of a service. */
  fault<Fault extends PlannedFault & { readonly ms?: number }>(faults: Faults<Fault>, fault: Fault): void {
    const away = faults.next(fault);
    this.#faults.push({ takenAt: () => faults.taken(fault), lastsMs: fault.ms ?? 0, away });
  }

  /** Plans a fault of a process. */
  plan(plan: FaultPlan, plans: FaultPlans = this.stage.plans): void {
    const planned = plans.next(plan);
    this.points.add(plan.point);
    const lastsMs = 'ms' in plan.action ? plan.action.ms : 0;
    const takenAt = () => [planned.fired()?.at ?? 0].filter((at) => at > 0);
    this.#faults.push({ takenAt, lastsMs, away: () => planned.withdraw() });
  }

  /** A fault that something else carries out. @param metAt when, epoch milliseconds; undefined: not yet */
  expect(metAt: () => number | undefined): void {
    this.#faults.push({ takenAt: () => [metAt() ?? 0].filter((at) => at > 0), lastsMs: 0, away: () => undefined });
  }

  /** A fault that the drill itself carries out, at this instant. */
  met(): void {
    const at = Date.now();
    this.expect(() => at);
  }

  /** Waits until every planned fault was met. @throws {Error} when that takes too long */
  async untilExercised(limitMs = exercisedLimitMs): Promise<void> {
    for (const end = Date.now() + limitMs; !this.exercised; await sleep(30)) {
      if (Date.now() > end) throw new Error('not exercised: nobody came by where the fault was planned');
    }
  }

  /** The drill is not over before that instant: something may still happen. */
  lastsUntil(at: number): void {
    this.#effectsUntil = Math.max(this.#effectsUntil, at);
  }

  /** Waits until all that faults have put off has happened, and takes away what nobody met. */
  async effectsOver(): Promise<void> {
    const until = this.#faults.flatMap(({ takenAt, lastsMs }) =>
      takenAt().map((at) => (lastsMs > 0 ? at + lastsMs + 1500 : at)),
    );
    await sleep(Math.max(0, this.#effectsUntil - Date.now(), ...until.map((at) => at - Date.now())));
    for (const { away } of this.#faults) away();
    for (const end of this.#ends) await end();
  }

  /** Something to be closed when the drill is over. */
  atEnd(end: () => unknown): void {
    this.#ends.push(end);
  }

  /**
   * A reminder that a tick claims: during the cell's turn it becomes due for the claim, the fault is planned, and one
   * tick runs into it.
   * @param beside others of the cell that the same tick claims
   */
  async atTick(planFault: (reminder: Reminder) => unknown, beside: readonly Reminder[] = []): Promise<Reminder> {
    const reminder = await this.schedule();
    const all = [reminder, ...beside];
    const ids = all.map(({ deliveryId }) => deliveryId);
    return this.stage.inTurn(ids, async () => {
      for (const one of all) {
        // Beyond the lookahead; a call that took too long has claimed it by itself, and is made again.
        do await this.bringNear(one, this.settings.lookaheadSeconds * 1000 + 1200);
        while (!(await this.isIn(one, 'scheduled')));
      }
      for (const one of all)
        await this.untilSql('SELECT FROM reminder_delivery WHERE delivery_id = $1 AND wake_at <= now()', one);
      await planFault(reminder);
      this.stage.aws.scheduler.tickNow();
      await this.untilExercised(turnLimitMs);
      return reminder;
    });
  }

  /** Waits until a query about a reminder finds something. */
  async untilSql(text: string, { deliveryId }: Reminder, limitMs = exercisedLimitMs): Promise<void> {
    for (const end = Date.now() + limitMs; (await this.sql(text, [deliveryId])).length === 0; await sleep(60)) {
      if (Date.now() > end) throw new Error(`waited ${limitMs} ms for ${text}`);
    }
  }

  /** Waits until senders have found a reminder finished so often. */
  async untilRefused({ deliveryId }: Reminder, times: number): Promise<void> {
    const refused = new RegExp(`${deliveryId}","answer":"finished"`, 'g');
    for (const end = Date.now() + exercisedLimitMs; ; await sleep(100)) {
      if ((this.stage.logOf('webhook-sender').match(refused) ?? []).length >= times) return;
      if (Date.now() > end) throw new Error(`${deliveryId} was not refused ${times} times`);
    }
  }

  async isIn({ deliveryId }: Reminder, state: string): Promise<boolean> {
    const found = 'SELECT FROM reminder_delivery WHERE delivery_id = $1 AND state = $2';
    return (await this.sql(found, [deliveryId, state])).length > 0;
  }

  /** An operator readmits a reminder that is set aside, and asks again until it is answered. */
  async readmit({ deliveryId }: Reminder): Promise<void> {
    const words = ['recover', 'readmit', deliveryId, '--reason', 'the page is mended', '--apply'];
    for (const end = Date.now() + productLimitMs; ; ) {
      const code = await this.stage.operate(words);
      // 1: it is readmitted already.
      if (code === 0 || code === 1) return;
      if (Date.now() > end) throw new Error(`readmit: no answer in ${productLimitMs} ms; exit code ${code}`);
    }
  }

  /** Waits until a reminder is in a state. */
  untilState = (reminder: Reminder, state: string): Promise<void> =>
    this.untilSql(`SELECT FROM reminder_delivery WHERE delivery_id = $1 AND state = '${state}'`, reminder);
}
