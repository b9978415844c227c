// Runs the contract suite against a deployed stack, `npm run test:aws -- --stack NAME`, and ends with a table of its cases.
import { fileURLToPath } from 'node:url';
import { Command } from 'commander';
import { startVitest, type TestCase } from 'vitest/node';

interface Options {
  readonly stack: string;
  readonly region?: string;
  readonly only?: string;
  readonly slow?: boolean;
  readonly destination?: string;
  readonly product?: string;
}

/** A line of the table. */
interface Line {
  readonly id: string;
  readonly became: string;
  readonly note: string;
}

/** What will be done in the account, said before it is done. */
function plan({ stack, region, slow, destination, product }: Options): string {
  const scheduled =
    destination && product
      ? `schedules one reminder to ${destination}, 30 days ahead, and cancels it`
      : 'schedules no reminder (--destination and --product allow one, which is cancelled)';
  return [
    `Contract suite against the stack ${stack}${region ? ` in ${region}` : ''}. It`,
    '- reads: outputs, resources, secrets of the logins and of signing, function settings, the ledger',
    '- runs statements that fail, sleep, or are rolled back; none leaves a row',
    '- makes pairs of queues and one secret, all called ledger-contract-*, and deletes them',
    '- calls the webhook sender once with an event that it refuses: one error in its metric',
    `- ${scheduled}`,
    slow
      ? '- with --slow: sends one message of an unknown shape to the invitation queue, which its dead-letter alarm may tell; takes up to half an hour'
      : '- leaves out the cases that take minutes (--slow runs them)',
    'It was written without an account at hand: a case that differs may be wrong about AWS.',
    '',
  ].join('\n');
}

/** Nothing for a test that looks at the suite itself and holds: it is no fact about AWS. */
function linesOf(test: TestCase): Line[] {
  const { contract } = test.meta();
  return contract === undefined && test.result().state === 'passed' ? [] : [lineOf(test)];
}

function lineOf(test: TestCase): Line {
  const { contract } = test.meta();
  const id = test.name.split(': ')[0] ?? test.name;
  const { state, errors = [] } = test.result();
  if (state === 'passed') return { id, became: contract?.status ?? 'held', note: contract?.note ?? '' };
  if (state === 'failed') return { id, became: 'differs', note: errors.map(({ message }) => message).join('; ') };
  return {
    id,
    became: 'not run',
    note: state === 'skipped' ? 'left out by --only, or its target did not open' : state,
  };
}

function table(lines: readonly Line[]): string {
  const [first, second] = [(line: Line) => line.id, (line: Line) => line.became].map((column) =>
    Math.max(0, ...lines.map((line) => column(line).length)),
  );
  return lines
    .map(
      ({ id, became, note }) => `${id.padEnd(first ?? 0)}  ${became.padEnd(second ?? 0)}  ${note.replace(/\s+/g, ' ')}`,
    )
    .join('\n');
}

/** Answers the exit code: 0 when nothing differs. */
async function testStack(options: Options): Promise<number> {
  console.log(plan(options));
  process.env.REMINDER_LEDGER_STACK = options.stack;
  if (options.region) process.env.AWS_REGION = options.region;
  if (options.slow) process.env.REMINDER_LEDGER_SLOW = '1';
  if (options.destination) process.env.REMINDER_LEDGER_DESTINATION = options.destination;
  if (options.product) process.env.REMINDER_LEDGER_PRODUCT = options.product;
  const root = fileURLToPath(new URL('..', import.meta.url));
  const vitest = await startVitest('test', ['test/contract/'], {
    ...{ root, watch: false, project: 'parts', reporters: ['dot'] },
    // One file after the other: what one makes must not be in another's way.
    maxWorkers: 1,
    ...(options.only ? { testNamePattern: options.only } : {}),
  });
  const modules = vitest.state.getTestModules();
  const asked = new RegExp(options.only ?? '');
  const tests = modules.flatMap((module) => [...module.children.allTests()]).filter(({ name }) => asked.test(name));
  const lines = tests.flatMap(linesOf);
  const broken = modules.flatMap((module) =>
    [...module.errors(), ...[...module.children.allSuites()].flatMap((suite) => suite.errors())].map(
      ({ message }): Line => ({ id: module.relativeModuleId, became: 'differs', note: message }),
    ),
  );
  await vitest.close();
  const all = [...broken, ...lines];
  console.log(`\n${table(all)}`);
  const differ = all.filter(({ became }) => became === 'differs').length;
  const held = all.filter(({ became }) => became === 'held').length;
  console.log(`\n${held} held, ${differ} differ, ${all.length - held - differ} were not run`);
  return differ === 0 && held > 0 ? 0 : 1;
}

const options = new Command('test:aws')
  .description('Runs the contract suite against a deployed stack.')
  .requiredOption('--stack <name>', "the CloudFormation stack, with the SDK's ordinary credentials")
  .option('--region <region>', "the stack's region")
  .option('--only <pattern>', 'cases whose id or fact matches, such as data-api/')
  .option('--slow', 'also the cases that take minutes')
  .option('--destination <name>', 'a registered destination that one reminder may be scheduled to')
  .option('--product <alias>', 'an alias of the schedule function, for the case of its producer')
  .parse()
  .opts<Options>();

process.exitCode = await testStack(options);
