// What each prop changes in the template.
import { type App, Duration, Stack } from 'aws-cdk-lib';
import { LambdaDeploymentConfig } from 'aws-cdk-lib/aws-codedeploy';
import { SubnetType, Vpc } from 'aws-cdk-lib/aws-ec2';
import { AccountPrincipal, ArnPrincipal, type ManagedPolicy } from 'aws-cdk-lib/aws-iam';
import { Key } from 'aws-cdk-lib/aws-kms';
import { Code, Function as LambdaFunction, Runtime } from 'aws-cdk-lib/aws-lambda';
import { RetentionDays } from 'aws-cdk-lib/aws-logs';
import { AuroraPostgresEngineVersion } from 'aws-cdk-lib/aws-rds';
import { Topic } from 'aws-cdk-lib/aws-sns';
import { describe, expect, test } from 'vitest';
import { functions } from '../../lambdas/functions.ts';
import { retentionPolicy } from '../../lambdas/retain/contract.ts';
import { ReminderLedger } from '../../lib/stack/reminder-ledger.ts';
import type { ReminderLedgerProps } from '../../lib/stack/reminder-ledger-props.ts';
import { ReminderLedgerStack } from '../../lib/stack/reminder-ledger-stack.ts';
import { flagSets, newApp, type Synthesized, synthesized } from './synthesized.ts';

/** A ledger in a stack of another app, with props that may need that stack. */
function shop(props: (stack: Stack) => ReminderLedgerProps, flags?: Record<string, unknown>) {
  const stack = new Stack(newApp(flags), 'Shop');
  const ledger = new ReminderLedger(stack, 'Ledger', props(stack));
  return { stack, ledger };
}

function ofType({ resources }: Synthesized, type: string) {
  return [...resources].filter(([, { Type }]) => Type === type);
}

const functionPaths = [
  ...['Schedule', 'Claim', 'WebhookSender', 'Migrate', 'Rotate', 'Observe', 'Retain', 'Operate', 'Widget'],
  ...['Canary', 'CanaryReceiver'],
].map((id) => `Ledger/${id}/Function`);

test('vpc, vpcSubnets: the database lies in a network of the account, and none is made', () => {
  const found = synthesized(
    shop((stack) => ({
      vpc: new Vpc(stack, 'Own', { natGateways: 1 }),
      vpcSubnets: { subnetType: SubnetType.PRIVATE_WITH_EGRESS },
    })).stack,
  );
  expect(ofType(found, 'AWS::EC2::VPC').map(([path]) => path)).toEqual(['Own']);
  const { SubnetIds } = found.properties<{ SubnetIds: unknown[] }>('Ledger/Database/Cluster/Subnets');
  expect(SubnetIds.map(found.text)).toEqual(['Own/PrivateSubnet1/Subnet', 'Own/PrivateSubnet2/Subnet']);
});

describe.each(flagSets)('encryptionKey, under %s', (_name, flags) => {
  test('encrypts the database and every secret, without a cycle, and roles decrypt through Secrets Manager alone', () => {
    const found = synthesized(shop((stack) => ({ encryptionKey: new Key(stack, 'Own') }), flags).stack);
    expect(found.text(found.properties<{ KmsKeyId: unknown }>('Ledger/Database/Cluster').KmsKeyId)).toBe('Own.Arn');
    const secrets = ofType(found, 'AWS::SecretsManager::Secret');
    expect(secrets).toHaveLength(7);
    for (const [, { Properties }] of secrets) expect(found.text(Properties.KmsKeyId)).toBe('Own.Arn');
    const decrypting = ofType(found, 'AWS::IAM::Policy').flatMap(([, { Properties }]) => {
      const { Roles, PolicyDocument } = Properties as {
        Roles: unknown[];
        PolicyDocument: { Statement: { Action: string | string[]; Resource: unknown; Condition?: unknown }[] };
      };
      const keys = PolicyDocument.Statement.filter(({ Action }) => [Action].flat().some((a) => a.startsWith('kms:')));
      expect(keys.every(({ Resource }) => found.text(Resource) === 'Own.Arn')).toBe(true);
      expect(keys.every(({ Condition }) => JSON.stringify(Condition).includes('kms:ViaService'))).toBe(true);
      return keys.length > 0 ? Roles.map(found.text) : [];
    });
    expect([...new Set(decrypting)].toSorted()).toEqual(
      functionPaths.map((p) => p.replace('Function', 'Role')).toSorted(),
    );
  });
});

test.each([
  ['production', [/^AWSCDK\.Trigger/, /^LogRetention/]],
  ['dev', [/^AWSCDK\.Trigger/, /^Custom::S3AutoDeleteObjects/]],
] as const)('permissionsBoundary: bounds every role in the stack, CDK’s own too, in stage %s', (stage, ofCdk) => {
  const gradualDeployment = LambdaDeploymentConfig.ALL_AT_ONCE;
  const found = synthesized(shop(() => ({ stage, gradualDeployment, permissionsBoundary: boundary })).stack);
  const roles = ofType(found, 'AWS::IAM::Role');
  expect(roles.map(([path]) => path)).toEqual(expect.arrayContaining(ofCdk.map((own) => expect.stringMatching(own))));
  for (const [, { Properties }] of roles) expect(Properties.PermissionsBoundary).toBe(boundary.managedPolicyArn);
});

const boundary = { managedPolicyArn: 'arn:aws:iam::111122223333:policy/boundary' } as ManagedPolicy;

/** What CloudFormation gives no `Tags`: parts of other resources, and what CDK's own functions make. */
const withoutTags =
  /^Custom::|Policy$|::(SubnetRouteTableAssociation|Alias|EventInvokeConfig|Permission|Url|Version|Schedule|RotationSchedule)$/;

describe.each(['production', 'dev'] as const)('tags, in stage %s', (stage) => {
  const tags = { 'cost-center': '4711', owner: 'platform' };
  test.each([
    ['construct', () => shop(() => ({ tags, stage })).stack],
    ['stack', () => new ReminderLedgerStack(newApp(), 'Own', { tags, stage })],
  ])('of the %s stand on everything that takes them, CDK’s own functions too', (_what, stackOf) => {
    const { resources } = synthesized(stackOf());
    const lacking = [...resources].filter(([, { Type, Properties }]) => {
      const found = (Properties?.Tags ?? []) as { Key: string; Value: string }[];
      return !(
        withoutTags.test(Type) ||
        Object.entries(tags).every(([key, value]) => found.some(({ Key, Value }) => Key === key && Value === value))
      );
    });
    expect(lacking.map(([path]) => path)).toEqual([]);
  });
});

test('alarmTopics, owners: an alarm is told where its severity goes, and names who acts', () => {
  const found = synthesized(
    shop((stack) => ({
      alarmTopics: { page: new Topic(stack, 'Page'), warn: new Topic(stack, 'Warn') },
      owners: { control: 'Platform on-call' },
    })).stack,
  );
  const alarm = (id: string) =>
    found.properties<{ AlarmActions: unknown[]; OKActions: unknown[]; AlarmDescription: string }>(
      `Ledger/Alarms/${id}`,
    );
  expect(alarm('tick-not-running').AlarmActions.map(found.text)).toEqual(['Page']);
  expect(alarm('tick-not-running').OKActions.map(found.text)).toEqual(['Page']);
  expect(alarm('tick-not-running').AlarmDescription).toMatch(
    /Acts: Platform on-call \(page\)\. Next: npm run reminders -- /,
  );
  expect(alarm('dead-letters').AlarmActions.map(found.text)).toEqual(['Warn']);
  expect(alarm('dead-letters').AlarmDescription).toMatch(
    /Acts: whoever may recover \(warn\)\. Next: npm run reminders -- /,
  );
});

describe('retention', () => {
  const policyOf = (props: ReminderLedgerProps) =>
    JSON.parse(
      synthesized(shop(() => props).stack).properties<{ Environment: { Variables: { RETENTION_POLICY: string } } }>(
        'Ledger/Retain/Function',
      ).Environment.Variables.RETENTION_POLICY,
    );

  test('is 90 days for every product, unless told otherwise', () => {
    expect(policyOf({})).toEqual({ finishedDays: 90, byProducer: {} });
    const retention = { finished: Duration.days(400), byProducer: { billing: Duration.days(83) } };
    expect(policyOf({ retention })).toEqual({ finishedDays: 400, byProducer: { billing: 83 } });
    expect(policyOf({ retention: { exports: Duration.days(0), finished: Duration.days(53) } })).toMatchObject({
      finishedDays: 53,
    });
  });

  test.each([
    [{ finished: Duration.days(82) }, 'finished 82 d'],
    [{ byProducer: { billing: Duration.days(82) } }, 'billing 82 d'],
  ])('%j is shorter than a copy may take to return, and fails synthesis with the sum', (retention, told) => {
    const { stack } = shop(() => ({ retention }));
    expect(() => synthesized(stack)).toThrow(
      `must hold: retention: ${told} >= backup 35 d + queue 4 d + dead letters 14 d + exports 30 d = 83 d`,
    );
  });

  test('is whole days, as the function reads it', () => {
    expect(() => shop(() => ({ retention: { finished: Duration.days(90.5) } }))).toThrow('whole number of days');
    expect(retentionPolicy.safeParse(policyOf({})).success).toBe(true);
  });

  test('counts the backups and queues that the ledger has', () => {
    const { stack } = shop(() => ({
      backupRetention: Duration.days(7),
      queue: { queueRetentionDays: 2, deadLetterRetentionDays: 10 },
      retention: { finished: Duration.days(48) },
    }));
    expect(() => synthesized(stack)).toThrow(
      'finished 48 d >= backup 7 d + queue 2 d + dead letters 10 d + exports 30 d = 49 d',
    );
  });
});

test('logRetention, capacity, reader, backupRetention, engineVersion', () => {
  const found = synthesized(
    shop(() => ({
      logRetention: RetentionDays.ONE_YEAR,
      capacity: { minimum: 2, maximum: 64 },
      reader: false,
      backupRetention: Duration.days(7),
      engineVersion: AuroraPostgresEngineVersion.VER_17_9,
    })).stack,
  );
  for (const [, { Properties }] of ofType(found, 'AWS::Logs::LogGroup')) expect(Properties.RetentionInDays).toBe(365);
  expect(found.properties('Ledger/Database/Cluster')).toMatchObject({
    EngineVersion: '17.9',
    BackupRetentionPeriod: 7,
    ServerlessV2ScalingConfiguration: { MinCapacity: 2, MaxCapacity: 64 },
  });
  expect([...found.resources.keys()]).not.toContain('Ledger/Database/Cluster/Reader');
});

test('egress: the sender alone runs in the network, Lambda may use it and the function’s code may not', () => {
  const found = synthesized(shop((stack) => ({ egress: { vpc: new Vpc(stack, 'Way') } })).stack);
  const inside = functionPaths.filter((path) => 'VpcConfig' in found.properties<object>(path));
  expect(inside).toEqual(['Ledger/WebhookSender/Function']);
  const { Environment } = found.properties<{ Environment: { Variables: object } }>('Ledger/WebhookSender/Function');
  expect(Object.keys(Environment.Variables)).not.toContain('WEBHOOK_TRUSTED_CIDRS');
  const { PolicyDocument } = found.properties<{
    PolicyDocument: { Statement: { Effect: string; Action: string[]; Condition?: object }[] };
  }>('Ledger/WebhookSender/Role/DefaultPolicy');
  const network = PolicyDocument.Statement.filter(({ Action }) =>
    [Action].flat().includes('ec2:CreateNetworkInterface'),
  );
  expect(network.map(({ Effect }) => Effect)).toEqual(['Allow', 'Deny']);
  expect(network[1]?.Condition).toMatchObject({ ArnLike: { 'lambda:SourceFunctionArn': expect.anything() } });
});

test('reservedConcurrency: none unless asked for', () => {
  const plain = synthesized(shop(() => ({})).stack);
  for (const path of functionPaths) {
    expect(Object.keys(plain.properties<object>(path))).not.toContain('ReservedConcurrentExecutions');
  }
  const asked = synthesized(shop(() => ({ reservedConcurrency: { 'webhook-sender': 40 } })).stack);
  expect(asked.properties('Ledger/WebhookSender/Function')).toMatchObject({ ReservedConcurrentExecutions: 40 });
});

test('gradualDeployment: shifts the claim’s and the sender’s alias, and back by their own alarms', () => {
  const plain = synthesized(shop(() => ({})).stack);
  expect(ofType(plain, 'AWS::CodeDeploy::DeploymentGroup')).toEqual([]);
  const found = synthesized(
    shop(() => ({ gradualDeployment: LambdaDeploymentConfig.CANARY_10PERCENT_15MINUTES })).stack,
  );
  for (const [shift, alias, name] of [
    ['ClaimShift', 'Ledger/Claim/Function/Aliastick', 'claim'],
    ['WebhookSenderShift', 'Ledger/WebhookSender/Function/Aliasinvitations', 'webhook-sender'],
  ] as const) {
    const group = found.properties<{
      AlarmConfiguration: { Alarms: { Name: unknown }[] };
      AutoRollbackConfiguration: object;
    }>(`Ledger/${shift}/Group`);
    expect(group.AlarmConfiguration.Alarms.map(({ Name }) => found.text(Name)).toSorted()).toEqual(
      [`Ledger/Alarms/${name}-errors`, `Ledger/Alarms/${name}-throttles`, `Ledger/${shift}/Failed`].toSorted(),
    );
    expect(group.AutoRollbackConfiguration).toMatchObject({
      Enabled: true,
      Events: ['DEPLOYMENT_FAILURE', 'DEPLOYMENT_STOP_ON_REQUEST', 'DEPLOYMENT_STOP_ON_ALARM'],
    });
    const update = found.resources.get(alias) as unknown as { UpdatePolicy: { CodeDeployLambdaAliasUpdate: object } };
    expect(JSON.stringify(update.UpdatePolicy.CodeDeployLambdaAliasUpdate)).toContain(shift);
  }
});

test('tracing: off when asked, and then nothing may be traced', () => {
  const { stack } = shop(() => ({ tracing: false }));
  expect(JSON.stringify(synthesized(stack).template.toJSON())).not.toMatch(/xray:|TracingConfig/);
});

test('grantSchedule: a function of another stack of the app gets permission and variable, the ledger’s stack first', () => {
  const { stack, ledger } = shop(() => ({}));
  const product = new Stack(stack.node.root as App, 'Product');
  const code = Code.fromInline('exports.handler = async () => {}');
  const fn = new LambdaFunction(product, 'Fn', { code, handler: 'index.handler', runtime: Runtime.NODEJS_24_X });
  ledger.grantSchedule(fn, 'billing');
  const found = synthesized(product);
  const { Environment } = found.properties<{ Environment: { Variables: object } }>('Fn');
  expect(Object.keys(Environment.Variables)).toEqual(['REMINDER_SCHEDULE_FUNCTION_BILLING']);
  expect(JSON.stringify(found.properties('Fn/ServiceRole/DefaultPolicy'))).toContain('lambda:InvokeFunction');
  expect(product.dependencies).toEqual([stack]);
});

test('grantSchedule: a role of another account gets the alias by its ARN', () => {
  const { stack, ledger } = shop(() => ({}));
  const role = 'arn:aws:iam::444455556666:role/billing';
  ledger.grantSchedule(new ArnPrincipal(role), 'billing');
  const found = synthesized(stack);
  const permissions = ofType(found, 'AWS::Lambda::Permission').map(([, { Properties }]) => Properties.Principal);
  expect(permissions).toContain(role);
});

test('grantSchedule: a product in another account gets its alias by principal', () => {
  const { stack, ledger } = shop(() => ({}));
  ledger.grantSchedule(new AccountPrincipal('111122223333'), 'cards');
  const found = synthesized(stack);
  const permissions = ofType(found, 'AWS::Lambda::Permission').map(([, { Properties }]) => ({
    of: found.text(Properties.FunctionName),
    to: found.text(Properties.Principal),
    may: Properties.Action,
  }));
  expect(permissions).toContainEqual({
    of: 'Ledger/Schedule/Function/Aliascards',
    to: '111122223333',
    may: 'lambda:InvokeFunction',
  });
});

test.each([
  ['production', {}, true],
  ['production', { canary: false }, false],
  ['dev', {}, false],
  ['dev', { canary: true }, true],
] as const)(
  'canary: in stage %s with %o the canary, its alarm and its product are there: %s',
  (stage, props, there) => {
    const { resources } = synthesized(shop(() => ({ stage, ...props })).stack);
    const found = [
      'Ledger/Canary/Function',
      'Ledger/CanaryReceiver/Function',
      'Ledger/Minute/Canary',
      'Ledger/Schedule/Function/Aliascanary',
    ].map((path) => resources.has(path));
    expect(new Set(found)).toEqual(new Set([there]));
    expect([...resources.keys()].some((path) => path.startsWith('Ledger/Alarms/canary-late'))).toBe(there);
  },
);

test('every function that is listed is deployed, and no other of ours', () => {
  const found = synthesized(shop(() => ({})).stack);
  const deployed = ofType(found, 'AWS::Lambda::Function').map(([path]) => path);
  expect(deployed.filter((path) => path.startsWith('Ledger/')).toSorted()).toEqual(functionPaths.toSorted());
  expect(functions).toHaveLength(functionPaths.length);
});
