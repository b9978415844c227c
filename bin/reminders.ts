// The command line of product developers and operators: `reminders schedule|cancel|reschedule|show|explain|decide|recover|status|handoffs|poison|exclusions|destination`.
import { readFileSync } from 'node:fs';
import { Command, CommanderError, Option } from 'commander';
import { v7 as uuid } from 'uuid';
import { explanationText, printableJson, storyText } from '../lambdas/core/verdict-text.ts';
import type { CommandAnswer } from '../lambdas/schedule/contract.ts';
import { addDestination, type DestinationContract } from '../lambdas/store/statements/add-destination.ts';
import { countStates } from '../lambdas/store/statements/count-states.ts';
import { type DestinationRow, listDestinations } from '../lambdas/store/statements/list-destinations.ts';
import { listExclusions } from '../lambdas/store/statements/list-exclusions.ts';
import { showEvidence } from '../lambdas/store/statements/show-evidence.ts';
import { AddressBlockedError, checkWebhookUrl, WebhookUrlError } from '../lambdas/webhook/address-wall.ts';
import { LedgerTarget, type TargetOptions, UsageError } from './ledger-target.ts';
import type { Tell } from './reminders-commands.ts';
import { addDecide } from './reminders-decide.ts';
import { instant, isId, logPlace, nameOf, wholeNumber } from './reminders-options.ts';
import { addRecover, explainedWithDeadLetters } from './reminders-recover.ts';
import {
  answerText,
  destinationsTable,
  exclusionsTable,
  explanationOf,
  notFoundText,
  statesTable,
} from './reminders-text.ts';

/** 0: done. 1: the ledger answered, and not with what was asked for. 2: the command was not understood. 3: it failed. */
const exitCodes = { done: 0, refused: 1, usage: 2, failed: 3 } as const;

const wished: readonly CommandAnswer['answer'][] = [
  'scheduled',
  'duplicate',
  'cancelled',
  'rescheduled',
  'unchanged',
  'found',
];

interface Common extends TargetOptions {
  readonly json?: boolean;
  readonly product?: string;
}

interface NamedOptions extends Common {
  readonly key?: string;
}

function print(options: Common, value: unknown, text: string): void {
  console.log(options.json ? printableJson(value) : text);
}

const tell: Tell = (options, { value, text, done }) => {
  print(options, value, text);
  if (!done) process.exitCode = exitCodes.refused;
};

async function answered(options: Common, request: Parameters<LedgerTarget['command']>[0]): Promise<void> {
  const target = await LedgerTarget.find(options);
  const answer = await target.command(request, options.product);
  print(options, answer, answerText(answer));
  process.exitCode = wished.includes(answer.answer) ? exitCodes.done : exitCodes.refused;
}

const program = new Command('reminders')
  .description('Schedule, cancel and look at reminders: on local AWS by default, on a deployed stack with --stack.')
  .option('--stack <name>', 'the CloudFormation stack to talk to (default: local AWS)')
  .addOption(new Option('--local <directory>', 'the directory of a running local AWS').conflicts('stack'))
  .option('--json', 'print JSON')
  .exitOverride()
  .configureHelp({ showGlobalOptions: true })
  .addHelpText('after', '\nExit codes: 0 done, 1 answered otherwise, 2 not understood, 3 failed.');

const product = new Option('--product <name>', 'the product to speak for (default: the producer "default")');

program
  .command('schedule')
  .description('put a reminder into the calendar')
  .requiredOption('--key <key>', 'its idempotency key, which the receiver sees')
  .requiredOption('--destination <name>', 'a registered destination')
  .requiredOption('--due <instant>', 'RFC 3339 with an offset, or +90s, +5m, +2h, +40d', instant('--due'))
  .requiredOption('--user <id>', 'whom it is for')
  .addOption(new Option('--payload <json>', 'what to send, as JSON').conflicts(['payloadText', 'payloadFile']))
  .addOption(new Option('--payload-text <text>', 'what to send, exactly').conflicts('payloadFile'))
  .option('--payload-file <file>', 'a file with what to send, exactly')
  .option('--expires <instant>', 'from when on it must not be sent any more', instant('--expires'))
  .addOption(product)
  .action(async (_, command: Command) => {
    const options = command.optsWithGlobals();
    await answered(options as Common, {
      verb: 'schedule',
      key: options.key,
      destination: options.destination,
      dueAt: options.due,
      userId: options.user,
      ...payloadOf(options),
      ...(options.expires === undefined ? {} : { expiresAt: options.expires }),
    });
  });

function payloadOf(options: { payload?: string; payloadText?: string; payloadFile?: string }) {
  if (options.payloadFile !== undefined) return { payloadText: textOf(options.payloadFile) };
  if (options.payloadText !== undefined) return { payloadText: options.payloadText };
  if (options.payload === undefined)
    throw new UsageError('give --payload JSON, --payload-text TEXT or --payload-file FILE');
  try {
    JSON.parse(options.payload);
  } catch {
    throw new UsageError(
      `--payload: got ${JSON.stringify(options.payload)}, which is no JSON; quote it, or use --payload-text`,
    );
  }
  // As text: parsing would lose long numbers.
  return { payloadText: options.payload };
}

function textOf(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new UsageError(`--payload-file: got ${JSON.stringify(file)}, which cannot be read: ${code}`);
  }
}

program
  .command('cancel')
  .description('call a reminder off')
  .argument('[id]', 'its delivery id')
  .option('--key <key>', 'its idempotency key')
  .addOption(product)
  .action(async (id: string | undefined, _, command: Command) => {
    const options: NamedOptions = command.optsWithGlobals();
    await answered(options, { verb: 'cancel', ...nameOf(id, options) });
  });

program
  .command('reschedule')
  .description('give a reminder another due time')
  .argument('[id]', 'its delivery id')
  .option('--key <key>', 'its idempotency key')
  .requiredOption('--due <instant>', 'RFC 3339 with an offset, or +90s, +5m, +2h, +40d', instant('--due'))
  .option('--expires <instant>', 'a new expiry, or "never"', instant('--expires'))
  .option('--expected-version <number>', 'refuse when it has another version', wholeNumber('--expected-version'))
  .addOption(product)
  .action(async (id: string | undefined, _, command: Command) => {
    const options = command.optsWithGlobals();
    await answered(options as Common, {
      verb: 'reschedule',
      ...nameOf(id, options),
      dueAt: options.due,
      ...(options.expires === undefined ? {} : { expiresAt: options.expires === 'never' ? null : options.expires }),
      ...(options.expectedVersion === undefined ? {} : { expectedVersion: options.expectedVersion }),
    });
  });

program
  .command('show')
  .description('what happened to a reminder, and what happens next')
  .argument('[id]', 'its delivery id')
  .option('--key <key>', 'its idempotency key')
  .action(async (id: string | undefined, _, command: Command) => {
    const options: NamedOptions = command.optsWithGlobals();
    const { observer, settings } = await LedgerTarget.find(options);
    const evidence = await observer.run(showEvidence, nameOf(id, options));
    const explanation = explanationOf(evidence, settings);
    print(options, evidence, explanation === null ? notFoundText : storyText(explanation));
    if (explanation === null) process.exitCode = exitCodes.refused;
  });

program
  .command('explain')
  .description('the verdict on a reminder: where it stands, who acts next and by when, what you may do about it')
  .argument('[id-or-key]', 'its delivery id, or its idempotency key if that does not look like an id')
  .option('--key <key>', 'its idempotency key')
  .option('--producer <name>', 'only if it is of this producer')
  .option('--log-group <name>', "the sender's log group, to link each attempt to its worker's log in this Region")
  .addOption(
    new Option(
      '--dead-letters',
      'look for its message in the dead-letter queue as well, as a person who may',
    ).conflicts('producer'),
  )
  .action(async (text: string | undefined, _, command: Command) => {
    const options: NamedOptions & { producer?: string; logGroup?: string; deadLetters?: boolean } =
      command.optsWithGlobals();
    const name = text !== undefined && options.key === undefined && !isId(text) ? { key: text } : nameOf(text, options);
    const target = await LedgerTarget.find(options);
    const place = logPlace(options.logGroup);
    if (options.deadLetters) return tell(options, await explainedWithDeadLetters(target, name, place));
    const rows = await target.observer.run(showEvidence, { ...name, producer: options.producer });
    const explanation = explanationOf(rows, target.settings, place);
    print(options, explanation, explanation === null ? notFoundText : explanationText(explanation));
    if (explanation === null) process.exitCode = exitCodes.refused;
  });

addDecide(program, tell);
addRecover(program, tell);

program
  .command('status')
  .description('how many reminders are in each state, and since when')
  .action(async (_, command: Command) => {
    const options: Common = command.optsWithGlobals();
    const { observer } = await LedgerTarget.find(options);
    const states = await observer.run(countStates, {});
    print(options, states, statesTable(states));
  });

program
  .command('exclusions')
  .description('the reminders that claims pass over because updating them fails, the oldest 500')
  .action(async (_, command: Command) => {
    const options: Common = command.optsWithGlobals();
    const { observer } = await LedgerTarget.find(options);
    const exclusions = await observer.run(listExclusions, { limit: 500 });
    print(options, exclusions, exclusionsTable(exclusions));
  });

const destination = program.command('destination').description('where reminders may go');

destination
  .command('add')
  .description('register a destination and print the secret that its receiver verifies signatures with')
  .argument('<name>', 'a-z, 0-9, dot, dash and underscore')
  .argument('<url>', 'an https URL')
  .requiredOption('--owner <team>', 'who answers for it')
  .addOption(
    new Option('--contract <contract>', 'what the receiver promises about a repeated key')
      .choices(['honours-key', 'status-lookup', 'none'])
      .default('honours-key'),
  )
  .option(
    '--deadline <ms>',
    "how long one attempt may take, 100 to 10000 ms (default: the stage's)",
    wholeNumber('--deadline'),
  )
  .action(async (name: string, url: string, _, command: Command) => {
    const options: Common & { owner: string; contract: DestinationContract; deadline?: number } =
      command.optsWithGlobals();
    if (!/^[a-z0-9][a-z0-9._-]{0,62}$/.test(name)) {
      throw new UsageError(`NAME: got ${JSON.stringify(name)}; use 1 to 63 of a-z, 0-9, dot, dash and underscore`);
    }
    const deadline = options.deadline ?? null;
    if (deadline !== null && !(deadline >= 100 && deadline <= 10_000)) {
      throw new UsageError(`--deadline: got ${deadline}; give 100 to 10000 milliseconds`);
    }
    const target = await LedgerTarget.find(options);
    const [row] = await target.operator.run(addDestination, {
      destinationId: uuid(),
      name,
      url: checkWebhookUrl(url, target.trusted).href,
      owner: options.owner,
      contract: options.contract,
      deadlineMs: deadline,
    });
    if (row === undefined || row.answer === null)
      throw new Error(`${name} is being registered at this moment; run it again`);
    if (row.answer === 'conflict') {
      print(options, row, `${name} is registered with another URL, owner, contract or deadline; choose another name`);
      process.exitCode = exitCodes.refused;
      return;
    }
    const signingSecret = await target.signingSecret(name);
    print(
      options,
      { ...row, signingSecret },
      `${name}: ${row.answer}\nsigning secret for its receiver: ${signingSecret}`,
    );
  });

destination
  .command('list')
  .description('all destinations')
  .action(async (_, command: Command) => {
    const options: Common = command.optsWithGlobals();
    const { observer } = await LedgerTarget.find(options);
    const pageSize = 500;
    const all: DestinationRow[] = [];
    for (let page: DestinationRow[] = []; all.length === 0 || page.length === pageSize; all.push(...page)) {
      page = await observer.run(listDestinations, { after: all.at(-1)?.name ?? '', limit: pageSize });
      if (page.length === 0) break;
    }
    print(options, all, destinationsTable(all));
  });

try {
  await program.parseAsync();
} catch (error) {
  if (error instanceof CommanderError) {
    // Commander has printed what is wrong; help and version are no errors.
    process.exitCode = error.exitCode === 0 ? exitCodes.done : exitCodes.usage;
  } else {
    const usage = [UsageError, WebhookUrlError, AddressBlockedError].some((kind) => error instanceof kind);
    console.error(`reminders: ${error instanceof Error ? error.message : String(error)}`);
    process.exitCode = usage ? exitCodes.usage : exitCodes.failed;
  }
}
