// What outlives a deleted stack, in each stage, and what must never be replaced or named by us.
import { describe, expect, test } from 'vitest';
import { ReminderLedgerStack } from '../../lib/stack/reminder-ledger-stack.ts';
import { namedBy, newApp, type Resource, synthesized } from './synthesized.ts';

const stages = {
  production: synthesized(new ReminderLedgerStack(newApp(), 'ReminderLedger', { stage: 'production' })),
  dev: synthesized(new ReminderLedgerStack(newApp(), 'ReminderLedgerDev', { stage: 'dev' })),
};

type Policies = Resource & { readonly DeletionPolicy?: string; readonly UpdateReplacePolicy?: string };

/** What of each kind is lost when the resource is, or what others have attached to it. */
const stateful = [
  ...['EC2::RouteTable', 'EC2::SecurityGroup', 'EC2::Subnet', 'EC2::SubnetRouteTableAssociation', 'EC2::VPC'],
  ...['Events::EventBus', 'Logs::LogGroup', 'S3::Bucket', 'SecretsManager::Secret', 'SQS::Queue'],
  ...['RDS::DBCluster', 'RDS::DBClusterParameterGroup', 'RDS::DBInstance', 'RDS::DBSubnetGroup'],
].map((type) => `AWS::${type}`);

/** What a deployment can make anew at any time, with nothing lost. */
const stateless = [
  ...['AWS::CloudWatch::Alarm', 'AWS::CloudWatch::CompositeAlarm', 'AWS::CloudWatch::Dashboard'],
  ...['AWS::IAM::Policy', 'AWS::IAM::Role'],
  ...['AWS::Lambda::Alias', 'AWS::Lambda::EventInvokeConfig', 'AWS::Lambda::EventSourceMapping'],
  ...[
    'AWS::Lambda::Function',
    'AWS::Lambda::Permission',
    'AWS::Lambda::Url',
    'AWS::Lambda::Version',
    'AWS::S3::BucketPolicy',
  ],
  ...['AWS::SQS::QueuePolicy', 'AWS::Scheduler::Schedule', 'AWS::Scheduler::ScheduleGroup'],
  ...[
    'AWS::SecretsManager::RotationSchedule',
    'Custom::LogRetention',
    'Custom::S3AutoDeleteObjects',
    'Custom::Trigger',
  ],
];

/** For each stateful resource what becomes of it in production; dev deletes them all. */
const inProduction: Readonly<Record<string, 'Retain' | 'Delete'>> = {
  'Ledger/Archive/Bucket': 'Retain',
  'Ledger/Database/Cluster': 'Retain',
  'Ledger/Database/Cluster/Reader': 'Retain',
  'Ledger/Database/Cluster/Writer': 'Retain',
  // A kept cluster keeps all that it stands on, which could not be deleted under it.
  'Ledger/Database/Cluster/SecurityGroup': 'Retain',
  'Ledger/Database/Cluster/Subnets': 'Retain',
  'Ledger/Database/Network': 'Retain',
  'Ledger/Database/Network/databaseSubnet1/RouteTable': 'Retain',
  'Ledger/Database/Network/databaseSubnet1/RouteTableAssociation': 'Retain',
  'Ledger/Database/Network/databaseSubnet1/Subnet': 'Retain',
  'Ledger/Database/Network/databaseSubnet2/RouteTable': 'Retain',
  'Ledger/Database/Network/databaseSubnet2/RouteTableAssociation': 'Retain',
  'Ledger/Database/Network/databaseSubnet2/Subnet': 'Retain',
  'Ledger/Database/Parameters': 'Retain',
  'Ledger/Queue/DeadLetters': 'Retain',
  'Ledger/Signing/Secret': 'Retain',
  ...retained(
    'Ledger/Claim/Log',
    'Ledger/Migrate/Log',
    'Ledger/Observe/Log',
    'Ledger/Operate/Log',
    'Ledger/Retain/Log',
    'Ledger/Rotate/Log',
  ),
  ...retained('Ledger/Schedule/Log', 'Ledger/WebhookSender/Log', 'Ledger/Widget/Log', 'TriggerLog'),
  ...retained('Ledger/Canary/Log', 'Ledger/CanaryReceiver/Log'),
  // The ledger holds what is in it: the next claim invites anew.
  'Ledger/Queue/Invitations': 'Delete',
  'Ledger/Minute/LostTicks': 'Delete',
  // An end that nobody was told is announced anew, on the next bus.
  'Ledger/Lifecycle/Bus': 'Delete',
  // The next deployment makes logins of its own.
  ...deleted('Ledger/Logins/Claim', 'Ledger/Logins/Observer', 'Ledger/Logins/Operator', 'Ledger/Logins/Retain'),
  ...deleted('Ledger/Logins/Schedule', 'Ledger/Logins/WebhookSender'),
};

function retained(...paths: string[]): Record<string, 'Retain'> {
  return Object.fromEntries(paths.map((path) => [path, 'Retain']));
}

function deleted(...paths: string[]): Record<string, 'Delete'> {
  return Object.fromEntries(paths.map((path) => [path, 'Delete']));
}

describe.each(['production', 'dev'] as const)('stage %s', (stage) => {
  const { resources, template, properties } = stages[stage];

  test('of every kind of resource it is said whether it holds state', () => {
    const known = [...stateful, ...stateless];
    expect([...resources.values()].map(({ Type }) => Type).filter((type) => !known.includes(type))).toEqual([]);
  });

  test('what becomes of each that holds state, when the stack is deleted and when it is replaced', () => {
    const found = [...resources].flatMap(([path, resource]) => {
      const { Type, DeletionPolicy = 'Delete', UpdateReplacePolicy = 'Delete' } = resource as Policies;
      return stateful.includes(Type) ? [[path, { DeletionPolicy, UpdateReplacePolicy }] as const] : [];
    });
    const all =
      stage === 'production' ? inProduction : { ...deleted(...Object.keys(inProduction)), EmptyingLog: 'Delete' };
    const expected = Object.entries(all)
      .filter(([path]) => stage === 'production' || !/\/Reader$|\/Canary/.test(path))
      .map(([path, policy]) => [path, { DeletionPolicy: policy, UpdateReplacePolicy: policy }] as const);
    expect(Object.fromEntries(found)).toEqual(Object.fromEntries(expected));
  });

  test('nothing is given a physical name, of text or of parts, but alarms and what the CDK names', () => {
    // The name of another resource is a reference to it; what is put together is a name that somebody thought of.
    const refers = (value: unknown) => {
      const [[intrinsic, operand] = ['', '']] = Object.entries(value ?? {});
      return intrinsic === 'Fn::GetAtt' || (intrinsic === 'Ref' && !String(operand).startsWith('AWS::'));
    };
    const named = [...resources].flatMap(([path, { Type, Properties = {} }]) =>
      Object.keys(Properties)
        .filter((key) => /^(\w*Name|\w*Identifier)$/.test(key) && !refers(Properties[key]))
        // A name inside the stack, or one of something that AWS or PostgreSQL has.
        .filter((key) => !['DatabaseName', 'PolicyName', 'MasterUsername', 'MetricName'].includes(key))
        .map((key) => `${Type} ${path.replace(/^Ledger\/Alarms\/.*/, 'Ledger/Alarms/*')} ${key}`),
    );
    const ofCanary = (...names: string[]) => (stage === 'production' ? names : []);
    expect([...new Set(named)].toSorted()).toEqual([
      'AWS::CloudWatch::Alarm Ledger/Alarms/* AlarmName',
      'AWS::CloudWatch::CompositeAlarm Ledger/Alarms/* AlarmName',
      'AWS::Events::EventBus Ledger/Lifecycle/Bus Name',
      ...ofCanary(
        'AWS::Lambda::Alias Ledger/Canary/Function/Aliastick Name',
        'AWS::Lambda::Alias Ledger/CanaryReceiver/Function/Aliasreceive Name',
      ),
      'AWS::Lambda::Alias Ledger/Claim/Function/Aliastick Name',
      'AWS::Lambda::Alias Ledger/Observe/Function/Aliastick Name',
      'AWS::Lambda::Alias Ledger/Operate/Function/Aliascontrol Name',
      'AWS::Lambda::Alias Ledger/Operate/Function/Aliasdecide Name',
      'AWS::Lambda::Alias Ledger/Operate/Function/Aliasinspect Name',
      'AWS::Lambda::Alias Ledger/Operate/Function/Aliasrecover Name',
      'AWS::Lambda::Alias Ledger/Retain/Function/Aliastick Name',
      ...ofCanary('AWS::Lambda::Alias Ledger/Schedule/Function/Aliascanary Name'),
      'AWS::Lambda::Alias Ledger/WebhookSender/Function/Aliasinvitations Name',
      'AWS::Lambda::Alias Ledger/Widget/Function/Aliaslook Name',
      // Its function, by the alias.
      'AWS::Lambda::EventSourceMapping Ledger/Queue/Source FunctionName',
      ...ofCanary('AWS::Scheduler::Schedule Ledger/Minute/Canary GroupName'),
      'AWS::Scheduler::Schedule Ledger/Minute/Observation GroupName',
      'AWS::Scheduler::Schedule Ledger/Minute/Retention GroupName',
      'AWS::Scheduler::Schedule Ledger/Minute/Tick GroupName',
      'AWS::Scheduler::ScheduleGroup Ledger/Minute/Group Name',
      // RDS names the log of a cluster.
      ...(stage === 'production'
        ? ['Custom::LogRetention Ledger/Database/Cluster/LogRetentionpostgresql LogGroupName']
        : []),
    ]);
  });

  test('every alarm says what silence means, who acts and what to do', () => {
    const alarms = Object.values(template.findResources('AWS::CloudWatch::Alarm'));
    const following = Object.values(template.findResources('AWS::CloudWatch::CompositeAlarm'));
    expect(alarms.length).toBeGreaterThan(10);
    for (const { Properties } of alarms)
      expect(Properties.TreatMissingData).toMatch(/^(breaching|notBreaching|missing)$/);
    for (const { Properties } of [...alarms, ...following]) {
      expect(Properties.AlarmDescription).toMatch(
        /^[A-Z].{30,}\. Acts: .+ \((page|warn)\)\. Next: npm run reminders -- --stack \w+ [a-z]/,
      );
      expect(Properties.AlarmName).toMatch(/^ReminderLedger(Dev)? Ledger [a-z-]+$/);
    }
  });

  test('a deployment makes each alarm that silence rings after the schedules', () => {
    const ringing = [...resources].flatMap(([path, { Type, Properties }]) =>
      Type === 'AWS::CloudWatch::Alarm' && Properties.TreatMissingData !== 'notBreaching' ? [path] : [],
    );
    expect(ringing).toEqual(
      expect.arrayContaining(
        ['tick-not-running-measured', 'observer-silent-measured', 'broken-handoff-measured'].map(
          (id) => `Ledger/Alarms/${id}`,
        ),
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

test('what production keeps can be imported into a stack anew: it refers to nothing that is not kept', () => {
  const { resources, text } = stages.production;
  const kept = [...resources].filter(([, resource]) => (resource as Policies).DeletionPolicy === 'Retain');
  const missing = kept.flatMap(([path, { Metadata: _, ...parts }]) =>
    namedBy(parts)
      .filter((id) => !id.startsWith('AWS::'))
      .map((id) => text({ Ref: id }))
      .filter((named) => inProduction[named] !== 'Retain')
      .map((named) => `${path} -> ${named}`),
  );
  expect(missing).toEqual([]);
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
  const ids = stateful.flatMap((type) => Object.keys(template.findResources(type)));
  expect(ids.toSorted()).toMatchInlineSnapshot(`
    [
      "LedgerArchiveBucketA7B9F3E4",
      "LedgerCanaryLog62A009CC",
      "LedgerCanaryReceiverLogE7F06194",
      "LedgerClaimLogFA4A7A03",
      "LedgerDatabaseClusterE16917D9",
      "LedgerDatabaseClusterReader0E93555E",
      "LedgerDatabaseClusterSecurityGroup700744FD",
      "LedgerDatabaseClusterSubnets81DC42A8",
      "LedgerDatabaseClusterWriter29C9A41D",
      "LedgerDatabaseNetworkB741A52E",
      "LedgerDatabaseNetworkdatabaseSubnet1RouteTableAssociationAA68B357",
      "LedgerDatabaseNetworkdatabaseSubnet1RouteTableF364CA08",
      "LedgerDatabaseNetworkdatabaseSubnet1SubnetBFAAACD1",
      "LedgerDatabaseNetworkdatabaseSubnet2RouteTable08C18D9A",
      "LedgerDatabaseNetworkdatabaseSubnet2RouteTableAssociation97A8398A",
      "LedgerDatabaseNetworkdatabaseSubnet2Subnet37D8ACF9",
      "LedgerDatabaseParameters893CF429",
      "LedgerLifecycleBus64E981E2",
      "LedgerLoginsClaim5F62E626",
      "LedgerLoginsObserverE9C03999",
      "LedgerLoginsOperator81AD5A6F",
      "LedgerLoginsRetain6412900B",
      "LedgerLoginsSchedule5C1D3D5C",
      "LedgerLoginsWebhookSenderC697B0F2",
      "LedgerMigrateLogBB6A50CE",
      "LedgerMinuteLostTicks5A0DD341",
      "LedgerObserveLogD37E218D",
      "LedgerOperateLog29611AE1",
      "LedgerQueueDeadLetters87546214",
      "LedgerQueueInvitations3EA6EE89",
      "LedgerRetainLog0C195204",
      "LedgerRotateLog87542860",
      "LedgerScheduleLog84FAE33E",
      "LedgerSigningSecret710209E0",
      "LedgerWebhookSenderLogB116BC8D",
      "LedgerWidgetLog5CDB0931",
      "TriggerLogEAF6BB58",
    ]
  `);
});
