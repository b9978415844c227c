// Runs local AWS until it is stopped, and says where everything listens.
import { join } from 'node:path';
import { Command, Option } from 'commander';
import { knownStages, type Stage } from '../lambdas/core/settings.ts';
import { startConsole } from '../lib/local/console.ts';
import { startLocalAws } from '../lib/local/local-aws.ts';
import { startReceiver } from '../lib/local/receiver.ts';
import { testAuthority } from '../lib/local/test-authority.ts';
import { localDirectory } from './ledger-target.ts';

/** EventBridge Scheduler may lose one now and then; the next tick is the retry. */
const tickLossOneIn = 20;

interface LocalOptions {
  readonly fresh: boolean;
  readonly stage: Stage;
  readonly directory: string;
  readonly receiverPort: number;
  readonly consolePort: number;
}

const options: LocalOptions = new Command('npm start --')
  .description('Local AWS: the bundles that deploy, on real PostgreSQL, until it is stopped.')
  .option('--fresh', 'begin with an empty ledger', false)
  .addOption(new Option('--stage <stage>', 'whose numbers to run with').choices(knownStages).default('production'))
  .option('--directory <directory>', 'where data and logs lie', localDirectory)
  // Fixed: destinations registered before a restart name it.
  .option('--receiver-port <port>', 'where its receiver of webhooks listens', Number, 4430)
  .option('--console-port <port>', 'where its console for a browser listens', Number, 4480)
  .parse()
  .opts();

const { aws, receiver, pages } = await start().catch((error: Error) => {
  console.error(`Local AWS did not start: ${error.message}`);
  process.exit(1);
});
receiver.on('request', ({ path, webhookId, idempotencyKey }) =>
  console.log(`${new Date().toISOString()}  received ${webhookId} under key ${idempotencyKey} at ${path}`),
);

console.log(
  `Local AWS runs at stage ${options.stage}: a tick each ${aws.settings.tickSeconds} s, one in ${tickLossOneIn} lost. Ctrl-C stops it.`,
);
for (const [name, endpoint] of Object.entries(aws.environment)) {
  if (name.startsWith('AWS_ENDPOINT_URL_')) console.log(`  ${name}=${endpoint}`);
}
console.log(`  a console for your browser at ${pages.endpoint}/`);
console.log(`  PostgreSQL ${aws.databaseUrl}`);
console.log(`  logs of the functions in ${join(options.directory, 'logs')}`);
console.log(`  a receiver of webhooks at ${receiver.url('/ok')} (/fail/2: fails twice; /status/410; /hang; ...)`);
console.log('  WEBHOOK_TRUSTED_CIDRS is set: the sender may dial this machine. A deployed stack never sets it.');
console.log(`
In another terminal:
  npm run reminders -- destination add partner ${receiver.url('/ok')} --owner me
  npm run reminders -- schedule --key first --destination partner --due +10s --user me --payload '{"hello":"world"}'
  npm run reminders -- show --key first`);

for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, async () => {
    console.log('Stopping: what is being sent ends first.');
    await pages.close();
    await aws.stop();
    await receiver.close();
    process.exit(0);
  });
}

async function start() {
  const authority = await testAuthority({ directory: join(options.directory, 'test-authority') });
  const { stage, directory, fresh } = options;
  const aws = await startLocalAws({
    stage,
    directory,
    fresh,
    tickLossOneIn,
    caFile: authority.caFile,
  });
  const receiver = await startReceiver({ authority, port: options.receiverPort }).catch(async (error: Error) => {
    await aws.stop();
    throw new Error(`--receiver-port: ${error.message}`);
  });
  const pages = await startConsole({ host: aws.host, port: options.consolePort }).catch(async (error: Error) => {
    await receiver.close();
    await aws.stop();
    throw new Error(`--console-port: ${error.message}`);
  });
  return { aws, receiver, pages };
}
