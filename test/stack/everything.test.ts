// A ledger with every prop at once: it deploys in some order, is bounded and tagged, and nag knows all its exceptions.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type App, Duration, Stack, Validations } from 'aws-cdk-lib';
import { LambdaDeploymentConfig } from 'aws-cdk-lib/aws-codedeploy';
import { FlowLogDestination, Vpc } from 'aws-cdk-lib/aws-ec2';
import { ManagedPolicy } from 'aws-cdk-lib/aws-iam';
import { Key } from 'aws-cdk-lib/aws-kms';
import { RetentionDays } from 'aws-cdk-lib/aws-logs';
import { Topic } from 'aws-cdk-lib/aws-sns';
import { AwsSolutionsChecks } from 'cdk-nag';
import { Construct } from 'constructs';
import { describe, expect, test } from 'vitest';
import { ReminderLedger } from '../../lib/stack/reminder-ledger.ts';
import { ReminderLedgerStack } from '../../lib/stack/reminder-ledger-stack.ts';
import { flagSets, namedBy, newApp, synthesized } from './synthesized.ts';

function everything(flags?: Record<string, unknown>): ReminderLedgerStack {
  const app = newApp(flags);
  const around = new Stack(app, 'Around');
  const masterKey = new Key(around, 'TopicKey', { enableKeyRotation: true });
  const vpc = new Vpc(around, 'Way', { flowLogs: { all: { destination: FlowLogDestination.toCloudWatchLogs() } } });
  return new ReminderLedgerStack(app, 'ReminderLedger', {
    stage: 'production',
    encryptionKey: new Key(around, 'Key', { enableKeyRotation: true }),
    permissionsBoundary: ManagedPolicy.fromManagedPolicyName(around, 'Boundary', 'boundary'),
    tags: { 'cost-center': '4711' },
    alarmTopics: { page: new Topic(around, 'Page', { masterKey, enforceSSL: true }) },
    owners: { recover: 'Platform on-call' },
    logRetention: RetentionDays.ONE_YEAR,
    capacity: { minimum: 1, maximum: 16 },
    reader: true,
    backupRetention: Duration.days(14),
    egress: { vpc },
    reservedConcurrency: { 'webhook-sender': 40 },
    gradualDeployment: LambdaDeploymentConfig.LINEAR_10PERCENT_EVERY_3MINUTES,
    tracing: true,
    queue: { senderConcurrency: 40 },
  });
}

/** A way from a resource back to itself, as their places in the stack; CDK's own check leaves update policies out. */
function cycleIn(stack: Stack): string[] | undefined {
  const { template, text } = synthesized(stack);
  const resources = template.toJSON().Resources as Record<string, { Metadata?: unknown }>;
  const finished = new Set<string>();
  const search = (id: string, way: readonly string[]): string[] | undefined => {
    if (way.includes(id)) return [...way.slice(way.indexOf(id)), id].map((one) => text({ Ref: one }));
    if (finished.has(id) || !(id in resources)) return undefined;
    const { Metadata: _, ...parts } = resources[id] ?? {};
    for (const next of namedBy(parts)) {
      const found = search(next, [...way, id]);
      if (found) return found;
    }
    finished.add(id);
    return undefined;
  };
  for (const id of Object.keys(resources)) {
    const found = search(id, []);
    if (found) return found;
  }
  return undefined;
}

describe.each(flagSets)('under %s', (_name, flags) => {
  test('no resource waits for itself, by its properties, dependencies or update policy', () => {
    expect(cycleIn(everything(flags))).toBeUndefined();
    expect(cycleIn(new ReminderLedgerStack(newApp(flags), 'Plain'))).toBeUndefined();
  });
});

test('the stack takes the boundary and the tags for its ledger', () => {
  const { resources, properties } = synthesized(everything());
  for (const [path, { Type, Properties }] of resources) {
    if (Type === 'AWS::IAM::Role') expect(Properties.PermissionsBoundary, path).toBeDefined();
  }
  const { Tags } = properties<{ Tags: { Key: string; Value: string }[] }>('Ledger/Queue/Invitations');
  expect(Tags).toEqual([{ Key: 'cost-center', Value: '4711' }]);
});

test('two ledgers with one id, at two places of a stack, have alarms of their own', () => {
  const stack = new Stack(newApp(), 'Shop');
  for (const place of ['East', 'West']) new ReminderLedger(new Construct(stack, place), 'Ledger');
  const alarms = Object.values(synthesized(stack).template.findResources('AWS::CloudWatch::Alarm'));
  const names = alarms.map(({ Properties }) => Properties.AlarmName);
  expect(new Set(names).size).toBe(names.length);
  expect(names).toContain('Shop West/Ledger schedule-drops');
});

test('CloudWatch may publish to a topic that has a policy of its own', () => {
  const { Around } = Object.fromEntries(
    (everything().node.root as App).node.children.map((stack) => [stack.node.id, stack as Stack]),
  );
  const [policy] = Object.values(synthesized(Around as Stack).template.findResources('AWS::SNS::TopicPolicy'));
  expect(policy?.Properties.PolicyDocument.Statement).toEqual(
    expect.arrayContaining([
      expect.objectContaining({ Effect: 'Deny' }),
      expect.objectContaining({
        ...{ Effect: 'Allow', Action: 'sns:Publish', Principal: { Service: 'cloudwatch.amazonaws.com' } },
        Condition: { StringEquals: { 'aws:SourceAccount': { Ref: 'AWS::AccountId' } } },
      }),
    ]),
  );
});

test('nag finds nothing but what is acknowledged', () => {
  const app = everything().node.root as App;
  Validations.of(app).addPlugins(new AwsSolutionsChecks(app));
  app.synth();
  const { pluginReports } = JSON.parse(readFileSync(join(app.outdir, 'validation-report.json'), 'utf8')) as {
    pluginReports: { pluginName: string; violations: unknown[] }[];
  };
  expect(pluginReports.find(({ pluginName }) => pluginName === 'AwsSolutions')?.violations).toEqual([]);
});
