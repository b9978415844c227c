// Asks the operate function by the URL of a duty, signed with the credentials that the AWS CLI would use.
import { defaultProvider } from '@aws-sdk/credential-provider-node';
import { AwsClient } from 'aws4fetch';
import type { OperateResponse } from '../lambdas/operate/contract.ts';

/** The URL did not answer as the function does: forbidden by IAM, gone, or failed. */
export class OperateError extends Error {
  override readonly name = 'OperateError';
}

/**
 * Sends one request. When it is lost on the way it is sent again: a command's id makes that safe.
 * @param url of the duty that the request belongs to
 * @throws {OperateError} when no answer of the function came
 */
export async function operate(url: string, request: object): Promise<OperateResponse> {
  const { accessKeyId, secretAccessKey, sessionToken } = await defaultProvider()();
  const region = /\.lambda-url\.([a-z0-9-]+)\./.exec(url)?.[1] ?? process.env.AWS_REGION ?? 'us-east-1';
  const client = new AwsClient({
    ...{ accessKeyId, secretAccessKey, region, service: 'lambda', retries: 2 },
    ...(sessionToken === undefined ? {} : { sessionToken }),
  });
  const response = await client.fetch(url, { method: 'POST', body: JSON.stringify(request) });
  const text = await response.text();
  const answer = parsed(text);
  if (answer === undefined) {
    const hint =
      response.status === 403 ? ': these credentials may not do it, or the request is not signed for it' : '';
    throw new OperateError(`${new URL(url).host} answered ${response.status}${hint}`);
  }
  return answer;
}

function parsed(text: string): OperateResponse | undefined {
  try {
    const answer: unknown = JSON.parse(text);
    return typeof answer === 'object' && answer !== null && 'answer' in answer
      ? (answer as OperateResponse)
      : undefined;
  } catch {
    return undefined;
  }
}
