// Runs mutants: each worker has a server of its own, and each mutant a database copied from a template, its tests and a time limit.
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readMigrations } from '../../lambdas/store/migrations.ts';
import { type Postgres, startPostgres } from '../../lib/local/postgres.ts';
import { type Mutant, mutated, read, repository } from './mutant.ts';
import { preparable } from './mutants.ts';
import { type TestRun, TestRunner } from './run-tests.ts';
import { patternFor, testsOfSubjects } from './tests-of-subjects.ts';
import { runOn } from './worker-postgres.ts';

/** What became of a mutant: a test failed, the tests did not end, none failed, or it is no working product to begin with. */
export type Fate = 'killed' | 'hung' | 'survived' | 'broken';

export interface Result {
  readonly mutant: Mutant;
  readonly fate: Fate;
  /** The test that failed, or what else tells the fate. */
  readonly by: string;
  readonly seconds: number;
}

export interface RunOptions {
  readonly workers: number;
  /** Of the tests' names. @default those of other statements are left out */
  readonly pattern?: string;
  /** Told after each mutant, and before the first with none. */
  readonly onResult?: (result: Result | null, mutants: number) => void;
}

/** The tests fail already without a mutant: nothing that they say of one counts. */
export class UnsoundTestsError extends Error {
  override readonly name = 'UnsoundTestsError';
}

/**
 * Runs each mutant against the tests of its subject. First all those tests run without one, which also tells how long they take.
 * @throws {UnsoundTestsError} when they fail
 */
export async function runMutants(mutants: readonly Mutant[], options: RunOptions): Promise<Result[]> {
  const directory = mkdtempSync(join(tmpdir(), 'reminder-ledger-mutants-'));
  const workers = await Promise.all(
    Array.from({ length: Math.min(options.workers, mutants.length) }, (_, number) => Worker.start(directory, number)),
  );
  try {
    const filesOf = ({ subject }: Mutant) => testsOfSubjects[subject] ?? [];
    const seconds = new Map<string, number>();
    await shareOut(workers, [...new Set(mutants.flatMap(filesOf))], async (worker, file) => {
      const run = await worker.passed(file, options.pattern);
      if (run.end !== 'passed') throw new UnsoundTestsError(`${file} without any mutant: ${run.end}: ${run.by}`);
      seconds.set(file, run.seconds);
    });
    options.onResult?.(null, mutants.length);
    const results = new Map<Mutant, Result>();
    await shareOut(workers, mutants, async (worker, mutant) => {
      const usual = filesOf(mutant).reduce((sum, file) => sum + (seconds.get(file) ?? 0), 0);
      const result = await worker.resultOf(mutant, 20 + 4 * usual, options.pattern);
      results.set(mutant, result);
      options.onResult?.(result, mutants.length);
    });
    return mutants.flatMap((mutant) => results.get(mutant) ?? []);
  } finally {
    await Promise.all(workers.map((worker) => worker.stop()));
    rmSync(directory, { recursive: true, force: true });
  }
}

/** Seconds that one file may take without a mutant. */
const longestFile = 300;

/** Each worker takes the next piece until none is left. */
async function shareOut<Piece>(
  workers: readonly Worker[],
  pieces: readonly Piece[],
  work: (worker: Worker, piece: Piece) => Promise<void>,
): Promise<void> {
  const waiting = pieces.values();
  await Promise.all(
    workers.map(async (worker) => {
      for (const piece of waiting) await work(worker, piece);
    }),
  );
}

class Worker {
  readonly #postgres: Postgres;
  readonly tests: TestRunner;
  /** Whether new databases have the schema without any change. */
  #isUnchanged = false;

  private constructor(postgres: Postgres) {
    const { host, port, user, password } = postgres;
    this.#postgres = postgres;
    this.tests = new TestRunner({ host, port, user, password });
  }

  static async start(parent: string, number: number): Promise<Worker> {
    const directory = join(parent, `worker-${number}`);
    const worker = new Worker(await startPostgres({ directory, fresh: true }));
    await worker.#makeSchema('unchanged', null);
    await worker.#useSchema(null);
    return worker;
  }

  /** A file without any mutant, and once more when it fails: what fails now and then is not to be blamed on this machine. */
  async passed(file: string, pattern = ''): Promise<TestRun> {
    const run = () => this.tests.run({ files: [file], pattern, mutant: null }, longestFile);
    const first = await run();
    return first.end === 'passed' ? first : run();
  }

  async resultOf(mutant: Mutant, limit: number, pattern = patternFor(mutant.subject)): Promise<Result> {
    const began = performance.now();
    const result = (fate: Fate, by: string): Result => ({
      mutant,
      fate,
      by,
      seconds: Math.round((performance.now() - began) / 100) / 10,
    });
    try {
      if (mutant.file.includes('/statements/')) await this.#plan(mutant);
      await this.#useSchema(mutant.file.endsWith('.sql') ? mutant : null);
    } catch (error) {
      return result('broken', error instanceof Error ? error.message : String(error));
    }
    const { subject } = mutant;
    const run = await this.tests.run({ files: testsOfSubjects[subject] ?? [], pattern, mutant }, limit);
    return result(fates[run.end], run.by);
  }

  /** Whether PostgreSQL can plan the changed statement: a test that fails because it cannot would prove nothing. */
  async #plan(mutant: Mutant): Promise<void> {
    await runOn(this.#postgres.url('unchanged'), `PREPARE changed AS ${await preparable(mutant)}`);
  }

  /** Makes what new databases of the server are copies of, whoever creates them: a schema with the mutant's change, if it has one. */
  async #useSchema(change: Mutant | null): Promise<void> {
    if (change === null && this.#isUnchanged) return;
    await runOn(this.#postgres.url('postgres'), 'ALTER DATABASE template1 IS_TEMPLATE false');
    await this.#postgres.dropDatabase('template1');
    this.#isUnchanged = change === null;
    if (change === null) await this.#postgres.createDatabase('template1', 'unchanged');
    else await this.#makeSchema('template1', change);
  }

  /** The schema as the migrations make it, with the mutant's change, and recorded as if there were none. */
  async #makeSchema(name: 'unchanged' | 'template1', mutant: Mutant | null): Promise<void> {
    await this.#postgres.createDatabase(name, 'template0');
    const files = readdirSync(new URL('migrations/', repository));
    const migrations = (change: Mutant | null) =>
      readMigrations(
        files.map((file) => {
          const path = `migrations/${file}`;
          return [file, path === change?.file ? mutated(change) : read(path)];
        }),
      );
    await runOn(
      this.#postgres.url(name),
      ...migrations(mutant).flatMap(({ statements }) => statements),
      'CREATE TABLE schema_migration (version integer, name text, checksum text, applied_at timestamptz DEFAULT now())',
      ...migrations(null).map(({ version, name: file, checksum }) => ({
        text: 'INSERT INTO schema_migration (version, name, checksum) VALUES ($1, $2, $3)',
        values: [version, file, checksum],
      })),
      // The tests' migrate is another owner, and must find its work done.
      'GRANT SELECT ON schema_migration TO PUBLIC',
      'GRANT EXECUTE ON FUNCTION limit_statements TO PUBLIC',
    );
  }

  stop(): Promise<void> {
    this.tests.stop();
    return this.#postgres.stop();
  }
}

const fates = { passed: 'survived', failed: 'killed', 'ran out of time': 'hung', 'ran no test': 'broken' } as const;
