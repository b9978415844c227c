// `reminders decide`: what a person decides about reminders, first shown and then done, by the signed URL of the duty.
import { type Command, Option } from 'commander';
import { v7 as uuid } from 'uuid';
import { type Decided, type DecisionAnswer, decisionVerbs, type SeenReminder } from '../lambdas/core/decisions.ts';
import type { DecisionRequest } from '../lambdas/operate/contract.ts';
import { LedgerTarget, type TargetOptions, UsageError } from './ledger-target.ts';
import { operate } from './operate-client.ts';
import { instant, isId } from './reminders-options.ts';
import { print, type Shown } from './reminders-output.ts';
import { table } from './terminal-table.ts';

interface Options extends TargetOptions {
  readonly json?: boolean;
  readonly reason: string;
  readonly ticket?: string;
  readonly evidence?: string;
  readonly expires?: string;
  readonly commandId?: string;
  readonly apply?: boolean;
}

const decided: readonly DecisionAnswer[] = ['held', 'released', 'requeued', 'resolved', 'reviewed', 'cancelled'];

/** What to do about an answer that is not what was asked for. */
const advice: Partial<Readonly<Record<DecisionAnswer, string>>> = {
  stale: 'it was changed or tried since you saw it: explain it anew',
  evidence_needed:
    'the receiver may have it, or may not know its key any more: ask it, and say with --evidence what it answered',
  expiry_passed: 'its time is over: give a later one with --expires, or "never"',
  wait: 'it is being sent: look again when its lease has passed',
  too_late: 'it is being sent: the wish is kept, and nothing follows this attempt',
  refused: 'it is neither held (release) nor dead (requeue)',
  finished: 'it has come to its end',
  archived: 'its payload went to the archive',
  token_used: 'another command has this id: leave --command-id out',
  unusable: 'its row cannot be updated: see `reminders exclusions`',
  not_found: 'no reminder has that id',
};

/** Adds the command. */
export function addDecide(program: Command): void {
  program
    .command('decide')
    .description(
      'hold, release, requeue, resolve, review or cancel reminders, as a person who may; a look unless --apply',
    )
    .addArgument(program.createArgument('<verb>', 'what to do').choices(decisionVerbs))
    .argument('<reminders...>', 'ID@VERSION.ATTEMPTS as `explain` showed them; without --apply an ID is enough')
    .requiredOption('--reason <text>', 'why; it is kept for good')
    .option('--ticket <id>', 'where the work on it is recorded')
    .option('--evidence <text>', 'what the receiver said')
    .addOption(
      new Option('--expires <instant>', 'a new expiry for release and requeue, or "never"').argParser(
        instant('--expires'),
      ),
    )
    .option('--command-id <uuid>', 'that of a command whose answer was lost, to send it again (default: a fresh one)')
    .option('--apply', 'do it; otherwise only what would be done is told')
    .action(async (verb: DecisionRequest['verb'], names: readonly string[], _, command: Command) => {
      const options: Options = command.optsWithGlobals();
      print(options, await decide(verb, names, options));
    });
}

async function decide(verb: DecisionRequest['verb'], names: readonly string[], options: Options): Promise<Shown> {
  const named = names.map((name) => seen(name, options.apply === true));
  const target = await LedgerTarget.find(options);
  const reminders: SeenReminder[] = [];
  for (const { deliveryId, ...shown } of named) {
    reminders.push({ deliveryId, ...('versionSeen' in shown ? shown : await present(target, deliveryId)) });
  }
  const request: DecisionRequest = {
    ...{ verb, reminders, reason: options.reason, apply: options.apply ?? false },
    commandId: options.commandId ?? uuid(),
    ...(options.ticket === undefined ? {} : { ticket: options.ticket }),
    ...(options.evidence === undefined ? {} : { evidence: options.evidence }),
    ...(options.expires === undefined ? {} : { expiresAt: options.expires === 'never' ? null : options.expires }),
  };
  const answer = await operate(target.url('decide'), request);
  if (answer.answer === 'invalid')
    throw new UsageError('message' in answer ? answer.message : 'the request was refused');
  if (answer.answer !== 'decided') {
    const again =
      answer.answer === 'unavailable' ? `\nagain: the same command with --command-id ${request.commandId}` : '';
    const text = `${answer.answer}: ${'message' in answer ? answer.message : ''}${again}`;
    return { value: { ...answer, commandId: request.commandId }, text, done: false };
  }
  const rows = answer.reminders.map((one) => [one.deliveryId, ...stateOf(one), one.answer, advice[one.answer] ?? '']);
  const versions = reminders
    .map(({ deliveryId, versionSeen, attemptsSeen }) => `${deliveryId}@${versionSeen}.${attemptsSeen}`)
    .join(' ');
  const end = answer.applied
    ? `done, as command ${request.commandId}`
    : `nothing was done; to do it: reminders decide ${verb} ${versions} … --apply`;
  return {
    value: { ...answer, commandId: request.commandId },
    text: `${table(['reminder', 'state', 'version', answer.applied ? 'answer' : 'would be', ''], rows)}\n\n${end}`,
    done: answer.reminders.every((one) => decided.includes(one.answer)),
  };
}

/** An id with what was seen of it; a look needs no more than the id. */
function seen(name: string, apply: boolean): SeenReminder | { deliveryId: string } {
  const [deliveryId = '', shown, more] = name.split('@');
  const [, version, attempts] = /^([1-9]\d{0,8})\.(\d{1,9})$/.exec(shown ?? '') ?? [];
  if (!isId(deliveryId) || more !== undefined || (shown !== undefined && version === undefined)) {
    throw new UsageError(`reminder: got ${JSON.stringify(name)}; give an id, or ID@VERSION.ATTEMPTS`);
  }
  if (shown !== undefined) return { deliveryId, versionSeen: Number(version), attemptsSeen: Number(attempts) };
  if (apply) throw new UsageError(`reminder: got ${deliveryId} alone; give ID@VERSION.ATTEMPTS as you saw it`);
  return { deliveryId };
}

async function present(target: LedgerTarget, deliveryId: string): Promise<Omit<SeenReminder, 'deliveryId'>> {
  const answer = await operate(target.url('inspect'), { verb: 'explain', deliveryId });
  // Of what is not there the ledger says so itself.
  if (answer.answer !== 'explained') return { versionSeen: 1, attemptsSeen: 0 };
  const { version, evidence } = answer.explanation;
  return { versionSeen: version, attemptsSeen: evidence.attemptNo };
}

const stateOf = (one: Decided) => ('state' in one ? [one.state, String(one.version)] : ['-', '-']);
