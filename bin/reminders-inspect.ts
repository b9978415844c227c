// The looks of the command line, by the URL of `inspect`: `reminders status`, `show`, `explain`, and the lists.
import { type Command, Option } from 'commander';
import { deliveryStates } from '../lambdas/core/delivery-states.ts';
import { logLink } from '../lambdas/core/log-link.ts';
import { explanationText, storyText } from '../lambdas/core/verdict-text.ts';
import type { Destination } from '../lambdas/operate/contract.ts';
import { forecastUnits } from '../lambdas/operate/contract-find.ts';
import type { EvidenceRow } from '../lambdas/store/statements/show-evidence.ts';
import { LedgerTarget, type TargetOptions } from './ledger-target.ts';
import { instant, isId, logPlace, nameOf, wholeNumber } from './reminders-options.ts';
import { ask, print, printLooks, type Shown, watchOption } from './reminders-output.ts';
import * as texts from './reminders-text.ts';

interface Looking extends TargetOptions {
  readonly json?: boolean;
  readonly watch?: number | true;
}

interface Explaining extends Looking {
  readonly key?: string;
  readonly producer?: string;
  readonly logGroup?: string;
  readonly deadLetters?: boolean;
}

const unknown = { text: texts.notFoundText, done: false } as const;

/** Adds the commands that look at one reminder, or at all of them. */
export function addLooks(program: Command): void {
  program
    .command('status')
    .description('how many reminders are in each state, since when, and whether dispatch is paused')
    .addOption(watchOption())
    .action((_, command: Command) =>
      looking<Looking>(command, async (target) => {
        const value = await ask(target, 'inspect', { verb: 'status' }, 'status');
        return { value, text: texts.statusText(value) };
      }),
    );

  program
    .command('show')
    .description('what happened to a reminder, and what happens next')
    .argument('[id]', 'its delivery id')
    .option('--key <key>', 'its idempotency key')
    .action((id: string | undefined, _, command: Command) =>
      looking<Looking & { key?: string }>(command, async (target, options) => {
        const request = { verb: 'show', ...nameOf(id, options) };
        const answer = await ask(target, 'inspect', request, 'shown', 'not_found');
        const lines = answer.answer === 'shown' ? (answer.lines as unknown as EvidenceRow[]) : [];
        const explanation = texts.explanationOf(lines, target.settings);
        return explanation === null ? { value: lines, ...unknown } : { value: lines, text: storyText(explanation) };
      }),
    );

  program
    .command('explain')
    .description('the verdict on a reminder: where it stands, who acts next and by when, what you may do about it')
    .argument('[id-or-key]', 'its delivery id, or its idempotency key if that does not look like an id')
    .option('--key <key>', 'its idempotency key')
    .option('--producer <name>', 'only if it is of this producer')
    .option('--log-group <name>', "the sender's log group, to link each attempt to its worker's log in this Region")
    .option('--dead-letters', 'look for its message in the dead-letter queue as well')
    .addOption(watchOption())
    .action((text: string | undefined, _, command: Command) =>
      looking<Explaining>(command, async (target, options) => {
        const { key, producer, logGroup, deadLetters: lookInDeadLetters } = options;
        const name = text !== undefined && key === undefined && !isId(text) ? { key: text } : nameOf(text, options);
        const place = logPlace(logGroup);
        const request = { verb: 'explain', ...name, producer, lookInDeadLetters };
        const answer = await ask(target, 'inspect', request, 'explained', 'not_found');
        if (answer.answer === 'not_found') return { value: null, ...unknown };
        const { evidence } = answer.explanation;
        const attempts = evidence.attempts.map((one) => ({ ...one, logs: place && logLink(place, one.worker) }));
        const explanation = { ...answer.explanation, evidence: { ...evidence, attempts } };
        return { value: explanation, text: explanationText(explanation) };
      }),
    );
}

/** Adds the commands that search and list. */
export function addLists(program: Command, destination: Command): void {
  const paged = (name: string, description: string) =>
    program
      .command(name)
      .description(description)
      .option('--limit <number>', 'the most to list, 100 or less (default: 50)', wholeNumber('--limit'))
      .option('--cursor <next>', 'go on where the list before ended');

  paged('find', 'the reminders of a user or a destination by due time, or those of a state')
    .option('--user <id>', 'for whom')
    .option('--destination <name>', 'where to')
    .addOption(new Option('--state <state>', 'only these').choices(deliveryStates))
    .option('--due-from <instant>', 'due then or later', instant('--due-from'))
    .option('--due-to <instant>', 'due before', instant('--due-to'))
    .addOption(watchOption())
    .action((_, command: Command) =>
      looking<Looking & Record<string, unknown>>(command, async (target, options) => {
        const { user: userId, destination: name, state, dueFrom, dueTo, limit, cursor } = options;
        const request = { verb: 'find', userId, destination: name, state, dueFrom, dueTo, limit, cursor };
        const value = await ask(target, 'inspect', request, 'reminders');
        return { value, text: texts.withNext(texts.foundTable(value.reminders), value.next) };
      }),
    );

  paged('unreviewed', 'what is held or dead and nobody has looked at, the longest first').action(
    (_, command: Command) =>
      looking<Looking & Record<string, unknown>>(command, async (target, { limit, cursor }) => {
        const value = await ask(target, 'inspect', { verb: 'unreviewed', limit, cursor }, 'reminders');
        return { value, text: texts.withNext(texts.unreviewedTable(value.reminders), value.next) };
      }),
  );

  paged('exclusions', 'the reminders that claims pass over because updating them fails, the longest first').action(
    (_, command: Command) =>
      looking<Looking & Record<string, unknown>>(command, async (target, { limit, cursor }) => {
        const value = await ask(target, 'inspect', { verb: 'exclusions', limit, cursor }, 'exclusions');
        return { value, text: texts.withNext(texts.exclusionsTable(value.exclusions), value.next) };
      }),
  );

  paged('actions', 'what people did, why and when, the newest first')
    .argument('[id]', 'to this reminder alone')
    .option('--destination <name>', 'to this destination alone')
    .action((id: string | undefined, _, command: Command) =>
      looking<Looking & Record<string, unknown>>(command, async (target, options) => {
        const { destination: name, limit, cursor } = options;
        const about = id === undefined ? { destination: name } : { ...nameOf(id, {}), destination: name };
        const value = await ask(target, 'inspect', { verb: 'actions', ...about, limit, cursor }, 'actions');
        return { value, text: texts.withNext(texts.actionsText(value.actions), value.next) };
      }),
    );

  program
    .command('forecast')
    .description('how many reminders come due in each minute, hour or day from now on')
    .addOption(new Option('--by <unit>', 'what to count in').choices(Object.keys(forecastUnits)).default('hour'))
    .option('--count <number>', 'how many of them, at most 1440 (default: 24)', wholeNumber('--count'))
    .option('--destination <name>', 'only what goes there')
    .addOption(watchOption())
    .action((_, command: Command) =>
      looking<Looking & Record<string, unknown>>(command, async (target, { by, count, destination: name }) => {
        const value = await ask(target, 'inspect', { verb: 'forecast', by, count, destination: name }, 'forecast');
        return { value, text: texts.forecastText(value) };
      }),
    );

  destination
    .command('list')
    .description('all destinations, with what waits or fails there')
    .action((_, command: Command) =>
      looking<Looking>(command, async (target) => {
        const all: Destination[] = [];
        for (let cursor: string | undefined; ; ) {
          const request = { verb: 'destinations', limit: 100, cursor };
          const { destinations, next } = await ask(target, 'inspect', request, 'destinations');
          all.push(...destinations);
          if (next === null) break;
          cursor = next;
        }
        return { value: all, text: texts.destinationsTable(all) };
      }),
    );
}

/** Looks once, or with `--watch` again and again. What was not given is not in the JSON that is asked with. */
async function looking<Options extends Looking>(
  command: Command,
  look: (target: LedgerTarget, options: Options) => Promise<Shown>,
): Promise<void> {
  const options: Options = command.optsWithGlobals();
  const target = await LedgerTarget.find(options);
  if (options.watch === undefined) print(options, await look(target, options));
  else await printLooks(options, () => look(target, options));
}
