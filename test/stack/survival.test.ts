// What outlives a deleted stack, in each stage, and what must never be replaced or named by us.
import { describe, expect, test } from 'vitest';
import { ReminderLedgerStack } from '../../lib/stack/reminder-ledger-stack.ts';
import { newApp, type Resource, synthesized } from './synthesized.ts';

const stages = {
  production: synthesized(new ReminderLedgerStack(newApp(), 'ReminderLedger', { stage: 'production' })),
  dev: synthesized(new ReminderLedgerStack(newApp(), 'ReminderLedgerDev', { stage: 'dev' })),
};

type Policies = Resource & { readonly DeletionPolicy?: string; readonly UpdateReplacePolicy?: string };

const logs = ['Schedule', 'Claim', 'WebhookSender', 'Migrate', 'Rotate', 'Observe', 'Retain'].map(
  (name) => `Ledger/${name}/Log`,
);
const logins = ['Schedule', 'Claim', 'WebhookSender', 'Operator', 'Observer', 'Retain'].map(
  (name) => `Ledger/Logins/${name}`,
);

describe.each(['production', 'dev'] as const)('stage %s', (stage) => {
  const { resources, template, properties } = stages[stage];
  const policies = (path: string) => {
    const { DeletionPolicy, UpdateReplacePolicy } = resources.get(path) as Policies;
    return [DeletionPolicy, UpdateReplacePolicy];
  };

  test.each([
    ['Ledger/Database/Cluster', 'Retain', 'Delete'],
    ['Ledger/Signing/Secret', 'Retain', 'Delete'],
    ['Ledger/Queue/DeadLetters', 'Retain', 'Delete'],
    ['Ledger/Archive/Bucket', 'Retain', 'Delete'],
    ['TriggerLog', 'Retain', 'Delete'],
    ...logs.map((path): [string, string, string] => [path, 'Retain', 'Delete']),
    // Made anew by the next deployment.
    ...logins.map((path): [string, string, string] => [path, 'Delete', 'Delete']),
    ['Ledger/Queue/Invitations', 'Delete', 'Delete'],
    ['Ledger/Minute/LostTicks', 'Delete', 'Delete'],
  ])('%s: production %s, dev %s', (path, production, dev) => {
    const expected = stage === 'production' ? production : dev;
    expect(policies(path)).toEqual([expected, expected]);
  });

  test('nothing is given a physical name, but alarms and what the CDK names', () => {
    const named = [...resources].flatMap(([path, { Type, Properties = {} }]) =>
      Object.keys(Properties)
        .filter((key) => /^(\w*Name|\w*Identifier)$/.test(key) && typeof Properties[key] === 'string')
        // A name inside the stack, or one of something that AWS or PostgreSQL has.
        .filter((key) => !['DatabaseName', 'PolicyName', 'MasterUsername', 'MetricName'].includes(key))
        .map((key) => `${Type} ${path.replace(/^Ledger\/Alarms\/.*/, 'Ledger/Alarms/*')} ${key}`),
    );
    expect([...new Set(named)].toSorted()).toEqual([
      'AWS::CloudWatch::Alarm Ledger/Alarms/* AlarmName',
      'AWS::CloudWatch::CompositeAlarm Ledger/Alarms/* AlarmName',
      'AWS::Events::EventBus Ledger/Lifecycle/Bus Name',
      'AWS::Lambda::Alias Ledger/Claim/Function/Aliastick Name',
      'AWS::Lambda::Alias Ledger/Observe/Function/Aliastick Name',
      'AWS::Lambda::Alias Ledger/Retain/Function/Aliastick Name',
      'AWS::Lambda::Alias Ledger/WebhookSender/Function/Aliasinvitations Name',
      'AWS::Scheduler::Schedule Ledger/Minute/Observation GroupName',
      'AWS::Scheduler::Schedule Ledger/Minute/Retention GroupName',
      'AWS::Scheduler::Schedule Ledger/Minute/Tick GroupName',
      'AWS::Scheduler::ScheduleGroup Ledger/Minute/Group Name',
    ]);
  });

  test('every alarm says what silence means, who acts and what to do', () => {
    const alarms = Object.values(template.findResources('AWS::CloudWatch::Alarm'));
    const following = Object.values(template.findResources('AWS::CloudWatch::CompositeAlarm'));
    expect(alarms.length).toBeGreaterThan(10);
    for (const { Properties } of alarms)
      expect(Properties.TreatMissingData).toMatch(/^(breaching|notBreaching|missing)$/);
    for (const { Properties } of [...alarms, ...following]) {
      expect(Properties.AlarmDescription).toMatch(/^[A-Z].{30,}\. Acts: .+ \((page|warn)\)\.$/);
      expect(Properties.AlarmName).toMatch(/^ReminderLedger(Dev)? Ledger [a-z-]+$/);
    }
  });

  test('a deployment makes each alarm that silence rings after the schedules', () => {
    const ringing = [...resources].flatMap(([path, { Type, Properties }]) =>
      Type === 'AWS::CloudWatch::Alarm' && Properties.TreatMissingData !== 'notBreaching' ? [path] : [],
    );
    expect(ringing).toEqual(
      expect.arrayContaining(
        ['tick-not-running', 'observer-silent', 'broken-handoff-measured'].map((id) => `Ledger/Alarms/${id}`),
      ),
    );
    for (const path of ringing) {
      const waits = (resources.get(path)?.DependsOn ?? []).map((logicalId) => stages[stage].text({ Ref: logicalId }));
      expect(waits).toEqual(expect.arrayContaining(['Ledger/Minute/Tick', 'Ledger/Minute/Observation']));
    }
  });

  test('every function writes to a log group of the stack', () => {
    for (const [path, { Type }] of resources) {
      if (Type !== 'AWS::Lambda::Function' || path.startsWith('LogRetention')) continue;
      expect(properties(path)).toMatchObject({ LoggingConfig: { LogGroup: { Ref: expect.anything() } } });
    }
  });
});

test('a kept cluster keeps all that it stands on, which could not be deleted under it', () => {
  const { resources } = stages.production;
  const kept = { DeletionPolicy: 'Retain', UpdateReplacePolicy: 'Retain' };
  const network = [...resources].filter(([path]) => /^Ledger\/Database\/(?!.*LogRetention)/.test(path));
  expect(network.map(([, { Type }]) => Type)).toEqual(
    expect.arrayContaining(['AWS::EC2::VPC', 'AWS::EC2::Subnet', 'AWS::EC2::SecurityGroup', 'AWS::RDS::DBSubnetGroup']),
  );
  for (const [path] of network) expect(resources.get(path), path).toMatchObject(kept);
});

test('a deleted dev stack leaves nothing', () => {
  const { resources } = stages.dev;
  for (const [path, resource] of resources) {
    const { DeletionPolicy, Type, Properties = {} } = resource as Policies;
    expect([undefined, 'Delete'], path).toContain(DeletionPolicy);
    // Without a word CloudFormation takes a snapshot of a cluster.
    if (Type === 'AWS::RDS::DBCluster') expect(DeletionPolicy).toBe('Delete');
    expect(Properties.DeletionProtection ?? false, path).toBe(false);
    // An exported log makes a group that no stack owns.
    expect(Properties.EnableCloudwatchLogsExports, path).toBeUndefined();
  }
  expect([...resources.keys()].filter((path) => path.startsWith('LogRetention'))).toEqual([]);
});

test('production keeps a reader in another zone, its log, and 35 days; nothing upgrades by itself', () => {
  const { properties } = stages.production;
  const cluster = properties<Record<string, unknown>>('Ledger/Database/Cluster');
  expect(cluster).toMatchObject({ BackupRetentionPeriod: 35, EnableCloudwatchLogsExports: ['postgresql'] });
  const [writer, reader] = ['Writer', 'Reader'].map((name) =>
    properties<{ AvailabilityZone: unknown; AutoMinorVersionUpgrade: boolean }>(`Ledger/Database/Cluster/${name}`),
  );
  expect(reader?.AvailabilityZone).toBeDefined();
  expect(reader?.AvailabilityZone).not.toEqual(writer?.AvailabilityZone);
  expect([writer?.AutoMinorVersionUpgrade, reader?.AutoMinorVersionUpgrade]).toEqual([false, false]);
});

test('the logical ids of what holds state never change: another id is another, empty resource', () => {
  const { template } = stages.production;
  const stateful = [
    'RDS::DBCluster',
    'RDS::DBInstance',
    'SecretsManager::Secret',
    'SQS::Queue',
    'Logs::LogGroup',
    'S3::Bucket',
  ];
  const ids = stateful.flatMap((type) => Object.keys(template.findResources(`AWS::${type}`)));
  expect(ids.toSorted()).toMatchInlineSnapshot(`
    [
      "LedgerArchiveBucketA7B9F3E4",
      "LedgerClaimLogFA4A7A03",
      "LedgerDatabaseClusterE16917D9",
      "LedgerDatabaseClusterReader0E93555E",
      "LedgerDatabaseClusterWriter29C9A41D",
      "LedgerLoginsClaim5F62E626",
      "LedgerLoginsObserverE9C03999",
      "LedgerLoginsOperator81AD5A6F",
      "LedgerLoginsRetain6412900B",
      "LedgerLoginsSchedule5C1D3D5C",
      "LedgerLoginsWebhookSenderC697B0F2",
      "LedgerMigrateLogBB6A50CE",
      "LedgerMinuteLostTicks5A0DD341",
      "LedgerObserveLogD37E218D",
      "LedgerQueueDeadLetters87546214",
      "LedgerQueueInvitations3EA6EE89",
      "LedgerRetainLog0C195204",
      "LedgerRotateLog87542860",
      "LedgerScheduleLog84FAE33E",
      "LedgerSigningSecret710209E0",
      "LedgerWebhookSenderLogB116BC8D",
      "TriggerLogEAF6BB58",
    ]
  `);
});
