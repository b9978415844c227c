// `reminders recover`, `handoffs` and `poison`: what makes reminders go on, first shown and then done, by signed URLs.
import type { Command } from 'commander';
import { type LetterVerdict, letterVerdicts } from '../lambdas/core/redrive.ts';
import { printable } from '../lambdas/core/verdict-text.ts';
import type {
  HandoffsResponse,
  RecoveredAnswer,
  RecoverRequest,
  RedriveResponse,
} from '../lambdas/operate/contract.ts';
import { LedgerTarget, type TargetOptions, UsageError } from './ledger-target.ts';
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
import { wholeNumber } from './reminders-options.ts';
import { print, type Shown } from './reminders-output.ts';
import { ago } from './reminders-text.ts';
import { table } from './terminal-table.ts';

interface Options extends WritingOptions {
  readonly evidence?: string;
  readonly lost?: boolean;
  readonly most?: number;
}

type LookOptions = TargetOptions & { readonly json?: boolean };

const recovered: readonly RecoveredAnswer[] = ['reclaimed', 'republished', 'readmitted'];

/** What an answer means, and what to do about it. */
const advice: Partial<Readonly<Record<RecoveredAnswer | 'no_invitation', string>>> = {
  reclaimed: 'the next claim takes the lease away',
  republished: 'the next claim invites it again',
  readmitted: 'the next claim tries it again',
  not_leased: 'there is no lease to take away',
  leased: 'somebody works on it: look again when the lease has passed',
  abandoned: 'its lease has passed: reclaim it',
  invited: 'its latest invitation may still arrive: explain says until when',
  scheduled: 'the calendar has it, and any claim takes it when its time has come',
  finished: 'it has come to its end',
  held: 'a person decides: release it first',
  shadow: 'another path sends it',
  excluded: 'claims pass over it: readmit it',
  expiry_passed: 'its time is over: the next claim ends it',
  paused: 'all dispatch is paused',
  destination_off: 'its destination takes nothing now',
  stale: 'it was changed or tried since you saw it: explain it anew',
  evidence_needed: 'the receiver may have it: ask it, and say with --evidence what it answered',
  rate_capped: 'too many were republished within this minute: a new command in a minute',
  not_excluded: 'claims do not pass over it',
  token_used: 'another command has this id: leave --command-id out',
  unusable: 'its row cannot be updated: see `reminders exclusions`',
  not_found: 'no reminder has that id',
  no_invitation: 'it is no invitation that this release can read',
};

/** Adds the commands. */
export function addRecover(program: Command): void {
  const recover = program
    .command('recover')
    .description('make reminders go on, as a person who may; a look unless --apply. The next claim does the sending');
  const what = 'ID@VERSION.ATTEMPTS as `explain` showed them; without --apply an ID is enough';
  const evidence = ['--evidence <text>', 'what the receiver said, where it may have it'] as const;
  withWritingOptions(recover.command('reclaim'))
    .description('end leases that have passed now, and not when the calendar looks')
    .argument('<reminders...>', what)
    .action(async (names: readonly string[], _, command: Command) => {
      const options: Options = command.optsWithGlobals();
      print(options, await bringForward('reclaim', names, options));
    });
  withWritingOptions(recover.command('republish'))
    .description('invite reminders again whose invitation is lost, under the same id')
    .argument('[reminders...]', what)
    .option('--lost', 'the oldest hundred that `handoffs` tells')
    .option(...evidence)
    .action(async (names: readonly string[], _, command: Command) => {
      const options: Options = command.optsWithGlobals();
      print(options, await bringForward('republish', names, options));
    });
  withWritingOptions(recover.command('readmit'))
    .description('let claims try reminders again that were set aside, once their update will not fail')
    .argument('<ids...>', 'their delivery ids')
    .action(async (ids: readonly string[], _, command: Command) => {
      const options: Options = command.optsWithGlobals();
      const deliveryIds = ids.map((id) => named(id, false).deliveryId);
      const target = await LedgerTarget.find(options);
      const request: RecoverRequest = { verb: 'readmit', deliveryIds, ...writingOf(options) };
      print(options, await ask(target, request, 'readmit ', deliveryIds));
    });
  withWritingOptions(recover.command('redrive'))
    .description('look into the dead-letter queue: drop, invite again, hold or set aside each message')
    .option('--most <number>', 'how many messages to look at, up to 100 (default: 100)', wholeNumber('--most'))
    .option(...evidence)
    .action(async (_, command: Command) => {
      const options: Options = command.optsWithGlobals();
      const target = await LedgerTarget.find(options);
      const { evidence: said, most } = options;
      const request: RecoverRequest = {
        ...{ verb: 'redrive', ...writingOf(options) },
        ...(said === undefined ? {} : { evidence: said }),
        ...(most === undefined ? {} : { most }),
      };
      print(options, await ask(target, request, 'redrive '));
    });
  addLooks(program);
}

function addLooks(program: Command): void {
  program
    .command('handoffs')
    .description('what was handed to the queue and should have been opened, against what the queue holds')
    .action(async (_, command: Command) => {
      const options: LookOptions = command.optsWithGlobals();
      const target = await LedgerTarget.find(options);
      const answer = await operate(target.url('inspect'), { verb: 'handoffs' });
      print(
        options,
        answer.answer === 'handoffs' ? { value: answer, text: handoffsText(answer), done: true } : refusal(answer),
      );
    });
  program
    .command('poison')
    .description('messages that were set aside from the dead-letter queue, the latest hundred')
    .action(async (_, command: Command) => {
      const options: LookOptions = command.optsWithGlobals();
      const target = await LedgerTarget.find(options);
      const answer = await operate(target.url('inspect'), { verb: 'poison' });
      if (answer.answer !== 'poison') return print(options, refusal(answer));
      const rows = answer.messages.map(({ messageId, at, because, body }) => [
        ...[messageId, ago(at), because],
        // Whole in the JSON.
        printable(body).slice(0, 32),
      ]);
      const text =
        rows.length === 0
          ? 'no message was set aside'
          : table(['message', 'set aside for', 'because', 'which begins'], rows);
      print(options, { value: answer, text, done: true });
    });
}

async function bringForward(verb: 'reclaim' | 'republish', names: readonly string[], options: Options): Promise<Shown> {
  const { evidence, lost = false } = options;
  if (verb === 'republish' && names.length > 0 === lost) throw new UsageError('give either reminders or --lost');
  const all = names.map((name) => named(name, options.apply === true));
  const target = await LedgerTarget.find(options);
  const reminders = lost ? await overdue(target) : await seen(target, all);
  if (reminders.length === 0) return { value: { reminders }, text: 'nothing that was handed over is lost', done: true };
  const request: RecoverRequest = {
    ...{ verb, reminders, ...writingOf(options) },
    ...(evidence === undefined ? {} : { evidence }),
  };
  return ask(target, request, `${verb} ${lost ? '--lost ' : ''}`, lost ? [] : namesOf(reminders).split(' '));
}

async function overdue(target: LedgerTarget) {
  const answer = await operate(target.url('inspect'), { verb: 'handoffs' });
  if (answer.answer !== 'handoffs') throw new Error(refusal(answer).text);
  return answer.reminders.map(({ deliveryId, version, attempts }) => ({
    ...{ deliveryId, versionSeen: version, attemptsSeen: attempts },
  }));
}

/** @param names as the command takes them when it is to be done */
async function ask(
  target: LedgerTarget,
  request: RecoverRequest,
  command: string,
  names: readonly string[] = [],
): Promise<Shown> {
  const { commandId } = request;
  const answer = await operate(target.url('recover'), request);
  const end = request.apply
    ? `done, as command ${commandId}`
    : [`nothing was done; to do it: reminders recover ${command}… --apply`, ...names].join('\n  ');
  if (answer.answer === 'redriven') {
    const { applied, letters } = answer;
    const left = letters.filter(({ verdict, gone }) => verdict === 'hold' || (applied && !gone)).length;
    return { value: { ...answer, commandId }, text: `${redrivenText(answer)}\n\n${end}`, done: left === 0 };
  }
  if (answer.answer !== 'recovered') return refusal(answer, commandId);
  const rows = answer.reminders.map((one) => [
    ...[one.deliveryId, ...('state' in one ? [one.state, String(one.version)] : ['-', '-']), one.answer],
  ]);
  const answers = answer.reminders.map((one) => one.answer);
  const head = ['reminder', 'state', 'version', answer.applied ? 'answer' : 'would be'];
  return {
    value: { ...answer, commandId },
    text: [table(head, rows), legend(advice, answers), end].join('\n'),
    done: answers.every((one) => recovered.includes(one)),
  };
}

/** Counts first, then each message. */
function redrivenText({ counts, all, applied, letters }: RedriveResponse): string {
  const more = all ? 'all there are' : 'there may be more: run it again';
  const lines = (Object.keys(letterVerdicts) as LetterVerdict[])
    .filter((verdict) => counts[verdict] > 0)
    .map((verdict) => [verdict, String(counts[verdict]), letterVerdicts[verdict]]);
  if (letters.length === 0) return `no messages in the dead-letter queue; ${more}`;
  const rows = letters.map(({ deliveryId, messageId, verdict, because, receives, gone }) => [
    ...[deliveryId ?? messageId, verdict, because, String(receives), applied ? (gone ? 'gone' : 'stays') : ''],
  ]);
  return [
    `${letters.length} messages, ${more}`,
    ...['', table(['verdict', '', 'which means'], lines)],
    ...['', table(['reminder, else message', 'verdict', 'because', 'received', ''], rows)],
    legend(
      advice,
      letters.map(({ because }) => because),
    ).trimEnd(),
  ].join('\n');
}

function handoffsText(answer: HandoffsResponse): string {
  const { finding, lostAtLeast, queued, overdue, oldestSince, queue, deadLetters, reminders } = answer;
  const counts = [['queue', queue] as const, ['dead letters', deadLetters] as const].map(
    ([name, { visible, notVisible, delayed }]) => [name, ...[visible, notVisible, delayed].map(String)],
  );
  const says = {
    none: 'none is overdue',
    waiting: 'the queue has a message for each: senders are slow, throttled or off; republish nothing',
    lost: `at least ${lostAtLeast} lost: purged, or past their retention; reminders recover republish --lost`,
  }[finding];
  const names = reminders.map(({ deliveryId, version, attempts, since }) => [
    `${deliveryId}@${version}.${attempts}`,
    ago(since),
  ]);
  return [
    `${finding}: ${says}`,
    `${queued} queued, ${overdue} of them overdue${oldestSince === null ? '' : `, the oldest for ${ago(oldestSince)}`}`,
    ...['', table(['', 'visible', 'not visible', 'delayed'], counts)],
    ...(names.length === 0 ? [] : ['', table(['reminder', 'overdue for'], names)]),
  ].join('\n');
}
