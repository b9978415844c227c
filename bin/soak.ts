// The door to the soak: many reminders under faults, a progress bar, and a report joined from the receivers' own file.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { SingleBar } from 'cli-progress';
import { Command } from 'commander';
import { settingsOf } from '../lambdas/core/settings.ts';
import { reportText } from '../test/soak/join.ts';
import { convergenceBoundSeconds, type SoakProgress, soak } from '../test/soak/soak.ts';

interface Options {
  readonly reminders: number;
  readonly faults: number;
  readonly seed: number;
  readonly perSecond: number;
  readonly minutes: number;
  readonly directory?: string;
  readonly json?: true;
}

const options: Options = new Command('npm run soak --')
  .description('Many reminders through local AWS at stage rehearsal while faults fall, then none until all have ended.')
  .option('--reminders <number>', 'how many', Number, 100_000)
  .option('--faults <rate>', 'the chance of a fault for each call and each run of a function, 0 to 1', Number, 0.05)
  .option('--seed <number>', 'which faults, and where', Number, 1)
  .option('--per-second <number>', 'how many are asked for in a second', Number, 60)
  .option('--minutes <number>', 'when to give up', Number, 40)
  .option(
    '--directory <directory>',
    'where to keep the evidence, the logs and the database; default: removed at the end',
  )
  .option('--json', 'print the report as JSON')
  .parse()
  .opts();
refuse('reminders', options.reminders, Number.isInteger(options.reminders) && options.reminders > 0, 'a whole number');
refuse('faults', options.faults, options.faults >= 0 && options.faults <= 1, '0 to 1');
refuse('seed', options.seed, Number.isInteger(options.seed), 'a whole number');
refuse('per-second', options.perSecond, options.perSecond > 0, 'more than 0');
refuse('minutes', options.minutes, options.minutes > 0, 'more than 0');

const say = (line: string) => options.json || console.log(line);
const bound = convergenceBoundSeconds(settingsOf('rehearsal'));
say(
  `${options.reminders} reminders, ${options.perSecond} a second, faults at ${options.faults}, seed ${options.seed}. ` +
    `After the last fault all must have ended within ${bound} s, by the stage's numbers.`,
);
const bar = new SingleBar({
  format: '{phase} {bar} {value}/{total} ended, {taken} asked for, {faults} faults, {seconds} s',
  hideCursor: true,
  noTTYOutput: true,
  notTTYSchedule: 15_000,
});
const progress = (facts: SoakProgress) => {
  if (!bar.isActive) bar.start(options.reminders, facts.ended, facts);
  else bar.update(facts.ended, facts);
};
const directory = options.directory ?? mkdtempSync(join(tmpdir(), 'reminder-ledger-soak-'));
try {
  const { reminders, faults: faultRate, seed, perSecond } = options;
  const limitSeconds = options.minutes * 60;
  const result = await soak({ reminders, faultRate, seed, perSecond, limitSeconds, directory, progress });
  bar.stop();
  const { convergedSeconds } = result;
  const inTime = convergedSeconds !== null && convergedSeconds <= result.convergenceBoundSeconds;
  if (options.json) console.log(JSON.stringify(result, null, 2));
  say(
    `\nFaults for ${Math.round(result.faultSeconds)} s, ${result.endedPerSecond.toFixed(1)} ended a second meanwhile; then ` +
      `${convergedSeconds === null ? 'not all ended' : `all had ended after ${convergedSeconds.toFixed(1)} s`} (bound ${bound} s).`,
  );
  say(reportText(result));
  process.exitCode = inTime && result.broken.length === 0 ? 0 : 1;
} finally {
  bar.stop();
  if (options.directory === undefined) rmSync(directory, { recursive: true, force: true });
}

function refuse(name: string, got: number, fine: boolean, wanted: string): void {
  if (fine) return;
  console.error(`--${name}: got ${got}; give ${wanted}`);
  process.exit(2);
}
