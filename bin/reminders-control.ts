// `reminders control`: pauses and resumes all dispatch or one destination, first shown and then done, by the URL of the duty.
import type { Command } from 'commander';
import { v7 as uuid } from 'uuid';
import { type Controlled, type ControlVerb, controlVerbs, dispatchStates } from '../lambdas/core/dispatch-control.ts';
import { printable } from '../lambdas/core/verdict-text.ts';
import type { ControlRequest, ControlResponse } from '../lambdas/operate/contract.ts';
import { LedgerTarget, type TargetOptions, UsageError } from './ledger-target.ts';
import { ask, print, type Shown } from './reminders-output.ts';
import { table, wrap } from './terminal-table.ts';

interface Options extends TargetOptions {
  readonly json?: boolean;
  readonly destination?: string;
  readonly reason: string;
  readonly ticket?: string;
  readonly seen?: string;
  readonly commandId?: string;
  readonly apply?: boolean;
}

/** What to do about an answer that is not what was asked for. */
const advice: Partial<Readonly<Record<Controlled['answer'], string>>> = {
  stale: 'it was switched since you saw it: look again',
  not_found: 'no destination has that name: see `reminders destination list`',
  token_used: 'another command has this id: leave --command-id out',
};

/** Adds the command. */
export function addControl(program: Command): void {
  program
    .command('control')
    .description('pause or resume all dispatch, or one destination, as a person who may; a look unless --apply')
    .addArgument(program.createArgument('<verb>', 'what to do').choices(controlVerbs))
    .requiredOption('--reason <text>', 'why; it is kept for good')
    .option('--destination <name>', 'this destination alone (default: all dispatch)')
    .option('--ticket <id>', 'where the work on it is recorded')
    .option('--seen <state>', 'STATE@SINCE as the look told it; --apply needs it')
    .option('--command-id <uuid>', 'that of a command whose answer was lost, to send it again (default: a fresh one)')
    .option('--apply', 'do it; otherwise only what would be done is told')
    .action(async (verb: ControlVerb, _, command: Command) => {
      const options: Options = command.optsWithGlobals();
      print(options, await control(verb, options));
    });
}

async function control(verb: ControlVerb, options: Options): Promise<Shown> {
  const { reason, ticket, destination, apply = false, commandId = uuid() } = options;
  const seen = options.seen === undefined ? undefined : seenIn(options.seen);
  if (apply && seen === undefined)
    throw new UsageError('--apply: got no --seen; look first, and give what the look tells');
  const request: ControlRequest = {
    ...{ verb, commandId, reason, apply },
    ...(ticket === undefined ? {} : { ticket }),
    ...(destination === undefined ? {} : { destination }),
    ...(seen === undefined ? {} : { seen }),
  };
  const target = await LedgerTarget.find(options);
  const answer = await ask(target, 'control', request, 'controlled', 'unavailable');
  if (answer.answer === 'unavailable') {
    const text = `unavailable: ${answer.message}\nagain: the same command with --command-id ${commandId}`;
    return { value: { ...answer, commandId }, text, done: false };
  }
  const { outcome } = answer;
  return {
    value: { ...answer, commandId },
    text: [...lines(verb, options, answer), ...end(verb, options, answer, commandId)].join('\n'),
    done: !(outcome.answer in advice),
  };
}

function seenIn(text: string): NonNullable<ControlRequest['seen']> {
  const [state, since, more] = text.split('@');
  const known = dispatchStates.find((one) => one === state);
  if (known !== undefined && more === undefined) return { state: known, since: since ?? null };
  throw new UsageError(`--seen: got ${JSON.stringify(text)}; give STATE@SINCE as the look told it`);
}

function lines(verb: ControlVerb, { destination }: Options, { applied, outcome, affected }: ControlResponse): string[] {
  const what = destination === undefined ? 'all dispatch' : destination;
  const told = `${applied ? '' : 'would be: '}${outcome.answer.replaceAll('_', ' ')}`;
  const help = advice[outcome.answer];
  if (!('state' in outcome)) return [`${told}: ${help}`];
  const { state, since, reason } = outcome;
  const facts = `${what} ${applied ? 'was' : 'is'} ${state}${since === null ? '' : ` since ${since}`}${reason === null ? '' : `: ${reason}`}`;
  const counts = affected && {
    'being sent': [affected.sending, 'no switch calls them back'],
    'in flight': [
      affected.inFlight,
      verb === 'pause' ? 'no sender opens them' : 'they are invited again in their time',
    ],
    due: [affected.due, verb === 'pause' ? 'no claim takes them' : 'the next claims take them'],
    parked: [
      affected.parked,
      verb === 'pause' ? 'they wait for their destination' : 'they go on once theirs is active',
    ],
  };
  const rows = Object.entries(counts ?? {}).map(([name, [count, then]]) => [name, String(count), String(then)]);
  return [
    told + (help === undefined ? '' : `: ${help}`),
    ...wrap(facts),
    ...(rows.length === 0 ? [] : ['', table(['reminders', 'now', ''], rows)]),
    ...(affected?.complete === false ? ['only so many were looked at: there may be more of each'] : []),
  ];
}

function end(verb: ControlVerb, options: Options, { applied, outcome }: ControlResponse, commandId: string): string[] {
  if (applied) return ['', `answered to command ${commandId}`];
  if (outcome.answer !== 'paused' && outcome.answer !== 'resumed') return ['', 'nothing was done'];
  const seen = outcome.since === null ? outcome.state : `${outcome.state}@${outcome.since}`;
  const where = options.destination === undefined ? '' : ` --destination ${options.destination}`;
  const ticket = options.ticket === undefined ? '' : ` --ticket ${quoted(options.ticket)}`;
  return [
    '',
    'nothing was done; to do it:',
    `reminders control ${verb}${where} --reason ${quoted(options.reason)}${ticket} --seen ${seen} --apply`,
  ];
}

/** As a shell reads it back. */
const quoted = (text: string) => `'${printable(text).replaceAll("'", "'\\''")}'`;
