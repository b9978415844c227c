// The contract with AWS Lambda and IAM: who a function takes its caller for, what is refused, what a role may not do.
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { CloudFormationClient, ListStackResourcesCommand } from '@aws-sdk/client-cloudformation';
import { GetFunctionConfigurationCommand, InvokeCommand } from '@aws-sdk/client-lambda';
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

/** What the role of each function must be refused: an action, and the output that names its resource. */
const denials = {
  Schedule: [
    ['rds-data:ExecuteStatement', '*'],
    ['rds-data:BatchExecuteStatement', 'DatabaseArn'],
    ['secretsmanager:GetSecretValue', 'DatabaseOwnerSecretArn'],
    ['secretsmanager:GetSecretValue', 'DatabaseOperatorSecretArn'],
    ['secretsmanager:GetSecretValue', 'SigningSecretArn'],
    ['lambda:InvokeFunction', '*'],
  ],
  Claim: [
    ['secretsmanager:GetSecretValue', 'DatabaseOwnerSecretArn'],
    ['secretsmanager:GetSecretValue', 'SigningSecretArn'],
    ['sqs:ReceiveMessage', '*'],
    ['sqs:PurgeQueue', '*'],
  ],
  WebhookSender: [
    ['secretsmanager:GetSecretValue', 'DatabaseOwnerSecretArn'],
    ['secretsmanager:PutSecretValue', 'SigningSecretArn'],
    ['sqs:SendMessage', '*'],
    ['events:PutEvents', '*'],
  ],
} as const satisfies Readonly<Record<string, readonly (readonly [string, '*' | keyof Target['outputs']])[]>>;

/** The role of a function of the stack, found by the logical id that its construct gives it. */
async function roleOf({ lambda }: Target, name: string): Promise<string> {
  const StackName = process.env.REMINDER_LEDGER_STACK ?? '';
  const cloudFormation = new CloudFormationClient({});
  const found: string[] = [];
  for (let NextToken: string | undefined, more = true; more; more = NextToken !== undefined) {
    const page = await cloudFormation.send(new ListStackResourcesCommand({ StackName, NextToken }));
    for (const { ResourceType, LogicalResourceId = '', PhysicalResourceId = '' } of page.StackResourceSummaries ?? []) {
      if (
        ResourceType === 'AWS::Lambda::Function' &&
        new RegExp(`${name}Function[0-9A-F]{8}$`).test(LogicalResourceId)
      ) {
        found.push(PhysicalResourceId);
      }
    }
    NextToken = page.NextToken;
  }
  expect(found, `functions of the stack called ${name}`).toHaveLength(1);
  return (await lambda.send(new GetFunctionConfigurationCommand({ FunctionName: found[0] }))).Role ?? '';
}

/** Asks IAM by the AWS command line, which an operator has at hand. */
async function decision(role: string, action: string, resource: string): Promise<string> {
  const what = ['--policy-source-arn', role, '--action-names', action, '--resource-arns', resource];
  const query = ['--query', 'EvaluationResults[0].EvalDecision', '--output', 'text'];
  const { stdout } = await run('aws', ['iam', 'simulate-principal-policy', ...what, ...query]);
  return stdout.trim();
}

const denialCases = Object.entries(denials).flatMap(([name, refused]) =>
  refused.map(
    ([action, resource]): ContractCase => ({
      id: `iam/${name}/${action}/${resource}`,
      fact: `The role of ${name} may not ${action} on ${resource}.`,
      reliedOnBy: 'lib/stack/ledger-function.ts',
      source: 'IAM API Reference, SimulatePrincipalPolicy; the table of the template test/stack/permissions.test.ts',
      awsOnly: 'local AWS has no IAM: every call there is allowed',
      async check(target) {
        const arn = resource === '*' ? resource : target.outputs[resource];
        expect(await decision(await roleOf(target, name), action, arn)).toMatch(/^(implicit|explicit)Deny$/);
      },
    }),
  ),
);

const cases: readonly ContractCase[] = [
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
  ...denialCases,
];

contract(cases);
