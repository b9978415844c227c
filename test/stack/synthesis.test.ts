// The stack synthesizes, alone and in another app, and refuses with a sentence what must not be deployed.
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Stack } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import { describe, expect, test } from 'vitest';
import { settingsOf } from '../../lambdas/core/settings.ts';
import { ReminderLedger } from '../../lib/stack/reminder-ledger.ts';
import { ReminderLedgerStack } from '../../lib/stack/reminder-ledger-stack.ts';
import { flagSets, newApp, synthesized } from './synthesized.ts';

const production = settingsOf('production');

describe.each(flagSets)('under %s', (_name, flags) => {
  test('the stack synthesizes without a cycle and without a warning', () => {
    const app = newApp(flags);
    const stack = new ReminderLedgerStack(app, 'ReminderLedger');
    const assembly = app.synth();
    expect(assembly.getStackArtifact(stack.artifactId).messages).toEqual([]);
    expect(() => Template.fromStack(stack)).not.toThrow();
  });

  test('two ledgers fit into one stack of another app', () => {
    const stack = new Stack(newApp(flags), 'Shop');
    new ReminderLedger(stack, 'Reminders');
    new ReminderLedger(stack, 'Offers');
    Template.fromStack(stack).resourceCountIs('AWS::Scheduler::Schedule', 2);
  });
});

test('the outputs are those that the command line reads, each described', () => {
  const outputs = synthesized().template.toJSON().Outputs as Record<string, { Description: string }>;
  expect(Object.keys(outputs).toSorted()).toEqual([
    'ClaimFunctionName',
    'DatabaseArn',
    'DatabaseName',
    'DatabaseSecretArn',
    'DeadLetterQueueUrl',
    'EventBusName',
    'InvitationQueueUrl',
    'ScheduleFunctionName',
    'SigningSecretArn',
  ]);
  for (const { Description } of Object.values(outputs)) expect(Description).toMatch(/\w+ \w+/);
});

describe('synthesis fails', () => {
  test('with the sentence of every inequality that does not hold', () => {
    const app = newApp();
    const settings = { ...production, visibilityTimeoutSeconds: 100, maxReceiveCount: 3 };
    new ReminderLedgerStack(app, 'ReminderLedger', { settings });
    expect(() => app.synth()).toThrow(
      /must hold: visibility 100 s >= 6 x sender timeout 30 s.*maxReceiveCount 3 >= 5/s,
    );
  });

  test('for numbers that are not the stage’s own, because the functions would not know them', () => {
    const app = newApp();
    new ReminderLedgerStack(app, 'ReminderLedger', { settings: { ...production, retryCapSeconds: 7200 } });
    expect(() => app.synth()).toThrow('settings: retryCapSeconds must be those of stage production');
  });

  test('for a stage whose tick EventBridge Scheduler cannot keep', () => {
    expect(() => new ReminderLedgerStack(newApp(), 'Fast', { settings: settingsOf('rehearsal') })).toThrow(
      'tick: got 3 s; EventBridge Scheduler counts in minutes. Stage rehearsal runs in local AWS',
    );
  });

  test('when the bundles were not built, and says how to', () => {
    const bundles = join(tmpdir(), 'reminder-ledger-never-built');
    expect(() => new ReminderLedgerStack(newApp(), 'Unbuilt', { bundles })).toThrow(
      `bundle of migrate: ${join(bundles, 'migrate', 'index.mjs')} is missing; run: npm run build`,
    );
  });

  test('when a function’s variables and its contract part', () => {
    const app = newApp();
    const { ledger } = new ReminderLedgerStack(app, 'ReminderLedger');
    ledger.bus.grantAnnounce(ledger.schedule);
    expect(() => app.synth()).toThrow(
      'environment of schedule: EVENT_BUS_NAME must be both in its contract and granted',
    );
  });
});
