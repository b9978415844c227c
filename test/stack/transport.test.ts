// The database, the queue, the tick and the order in which a deployment makes them.
import { describe, expect, test } from 'vitest';
import { settingsOf } from '../../lambdas/core/settings.ts';
import { synthesized } from './synthesized.ts';

const production = settingsOf('production');
const { resources, template, properties, text } = synthesized();

/** The paths that a resource waits for by an explicit dependency. */
function waitsFor(path: string): string[] {
  const ids = resources.get(path)?.DependsOn ?? [];
  return ids.map((logicalId) => text({ Ref: logicalId }));
}

describe('a deployment', () => {
  test.each([
    'Ledger/Schedule/Function',
    'Ledger/Claim/Function',
    'Ledger/WebhookSender/Function',
    'Ledger/Queue/Source',
    'Ledger/Observe/Function',
    'Ledger/Retain/Function',
    'Ledger/Rotate/Function',
    'Ledger/Operate/Function',
    'Ledger/Canary/Function',
    'Ledger/Widget/Function',
    'Ledger/Minute/Tick',
    'Ledger/Minute/Observation',
    'Ledger/Minute/Retention',
    'Ledger/Minute/Canary',
  ])('makes %s after the migration', (path) => {
    expect(waitsFor(path)).toContain('Ledger/Migration/Trigger');
  });

  test('migrates by the newest version of migrate, after the database has a writer', () => {
    expect(waitsFor('Ledger/Migration/Trigger')).toEqual(
      expect.arrayContaining(['Ledger/Database/Cluster', 'Ledger/Database/Cluster/Writer']),
    );
    const { HandlerArn, ...trigger } = properties<{ HandlerArn: unknown }>('Ledger/Migration/Trigger');
    expect(text(HandlerArn)).toBe('Ledger/Migrate/Function/CurrentVersion');
    expect(trigger).toMatchObject({
      InvocationType: 'RequestResponse',
      Timeout: '840000',
      ExecuteOnHandlerChange: true,
    });
  });

  test.each(['Tick', 'Observation'])('starts %s only when its group and its role’s policy are there', (schedule) => {
    expect(waitsFor(`Ledger/Minute/${schedule}`)).toEqual(
      expect.arrayContaining(['Ledger/Minute/Group', 'Ledger/Minute/Role/DefaultPolicy']),
    );
  });
});

describe('the queue', () => {
  interface Queue {
    readonly VisibilityTimeout: number;
    readonly MessageRetentionPeriod: number;
    readonly RedrivePolicy: { readonly deadLetterTargetArn: unknown; readonly maxReceiveCount: number };
  }
  const invitations = properties<Queue>('Ledger/Queue/Invitations');
  const deadLetters = properties<Queue>('Ledger/Queue/DeadLetters');
  const source = properties<Record<string, unknown>>('Ledger/Queue/Source');

  test('hides a message six times as long as its sender may run', () => {
    const sender = properties<{ Timeout: number }>('Ledger/WebhookSender/Function');
    expect(invitations.VisibilityTimeout).toBe(production.visibilityTimeoutSeconds);
    expect(invitations.VisibilityTimeout).toBeGreaterThanOrEqual(6 * sender.Timeout);
  });

  test('gives a message up after five receives, to a queue that keeps it longer', () => {
    expect(invitations.RedrivePolicy.maxReceiveCount).toBe(5);
    expect(text(invitations.RedrivePolicy.deadLetterTargetArn)).toBe('Ledger/Queue/DeadLetters.Arn');
    expect(invitations.MessageRetentionPeriod).toBe(4 * 86_400);
    expect(deadLetters.MessageRetentionPeriod).toBe(14 * 86_400);
    expect(deadLetters.RedrivePolicy).toBeUndefined();
  });

  test('feeds the newest sender ten at once, without waiting, with single failures', () => {
    expect(source).toMatchObject({
      BatchSize: 10,
      MaximumBatchingWindowInSeconds: 0,
      FunctionResponseTypes: ['ReportBatchItemFailures'],
      ScalingConfig: { MaximumConcurrency: production.senderConcurrency },
    });
    expect(text(source.EventSourceArn)).toBe('Ledger/Queue/Invitations.Arn');
    expect(JSON.stringify(source.FunctionName)).toContain(':invitations');
    expect(properties('Ledger/WebhookSender/Function/Aliasinvitations')).toMatchObject({ Name: 'invitations' });
  });

  test.each(['Invitations', 'DeadLetters'])('is encrypted, and closed to plain http: %s', (name) => {
    expect(properties(`Ledger/Queue/${name}`)).toMatchObject({ SqsManagedSseEnabled: true });
    expect(properties(`Ledger/Queue/${name}/Policy`)).toMatchObject({
      PolicyDocument: {
        Statement: [{ Effect: 'Deny', Action: 'sqs:*', Condition: { Bool: { 'aws:SecureTransport': 'false' } } }],
      },
    });
  });
});

describe.each([
  ['Tick', 'Ledger/Claim/Function/Aliastick', 'rate(1 minute)'],
  ['Observation', 'Ledger/Observe/Function/Aliastick', 'rate(1 minute)'],
  ['Retention', 'Ledger/Retain/Function/Aliastick', 'rate(1 day)'],
  ['Canary', 'Ledger/Canary/Function/Aliastick', 'rate(5 minutes)'],
])('the schedule %s', (schedule, alias, rate) => {
  const tick = properties<{ Target: { Arn: unknown; DeadLetterConfig: { Arn: unknown } } }>(
    `Ledger/Minute/${schedule}`,
  );

  test(`runs its function at ${rate}, at no flexible time`, () => {
    expect(tick).toMatchObject({
      ScheduleExpression: rate,
      FlexibleTimeWindow: { Mode: 'OFF' },
      State: 'ENABLED',
    });
    expect(text(tick.Target.Arn)).toBe(alias);
  });

  test('is retried by nobody: the next one does its work', () => {
    expect(tick.Target).toMatchObject({ RetryPolicy: { MaximumRetryAttempts: 0, MaximumEventAgeInSeconds: 60 } });
    expect(text(tick.Target.DeadLetterConfig.Arn)).toBe('Ledger/Minute/LostTicks.Arn');
    expect(properties(`${alias}/EventInvokeConfig`)).toMatchObject({
      MaximumRetryAttempts: 0,
      MaximumEventAgeInSeconds: 60,
    });
  });
});

describe('what must survive', () => {
  test('the database: encrypted, protected, restorable, without a public way in', () => {
    expect(properties('Ledger/Database/Cluster')).toMatchObject({
      Engine: 'aurora-postgresql',
      EngineVersion: '17.7',
      EnableHttpEndpoint: true,
      StorageEncrypted: true,
      DeletionProtection: true,
      BackupRetentionPeriod: 35,
      ManageMasterUserPassword: true,
      ServerlessV2ScalingConfiguration: { MinCapacity: 0.5, MaxCapacity: 8 },
    });
    expect(properties('Ledger/Database/Cluster/Writer')).toMatchObject({ PubliclyAccessible: false });
    template.resourceCountIs('AWS::EC2::InternetGateway', 0);
    template.resourceCountIs('AWS::EC2::NatGateway', 0);
  });

  test.each(['Ledger/Database/Cluster', 'Ledger/Signing/Secret', 'Ledger/Queue/DeadLetters'])(
    'a deleted stack leaves %s',
    (path) => {
      expect(resources.get(path)).toMatchObject({ DeletionPolicy: 'Retain', UpdateReplacePolicy: 'Retain' });
    },
  );

  test('the signing root is made by Secrets Manager, in the shape that the sender reads', () => {
    expect(properties('Ledger/Signing/Secret')).toMatchObject({
      GenerateSecretString: {
        SecretStringTemplate: '{}',
        GenerateStringKey: 'current',
        PasswordLength: 64,
        ExcludePunctuation: true,
      },
    });
  });
});
