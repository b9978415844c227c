// Lambda's Invoke over HTTP, for @aws-sdk/client-lambda.
import { type Service, ServiceError, serve } from './http-service.ts';
import type { LambdaHost } from './lambda-host.ts';

/** The longest payload of a synchronous invocation (AWS Lambda Developer Guide, "Lambda quotas"). */
const payloadLimit = 6 * 1024 * 1024;

/** Serves Invoke by name, name and alias, or ARN. @param port 0: any free port */
export async function startLambdaApi(host: Pick<LambdaHost, 'invoke' | 'invokeAsync'>, port = 0): Promise<Service> {
  return serve({ port }, async ({ method, path, query, headers, body }) => {
    const reference = /^\/2015-03-31\/functions\/([^/]+)\/invocations$/.exec(path)?.[1];
    if (method !== 'POST' || reference === undefined) {
      throw new ServiceError('UnknownOperationException', 404, `${method} ${path} is not served here`);
    }
    const bytes = Buffer.byteLength(body);
    if (bytes > payloadLimit) {
      const message = `${bytes} byte payload is too large for the Invoke operation (limit ${payloadLimit} bytes)`;
      throw new ServiceError('RequestTooLargeException', 413, message);
    }
    const payload = body === '' ? '{}' : body;
    if (!isJson(payload)) {
      throw new ServiceError('InvalidRequestContentException', 400, 'Could not parse request body into json');
    }
    const [name = '', alias] = reference.replace(/^(arn:[^:]*:lambda:[^:]*:)?(\d*:)?function:/, '').split(':');
    const qualifier = query.get('Qualifier') ?? alias;
    if (headers['x-amz-invocation-type'] === 'Event') {
      host.invokeAsync(name, payload, qualifier);
      return { status: 202 };
    }
    const { requestId, functionError, payload: answer } = await host.invoke(name, payload, qualifier);
    return {
      headers: {
        'x-amzn-requestid': requestId,
        'x-amz-executed-version': '$LATEST',
        ...(functionError ? { 'x-amz-function-error': 'Unhandled' } : {}),
      },
      body: answer,
    };
  });
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
