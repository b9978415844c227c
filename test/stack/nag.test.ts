// cdk-nag's AwsSolutions rules hold, but for the exceptions listed here, each with its reason at its resource.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Validations } from 'aws-cdk-lib';
import { AwsSolutionsChecks } from 'cdk-nag';
import { expect, test } from 'vitest';
import { ReminderLedgerStack } from '../../lib/stack/reminder-ledger-stack.ts';
import { newApp } from './synthesized.ts';

interface Finding {
  readonly ruleName: string;
  readonly reason?: string;
  readonly violatingConstructs: { readonly constructPath: string }[];
}

test('AwsSolutions finds nothing but the acknowledged', () => {
  const app = newApp();
  new ReminderLedgerStack(app, 'ReminderLedger');
  Validations.of(app).addPlugins(new AwsSolutionsChecks(app));
  app.synth();

  const { pluginReports } = JSON.parse(readFileSync(join(app.outdir, 'validation-report.json'), 'utf8')) as {
    pluginReports: { pluginName: string; violations: Finding[]; suppressedViolations: Finding[] }[];
  };
  const report = pluginReports.find(({ pluginName }) => pluginName === 'AwsSolutions');
  expect(report?.violations).toEqual([]);
  const acknowledged = report?.suppressedViolations ?? [];
  expect(
    acknowledged
      .flatMap(({ ruleName, violatingConstructs }) =>
        violatingConstructs.map(({ constructPath }) => `${ruleName} ${constructPath}`),
      )
      .toSorted(),
  ).toEqual([
    // A list that grows is a list of risks: each line is a decision.
    'AwsSolutions-SMG4 ReminderLedger/Ledger/Signing/Secret/Resource',
    'AwsSolutions-SQS3 ReminderLedger/Ledger/Minute/LostTicks/Resource',
    'AwsSolutions-VPC7 ReminderLedger/Ledger/Database/Network/Resource',
  ]);
  for (const { reason } of acknowledged) expect(reason).toMatch(/\w+ \w+ \w+/);
});
