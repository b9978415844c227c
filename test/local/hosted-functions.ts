// Small functions for tests of the Lambda host: one handler whose event says what to do.
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { HostedFunction } from '../../lib/local/lambda-environment.ts';

const handler = `
let runs = 0, beats = 0;
setInterval(() => { beats += 1 }, 20);
const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
export const handler = async (event, context) => {
  runs += 1;
  if (event?.log) console.log(JSON.stringify({ said: event.log }));
  if (event?.wait) await wait(event.wait);
  if (event?.throw) throw new TypeError(event.throw);
  if (event?.exit !== undefined) process.exit(event.exit);
  if (event?.size) return 'x'.repeat(event.size);
  if (event?.answer !== undefined) return event.answer;
  return { event, context, remaining: context.getRemainingTimeInMillis(), environment: process.env, pid: process.pid, runs, beats };
};
`;

/** A folder for a test's functions and logs. The caller removes it. */
export function functionDirectory(): string {
  return mkdtempSync(join(tmpdir(), 'reminder-ledger-lambda-'));
}

/** Writes a function and describes it. @param source its index.mjs; default: the handler that does what it is told */
export function hostedFunction(
  directory: string,
  name: string,
  more: Partial<HostedFunction> = {},
  source = handler,
): HostedFunction {
  const folder = join(directory, name);
  mkdirSync(folder);
  writeFileSync(join(folder, 'index.mjs'), source);
  return { name, folder, timeoutSeconds: 5, memoryMegabytes: 512, concurrency: 2, environment: {}, ...more };
}
