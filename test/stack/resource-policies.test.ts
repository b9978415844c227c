// What resources let in by policies of their own: as one literal table, next to that of the roles.
import { describe, expect, test } from 'vitest';
import { ReminderLedgerStack } from '../../lib/stack/reminder-ledger-stack.ts';
import { newApp, type Resource, synthesized } from './synthesized.ts';

interface Statement {
  readonly Effect: string;
  readonly Action: string | string[];
  readonly Principal: unknown;
  readonly Condition?: unknown;
}

/** All of them are refused without TLS, whoever they are. */
const plainHttp = (service: string) => [`Deny ${service}:* to {"AWS":"*"} if {"Bool":{"aws:SecureTransport":"false"}}`];

const everyStage: Readonly<Record<string, readonly string[]>> = {
  'Ledger/Archive/Bucket/Policy': plainHttp('s3'),
  'Ledger/Minute/LostTicks/Policy': plainHttp('sqs'),
  'Ledger/Queue/DeadLetters/Policy': plainHttp('sqs'),
  'Ledger/Queue/Invitations/Policy': plainHttp('sqs'),
  // Secrets Manager runs the rotation, for this account alone.
  'Ledger/Rotate/Invoke': ['Allow lambda:InvokeFunction to secretsmanager.amazonaws.com for <AWS::AccountId>'],
};

/** Through its URL everybody may call the receiver of the canary, which verifies who signed. */
const production = {
  ...everyStage,
  'Ledger/CanaryReceiver/Function/Aliasreceive/invoke-function': [
    'Allow lambda:InvokeFunction to * for anybody, through its URL',
  ],
  'Ledger/CanaryReceiver/Function/Aliasreceive/invoke-function-url': [
    'Allow lambda:InvokeFunctionUrl to * for anybody, through its URL',
  ],
};

/** CDK's own function empties the archive before a dev stack is deleted. */
const emptying =
  'Allow s3:DeleteObject*,s3:GetBucket*,s3:List*,s3:PutBucketPolicy to ' +
  'Custom::S3AutoDeleteObjectsCustomResourceProvider/Role.Arn';

describe.each([
  ['production', production],
  ['dev', { ...everyStage, 'Ledger/Archive/Bucket/Policy': [...plainHttp('s3'), emptying] }],
] as const)('in stage %s', (stage, table) => {
  test('each resource lets in what the table says, and no other has a policy', () => {
    const { resources, text } = synthesized(new ReminderLedgerStack(newApp(), 'ReminderLedger', { stage }));
    const principal = (of: unknown) => {
      const { AWS } = of as { AWS?: unknown };
      return typeof AWS === 'object' ? text(AWS) : JSON.stringify(of);
    };
    const lines = ({ Type, Properties }: Resource): string[] => {
      if (Type === 'AWS::Lambda::Permission') {
        const { Action, Principal, SourceAccount, FunctionUrlAuthType, InvokedViaFunctionUrl } = Properties;
        const who = SourceAccount === undefined ? 'anybody' : text(SourceAccount);
        const how = FunctionUrlAuthType === 'NONE' || InvokedViaFunctionUrl === true ? ', through its URL' : '';
        return [`Allow ${Action} to ${Principal} for ${who}${how}`];
      }
      const { Statement: statements } = Properties.PolicyDocument as { Statement: Statement[] };
      return statements.map(({ Effect, Action, Principal, Condition }) => {
        const when = Condition === undefined ? '' : ` if ${JSON.stringify(Condition)}`;
        return `${Effect} ${[Action].flat().toSorted()} to ${principal(Principal)}${when}`;
      });
    };
    const found = [...resources].filter(
      ([, { Type }]) => Type === 'AWS::Lambda::Permission' || (/Policy$/.test(Type) && Type !== 'AWS::IAM::Policy'),
    );
    expect(Object.fromEntries(found.map(([path, resource]) => [path, lines(resource)]))).toEqual(table);
  });
});
