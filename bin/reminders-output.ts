// How the command line answers: text or JSON, once or again and again, and what its exit codes mean.
import { setTimeout as sleep } from 'node:timers/promises';
import { InvalidArgumentError, Option } from 'commander';
import { printableJson } from '../lambdas/core/verdict-text.ts';
import type { OperateDuty, OperateResponse } from '../lambdas/operate/contract.ts';
import { type LedgerTarget, UsageError } from './ledger-target.ts';
import { OperateError, operate } from './operate-client.ts';

/** 0: done. 1: the ledger answered, and not with what was asked for. 2: the command was not understood. 3: it failed. */
export const exitCodes = { done: 0, refused: 1, usage: 2, failed: 3 } as const;

/** What a command answers. */
export interface Shown {
  readonly value: unknown;
  readonly text: string;
  /** Whether it is what was asked for. @default true */
  readonly done?: boolean;
}

interface OutputOptions {
  readonly json?: boolean;
}

const usualSeconds = 5;

/** `--watch [seconds]`. */
export const watchOption = () =>
  new Option('--watch [seconds]', 'look again and again, until Ctrl-C (default: every 5 s)').argParser((text) => {
    if (/^[1-9]\d{0,4}$/.test(text)) return Number(text);
    throw new InvalidArgumentError('give whole seconds, 1 or more.');
  });

/** Prints one answer. */
export function print({ json }: OutputOptions, { value, text, done = true }: Shown): void {
  console.log(json ? printableJson(value) : text);
  process.exitCode = done ? exitCodes.done : exitCodes.refused;
}

/** Prints what a look shows, until Ctrl-C: on a terminal in place of the look before, elsewhere below its time. */
export async function printLooks(
  { json, watch }: OutputOptions & { readonly watch?: number | true },
  look: () => Promise<Shown>,
): Promise<void> {
  const end = new AbortController();
  process.once('SIGINT', () => end.abort());
  for (let first = true; !end.signal.aborted; first = false) {
    // What fails later may be better the next time.
    const shown = await look().catch((error: Error): Shown => {
      if (first || error instanceof UsageError) throw error;
      return { value: { failed: error.message }, text: `failed: ${error.message}` };
    });
    if (end.signal.aborted) break;
    if (json) console.log(printableJson(shown.value, 0));
    else if (process.stdout.isTTY) process.stdout.write(`\u001b[2J\u001b[H${shown.text}\n`);
    else console.log(`${first ? '' : '\n'}at ${new Date().toISOString()}\n${shown.text}`);
    const seconds = typeof watch === 'number' ? watch : usualSeconds;
    await sleep(seconds * 1000, undefined, { signal: end.signal }).catch(() => undefined);
  }
  // Nothing that is under way keeps it: a look may wait for the ledger.
  process.exit(exitCodes.done);
}

/**
 * Asks the function that people ask, as a duty.
 * @param expected the answers that are of use
 * @throws {UsageError} when the request was not understood
 * @throws {OperateError} when it was not answered, or not allowed
 */
export async function ask<Answer extends OperateResponse['answer']>(
  target: LedgerTarget,
  duty: OperateDuty,
  request: object,
  ...expected: readonly Answer[]
): Promise<OperateResponse & { readonly answer: Answer }> {
  const response = await operate(target.url(duty), request);
  if ((expected as readonly string[]).includes(response.answer)) {
    return response as OperateResponse & { readonly answer: Answer };
  }
  const message = 'message' in response ? response.message : 'it is of another version';
  if (response.answer === 'invalid') throw new UsageError(message);
  throw new OperateError(`the ledger answered ${response.answer}: ${message}`);
}
