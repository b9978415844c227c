// The rotate function: reads which step Secrets Manager asks for, and has it done.
import { rotateLogin } from '../core/rotate-login.ts';
import { functionHandler } from '../runtime/handler-stack.ts';
import { loginSecrets } from '../secrets/secrets-manager.ts';
import { openDatabase } from '../store/data-api.ts';
import { postgresLogins } from '../store/logins.ts';
import { type RotateResponse, rotateFunction, rotateRequest } from './contract.ts';

/** Nobody waits for a rotation, and it is not told from a refusal when a login is slow. */
const patience = { timeoutMs: 5000, longestPauseMs: 1000 };

/** Lambda's entry point. */
export const handler = functionHandler<unknown, RotateResponse>(rotateFunction, (environment) => {
  const tools = {
    secrets: loginSecrets(),
    logins: postgresLogins(openDatabase(environment, patience), (secretArn) =>
      openDatabase(environment, { ...patience, secretArn }),
    ),
  };
  return async (event, { log }) => {
    const { Step: step, SecretId: secretArn, ClientRequestToken: versionId } = rotateRequest.parse(event);
    await rotateLogin(tools, log, { step, secretArn, versionId });
    return null;
  };
});
