// The command line of product developers and operators: what products ask, and what people look at, decide and switch.
import { readFileSync } from 'node:fs';
import { Command, CommanderError, Option } from 'commander';
import { v7 as uuid } from 'uuid';
import type { CommandAnswer } from '../lambdas/schedule/contract.ts';
import { addDestination, type DestinationContract } from '../lambdas/store/statements/add-destination.ts';
import { AddressBlockedError, checkWebhookUrl, WebhookUrlError } from '../lambdas/webhook/address-wall.ts';
import { LedgerTarget, type TargetOptions, UsageError } from './ledger-target.ts';
import { addControl } from './reminders-control.ts';
import { addDecide } from './reminders-decide.ts';
import { addLists, addLooks } from './reminders-inspect.ts';
import { instant, nameOf, wholeNumber } from './reminders-options.ts';
import { exitCodes, print } from './reminders-output.ts';
import { addRecover } from './reminders-recover.ts';
import { answerText } from './reminders-text.ts';

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

async function answered(options: Common, request: Parameters<LedgerTarget['command']>[0]): Promise<void> {
  const target = await LedgerTarget.find(options);
  const answer = await target.command(request, options.product);
  print(options, { value: answer, text: answerText(answer), done: wished.includes(answer.answer) });
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

addLooks(program);

addDecide(program);
addRecover(program);
addControl(program);

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
      const text = `${name} is registered with another URL, owner, contract or deadline; choose another name`;
      print(options, { value: row, text, done: false });
      return;
    }
    const signingSecret = await target.signingSecret(name);
    const text = `${name}: ${row.answer}\nsigning secret for its receiver: ${signingSecret}`;
    print(options, { value: { ...row, signingSecret }, text });
  });

addLists(program, destination);

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
