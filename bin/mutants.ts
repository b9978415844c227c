// The mutants in one command: every condition of the ledger's writes dropped once, and a test that fails for each.
import { SingleBar } from 'cli-progress';
import { Command } from 'commander';
import { equivalents } from '../test/mutants/equivalents.ts';
import { allMutants } from '../test/mutants/mutants.ts';
import { type Result, runMutants, UnsoundTestsError } from '../test/mutants/run-mutants.ts';
import { verdictOn } from '../test/mutants/verdict.ts';

const options = new Command('npm run mutants --')
  .description(
    'Drops each condition of the writing statements, the SQL rules and the guards once, and lets the tests find it.',
  )
  .option('--list', 'name the mutants, and run none')
  .option('--only <name>', 'run those whose name holds this text')
  .option('--workers <number>', 'how many run at once, each with a database server of its own', Number, 2)
  .option('--json', 'print the verdict as JSON')
  .parse()
  .opts<{ list?: boolean; only?: string; workers: number; json?: boolean }>();
if (!Number.isInteger(options.workers) || options.workers < 1 || options.workers > 16) {
  console.error(`--workers: got ${options.workers}; give 1 to 16`);
  process.exit(2);
}

const { only = '' } = options;
const mutants = (await allMutants()).filter(({ name }) => name.includes(only));
if (mutants.length === 0) {
  console.error(`--only: got ${only}; no mutant's name holds it: see --list`);
  process.exit(2);
}
if (options.list) {
  const lines = mutants.map(({ name }) => ({ name, equivalent: equivalents[name] ?? null }));
  console.log(options.json ? JSON.stringify(lines, null, 2) : lines.map(({ name }) => name).join('\n'));
  await exit(0);
}

process.on('SIGINT', () => process.exit(130));
const began = performance.now();
const bar = new SingleBar({
  format: '{bar} {value}/{total} mutants, {alive} alive, {duration_formatted}',
  stream: process.stderr,
  hideCursor: true,
});
let alive = 0;
console.error(
  `${mutants.length} mutants of ${new Set(mutants.map(({ subject }) => subject)).size} parts; first their tests without any ...`,
);
try {
  const results = await runMutants(mutants, {
    workers: options.workers,
    onResult(result, count) {
      if (result === null) return bar.start(count, 0, { alive });
      if (result.fate === 'survived') alive += 1;
      bar.increment({ alive });
    },
  });
  bar.stop();
  await report(results);
} catch (error) {
  bar.stop();
  if (!(error instanceof UnsoundTestsError)) throw error;
  console.error(error.message);
  process.exit(2);
}

/** Once a pipe has taken all that was printed: what it has not would be lost by an exit at once. */
function exit(code: number): Promise<never> {
  return new Promise(() => process.stdout.write('', () => process.exit(code)));
}

async function report(results: readonly Result[]): Promise<void> {
  const verdict = verdictOn(results, equivalents);
  const minutes = Math.round((performance.now() - began) / 6000) / 10;
  if (options.json) console.log(JSON.stringify({ ...verdict, minutes, results }, null, 2));
  else {
    const { counts } = verdict;
    console.log(
      `${results.length} mutants in ${minutes} minutes: ${counts.killed} killed, ${counts.hung} hung (killed by the time limit),`,
    );
    console.log(`${counts.equivalent} equivalent as listed, ${verdict.faults.length} to answer for`);
    for (const { name, fault, by } of verdict.faults) console.log(`\n${fault}\n  ${name}\n  ${by}`);
  }
  await exit(verdict.faults.length === 0 ? 0 : 1);
}
