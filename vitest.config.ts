// How the tests run: few workers, because databases and child processes share the machine with them.
import { defineConfig } from 'vitest/config';

const common = { testTimeout: 60_000, hookTimeout: 120_000 };

export default defineConfig({
  test: {
    // One more than a small machine has cores: most files wait for processes, leases and ticks.
    maxWorkers: 3,
    projects: [
      { test: { ...common, name: 'parts', include: ['test/**/*.test.ts'], exclude: ['test/demo/**'] } },
      // By itself, after the others: it measures lateness.
      {
        test: {
          ...common,
          name: 'demo',
          include: ['test/demo/*.test.ts'],
          sequence: { groupOrder: 1 },
          maxConcurrency: 3,
        },
      },
    ],
  },
});
