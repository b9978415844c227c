// Runs sequences of commands against the model and against the statements on real PostgreSQL, and compares after each command.
import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import { settingsOf } from '../../lambdas/core/settings.ts';
import { PostgresLedger } from '../../lambdas/store/ledger.ts';
import type { StatementRunner } from '../../lambdas/store/statement.ts';
import { startVirtualDatabase, timestamp, type VirtualDatabase } from '../simulation/virtual-database.ts';
import { type Act, type Happening, idOf, type Real, urlOf } from './happenings.ts';
import { happenings } from './model-commands.ts';
import { databaseRows, modelRows } from './model-rows.ts';
import type { Destination } from './reminder-life.ts';
import { ReminderModel } from './reminder-model.ts';

/** How to run. */
export interface ModelRunOptions {
  readonly seed: number;
  /** @default 1000 */
  readonly sequences?: number;
  /** No sequence begins after so many milliseconds. @default never */
  readonly limitMs?: number;
  /** Another text for a statement: to see that a defect is found. @default its own */
  readonly plant?: (name: string, text: string) => string;
  /** Told after each sequence. */
  readonly onSequence?: () => void;
}

/** What came of it. */
export interface ModelRun {
  readonly sequences: number;
  readonly commands: number;
  /** How often a command got an answer, such as `cancel too_late`, and a row made a move, such as `queued > delivering`. */
  readonly met: ReadonlyMap<string, number>;
  /** The statements that ran, by name. */
  readonly statements: ReadonlySet<string>;
  /** The shortest sequence found after which the two differ, and in what; undefined when all agreed. */
  readonly failure: { readonly sequence: readonly string[]; readonly message: string } | undefined;
}

/** Far from today, so that a real clock read by mistake shows. */
const beginning = Date.UTC(2040, 0, 1);
/** Small limits, so that a sequence can reach them. */
const settings = { ...settingsOf('production'), attemptHardCap: 5, maxFailures: 4 };
const registered = (
  place: number,
  more: Pick<Destination, 'name' | 'contract'> & Partial<Destination>,
): Destination => ({
  ...{ id: idOf(900 + place), url: urlOf(more.name), owner: 'me', deadlineMs: null },
  ...{ maxFailures: settings.maxFailures, window: null, state: 'active', ...more },
});
const destinations = (): Destination[] => [
  registered(1, { name: 'keeps', contract: 'honours-key' }),
  registered(2, { name: 'promises-nothing', contract: 'none' }),
  registered(3, { name: 'strict', contract: 'honours-key', maxFailures: 1, window: 300 }),
];

/** Runs one sequence after the other, each in a transaction that is rolled back, and shrinks the first one that fails. */
export async function runModel(options: ModelRunOptions): Promise<ModelRun> {
  const database = await startVirtualDatabase();
  const met = new Map<string, number>();
  const statements = new Set<string>();
  let sequences = 0;
  let commands = 0;
  let failing = false;
  const end = performance.now() + (options.limitMs ?? Number.POSITIVE_INFINITY);
  try {
    await database.sql(`CREATE FUNCTION sim.random() RETURNS double precision LANGUAGE sql STABLE
      AS $$ SELECT CAST(pg_catalog.current_setting('sim.chance') AS double precision) $$`);
    const count = (what: string) => met.set(what, (met.get(what) ?? 0) + 1);
    const steps = happenings.map((one) =>
      one.map(
        (happening) =>
          new Step(happening, (what) => {
            commands += 1;
            for (const one of what) count(one);
          }),
      ),
    );
    const property = fc.asyncProperty(fc.commands(steps, { maxCommands: 50, size: 'max' }), async (drawn) => {
      // Time is up: what is left passes unseen. Not so while a failure is shrunk.
      if (!failing && performance.now() > end) return;
      const model = new ReminderModel(settings, beginning, destinations());
      // One transaction a sequence: what it leaves is gone at once.
      await database.sql('BEGIN');
      try {
        await database.sql(`SELECT set_config('sim.now', $1, false)`, [timestamp(beginning)]);
        for (const one of model.destinations) await addDestination(database, one);
        await fc.asyncModelRun(() => ({ model, real: realSide(database, model, statements, options.plant) }), drawn);
      } catch (error) {
        failing = true;
        throw error;
      } finally {
        await database.sql('ROLLBACK');
        sequences += 1;
        if (sequences % 50 === 0) await database.sql('VACUUM');
        options.onSequence?.();
      }
    });
    const details = await fc.check(property, { seed: options.seed, numRuns: options.sequences ?? 1000 });
    const { counterexample, errorInstance } = details;
    const failure =
      counterexample === null
        ? undefined
        : { sequence: [...counterexample[0]].map(String), message: String(errorInstance) };
    return { sequences, commands, met, statements, failure };
  } finally {
    await database.stop();
  }
}

/** One command of a sequence: sends it, asks the model, compares the answers and all rows. */
class Step implements fc.AsyncCommand<ReminderModel, Real, true> {
  readonly #happening: Happening;
  readonly #note: (what: readonly string[]) => void;

  constructor(happening: Happening, note: (what: readonly string[]) => void) {
    this.#happening = happening;
    this.#note = note;
  }

  check = async (model: Readonly<ReminderModel>): Promise<boolean> => this.#act(model as ReminderModel) !== undefined;

  async run(model: ReminderModel, real: Real): Promise<void> {
    const act = this.#act(model);
    if (act === undefined) return;
    acts.set(model, [...(acts.get(model) ?? []), act]);
    const before = new Map([...model.reminders].map(([id, { state }]) => [id, state]));
    const answer = comparable(await act.send(real));
    const expected = comparable(act.expect(model));
    const { name } = this.#happening;
    if (!isDeepStrictEqual(answer, expected)) throw new Difference(`the answer to ${this}`, answer, expected);
    const rows = await databaseRows(real.sql);
    const wanted = modelRows(model);
    for (const [table, all] of Object.entries(wanted)) {
      const found = rows[table] ?? [];
      const differs = all.findIndex((row, place) => !isDeepStrictEqual(found[place], row));
      if (differs >= 0 || found.length !== all.length) {
        const at = differs < 0 ? all.length : differs;
        throw new Difference(`${table} after ${this}`, found[at], all[at]);
      }
    }
    this.#note([
      ...answersIn(answer).map((one) => `${name} ${one}`),
      ...[...model.reminders].flatMap(([id, { state }]) =>
        before.has(id) && before.get(id) !== state ? [`${before.get(id)} > ${state}`] : [],
      ),
    ]);
  }

  toString(): string {
    const { name, wish } = this.#happening;
    return `${name} ${JSON.stringify(wish)}`;
  }

  #act(model: ReminderModel): Act | undefined {
    const done = acts.get(model) ?? [];
    return this.#happening.resolve(model, idOf(1000 + done.length), done);
  }
}

/** The commands so far of each sequence's model. */
const acts = new WeakMap<ReminderModel, Act[]>();

class Difference extends Error {
  constructor(what: string, got: unknown, wanted: unknown) {
    const [ours, theirs] = [got, wanted].map((side) => Object.entries(side ?? {}));
    const unlike = (one: [string, unknown][] = [], other: [string, unknown][] = []) =>
      one.filter(([name, value]) => !other.some(([same, its]) => same === name && isDeepStrictEqual(value, its)));
    const text = (...sides: Parameters<typeof unlike>) => JSON.stringify(Object.fromEntries(unlike(...sides)));
    super(`${what}: got ${text(ours, theirs)}, and the model has ${text(theirs, ours)}`);
  }
}

/** Without words for people, and without what the model cannot know. */
function comparable(answer: unknown): unknown {
  const text = JSON.stringify(answer, (key, value) =>
    key === 'message' || key === 'askedAt' || key === 'highWater' ? undefined : value,
  );
  const plain: unknown = text === undefined ? null : JSON.parse(text);
  return typeof plain === 'object' && plain !== null && 'count' in plain ? plain.count : plain;
}

function answersIn(answer: unknown): string[] {
  if (Array.isArray(answer)) return answer.flatMap(answersIn);
  if (typeof answer !== 'object' || answer === null) return [String(answer)];
  if ('answer' in answer) return [String(answer.answer)];
  return Object.entries(answer).flatMap(([name, list]) => (Array.isArray(list) && list.length > 0 ? [name] : []));
}

function realSide(
  database: VirtualDatabase,
  model: ReminderModel,
  statements: Set<string>,
  plant: ModelRunOptions['plant'],
): Real {
  let statement = 0;
  const runner: StatementRunner = {
    async run(asked, input, onTry) {
      onTry?.(0);
      statements.add(asked.name);
      statement += 1;
      await database.sql(`SELECT set_config('sim.chance', $1, false)`, [String(model.chance)]);
      const text = plant?.(asked.name, asked.text) ?? asked.text;
      const moment = { at: model.now, statement, chance: 0 };
      const rows = await database.run(moment, text, asked.parameters(input, settings));
      return rows.map(([answer, payload]) => {
        const row = JSON.parse(answer ?? 'null');
        return payload == null ? row : { ...row, payload: Buffer.from(payload, 'base64').toString('utf8') };
      });
    },
  };
  return { runner, ledger: new PostgresLedger(runner), sql: database.sql };
}

function addDestination({ sql }: VirtualDatabase, one: Destination) {
  const { id, name, url, owner, contract, maxFailures, state, window } = one;
  return sql(
    `INSERT INTO destination (destination_id, name, url, owner, contract, state, state_since, policy, dedup_window_seconds,
       created_at)
     VALUES ($1, $2, $3, $4, $5, $6, now(), $7, $8, now())`,
    [id, name, url, owner, contract, state, { maxFailures }, window],
  );
}
