// The contract with Secrets Manager: what a secret's current version looks like, and how a wrong question is refused.
import { DescribeSecretCommand, GetSecretValueCommand } from '@aws-sdk/client-secrets-manager';
import { expect } from 'vitest';
import { type ContractCase, contract } from './contract-case.ts';
import { failureOf, type Login, logins } from './target.ts';

const api = 'AWS Secrets Manager API Reference';
const roles = 'lambdas/core/database-roles.ts';

const cases: readonly ContractCase[] = [
  ...logins.map(
    (login: Login): ContractCase => ({
      id: `secrets/login-${login}`,
      fact: `The secret of the ${login} is JSON text with a username and a password, under AWSCURRENT.`,
      reliedOnBy: login === 'owner' ? 'lib/stack/ledger-database.ts' : roles,
      source: `${api}, GetSecretValue; Amazon Aurora User Guide, "Password management with Amazon Aurora and AWS Secrets Manager"`,
      async check({ secrets, database }) {
        const answer = await secrets.send(new GetSecretValueCommand({ SecretId: database.secretArn[login] }));
        expect(answer).toMatchObject({ ARN: database.secretArn[login], VersionStages: ['AWSCURRENT'] });
        const value: Record<string, unknown> = JSON.parse(answer.SecretString ?? '{}');
        // Compared by kind: a secret must not stand in a test's report.
        expect(['username', 'password'].map((name) => typeof value[name])).toEqual(['string', 'string']);
        if (login !== 'owner') expect(value.username).toMatch(new RegExp(`^ledger_${login}_[ab]$`));
      },
    }),
  ),
  {
    id: 'secrets/labels',
    fact: 'DescribeSecret tells the labels of each version, and exactly one version is current.',
    reliedOnBy: 'lambdas/webhook/signing-keys.ts',
    source: `${api}, DescribeSecret`,
    async check({ secrets, database }) {
      const answer = await secrets.send(new DescribeSecretCommand({ SecretId: database.secretArn.observer }));
      const current = Object.values(answer.VersionIdsToStages ?? {}).filter((labels) => labels.includes('AWSCURRENT'));
      expect(current).toHaveLength(1);
    },
  },
  {
    id: 'secrets/signing',
    fact: 'The signing secret is JSON text whose current key is text.',
    reliedOnBy: 'lambdas/webhook/signing-keys.ts',
    source: `${api}, GetSecretValue`,
    async check({ secrets, outputs }) {
      const { SecretString: text } = await secrets.send(
        new GetSecretValueCommand({ SecretId: outputs.SigningSecretArn }),
      );
      expect(typeof JSON.parse(text ?? '{}').current).toBe('string');
    },
  },
  {
    id: 'secrets/no-such-label',
    fact: 'A label that no version has is ResourceNotFoundException, 400.',
    reliedOnBy: 'lambdas/webhook/signing-keys.ts',
    source: `${api}, GetSecretValue`,
    async check({ secrets, outputs }) {
      const ask = new GetSecretValueCommand({ SecretId: outputs.SigningSecretArn, VersionStage: 'CONTRACT-NONE' });
      const { name, status } = await failureOf(secrets.send(ask));
      expect({ name, status }).toEqual({ name: 'ResourceNotFoundException', status: 400 });
    },
  },
];

contract(cases);
