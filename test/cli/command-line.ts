// Runs the command line as a person does: a process of its own, in a directory of its own.
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'vitest';

const program = fileURLToPath(new URL('../../bin/reminders.ts', import.meta.url));

export interface Run {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/**
 * @param local the directory of the local AWS to talk to
 * @param cwd where it runs
 */
export function commandLine(local: () => string, cwd: string) {
  /** Runs it without AWS's variables, which it must find by itself. */
  function reminders(...args: readonly string[]): Promise<Run> {
    const env = { PATH: process.env.PATH, NODE_COMPILE_CACHE: join(cwd, 'compile-cache') };
    return new Promise((resolve) => {
      const command = [program, '--local', local(), ...args];
      execFile(process.execPath, command, { cwd, env, encoding: 'utf8' }, (error, stdout, stderr) => {
        resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr });
      });
    });
  }

  /** Runs it with `--json`: standard output is one JSON value, whatever the answer. */
  async function json(...args: readonly string[]) {
    const { code, stdout, stderr } = await reminders('--json', ...args);
    expect(stderr).toBe('');
    return { code, value: JSON.parse(stdout) };
  }

  return { reminders, json };
}
