// How a mutant's tests run: in one process, in the order given, on the worker's server, with the mutant in place of its file.
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';
import { type Mutant, mutated } from './mutant.ts';

const pathOf = (path: string) => fileURLToPath(new URL(`../../${path}`, import.meta.url));
const mutant: Mutant | null = JSON.parse(process.env.MUTANTS_MUTANT ?? 'null');
const order: readonly string[] = JSON.parse(process.env.MUTANTS_TESTS ?? '[]');

class InOrder extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const place = ({ moduleId }: TestSpecification) => order.findIndex((file) => moduleId.endsWith(file));
    return files.sort((one, other) => place(one) - place(other));
  }
}

export default defineConfig({
  root: pathOf(''),
  plugins: [
    {
      name: 'mutant',
      enforce: 'pre',
      load(id) {
        if (id === pathOf('lib/local/postgres.ts'))
          return `export * from '${pathOf('test/mutants/worker-postgres.ts')}';`;
        return mutant !== null && id === pathOf(mutant.file) ? mutated(mutant) : undefined;
      },
    },
  ],
  test: {
    include: order.map(String),
    testTimeout: 30_000,
    hookTimeout: 60_000,
    isolate: false,
    fileParallelism: false,
    sequence: { sequencer: InOrder },
  },
});
