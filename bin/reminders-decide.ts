// `reminders decide`: what a person decides about reminders, first shown and then done, by the signed URL of the duty.
import { type Command, Option } from 'commander';
import { type Decided, type DecisionAnswer, decisionVerbs } from '../lambdas/core/decisions.ts';
import type { DecisionRequest } from '../lambdas/operate/contract.ts';
import { LedgerTarget } from './ledger-target.ts';
import { operate } from './operate-client.ts';
import {
  legend,
  named,
  namesOf,
  refusal,
  seen,
  type WritingOptions,
  withWritingOptions,
  writingOf,
} from './reminders-commands.ts';
import { instant } from './reminders-options.ts';
import { print, type Shown } from './reminders-output.ts';
import { table } from './terminal-table.ts';

interface Options extends WritingOptions {
  readonly evidence?: string;
  readonly expires?: string;
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
  withWritingOptions(program.command('decide'))
    .description(
      'hold, release, requeue, resolve, review or cancel reminders, as a person who may; a look unless --apply',
    )
    .addArgument(program.createArgument('<verb>', 'what to do').choices(decisionVerbs))
    .argument('<reminders...>', 'ID@VERSION.ATTEMPTS as `explain` showed them; without --apply an ID is enough')
    .option('--evidence <text>', 'what the receiver said')
    .addOption(
      new Option('--expires <instant>', 'a new expiry for release and requeue, or "never"').argParser(
        instant('--expires'),
      ),
    )
    .action(async (verb: DecisionRequest['verb'], names: readonly string[], _, command: Command) => {
      const options: Options = command.optsWithGlobals();
      print(options, await decide(verb, names, options));
    });
}

async function decide(verb: DecisionRequest['verb'], names: readonly string[], options: Options): Promise<Shown> {
  const all = names.map((name) => named(name, options.apply === true));
  const target = await LedgerTarget.find(options);
  const reminders = await seen(target, all);
  const writing = writingOf(options);
  const request: DecisionRequest = {
    ...{ verb, reminders, ...writing },
    ...(options.evidence === undefined ? {} : { evidence: options.evidence }),
    ...(options.expires === undefined ? {} : { expiresAt: options.expires === 'never' ? null : options.expires }),
  };
  const answer = await operate(target.url('decide'), request);
  if (answer.answer !== 'decided') return refusal(answer, writing.commandId);
  const head = ['reminder', 'state', 'version', answer.applied ? 'answer' : 'would be'];
  const answers = answer.reminders.map((one) => one.answer);
  const rows = answer.reminders.map((one) => [one.deliveryId, ...stateOf(one), one.answer]);
  const end = answer.applied
    ? `done, as command ${writing.commandId}`
    : `nothing was done; to do it: reminders decide ${verb} ${namesOf(reminders)} … --apply`;
  return {
    value: { ...answer, commandId: writing.commandId },
    text: [table(head, rows), legend(advice, answers), end].join('\n'),
    done: answers.every((one) => decided.includes(one)),
  };
}

const stateOf = (one: Decided) => ('state' in one ? [one.state, String(one.version)] : ['-', '-']);
