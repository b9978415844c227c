// The contract with AWS Lambda and IAM: who a function takes its caller for, what is refused, what a role may not do.
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { CloudFormationClient, paginateListStackResources } from '@aws-sdk/client-cloudformation';
import { GetFunctionConfigurationCommand, InvokeCommand } from '@aws-sdk/client-lambda';
import { GetQueueAttributesCommand, type SQSClient } from '@aws-sdk/client-sqs';
import { expect } from 'vitest';
import { type ContractCase, contract } from './contract-case.ts';
import { failureOf, type Target } from './target.ts';

const guide = 'AWS Lambda Developer Guide';
const handler = 'lambdas/schedule/handler.ts';
const run = promisify(execFile);

/** What the schedule function answers, called as a product or without an alias. */
async function ask({ lambda, outputs }: Target, request: unknown, Qualifier?: string) {
  const FunctionName = outputs.ScheduleFunctionName;
  const Payload = typeof request === 'string' ? request : JSON.stringify(request);
  const answer = await lambda.send(new InvokeCommand({ FunctionName, Payload, ...(Qualifier ? { Qualifier } : {}) }));
  return { ...answer, said: JSON.parse(answer.Payload?.transformToString() ?? 'null') };
}

/** Resources by the names that {@link decisions} uses. The simulator must be given an ARN: `*` is denied to whoever has less than all. */
const resources = {
  Database: async ({ outputs }: Target) => outputs.DatabaseArn,
  OwnerSecret: async ({ outputs }: Target) => outputs.DatabaseOwnerSecretArn,
  OperatorSecret: async ({ outputs }: Target) => outputs.DatabaseOperatorSecretArn,
  SigningSecret: async ({ outputs }: Target) => outputs.SigningSecretArn,
  Invitations: ({ sqs, outputs }: Target) => queueArn(sqs, outputs.InvitationQueueUrl),
  DeadLetters: ({ sqs, outputs }: Target) => queueArn(sqs, outputs.DeadLetterQueueUrl),
  ArchivedObject: async ({ outputs }: Target) => `arn:aws:s3:::${outputs.ArchiveBucketName}/reminders/any`,
  ClaimFunction: async ({ lambda, outputs }: Target) => {
    const ask = new GetFunctionConfigurationCommand({ FunctionName: outputs.ClaimFunctionName });
    return (await lambda.send(ask)).FunctionArn ?? '';
  },
} as const;

async function queueArn(sqs: SQSClient, QueueUrl: string): Promise<string> {
  const ask = new GetQueueAttributesCommand({ QueueUrl, AttributeNames: ['QueueArn'] });
  return (await sqs.send(ask)).Attributes?.QueueArn ?? '';
}

/** What the role of each function must be refused; one permission that it has shows that the simulator looks at it. */
const decisions: readonly (readonly [
  name: string,
  may: 'may' | 'may not',
  action: string,
  resource: keyof typeof resources,
])[] = [
  ['Schedule', 'may', 'rds-data:ExecuteStatement', 'Database'],
  ['Schedule', 'may not', 'rds-data:BatchExecuteStatement', 'Database'],
  ['Schedule', 'may not', 'secretsmanager:GetSecretValue', 'OwnerSecret'],
  ['Schedule', 'may not', 'secretsmanager:GetSecretValue', 'OperatorSecret'],
  ['Schedule', 'may not', 'secretsmanager:GetSecretValue', 'SigningSecret'],
  ['Schedule', 'may not', 'sqs:ReceiveMessage', 'Invitations'],
  ['Schedule', 'may not', 'lambda:InvokeFunction', 'ClaimFunction'],
  ['Claim', 'may', 'sqs:SendMessage', 'Invitations'],
  ['Claim', 'may not', 'secretsmanager:GetSecretValue', 'OwnerSecret'],
  ['Claim', 'may not', 'secretsmanager:GetSecretValue', 'SigningSecret'],
  ['Claim', 'may not', 'sqs:ReceiveMessage', 'Invitations'],
  ['Claim', 'may not', 'sqs:PurgeQueue', 'Invitations'],
  ['WebhookSender', 'may', 'sqs:ReceiveMessage', 'Invitations'],
  ['WebhookSender', 'may not', 'sqs:SendMessage', 'Invitations'],
  ['WebhookSender', 'may not', 'sqs:ReceiveMessage', 'DeadLetters'],
  ['WebhookSender', 'may not', 'secretsmanager:GetSecretValue', 'OwnerSecret'],
  ['WebhookSender', 'may not', 'secretsmanager:PutSecretValue', 'SigningSecret'],
  ['Migrate', 'may', 'secretsmanager:GetSecretValue', 'OperatorSecret'],
  ['Migrate', 'may not', 'secretsmanager:PutSecretValue', 'OperatorSecret'],
  ['Migrate', 'may not', 'secretsmanager:GetSecretValue', 'SigningSecret'],
  ['Migrate', 'may not', 'sqs:SendMessage', 'Invitations'],
  ['Rotate', 'may', 'secretsmanager:PutSecretValue', 'OperatorSecret'],
  ['Rotate', 'may not', 'secretsmanager:PutSecretValue', 'OwnerSecret'],
  ['Rotate', 'may not', 'secretsmanager:GetSecretValue', 'SigningSecret'],
  ['Rotate', 'may not', 'rds-data:BeginTransaction', 'Database'],
  ['Operate', 'may', 'rds-data:ExecuteStatement', 'Database'],
  ['Operate', 'may not', 'secretsmanager:GetSecretValue', 'OwnerSecret'],
  ['Operate', 'may not', 'secretsmanager:GetSecretValue', 'SigningSecret'],
  ['Operate', 'may not', 'sqs:SendMessage', 'Invitations'],
  ['Operate', 'may not', 'sqs:ReceiveMessage', 'Invitations'],
  ['Operate', 'may', 'sqs:ReceiveMessage', 'DeadLetters'],
  ['Operate', 'may', 'sqs:DeleteMessage', 'DeadLetters'],
  ['Operate', 'may not', 'sqs:SendMessage', 'DeadLetters'],
  ['Observe', 'may', 'rds-data:ExecuteStatement', 'Database'],
  ['Observe', 'may not', 'secretsmanager:GetSecretValue', 'OwnerSecret'],
  ['Observe', 'may not', 'secretsmanager:GetSecretValue', 'SigningSecret'],
  ['Observe', 'may not', 'sqs:SendMessage', 'Invitations'],
  ['Widget', 'may', 'rds-data:ExecuteStatement', 'Database'],
  ['Widget', 'may not', 'secretsmanager:GetSecretValue', 'OwnerSecret'],
  ['Widget', 'may not', 'secretsmanager:GetSecretValue', 'SigningSecret'],
  ['Widget', 'may not', 'sqs:SendMessage', 'Invitations'],
  ['Retain', 'may', 'rds-data:ExecuteStatement', 'Database'],
  ['Retain', 'may not', 'secretsmanager:GetSecretValue', 'OwnerSecret'],
  ['Retain', 'may not', 'sqs:SendMessage', 'Invitations'],
  ['Retain', 'may not', 's3:GetObject', 'ArchivedObject'],
];

/** The name of the webhook sender or another function that no output names, by the logical id of its construct. */
async function functionName({ kind }: Target, construct: string): Promise<string> {
  if (kind === 'local') return 'webhook-sender';
  const StackName = process.env.REMINDER_LEDGER_STACK ?? '';
  const found: string[] = [];
  for await (const page of paginateListStackResources({ client: new CloudFormationClient({}) }, { StackName })) {
    for (const { ResourceType, LogicalResourceId = '', PhysicalResourceId = '' } of page.StackResourceSummaries ?? []) {
      const named = new RegExp(`${construct}Function[0-9A-F]{8}$`).test(LogicalResourceId);
      if (ResourceType === 'AWS::Lambda::Function' && named) found.push(PhysicalResourceId);
    }
  }
  expect(found, `functions of the stack called ${construct}`).toHaveLength(1);
  return found[0] ?? '';
}

/** Asks IAM by the AWS command line, which an operator has at hand. */
async function decide(role: string, action: string, resource: string): Promise<string> {
  const what = ['--policy-source-arn', role, '--action-names', action, '--resource-arns', resource];
  const query = ['--query', 'EvaluationResults[0].EvalDecision', '--output', 'text'];
  const { stdout } = await run('aws', ['iam', 'simulate-principal-policy', ...what, ...query]);
  return stdout.trim();
}

const decisionCases = decisions.map(
  ([name, may, action, resource]): ContractCase => ({
    id: `iam/${name}-${may.replace(' ', '-')}-${action.split(':')[1]}-${resource}`,
    fact: `The role of ${name} ${may} ${action} on ${resource}.`,
    reliedOnBy: 'lib/stack/ledger-function.ts',
    source: 'IAM API Reference, SimulatePrincipalPolicy; the permissions that the template gives',
    awsOnly: 'local AWS has no IAM: every call there is allowed',
    async check(target) {
      const FunctionName = await functionName(target, name);
      const { Role = '' } = await target.lambda.send(new GetFunctionConfigurationCommand({ FunctionName }));
      const decision = await decide(Role, action, await resources[resource](target));
      expect(decision).toMatch(may === 'may' ? /^allowed$/ : /^(implicit|explicit)Deny$/);
    },
  }),
);

const cases: readonly ContractCase[] = [
  {
    id: 'identity/url-needs-a-signature',
    fact: 'The URL of a duty answers 403 to a request that nobody signed, and the function is not invoked.',
    reliedOnBy: 'lambdas/operate/handler.ts',
    source: `${guide}, "Control access to Lambda function URLs"`,
    async check({ outputs }) {
      for (const url of [outputs.InspectUrl, outputs.DecideUrl, outputs.RecoverUrl, outputs.ControlUrl]) {
        expect((await fetch(url, { method: 'POST', body: '{"verb":"status"}' })).status).toBe(403);
      }
    },
  },
  {
    id: 'identity/producer-from-alias',
    fact: 'invokedFunctionArn carries the alias: a reminder of the caller without one is not found by a product.',
    reliedOnBy: handler,
    source: `${guide}, "Using the Lambda context object to retrieve Node.js function information"`,
    needsDestination: true,
    async check(target) {
      const key = `contract-${crypto.randomUUID()}`;
      const dueAt = new Date(Date.now() + 30 * 86_400_000).toISOString();
      const destination = await target.destination();
      const schedule = { verb: 'schedule', key, destination, userId: 'contract', dueAt, payload: {} };
      expect((await ask(target, schedule)).said).toMatchObject({ answer: 'scheduled' });
      try {
        expect((await ask(target, { verb: 'get', key })).said).toMatchObject({ answer: 'found' });
        expect((await ask(target, { verb: 'get', key }, target.product)).said).toEqual({ answer: 'not_found' });
      } finally {
        expect((await ask(target, { verb: 'cancel', key })).said).toMatchObject({ answer: 'cancelled' });
      }
    },
  },
  {
    id: 'identity/version-is-nobody',
    fact: 'The qualifier $LATEST names no product: it answers as the caller without one does.',
    reliedOnBy: handler,
    source: `${guide}, "Manage Lambda function versions"`,
    async check(target) {
      const get = { verb: 'get', key: `contract-${crypto.randomUUID()}` };
      expect((await ask(target, get, '$LATEST')).said).toEqual({ answer: 'not_found' });
    },
  },
  {
    id: 'identity/unknown-alias',
    fact: 'An alias that does not exist is refused as ResourceNotFoundException, 404.',
    reliedOnBy: handler,
    source: 'AWS Lambda API Reference, Invoke',
    differsLocally: { how: 'local AWS takes any alias, so that any product may be tried', seen: /it succeeded/ },
    async check(target) {
      const { name, status } = await failureOf(ask(target, { verb: 'get', key: 'contract' }, 'contract-no-such-alias'));
      expect({ name, status }).toEqual({ name: 'ResourceNotFoundException', status: 404 });
    },
  },
  {
    id: 'identity/unknown-function',
    fact: 'A function that does not exist is ResourceNotFoundException, 404.',
    reliedOnBy: 'bin/ledger-target.ts',
    source: 'AWS Lambda API Reference, Invoke',
    async check({ lambda }) {
      const FunctionName = `contract-none-${crypto.randomUUID().slice(0, 8)}`;
      const { name, status } = await failureOf(lambda.send(new InvokeCommand({ FunctionName, Payload: '{}' })));
      expect({ name, status }).toEqual({ name: 'ResourceNotFoundException', status: 404 });
    },
  },
  {
    id: 'identity/payload-limit',
    fact: 'A synchronous payload above 6 MB is refused as RequestTooLargeException, 413.',
    reliedOnBy: 'lambdas/schedule/contract.ts',
    source: `${guide}, "Lambda quotas"`,
    async check(target) {
      const { name, status } = await failureOf(ask(target, { verb: 'get', key: 'x'.repeat(6 * 1024 * 1024) }));
      expect({ name, status }).toEqual({ name: 'RequestTooLargeException', status: 413 });
    },
  },
  {
    id: 'identity/payload-not-json',
    fact: 'A payload that is no JSON is refused before the function runs, as InvalidRequestContentException, 400.',
    reliedOnBy: 'lib/local/lambda-api.ts',
    source: 'AWS Lambda API Reference, Invoke',
    async check(target) {
      const { name, status } = await failureOf(ask(target, '{'));
      expect({ name, status }).toEqual({ name: 'InvalidRequestContentException', status: 400 });
    },
  },
  {
    id: 'identity/invalid-is-an-answer',
    fact: 'A command that is not understood is an answer, 200 without FunctionError.',
    reliedOnBy: 'bin/ledger-target.ts',
    source: `the product's own; ${guide}, "Invoke a Lambda function synchronously"`,
    async check(target) {
      const { said, FunctionError, StatusCode } = await ask(target, { verb: 'none' });
      expect(said).toMatchObject({ answer: 'invalid' });
      expect([FunctionError, StatusCode]).toEqual([undefined, 200]);
    },
  },
  {
    id: 'identity/function-error',
    fact: 'A function that throws answers 200 with FunctionError Unhandled and {errorType, errorMessage}.',
    reliedOnBy: 'bin/ledger-target.ts',
    source: `${guide}, "AWS Lambda function errors in Node.js"`,
    async check(target) {
      // The sender refuses what is no event of a queue before it looks at anything.
      const FunctionName = await functionName(target, 'WebhookSender');
      const answer = await target.lambda.send(new InvokeCommand({ FunctionName, Payload: '{}' }));
      expect([answer.StatusCode, answer.FunctionError]).toEqual([200, 'Unhandled']);
      const told = JSON.parse(answer.Payload?.transformToString() ?? '{}');
      expect(told).toMatchObject({ errorType: expect.any(String), errorMessage: expect.any(String) });
    },
  },
  ...decisionCases,
];

contract(cases);
