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

const traced = (...names: string[]) =>
  names.map((name) => `AwsSolutions-IAM5[Resource::*] ReminderLedger/Ledger/${name}/Role/DefaultPolicy/Resource`);
const everyStage = [
  ...traced('Claim', 'Migrate', 'Observe', 'Operate', 'Retain', 'Rotate', 'Schedule', 'WebhookSender', 'Widget'),
  'AwsSolutions-IAM5[Resource::<LedgerArchiveBucketA7B9F3E4.Arn>/reminders/*] ReminderLedger/Ledger/Retain/Role/DefaultPolicy/Resource',
  'AwsSolutions-S1 ReminderLedger/Ledger/Archive/Bucket/Resource',
  'AwsSolutions-SMG4 ReminderLedger/Ledger/Signing/Secret/Resource',
  'AwsSolutions-SQS3 ReminderLedger/Ledger/Minute/LostTicks/Resource',
  'AwsSolutions-VPC7 ReminderLedger/Ledger/Database/Network/Resource',
];

// A list that grows is a list of risks: each line is a decision.
test.each([
  [
    'production',
    [
      ...everyStage,
      ...traced('Canary', 'CanaryReceiver'),
      'AwsSolutions-IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/service-role/AWSLambdaBasicExecutionRole] ReminderLedger/LogRetentionaae0aa3c5b4d4f87b02d85b201efdd8a/ServiceRole/Resource',
      'AwsSolutions-IAM5[Resource::*] ReminderLedger/LogRetentionaae0aa3c5b4d4f87b02d85b201efdd8a/ServiceRole/DefaultPolicy/Resource',
    ],
  ],
  ['dev', [...everyStage, 'AwsSolutions-RDS10 ReminderLedger/Ledger/Database/Cluster/Resource']],
] as const)('AwsSolutions finds nothing in stage %s but the acknowledged', (stage, expected) => {
  const app = newApp();
  new ReminderLedgerStack(app, 'ReminderLedger', { stage });
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
  ).toEqual(expected.toSorted());
  for (const { reason } of acknowledged) expect(reason).toMatch(/\w+ \w+ \w+/);
});
