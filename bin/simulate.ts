// simulate: runs seeded schedules of faults against the real use cases and statements under a virtual clock, and checks them.
import { SingleBar } from 'cli-progress';
import { Command, InvalidArgumentError, Option } from 'commander';
import { failureText, runSeeds, type SeedsReport } from '../test/simulation/run-seeds.ts';
import { type SimulatedStage, simulate } from '../test/simulation/simulate.ts';
import { startVirtualDatabase } from '../test/simulation/virtual-database.ts';

const number = (text: string): number => {
  const value = Number(text);
  if (!Number.isInteger(value) || value < 1) throw new InvalidArgumentError('give a whole number from 1 up');
  return value;
};
const stages: readonly SimulatedStage[] = ['production', 'rehearsal'];

const program = new Command()
  .name('npm run simulate --')
  .description('Interleaves ticks, senders, SQS, receivers, products and operators by chance that a seed decides.')
  .option('--schedules <n>', 'how many seeds of each stage', number, 500)
  .option('--seed <n>', 'the first one', number, 1)
  .option('--replay <seed>', 'run one seed again and print its trace', number)
  .addOption(new Option('--stage <stage>', 'with whose numbers (default: both)').choices(stages))
  .option('--json', 'print JSON')
  .parse();
const options = program.opts<{
  schedules: number;
  seed: number;
  replay?: number;
  stage?: SimulatedStage;
  json?: boolean;
}>();
const chosen = options.stage === undefined ? stages : [options.stage];

process.exitCode = (options.replay === undefined ? await series() : await replay(options.replay)) ? 0 : 1;

async function series(): Promise<boolean> {
  const bar = new SingleBar({
    format: '{bar} {value}/{total} schedules, {eta_formatted} left',
    stream: process.stderr,
  });
  bar.start(options.schedules * chosen.length, 0);
  const failures: string[] = [];
  const report = await runSeeds({
    schedules: options.schedules,
    firstSeed: options.seed,
    stages: chosen,
    onSchedule: (simulated) => {
      bar.increment();
      if (simulated.broken.length > 0) failures.push(failureText(simulated));
    },
  });
  bar.stop();
  for (const failure of failures) console.error(failure);
  console.log(options.json ? JSON.stringify(report, null, 2) : reportText(report));
  return report.failed.length === 0;
}

async function replay(seed: number): Promise<boolean> {
  const database = await startVirtualDatabase();
  let whole = true;
  for (const stage of chosen) {
    const simulated = await simulate(database, seed, stage);
    const begin = simulated.trace[0]?.at ?? 0;
    if (options.json) console.log(JSON.stringify(simulated));
    else {
      for (const { at, who, text } of simulated.trace) {
        console.log(`${((at - begin) / 1000).toFixed(3).padStart(10)} ${who} ${text}`);
      }
      const { broken, statements, hash } = simulated;
      console.log(failureText(simulated) || `seed ${seed}, stage ${stage}: every promise held`);
      console.log(`${statements} statements, ${broken.length} broken, trace ${hash}`);
    }
    whole &&= simulated.broken.length === 0;
  }
  await database.stop();
  return whole;
}

function reportText(report: SeedsReport): string {
  const { schedules, failed, excludedRate, statements, reminders, requests } = report;
  const lines = [
    `${schedules} schedules (${report.stages.join(', ')}) from seed ${report.firstSeed}: ${failed.length} broke a promise`,
    `${statements} statements, ${report.virtualHours} virtual hours, ${report.seconds} s, ${report.schedulesPerSecond} schedules/s`,
    `${reminders} reminders: ${Object.entries(report.ends)
      .map(([state, count]) => `${count} ${state}`)
      .join(', ')}`,
    `${requests} requests; counted apart: ${report.sendsAfterDelivered} after delivered, ${report.sendsFrozenBetween} whose freeze fell between check and first byte`,
    ...Object.entries(report.latenessSeconds).map(
      ([stage, { p50, p99, max }]) => `lateness under faults, ${stage}: p50 ${p50} s, p99 ${p99} s, max ${max} s`,
    ),
  ];
  if (excludedRate !== null) {
    lines.push(
      `excludes, at 95 %, that more than ${(100 * excludedRate).toPrecision(2)} % of schedules drawn like these break a promise (rule of three)`,
    );
  }
  return lines.join('\n');
}
