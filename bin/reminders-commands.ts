// What commands of people have in common: how they name reminders as they were seen, say why, and are told of a refusal.
import type { Command } from 'commander';
import { v7 as uuid } from 'uuid';
import type { SeenReminder } from '../lambdas/core/decisions.ts';
import type { OperateResponse } from '../lambdas/operate/contract.ts';
import { type LedgerTarget, type TargetOptions, UsageError } from './ledger-target.ts';
import { operate } from './operate-client.ts';
import { isId } from './reminders-options.ts';
import type { Shown } from './reminders-output.ts';
import { table } from './terminal-table.ts';

/** The options that every one of them has. */
export interface WritingOptions extends TargetOptions {
  readonly json?: boolean;
  readonly reason: string;
  readonly ticket?: string;
  readonly commandId?: string;
  readonly apply?: boolean;
}

/** Adds those options to a command. */
export function withWritingOptions(command: Command): Command {
  return command
    .requiredOption('--reason <text>', 'why; it is kept for good')
    .option('--ticket <id>', 'where the work on it is recorded')
    .option('--command-id <uuid>', 'that of a command whose answer was lost, to send it again (default: a fresh one)')
    .option('--apply', 'do it; otherwise only what would be done is told');
}

/** They as a request has them. */
export function writingOf({ reason, ticket, commandId, apply }: WritingOptions) {
  return {
    ...{ reason, apply: apply ?? false, commandId: commandId ?? uuid() },
    ...(ticket === undefined ? {} : { ticket }),
  };
}

/** A reminder that was named, with what was seen of it or without. */
export type Named = SeenReminder | { readonly deliveryId: string };

/** An id with what was seen of it; a look needs no more than the id. */
export function named(name: string, apply: boolean): Named {
  const [deliveryId = '', shown, more] = name.split('@');
  const [, version, attempts] = /^([1-9]\d{0,8})\.(\d{1,9})$/.exec(shown ?? '') ?? [];
  if (!isId(deliveryId) || more !== undefined || (shown !== undefined && version === undefined)) {
    throw new UsageError(`reminder: got ${JSON.stringify(name)}; give an id, or ID@VERSION.ATTEMPTS`);
  }
  if (shown !== undefined) return { deliveryId, versionSeen: Number(version), attemptsSeen: Number(attempts) };
  if (apply) throw new UsageError(`reminder: got ${deliveryId} alone; give ID@VERSION.ATTEMPTS as you saw it`);
  return { deliveryId };
}

/** Those that were named without are looked at. */
export async function seen(target: LedgerTarget, names: readonly Named[]): Promise<SeenReminder[]> {
  const reminders: SeenReminder[] = [];
  for (const { deliveryId, ...shown } of names) {
    reminders.push({ deliveryId, ...('versionSeen' in shown ? shown : await present(target, deliveryId)) });
  }
  return reminders;
}

async function present(target: LedgerTarget, deliveryId: string): Promise<Omit<SeenReminder, 'deliveryId'>> {
  const answer = await operate(target.url('inspect'), { verb: 'explain', deliveryId });
  // Of what is not there the ledger says so itself.
  if (answer.answer !== 'explained') return { versionSeen: 1, attemptsSeen: 0 };
  const { version, evidence } = answer.explanation;
  return { versionSeen: version, attemptsSeen: evidence.attemptNo };
}

/** What the answers that were given mean, a line each; empty where each speaks for itself. */
export function legend<Answer extends string>(
  meanings: Partial<Readonly<Record<Answer, string>>>,
  answers: readonly Answer[],
): string {
  const told = [...new Set(answers)].flatMap((answer) => {
    const meaning = meanings[answer];
    return meaning === undefined ? [] : [[answer, meaning]];
  });
  return told.length === 0 ? '' : `\n${table(['answer', 'which means'], told)}\n`;
}

/** As the command line takes them. */
export function namesOf(reminders: readonly SeenReminder[]): string {
  return reminders
    .map(({ deliveryId, versionSeen, attemptsSeen }) => `${deliveryId}@${versionSeen}.${attemptsSeen}`)
    .join(' ');
}

/**
 * What is told of an answer that is not of the command's own kind.
 * @throws {UsageError} when the request was not understood
 */
export function refusal(answer: OperateResponse, commandId?: string): Shown {
  const message = 'message' in answer ? answer.message : '';
  if (answer.answer === 'invalid') throw new UsageError(message || 'the request was refused');
  const again =
    answer.answer === 'unavailable' && commandId !== undefined
      ? `\nagain: the same command with --command-id ${commandId}`
      : '';
  const value = commandId === undefined ? answer : { ...answer, commandId };
  return { value, text: `${answer.answer}: ${message}${again}`, done: false };
}
