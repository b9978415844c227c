// Who may do what: every action on every resource, as one literal table.
import { Stack } from 'aws-cdk-lib';
import { LambdaDeploymentConfig } from 'aws-cdk-lib/aws-codedeploy';
import { Vpc } from 'aws-cdk-lib/aws-ec2';
import { AccountPrincipal, ArnPrincipal, Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import { Key } from 'aws-cdk-lib/aws-kms';
import { Code, Function as LambdaFunction, Runtime } from 'aws-cdk-lib/aws-lambda';
import { describe, expect, test } from 'vitest';
import { ReminderLedger } from '../../lib/stack/reminder-ledger.ts';
import type { ReminderLedgerProps } from '../../lib/stack/reminder-ledger-props.ts';
import { ReminderLedgerStack } from '../../lib/stack/reminder-ledger-stack.ts';
import { permissionsOf } from './role-permissions.ts';
import { flagSets, newApp, synthesized } from './synthesized.ts';

const database = 'arn:<AWS::Partition>:rds:<AWS::Region>:<AWS::AccountId>:cluster:Ledger/Database/Cluster';
const owner = 'Ledger/Database/Cluster.MasterUserSecret.SecretArn';

/** What every function may do besides its work: write its log, and send traces, which no resource can be named for. */
const everyFunction = (name: string) => [
  `logs:CreateLogStream on Ledger/${name}/Log.Arn`,
  `logs:PutLogEvents on Ledger/${name}/Log.Arn`,
  'xray:PutTelemetryRecords on *',
  'xray:PutTraceSegments on *',
];

const logins = ['Schedule', 'Claim', 'WebhookSender', 'Operator', 'Observer', 'Retain'].map(
  (name) => `Ledger/Logins/${name}`,
);

const permissions: Record<string, string[]> = {
  'Ledger/Schedule/Role': [
    ...everyFunction('Schedule'),
    `rds-data:ExecuteStatement on ${database}`,
    'secretsmanager:GetSecretValue on Ledger/Logins/Schedule',
    'sqs:SendMessage on Ledger/Queue/Invitations.Arn',
  ],
  'Ledger/Claim/Role': [
    ...everyFunction('Claim'),
    'events:PutEvents on Ledger/Lifecycle/Bus.Arn',
    `rds-data:ExecuteStatement on ${database}`,
    'secretsmanager:GetSecretValue on Ledger/Logins/Claim',
    'sqs:SendMessage on Ledger/Queue/Invitations.Arn',
  ],
  'Ledger/WebhookSender/Role': [
    ...everyFunction('WebhookSender'),
    `rds-data:ExecuteStatement on ${database}`,
    'secretsmanager:GetSecretValue on Ledger/Logins/WebhookSender',
    'secretsmanager:GetSecretValue on Ledger/Signing/Secret',
    'sqs:DeleteMessage on Ledger/Queue/Invitations.Arn',
    'sqs:GetQueueAttributes on Ledger/Queue/Invitations.Arn',
    'sqs:ReceiveMessage on Ledger/Queue/Invitations.Arn',
  ],
  'Ledger/Migrate/Role': [
    ...everyFunction('Migrate'),
    `rds-data:BeginTransaction on ${database}`,
    `rds-data:CommitTransaction on ${database}`,
    `rds-data:ExecuteStatement on ${database}`,
    `rds-data:RollbackTransaction on ${database}`,
    `secretsmanager:GetSecretValue on ${owner}`,
    ...logins.map((login) => `secretsmanager:GetSecretValue on ${login}`),
  ],
  'Ledger/Rotate/Role': [
    ...everyFunction('Rotate'),
    `rds-data:ExecuteStatement on ${database}`,
    `secretsmanager:GetSecretValue on ${owner}`,
    ...logins.flatMap((login) =>
      ['DescribeSecret', 'GetSecretValue', 'PutSecretValue', 'UpdateSecretVersionStage'].map(
        (action) => `secretsmanager:${action} on ${login}`,
      ),
    ),
  ],
  'Ledger/Observe/Role': [
    ...everyFunction('Observe'),
    `rds-data:ExecuteStatement on ${database}`,
    'secretsmanager:GetSecretValue on Ledger/Logins/Observer',
  ],
  'Ledger/Operate/Role': [
    ...everyFunction('Operate'),
    `rds-data:ExecuteStatement on ${database}`,
    'secretsmanager:GetSecretValue on Ledger/Logins/Operator',
    ...['ChangeMessageVisibility', 'DeleteMessage', 'GetQueueAttributes', 'ReceiveMessage'].map(
      (action) => `sqs:${action} on Ledger/Queue/DeadLetters.Arn`,
    ),
    'sqs:GetQueueAttributes on Ledger/Queue/Invitations.Arn',
  ],
  'Ledger/Widget/Role': [
    ...everyFunction('Widget'),
    `rds-data:ExecuteStatement on ${database}`,
    'secretsmanager:GetSecretValue on Ledger/Logins/Observer',
  ],
  'Ledger/Retain/Role': [
    ...everyFunction('Retain'),
    `rds-data:ExecuteStatement on ${database}`,
    's3:PutObject on Ledger/Archive/Bucket.Arn/reminders/*',
    'secretsmanager:GetSecretValue on Ledger/Logins/Retain',
  ],
  'Ledger/Minute/Role': [
    'lambda:InvokeFunction on Ledger/Claim/Function/Aliastick',
    'lambda:InvokeFunction on Ledger/Observe/Function/Aliastick',
    'lambda:InvokeFunction on Ledger/Retain/Function/Aliastick',
    'sqs:SendMessage on Ledger/Minute/LostTicks.Arn',
  ],
  // CDK's own, which invokes the migration during a deployment.
  'AWSCDK.TriggerCustomResourceProviderCustomResourceProvider/Role': [
    'lambda:InvokeFunction on Ledger/Migrate/Function.Arn:*',
    'logs:CreateLogStream on TriggerLog.Arn',
    'logs:PutLogEvents on TriggerLog.Arn',
  ],
};

/** The canary's, in production alone: who sends registers a destination, who receives may verify. */
const canary = {
  'Ledger/Canary/Role': [
    ...everyFunction('Canary'),
    'lambda:InvokeFunction on Ledger/Schedule/Function/Aliascanary',
    `rds-data:ExecuteStatement on ${database}`,
    'secretsmanager:GetSecretValue on Ledger/Logins/Operator',
  ],
  'Ledger/CanaryReceiver/Role': [
    ...everyFunction('CanaryReceiver'),
    'secretsmanager:GetSecretValue on Ledger/Signing/Secret',
  ],
  'Ledger/Minute/Role': [
    ...(permissions['Ledger/Minute/Role'] ?? []),
    'lambda:InvokeFunction on Ledger/Canary/Function/Aliastick',
  ],
};

/** CDK's own, which empties the archive before a dev stack is deleted. */
const emptier = {
  'Custom::S3AutoDeleteObjectsCustomResourceProvider/Role': [
    'logs:CreateLogStream on EmptyingLog.Arn',
    'logs:PutLogEvents on EmptyingLog.Arn',
  ],
};

/** CDK's own, which sets how long the exported log of the database is kept. */
const logRetention = {
  'LogRetentionaae0aa3c5b4d4f87b02d85b201efdd8a/ServiceRole': [
    'logs:DeleteRetentionPolicy on *',
    'logs:PutRetentionPolicy on *',
    'policy arn:<AWS::Partition>:iam::aws:policy/service-role/AWSLambdaBasicExecutionRole',
  ],
};

const throughSecrets = 'if kms:ViaService StringEquals secretsmanager.<AWS::Region>.amazonaws.com';
const network = [
  'AssignPrivateIpAddresses',
  'CreateNetworkInterface',
  'DeleteNetworkInterface',
  'DescribeNetworkInterfaces',
  'DescribeSubnets',
  'UnassignPrivateIpAddresses',
].map((action) => `ec2:${action} on *`);
const fromCode =
  'if lambda:SourceFunctionArn ArnLike arn:<AWS::Partition>:lambda:<AWS::Region>:<AWS::AccountId>:function:*';
const shiftsAliases = ['policy arn:<AWS::Partition>:iam::aws:policy/service-role/AWSCodeDeployRoleForLambdaLimited'];

/** What the options that change permissions add. */
const addedByOptions = {
  ...Object.fromEntries(
    ['Schedule', 'Claim', 'Migrate', 'Observe', 'Operate', 'Widget', 'Canary', 'CanaryReceiver'].map((name) => [
      `Ledger/${name}/Role`,
      [`kms:Decrypt on Own.Arn ${throughSecrets}`],
    ]),
  ),
  'Ledger/Retain/Role': [
    `kms:Decrypt on Own.Arn ${throughSecrets}`,
    `kms:GenerateDataKey on Own.Arn ${throughSecrets.replace('secretsmanager', 's3')}`,
  ],
  'Ledger/Rotate/Role': ['Decrypt', 'GenerateDataKey'].map((action) => `kms:${action} on Own.Arn ${throughSecrets}`),
  'Ledger/WebhookSender/Role': [
    ...network.map((line) => `Deny ${line} ${fromCode}`),
    ...network,
    `kms:Decrypt on Own.Arn ${throughSecrets}`,
  ],
  'Ledger/ClaimShift/Group/ServiceRole': shiftsAliases,
  'Ledger/WebhookSenderShift/Group/ServiceRole': shiftsAliases,
};

describe.each(flagSets)('under %s', (_name, flags) => {
  test.each([
    ['production', { ...permissions, ...canary, ...logRetention }],
    ['dev', { ...permissions, ...emptier }],
  ] as const)('each role of stage %s may do exactly what the table says', (stage, table) => {
    expect(permissionsOf(synthesized(new ReminderLedgerStack(newApp(flags), 'ReminderLedger', { stage })))).toEqual(
      Object.fromEntries(Object.entries(table).map(([role, can]) => [role, can.toSorted()])),
    );
  });
});

describe.each(flagSets)('a customer key, egress and gradual deployment, under %s', (_name, flags) => {
  const ledgerWith = (props: (stack: Stack) => ReminderLedgerProps) => {
    const stack = new Stack(newApp(flags), 'Shop');
    new ReminderLedger(stack, 'Ledger', props(stack));
    return permissionsOf(synthesized(stack));
  };

  test('add these lines to the table, and take none away', () => {
    const plain = ledgerWith(() => ({}));
    const found = ledgerWith((stack) => ({
      encryptionKey: new Key(stack, 'Own'),
      egress: { vpc: new Vpc(stack, 'Way') },
      gradualDeployment: LambdaDeploymentConfig.ALL_AT_ONCE,
    }));
    const ofLedger = Object.entries(found).filter(([role]) => role in plain || role.startsWith('Ledger/'));
    const added = ofLedger.flatMap(([role, can]): [string, string[]][] => {
      const more = [...new Set(can)].filter((line) => !plain[role]?.includes(line));
      return more.length > 0 ? [[role, more]] : [];
    });
    expect(Object.fromEntries(added)).toEqual(addedByOptions);
    for (const [role, can] of Object.entries(plain)) expect(found[role]).toEqual(expect.arrayContaining(can));
  });
});

test('only EventBridge Scheduler, for this schedule group of this account, may take the tick’s role', () => {
  const { properties, text } = synthesized();
  const { Statement: trust } = properties<{
    AssumeRolePolicyDocument: { Statement: { Principal: object; Condition: { StringEquals: object } }[] };
  }>('Ledger/Minute/Role').AssumeRolePolicyDocument;
  expect(trust).toHaveLength(1);
  expect(trust[0]?.Principal).toEqual({ Service: 'scheduler.amazonaws.com' });
  const conditions = Object.entries(trust[0]?.Condition.StringEquals ?? {});
  expect(Object.fromEntries(conditions.map(([key, value]) => [key, text(value)]))).toEqual({
    'aws:SourceAccount': '<AWS::AccountId>',
    'aws:SourceArn': 'Ledger/Minute/Group.Arn',
  });
});

describe('a product', () => {
  const shop = () => {
    const stack = new ReminderLedgerStack(newApp(), 'ReminderLedger');
    const lambda = (id: string) =>
      new LambdaFunction(stack, id, {
        runtime: Runtime.NODEJS_24_X,
        handler: 'index.handler',
        code: Code.fromInline('exports.handler = async () => {};'),
      });
    return { stack, lambda };
  };

  test('gets an alias of its own, may invoke that alone, and finds it in a variable named after it', () => {
    const { stack, lambda } = shop();
    const checkout = lambda('Checkout');
    stack.ledger.grantSchedule(checkout, 'orders');
    stack.ledger.grantSchedule(checkout, 'gift-cards');
    stack.ledger.grantSchedule(lambda('Returns'), 'orders');
    const shopping = synthesized(stack);
    const { properties, text } = shopping;
    const can = permissionsOf(shopping);
    expect(can['Checkout/ServiceRole']?.filter((line) => !line.startsWith('policy'))).toEqual([
      'lambda:InvokeFunction on Ledger/Schedule/Function/Aliasgift-cards',
      'lambda:InvokeFunction on Ledger/Schedule/Function/Aliasorders',
    ]);
    expect(can['Returns/ServiceRole']?.filter((line) => !line.startsWith('policy'))).toEqual([
      'lambda:InvokeFunction on Ledger/Schedule/Function/Aliasorders',
    ]);
    const { Variables } = properties<{ Environment: { Variables: object } }>('Checkout').Environment;
    expect(Object.fromEntries(Object.entries(Variables).map(([name, value]) => [name, text(value)]))).toEqual({
      REMINDER_SCHEDULE_FUNCTION_GIFT_CARDS: 'Ledger/Schedule/Function/Aliasgift-cards',
      REMINDER_SCHEDULE_FUNCTION_ORDERS: 'Ledger/Schedule/Function/Aliasorders',
    });
    expect(properties('Ledger/Schedule/Function/Aliasorders')).toMatchObject({ Name: 'orders' });
  });

  test('may be a role, which has no variables', () => {
    const { stack } = shop();
    const batch = new Role(stack, 'Batch', { assumedBy: new ServicePrincipal('ec2.amazonaws.com') });
    stack.ledger.grantSchedule(batch, 'reports');
    expect(permissionsOf(synthesized(stack)).Batch).toEqual([
      'lambda:InvokeFunction on Ledger/Schedule/Function/Aliasreports',
    ]);
  });

  test('has a name that can be an alias, and neither that of callers without one nor the canary’s', () => {
    const { stack } = shop();
    const role = new Role(stack, 'Batch', { assumedBy: new ServicePrincipal('ec2.amazonaws.com') });
    for (const product of ['', 'Orders', '1st', 'gift_cards', 'default', 'canary', 'a'.repeat(64)]) {
      const refusal = `product: got ${JSON.stringify(product)}; use 1 to 63`;
      expect(() => stack.ledger.grantSchedule(role, product)).toThrow(refusal);
    }
  });
});

describe('a person', () => {
  const granted = () => {
    const stack = new ReminderLedgerStack(newApp(), 'ReminderLedger');
    const role = new Role(stack, 'OnCall', { assumedBy: new AccountPrincipal('111122223333') });
    stack.ledger.grantDuty(role, 'decide');
    stack.ledger.grantDuty(new ArnPrincipal('arn:aws:iam::444455556666:role/support'), 'inspect');
    return synthesized(stack);
  };

  test('may call the URL of the duty that was granted, and the function behind it only through that', () => {
    expect(permissionsOf(granted()).OnCall).toEqual([
      'lambda:InvokeFunction on Ledger/Operate/Function/Aliasdecide if lambda:InvokedViaFunctionUrl Bool true',
      'lambda:InvokeFunctionUrl on Ledger/Operate/Function/Aliasdecide if lambda:FunctionUrlAuthType StringEquals AWS_IAM',
    ]);
  });

  test('without a grant nobody may: each URL asks IAM, and nothing lets anybody invoke the function plainly', () => {
    const { resources, text } = granted();
    const urls = [...resources.values()].filter(({ Type }) => Type === 'AWS::Lambda::Url');
    expect(urls.map(({ Properties }) => [Properties.AuthType, Properties.Qualifier, 'Cors' in Properties])).toEqual([
      ['AWS_IAM', 'inspect', false],
      ['AWS_IAM', 'decide', false],
      ['AWS_IAM', 'recover', false],
      ['AWS_IAM', 'control', false],
      // A webhook's receiver is open; it takes what the ledger signed for it.
      ['NONE', 'receive', false],
    ]);
    const permissions = [...resources.values()].filter(({ Type }) => Type === 'AWS::Lambda::Permission');
    const opened = permissions
      .map(({ Properties }) => ({ ...Properties, FunctionName: text(Properties.FunctionName) }))
      .filter(({ FunctionName }) => FunctionName.includes('Operate'));
    // Of the role of another account: through the URL in both.
    const Principal = 'arn:aws:iam::444455556666:role/support';
    const FunctionName = 'Ledger/Operate/Function/Aliasinspect';
    expect(opened).toEqual([
      { Action: 'lambda:InvokeFunctionUrl', FunctionUrlAuthType: 'AWS_IAM', Principal, FunctionName },
      { Action: 'lambda:InvokeFunction', InvokedViaFunctionUrl: true, Principal, FunctionName },
    ]);
  });
});
