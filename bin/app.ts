// The CDK app: the stack of one stage, the same with the CDK command line and without it.
import { readFileSync } from 'node:fs';
import { App } from 'aws-cdk-lib';
import { deploymentStageOf, UnknownStageError } from '../lib/stack/deployment-stages.ts';
import { ReminderLedgerStack } from '../lib/stack/reminder-ledger-stack.ts';

// Without the command line nobody hands an app its cdk.json, and it would synthesize under other feature flags.
const { context } = JSON.parse(readFileSync(new URL('../cdk.json', import.meta.url), 'utf8'));
const app = new App({ context, outdir: process.env.CDK_OUTDIR ?? 'cdk.out' });
try {
  const stage = deploymentStageOf(String(app.node.tryGetContext('stage') ?? 'production'));
  new ReminderLedgerStack(app, stage === 'production' ? 'ReminderLedger' : 'ReminderLedgerDev', {
    stage,
    // A slip of the hand must not take it: what was kept is taken back into a stack one by one.
    terminationProtection: stage === 'production',
  });
  app.synth();
} catch (error) {
  // A slip of whoever typed it: where in the code it was noticed is of no use.
  if (!(error instanceof UnknownStageError)) throw error;
  console.error(error.message);
  process.exitCode = 1;
}
