// Secrets Manager: reads secrets, and moves a secret from version to version.
import {
  DescribeSecretCommand,
  GetSecretValueCommand,
  PutSecretValueCommand,
  SecretsManagerClient,
  UpdateSecretVersionStageCommand,
} from '@aws-sdk/client-secrets-manager';
import { LoginSecretError } from '../core/database-logins.ts';
import { atFaultPoint, type FaultPoint } from '../core/fault-points.ts';
import type { LoginSecrets } from '../core/rotate-login.ts';

const points = {
  DescribeSecret: 'describe-secret',
  GetSecretValue: 'get-secret-value',
  PutSecretValue: 'put-secret-value',
  UpdateSecretVersionStage: 'update-secret-version-stage',
} as const satisfies Record<string, FaultPoint>;

const current = 'AWSCURRENT';
const pending = 'AWSPENDING';

/** Reads and rotates login secrets. Rejects with {@link LoginSecretError}. */
export function loginSecrets(): LoginSecrets {
  const client = new SecretsManagerClient({
    maxAttempts: 3,
    requestHandler: { connectionTimeout: 1000, requestTimeout: 3000, throwOnRequestTimeout: true },
  });
  const attempt = async <Answer>(
    secretArn: string,
    operation: keyof typeof points,
    call: () => Promise<Answer>,
  ): Promise<Answer> => {
    try {
      return await atFaultPoint({ point: points[operation] }, call);
    } catch (error) {
      const name = error instanceof Error ? error.name : 'an error';
      throw new LoginSecretError(
        secretArn,
        `Secrets Manager answered ${operation} with ${name}; check that it exists and that this function may do that`,
        error,
      );
    }
  };
  const value = async (SecretId: string, version: { VersionId?: string; VersionStage: string }) =>
    (await client.send(new GetSecretValueCommand({ SecretId, ...version }))).SecretString ?? '';

  return {
    readCurrent: (arn) => attempt(arn, 'GetSecretValue', () => value(arn, { VersionStage: current })),
    readPending: (arn, versionId) =>
      attempt(arn, 'GetSecretValue', () =>
        value(arn, { VersionId: versionId, VersionStage: pending }).catch((error: unknown) => {
          // A rotation begins with a version that has its label and no value yet.
          if (error instanceof Error && error.name === 'ResourceNotFoundException') return null;
          throw error;
        }),
      ),
    labels: (arn) =>
      attempt(arn, 'DescribeSecret', async () => {
        const { VersionIdsToStages: stages } = await client.send(new DescribeSecretCommand({ SecretId: arn }));
        return new Map(Object.entries(stages ?? {}));
      }),
    putPending: (arn, versionId, text) =>
      attempt(arn, 'PutSecretValue', async () => {
        const version = { ClientRequestToken: versionId, VersionStages: [pending], SecretString: text };
        await client.send(new PutSecretValueCommand({ SecretId: arn, ...version })).catch((error: unknown) => {
          // A run of the same step at the same time was first: its value stands.
          if (!(error instanceof Error && error.name === 'ResourceExistsException')) throw error;
        });
      }),
    moveCurrent: (arn, from, to) =>
      attempt(arn, 'UpdateSecretVersionStage', async () => {
        const move = { VersionStage: current, RemoveFromVersionId: from, MoveToVersionId: to };
        await client.send(new UpdateSecretVersionStageCommand({ SecretId: arn, ...move }));
      }),
  };
}
