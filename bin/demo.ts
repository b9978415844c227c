// The main job in one command: a thousand reminders through a fresh local AWS, faults included, and a verdict on them.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { SingleBar } from 'cli-progress';
import { Command, Option } from 'commander';
import { type Settings, settingsOf } from '../lambdas/core/settings.ts';
import { type LocalAws, startLocalAws } from '../lib/local/local-aws.ts';
import { startReceiver } from '../lib/local/receiver.ts';
import { testAuthority } from '../lib/local/test-authority.ts';
import { runDemo } from './demo-run.ts';
import { type Sabotage, sabotages } from './demo-sabotage.ts';
import { judge, latenessBoundMs, percentile } from './demo-verdict.ts';
import { bundleHash, deployedBundles } from './deployed-bundles.ts';

interface DemoOptions {
  readonly stage: 'rehearsal' | 'production';
  readonly sabotage?: Sabotage;
  readonly reminders: number;
  readonly seed: number;
}

const options: DemoOptions = new Command('npm run demo --')
  .description("A thousand reminders through local AWS, with faults, and a verdict from the receiver's own log.")
  .addOption(
    new Option('--stage <stage>', 'whose numbers to run with')
      .choices(['rehearsal', 'production'])
      .default('rehearsal'),
  )
  .addOption(new Option('--sabotage <promise>', 'break one promise on purpose').choices(Object.keys(sabotages)))
  .option('--reminders <number>', 'how many', Number, 1000)
  .option('--seed <number>', 'where ticks fall within their period', Number, 1)
  .parse()
  .opts();
if (!Number.isInteger(options.reminders) || options.reminders < 100 || options.reminders > 10_000) {
  console.error(`--reminders: got ${options.reminders}; give 100 to 10000`);
  process.exit(2);
}

const settings = settingsOf(options.stage);
printNumbers(settings);
console.log('\nBundles that the synthesized app deploys, and that run here:');
for (const [name, sha256] of await sameBundles()) console.log(`  ${name.padEnd(15)} ${sha256}`);

const directory = mkdtempSync(join(tmpdir(), 'reminder-ledger-demo-'));
const authority = await testAuthority({ directory: join(directory, 'test-authority') });
const receiver = await startReceiver({ authority, journalFile: join(directory, 'receiver.jsonl') });
const aws = await startLocalAws({
  stage: options.stage,
  directory,
  fresh: true,
  schedulerSeed: options.seed,
  caFile: authority.caFile,
});
let exitCode = 1;
try {
  exitCode = await demo(aws);
} finally {
  await aws.stop();
  await receiver.close();
  rmSync(directory, { recursive: true, force: true });
}
process.exit(exitCode);

async function demo(local: LocalAws): Promise<number> {
  const bar = new SingleBar({
    format: '{bar} {value}/{total} received, {open} open, {seconds} s',
    hideCursor: true,
    noTTYOutput: true,
    notTTYSchedule: 5000,
  });
  const begun = performance.now();
  const result = await runDemo({
    aws: local,
    receiver,
    reminders: options.reminders,
    ...(options.sabotage === undefined ? {} : { sabotage: options.sabotage }),
    say: (line) => console.log(line),
    progress: ({ received, total, open }) => {
      const seconds = Math.round((performance.now() - begun) / 1000);
      if (!bar.isActive) bar.start(total, received, { open, seconds });
      else bar.update(received, { open, seconds });
    },
  });
  bar.stop();

  console.log('\nReminders by state, as the ledger has them:');
  for (const [state, count] of result.states) console.log(`  ${state.padEnd(12)} ${count}`);
  const verdict = judge(result.asked, receiver.requests, result.intents, result.mayRepeat);
  const { latenessMs, repeated } = verdict;
  console.log(
    `\nFrom due to first byte, ${latenessMs.length} reminders that nothing was done to: ` +
      `p50 ${percentile(latenessMs, 0.5)} ms, p99 ${percentile(latenessMs, 0.99)} ms (bound ${latenessBoundMs} ms), ` +
      `longest ${latenessMs.at(-1)} ms`,
  );
  console.log(`From due to first byte of those whose message was lost: ${result.recoveredMs.join(', ')} ms`);
  console.log(`The receiver got ${receiver.requests.length} requests for ${verdict.arrived} reminders.`);
  console.log(`Seen again after a 2xx: ${repeated.length || 'none'}`);
  for (const { deliveryId, requests, keys } of repeated) {
    console.log(`  ${deliveryId}: ${requests} requests under ${keys} key${keys === 1 ? '' : 's'}`);
  }
  console.log(`\nThe killed sender's reminder, from the ledger:\n${result.killedStory}\n`);

  const broken = [...result.broken, ...verdict.broken];
  for (const sentence of broken) console.log(`BROKEN  ${sentence}`);
  if (broken.length === 0) console.log("All promises held, by the receiver's own log.");
  if (
    options.sabotage !== undefined &&
    !broken.some((sentence) => sentence.startsWith(sabotages[options.sabotage as Sabotage]))
  ) {
    console.log(`BROKEN  the verdict did not find sabotage "${options.sabotage}"`);
    return 3;
  }
  return broken.length === 0 ? 0 : 1;
}

function printNumbers(s: Settings): void {
  console.log(`Stage ${s.stage}:`);
  console.log(
    `  tick ${s.tickSeconds} s, lookahead ${s.lookaheadSeconds} s, claim budget ${s.claimBudgetSeconds} s of ${s.claimTimeoutSeconds} s`,
  );
  console.log(
    `  lease ${s.leaseSeconds} s, allowance ${s.allowanceSeconds} s, sender timeout ${s.senderTimeoutSeconds} s, webhook deadline ${s.webhookDeadlineMs} ms`,
  );
  console.log(
    `  retry ${s.retryBaseSeconds} s doubled up to ${s.retryCapSeconds} s with full jitter, ${s.maxFailures} failures, ${s.attemptHardCap} attempts at most`,
  );
}

/** @throws {Error} when a bundle that would be deployed is not the one that runs here */
async function sameBundles(): Promise<Map<string, string>> {
  const deployed = await deployedBundles();
  for (const [name, hash] of deployed) {
    const here = await bundleHash(fileURLToPath(new URL(`../dist/functions/${name}`, import.meta.url)));
    if (hash !== here) throw new Error(`${name}: the synthesized app deploys ${hash}, and ${here} runs here`);
  }
  return deployed;
}
