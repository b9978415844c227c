// Runs tests in a process that stays warm, and ends it when they take longer than they may.
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { TestEnd, TestOrder } from './test-process.ts';
import type { WorkerServer } from './worker-postgres.ts';

/** How a run of tests ended, and after how long. */
export interface TestRun {
  readonly end: TestEnd['end'];
  readonly by: string;
  readonly seconds: number;
}

/** One process at a time that runs tests on a server, one run after the other. */
export class TestRunner {
  readonly #server: WorkerServer;
  #process: ChildProcess | null = null;

  constructor(server: WorkerServer) {
    this.#server = server;
    process.once('exit', () => this.stop());
  }

  /** Runs test files until one test fails, for so many seconds at most. */
  async run(order: TestOrder, limitSeconds: number): Promise<TestRun> {
    const began = performance.now();
    this.#process ??= this.#start();
    const over = new AbortController();
    const told = { signal: over.signal };
    const child = this.#process;
    const late = {
      end: 'ran out of time',
      by: `no end within ${Math.round(limitSeconds)} s`,
    } as const;
    child.send(order);
    const end: Omit<TestRun, 'seconds'> = await Promise.race([
      once(child, 'message', told).then(([message]) => message),
      once(child, 'exit', told).then(() => crashed),
      sleep(limitSeconds * 1000, late, told),
    ]);
    over.abort();
    if (end === late || end === crashed) this.stop();
    return { ...end, seconds: (performance.now() - began) / 1000 };
  }

  /** A group of its own: what hangs is ended with all its children. */
  stop(): void {
    if (this.#process?.pid !== undefined && this.#process.exitCode === null)
      process.kill(-this.#process.pid, 'SIGKILL');
    this.#process = null;
  }

  #start(): ChildProcess {
    return fork(fileURLToPath(new URL('test-process.ts', import.meta.url)), {
      detached: true,
      stdio: 'ignore',
      env: { ...process.env, MUTANTS_SERVER: JSON.stringify(this.#server) },
    });
  }
}

const crashed = { end: 'ran no test', by: 'the process of the tests ended' } as const;
