// One run of test files in a process of its own, which a time limit ends.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Mutant, repository } from './mutant.ts';
import type { WorkerServer } from './worker-postgres.ts';

export interface TestRunOptions {
  /** Paths in the repository, in the order in which they run. */
  readonly files: readonly string[];
  /** Of the tests' full names. */
  readonly pattern: string;
  readonly mutant: Mutant | null;
  readonly server: WorkerServer;
  /** Where the report is written. */
  readonly directory: string;
  readonly limitSeconds: number;
}

export interface TestRun {
  readonly end: 'passed' | 'failed' | 'ran out of time' | 'ran no test';
  /** What failed first and how, or how many tests passed. */
  readonly by: string;
  readonly seconds: number;
}

/** What is read of vitest's JSON report. */
interface Report {
  readonly numPassedTests: number;
  readonly testResults: readonly {
    readonly name: string;
    readonly status: string;
    readonly message: string;
    readonly assertionResults: readonly {
      readonly status: string;
      readonly fullName: string;
      readonly failureMessages: readonly string[];
    }[];
  }[];
}

/** Runs test files until one test fails. */
export async function runTests(options: TestRunOptions): Promise<TestRun> {
  const began = performance.now();
  const reportFile = join(options.directory, 'report.json');
  rmSync(reportFile, { force: true });
  const config = fileURLToPath(new URL('vitest.config.ts', import.meta.url));
  const vitest = fileURLToPath(new URL('node_modules/vitest/vitest.mjs', repository));
  const flags = [
    '--config',
    config,
    '--bail',
    '1',
    '--reporter',
    'json',
    '--outputFile',
    reportFile,
    '-t',
    options.pattern,
  ];
  const child = spawn(process.execPath, [vitest, 'run', ...flags], {
    cwd: fileURLToPath(repository),
    // A group of its own: what hangs is ended with all its children.
    detached: true,
    stdio: 'ignore',
    env: {
      ...process.env,
      MUTANTS_MUTANT: JSON.stringify(options.mutant),
      MUTANTS_TESTS: JSON.stringify(options.files),
      MUTANTS_SERVER: JSON.stringify(options.server),
    },
  });
  const endGroup = () => {
    if (child.pid !== undefined && child.exitCode === null) process.kill(-child.pid, 'SIGKILL');
  };
  let late = false;
  const limit = setTimeout(() => {
    late = true;
    endGroup();
  }, options.limitSeconds * 1000);
  process.once('exit', endGroup);
  await once(child, 'exit');
  process.off('exit', endGroup);
  clearTimeout(limit);
  const seconds = (performance.now() - began) / 1000;
  return {
    seconds,
    ...(late ? { end: 'ran out of time', by: `${options.limitSeconds.toFixed(0)} s` } : readReport(reportFile)),
  };
}

function readReport(file: string): Pick<TestRun, 'end' | 'by'> {
  let report: Report;
  try {
    report = JSON.parse(readFileSync(file, 'utf8'));
  } catch {
    return { end: 'ran no test', by: 'the run left no report' };
  }
  for (const { assertionResults } of report.testResults) {
    const failed = assertionResults.find(({ status }) => status === 'failed');
    if (failed) return { end: 'failed', by: `${failed.fullName}: ${failed.failureMessages[0]?.split('\n')[0] ?? ''}` };
  }
  const unloaded = report.testResults.find(({ status }) => status === 'failed');
  if (unloaded) return { end: 'ran no test', by: `${unloaded.name}: ${unloaded.message.split('\n')[0]}` };
  if (report.numPassedTests === 0) return { end: 'ran no test', by: 'no test matched' };
  return { end: 'passed', by: `${report.numPassedTests} tests passed` };
}
