// model: runs random commands against the ledger's statements on real PostgreSQL and against a model, and compares the two.
import { SingleBar } from 'cli-progress';
import { Command, InvalidArgumentError } from 'commander';
import { runModel } from '../test/concurrency/model-run.ts';

const number = (text: string): number => {
  const value = Number(text);
  if (!Number.isInteger(value) || value < 1) throw new InvalidArgumentError('give a whole number from 1 up');
  return value;
};

const program = new Command()
  .name('npm run model --')
  .description('Compares sequences of up to 50 commands with a model: each answer, and all rows after it.')
  .option('--sequences <n>', 'how many sequences', number, 1000)
  .option('--seed <n>', 'which ones; the same seed, the same sequences', number, 1)
  .option('--json', 'print JSON')
  .parse();
const { sequences, seed, json } = program.opts<{ sequences: number; seed: number; json?: boolean }>();

const bar = new SingleBar({ format: '{bar} {value}/{total} sequences, {eta_formatted} left', stream: process.stderr });
bar.start(sequences, 0);
const began = performance.now();
const run = await runModel({ seed, sequences, onSequence: () => bar.increment() });
bar.stop();

const seconds = Math.round((performance.now() - began) / 1000);
if (json) {
  console.log(JSON.stringify({ seed, seconds, ...run, met: Object.fromEntries(run.met) }));
} else {
  const moves = [...run.met].filter(([what]) => what.includes(' > ')).sort(([, one], [, other]) => other - one);
  for (const [move, times] of moves) console.log(`${String(times).padStart(8)}  ${move}`);
  console.log(`seed ${seed}: ${run.sequences} sequences, ${run.commands} commands, ${seconds} s`);
  if (run.failure !== undefined) {
    console.log(
      `The ledger and the model differ: ${run.failure.message}\nAfter:\n  ${run.failure.sequence.join('\n  ')}`,
    );
  }
}
process.exitCode = run.failure === undefined ? 0 : 1;
