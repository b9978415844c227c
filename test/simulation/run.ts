// One run of the simulation: its world, its weather, its database, and a record of every statement.
import pg from 'pg';
import { ledgerError } from '../../lambdas/store/data-api-errors.ts';
import type { Parameters, Statement, StatementRunner } from '../../lambdas/store/statement.ts';
import type { Chance } from './chance.ts';
import type { ExecutionEnvironment } from './environment.ts';
import { damageCode, type VirtualDatabase } from './virtual-database.ts';
import type { Trouble, Weather } from './weather.ts';
import type { World } from './world.ts';

/** A statement as it was run. */
export interface Executed {
  readonly number: number;
  readonly at: number;
  readonly name: string;
  readonly by: string;
  readonly parameters: Parameters;
  /** Its answers; null: PostgreSQL refused it. */
  readonly answers: readonly Readonly<Record<string, unknown>>[] | null;
}

/** Changes a statement's text before it runs: how a test plants a defect. */
export type Plant = (name: string, text: string) => string;

/** The next one that takes one of these reminders: a claim, or a sender. */
export interface Rival {
  readonly answer: 'claimed' | 'opened';
  readonly ids: readonly string[];
}

type Work = () => void | Promise<void>;

export class Run {
  readonly world: World;
  readonly weather: Weather;
  readonly database: VirtualDatabase;
  readonly executed: Executed[] = [];
  /** What PostgreSQL refused, but for damaged rows: since statements run one at a time, nothing else may be. */
  readonly refusals: string[] = [];
  /** When nothing goes wrong any more; as long as the troubles have not begun, nothing does. */
  calmAt = 0;
  /** How often each situation was met that no statement tells of. */
  readonly met = new Map<string, number>();
  /** Reminders whose row is damaged, or was: any update of a damaged row fails. */
  readonly everDamaged = new Set<string>();
  readonly #damaged = new Set<string>();
  readonly environments = new Map<string, ExecutionEnvironment>();
  readonly #plant: Plant;
  readonly #listeners: ((executed: Executed) => void | Promise<void>)[] = [];
  readonly #named = new Map<string, number>();
  readonly #awaited: { readonly rival: Rival; readonly work: Work }[] = [];

  constructor(world: World, weather: Weather, database: VirtualDatabase, plant: Plant) {
    this.world = world;
    this.weather = weather;
    this.database = database;
    this.#plant = plant;
  }

  /** `hear` is told of each statement of the ledger that was run, right after it. */
  listen(hear: (executed: Executed) => void | Promise<void>): void {
    this.#listeners.push(hear);
  }

  /** From now on things go wrong, for as long as the weather says. */
  beginTroubles(): void {
    this.calmAt = this.world.at + this.weather.troubledMs;
  }

  meet(what: string): void {
    this.met.set(what, (this.met.get(what) ?? 0) + 1);
  }

  /** Damages a reminder's row, as where a page of it cannot be read, or mends it. */
  async damage(id: string, damaged: boolean): Promise<void> {
    if (damaged === this.#damaged.has(id)) return;
    if (damaged) this.#damaged.add(id);
    else this.#damaged.delete(id);
    this.everDamaged.add(id);
    this.world.note('database', `row ${id} is ${damaged ? 'damaged' : 'mended'}`);
    await this.database.damage([...this.#damaged]);
  }

  newName(kind: string): string {
    const number = (this.#named.get(kind) ?? 0) + 1;
    this.#named.set(kind, number);
    return `${kind}-${number}`;
  }

  /** Kills an environment by its name, if it is still there. */
  kill(name: string): void {
    this.environments.get(name)?.kill('by chance');
  }

  /** Whether this trouble strikes now, in the place named. */
  troubled(trouble: Trouble, where: string): boolean {
    const odds = this.weather.odds[trouble];
    return odds > 0 && this.world.at < this.calmAt && this.world.chanceOf(`${trouble} ${where}`).happens(odds);
  }

  /** Cuts a time so that it is over when the troubles are. */
  untilCalm(ms: number): number {
    return Math.min(ms, Math.max(1, this.calmAt - this.world.at));
  }

  /** A time that a lease or an invitation may or may not outlive. */
  longWait(chance: Chance): number {
    const { leaseSeconds, allowanceSeconds } = this.weather.settings;
    const usual = [
      leaseSeconds / 4,
      leaseSeconds,
      allowanceSeconds,
      2 * allowanceSeconds,
      4 * allowanceSeconds,
    ] as const;
    return chance.pick(usual) * chance.between(500, 1400);
  }

  /** Does `work` at some moment of the coming span. */
  during(chance: Chance, ms: number, work: Work): void {
    this.world.after(chance.between(0, ms), work);
  }

  /**
   * Does `work` soon after one of these reminders is taken anew, or at last when a long time has passed.
   * Twice the longest pause between two attempts that do not fail, so that it mostly comes to that.
   */
  onceTaken(rival: Rival, work: Work): void {
    let done = false;
    const once = () => {
      if (done) return;
      done = true;
      return work();
    };
    this.#awaited.push({ rival, work: once });
    const { allowanceSeconds, retryCapSeconds } = this.weather.settings;
    this.world.after(this.untilCalm(2 * (allowanceSeconds + retryCapSeconds) * 1000), once);
  }

  /** Runs SQL of the simulation's own, for an operator, at this moment. */
  async operate(name: string, sql: string, values: unknown[]): Promise<void> {
    const moment = this.#moment('operator');
    await this.database.runAt(moment, sql, values);
    this.executed.push({ ...moment, number: moment.statement, name, by: 'operator', parameters: {}, answers: [] });
    this.world.note('operator', `#${moment.statement} ${name} ${JSON.stringify(values)}`);
  }

  /** Runs a statement of the ledger at this moment. */
  async execute(by: string, name: string, text: string, parameters: Parameters): Promise<(string | null)[][]> {
    const moment = this.#moment(by);
    const { statement: number, at } = moment;
    try {
      const rows = await this.database.run(moment, this.#plant(name, text), parameters);
      const answers = rows.map(([answer]) => JSON.parse(answer ?? 'null'));
      const executed = { number, at, name, by, parameters, answers };
      this.executed.push(executed);
      this.world.note(by, `#${number} ${name} ${brief(parameters)} -> ${rows.map(([answer]) => answer).join(' ')}`);
      this.#tellTaken(executed);
      for (const hear of this.#listeners) await hear(executed);
      return rows;
    } catch (error) {
      if (!(error instanceof pg.DatabaseError)) throw error;
      this.executed.push({ number, at, name, by, parameters, answers: null });
      if (error.code !== damageCode)
        this.refusals.push(`#${number} ${name} by ${by}: ${error.message} (${error.code})`);
      this.world.note(by, `#${number} ${name} ${brief(parameters)} refused: ${error.message}`);
      const message = `ERROR: ${error.message}; SQLState: ${error.code}`;
      throw Object.assign(new Error(message), { name: 'DatabaseErrorException' });
    }
  }

  /** Whoever waits for a rival goes on while that one is under way, or a little later. */
  #tellTaken({ answers }: Executed): void {
    if (this.#awaited.length === 0) return;
    const isTaken = ({ rival }: { rival: Rival }) =>
      answers?.some(({ answer, delivery_id: id }) => answer === rival.answer && rival.ids.includes(String(id)));
    for (const one of this.#awaited.filter(isTaken)) {
      this.#awaited.splice(this.#awaited.indexOf(one), 1);
      const chance = this.world.chanceOf('once taken');
      this.during(chance, chance.pick([20, 200, 2000]), one.work);
    }
  }

  #moment(by: string) {
    const { world } = this;
    const chance = world.chanceOf(`random() for ${by}`).between(-1, 1);
    return { at: world.at, statement: this.executed.length + 1, chance };
  }
}

/** Who would make a command one that comes too late: the next sender of what it settles, the next claim of what it marks. */
function overtaking(name: string, { outcomes, receipts, deliveries }: Parameters): Rival | null {
  const ids = String(outcomes ?? receipts ?? deliveries).match(/(?<=delivery_id\W+|[[,]")[0-9a-f-]{36}/g) ?? [];
  if (name === 'settle') return { answer: 'opened', ids };
  return name === 'enqueue' || name === 'release' ? { answer: 'claimed', ids } : null;
}

/** The parameters that tell one run of a statement from another. */
function brief(parameters: Parameters): string {
  const own = Object.entries(parameters).filter(
    ([name]) => !/_seconds$|^max_|_cap$|^request_id$|^log_stream$|^function_/.test(name),
  );
  return JSON.stringify(Object.fromEntries(own));
}

/** Stands in for the Data API's client: the same tries under the same token, the same reading of errors. */
export function runnerFor(environment: ExecutionEnvironment): StatementRunner {
  const { run } = environment;
  const { settings } = run.weather;
  return {
    async run<Input, Row>(
      statement: Statement<Input, Row>,
      input: Input,
      onTry: (monotonicMs: number) => void = () => undefined,
    ): Promise<Row[]> {
      const { name, text } = statement;
      const parameters = statement.parameters(input, settings);
      for (let tried = 1; ; tried += 1) {
        try {
          onTry(environment.clock.monotonic());
          const rows = await environment.call(
            {
              name,
              timeoutMs: settings.dataApiTimeoutMs,
              refusals: ['ServiceUnavailableError', 'ThrottlingException', 'StatementTimeoutException', 'ECONNRESET'],
              failures: ['ECONNRESET', 'InternalServerErrorException', 'ServiceUnavailableError'],
            },
            () => run.execute(environment.name, name, text, parameters),
            overtaking(name, parameters),
          );
          return rows.map(([answer, payload]) => {
            const row = JSON.parse(answer ?? 'null');
            return payload == null ? row : { ...row, payload: Buffer.from(payload, 'base64').toString('utf8') };
          });
        } catch (caught) {
          const error = ledgerError(name, caught);
          if (error.retry === 'never' || tried >= settings.dataApiTries) throw error;
          const longest = error.retry === 'later' ? Math.min(100 * 2 ** tried, 250) : 0;
          await environment.clock.sleep(longest * environment.chance.between(0.5, 1));
        }
      }
    },
  };
}
