// Rehearses crashes: each boundary as a named drill on the bundles that deploy, with a verdict and its time against a bound.
import { writeFileSync } from 'node:fs';
import { SingleBar } from 'cli-progress';
import { Command, Option } from 'commander';
import { knownStages, settingsOf } from '../lambdas/core/settings.ts';
import { boundText, type Drill } from '../test/drills/drill.ts';
import { leftOut, notDrilled } from '../test/drills/matrix.ts';
import { type DrillResult, drills, runDrills } from '../test/drills/run-drills.ts';

interface DrillOptions {
  readonly list?: boolean;
  readonly all?: boolean;
  readonly fast?: boolean;
  readonly only: readonly string[];
  readonly json?: string | true;
  readonly stage: string;
  readonly atOnce: number;
}

const command = new Command('npm run drill --')
  .description('Rehearses every crash boundary on local AWS: real bundles, real processes, real PostgreSQL.')
  .option('--list', 'print every drill, its bound, and the pairs that make no sense')
  .option('--all', 'run every drill')
  .option('--fast', 'run the fast subset, the one that continuous integration runs')
  .option('--only <name>', 'run the drill of that name, or those that begin with it; may be given again', collect, [])
  .option('--json [file]', 'print the results as JSON, or write them to a file beside the table')
  .addOption(new Option('--stage <stage>', 'whose numbers to run with').choices(knownStages).default('rehearsal'))
  .option('--at-once <number>', 'how many drills run at once', Number, 10);
const options: DrillOptions = command.parse().opts();

if (options.stage !== 'rehearsal')
  fail(`--stage: got ${options.stage}; drills run at rehearsal, on this machine alone`);
if (!Number.isInteger(options.atOnce) || options.atOnce < 1 || options.atOnce > 16) {
  fail(`--at-once: got ${options.atOnce}; give 1 to 16`);
}
const settings = settingsOf(options.stage);
if (options.list) list();
else process.exitCode = (await rehearse()) ? 0 : 1;
// What a pipe has not taken yet would be lost by an exit at once.
process.stdout.write('', () => process.exit());

/** Whether every drill passed. */
async function rehearse(): Promise<boolean> {
  const results = await run(choose());
  if (options.json === true) console.log(JSON.stringify(results, null, 2));
  else {
    if (options.json !== undefined) writeFileSync(options.json, `${JSON.stringify(results, null, 2)}\n`);
    print(results);
  }
  return results.every(({ passed }) => passed);
}

function collect(name: string, before: readonly string[]): string[] {
  return [...before, name];
}

function fail(sentence: string): never {
  console.error(sentence);
  process.exit(2);
}

function choose(): readonly Drill[] {
  const { all, fast, only } = options;
  const unknown = only.find((name) => !drills.some((drill) => drill.name.startsWith(name)));
  if (unknown !== undefined) fail(`--only: there is no drill ${JSON.stringify(unknown)}; --list prints them`);
  const found = drills.filter(
    (drill) => all || (fast && drill.fast) || only.some((name) => drill.name.startsWith(name)),
  );
  if (found.length === 0) fail('nothing to run: give --only <name>, --fast or --all; --list prints the drills');
  return found;
}

function list(): void {
  for (const { name, rehearses, endsIn, bound, promises, fast } of drills) {
    console.log(`${name}${fast ? ' (fast)' : ''}\n  ${rehearses}`);
    console.log(`  ends ${endsIn.join(' or ')}; at stake ${promises.join(', ')}`);
    console.log(`  within ${boundText(bound, settings)}`);
  }
  console.log('\nPairs of the matrix that make no sense:');
  for (const { name, reason } of leftOut) console.log(`  ${name}: ${reason}`);
  console.log('\nFault points that no drill needs:');
  for (const [point, reason] of Object.entries(notDrilled)) console.log(`  ${point}: ${reason}`);
  console.log(`\n${drills.length} drills, ${drills.filter(({ fast }) => fast).length} of them in the fast subset`);
}

async function run(some: readonly Drill[]): Promise<readonly DrillResult[]> {
  const bar = new SingleBar({
    format: '{bar} {value}/{total} drills, {failed} failed, {seconds} s; now {now}',
    // The results on standard output may be read by a program.
    stream: process.stderr,
    hideCursor: true,
    noTTYOutput: true,
    notTTYSchedule: 10_000,
  });
  const begun = performance.now();
  const now = new Set<string>();
  let done = 0;
  let failed = 0;
  const payload = () => ({
    failed,
    seconds: Math.round((performance.now() - begun) / 1000),
    now: [...now].slice(0, 2).join(', '),
  });
  bar.start(some.length, 0, payload());
  const results = await runDrills(some, {
    atOnce: options.atOnce,
    onStart: (name) => {
      now.add(name);
      bar.update(done, payload());
    },
    onPutOff: (name) => now.delete(name),
    onResult: ({ drill, passed }) => {
      now.delete(drill);
      done += 1;
      if (!passed) failed += 1;
      bar.update(done, payload());
    },
  });
  bar.stop();
  return results;
}

function print(all: readonly DrillResult[]): void {
  const rows = all.map((one) => [
    one.drill,
    one.converged ? 'yes' : 'NO',
    `${one.seconds === null ? '-' : one.seconds.toFixed(1)} of ${one.boundSeconds}`,
    String(one.requests),
    one.duplicates === 0
      ? '0'
      : `${one.duplicates}, ${one.sameKeyAndBytes ? 'same key and bytes' : 'OTHER KEY OR BYTES'}`,
    String(one.idsMinted),
    one.states.join(', '),
    one.broken.length === 0 ? (one.exercised ? '-' : 'NOT EXERCISED') : one.broken.join('; '),
  ]);
  const head = ['drill', 'converged', 'seconds', 'requests', 'duplicates', 'ids', 'state', 'promise broken'];
  const widths = head.map((title, column) => Math.max(title.length, ...rows.map((row) => row[column]?.length ?? 0)));
  for (const row of [head, ...rows]) {
    console.log(row.map((text, column) => (column < 7 ? text.padEnd(widths[column] ?? 0) : text)).join('  '));
  }
  for (const { drill, error } of all) if (error !== null) console.log(`${drill}: ${error}`);
  for (const { drill, first } of all) {
    if (first === null) continue;
    const how =
      first.error ?? (first.exercised ? `${first.seconds?.toFixed(1) ?? 'no end'} s` : 'its fault was not met');
    console.log(`${drill}: ran a second time, alone; the first time, beside others: ${how}`);
  }
  if (all.some(({ exercised }) => !exercised)) {
    console.log('Not exercised: the fault was met by nobody. If dist/ is older than the sources, run `npm run build`.');
  }
  const sum = (of: (one: DrillResult) => number) => all.reduce((total, one) => total + of(one), 0);
  console.log(
    `\n${all.filter(({ passed }) => passed).length} of ${all.length} drills passed: ${sum(({ requests }) => requests)} requests, ` +
      `${sum(({ duplicates }) => duplicates)} duplicates, ${sum(({ broken }) => broken.length)} promises broken`,
  );
}
