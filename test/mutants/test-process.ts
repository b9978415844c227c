// The process of a worker that runs tests: it stays warm from mutant to mutant, and serves the mutant's text in place of its file.
import { fileURLToPath } from 'node:url';
import { BaseSequencer, createVitest, type TestRunResult, type TestSpecification } from 'vitest/node';
import { type Mutant, mutated } from './mutant.ts';

/** What to run, as it comes from the parent process. */
export interface TestOrder {
  /** Paths in the repository, in the order in which they run. */
  readonly files: readonly string[];
  /** Of the tests' full names. */
  readonly pattern: string;
  readonly mutant: Mutant | null;
}

/** How it ended, as it goes to the parent process. */
export interface TestEnd {
  readonly end: 'passed' | 'failed' | 'ran out of time' | 'ran no test';
  /** What failed first and how, or how many tests passed. */
  readonly by: string;
}

const pathOf = (path: string) => fileURLToPath(new URL(`../../${path}`, import.meta.url));
let order: TestOrder = { files: [], pattern: '', mutant: null };

class InOrder extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const place = ({ moduleId }: TestSpecification) => order.files.findIndex((file) => pathOf(file) === moduleId);
    return files.sort((one, other) => place(one) - place(other));
  }
}

const vitest = await createVitest(
  'test',
  {
    config: false,
    root: pathOf(''),
    watch: false,
    // It knows a file by its text on disk, which a mutant does not change.
    fsModuleCache: false,
    include: ['test/**/*.test.ts'],
    reporters: [{}],
    bail: 1,
    testTimeout: 30_000,
    hookTimeout: 60_000,
    fileParallelism: false,
    sequence: { sequencer: InOrder },
  },
  {
    plugins: [
      {
        name: 'mutant',
        enforce: 'pre',
        load(id) {
          const stand = pathOf('test/mutants/worker-postgres.ts');
          if (id === pathOf('lib/local/postgres.ts')) return `export * from '${stand}';`;
          return order.mutant !== null && id === pathOf(order.mutant.file) ? mutated(order.mutant) : undefined;
        },
      },
    ],
  },
);

process.on('message', async (next: TestOrder) => {
  for (const mutant of [order.mutant, next.mutant]) if (mutant !== null) vitest.invalidateFile(pathOf(mutant.file));
  order = next;
  // What failed before must not count as a failure of this run.
  vitest.state.idMap.clear();
  vitest.state.filesMap.clear();
  vitest.setGlobalTestNamePattern(next.pattern);
  const specifications = await vitest.globTestSpecifications(next.files.map(pathOf));
  process.send?.(endOf(await vitest.runTestSpecifications(specifications)));
});
process.on('disconnect', () => process.exit());

/** How PostgreSQL and vitest say that their time limit ended something. */
const timeLimit = /due to statement timeout|timed out in \d+ms/;

function endOf({ testModules, unhandledErrors }: TestRunResult): TestEnd {
  let passed = 0;
  for (const module of testModules) {
    for (const test of module.children.allTests()) {
      const { state, errors } = test.result();
      if (state === 'failed') {
        const message = errors[0]?.message.split('\n')[0] ?? '';
        return { end: timeLimit.test(message) ? 'ran out of time' : 'failed', by: `${test.fullName}: ${message}` };
      }
      if (state === 'passed') passed += 1;
    }
  }
  const errors = [...testModules.flatMap((module) => module.errors()), ...unhandledErrors];
  const [error] = errors as { message?: string }[];
  if (error !== undefined) return { end: 'ran no test', by: String(error.message) };
  return passed === 0 ? { end: 'ran no test', by: 'no test matched' } : { end: 'passed', by: `${passed} tests passed` };
}
