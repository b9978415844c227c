// Function URLs on this machine: a request that is signed for IAM becomes an event that says who signed it; an open URL takes any.
import { randomUUID } from 'node:crypto';
import { accountId } from './addresses.ts';
import { type Service, type ServiceOptions, serve } from './http-service.ts';
import type { LambdaHost } from './lambda-host.ts';

/** The URL of an alias, as Lambda serves it. */
export interface FunctionUrlOptions {
  readonly host: Pick<LambdaHost, 'invoke'>;
  readonly functionName: string;
  readonly qualifier: string;
  /** Takes every request (auth type NONE), over https with this key and certificate. @default IAM, over http */
  readonly open?: ServiceOptions['tls'];
}

/** What a function answers to a URL: an HTTP response, or anything else, which is then its body. */
interface UrlResult {
  readonly statusCode?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

/**
 * Serves the URL of an alias (AWS Lambda Developer Guide, "Invoking Lambda function URLs", payload format 2.0). Without a
 * Signature Version 4 a request is forbidden; the signature itself is not verified, and whoever signs is the IAM user
 * with the name of the access key.
 */
export function startFunctionUrl({ host, functionName, qualifier, open }: FunctionUrlOptions): Promise<Service> {
  const options = { limitBytes: 6 * 1024 * 1024, ...(open === undefined ? {} : { tls: open }) };
  return serve(options, async ({ method, path, query, headers, body }) => {
    const signer = /^AWS4-HMAC-SHA256 Credential=([\w+=,.@-]+)\//.exec(headers.authorization ?? '')?.[1];
    if (signer === undefined && open === undefined) return { status: 403, body: { Message: 'Forbidden' } };
    const userArn = `arn:aws:iam::${accountId}:user/${signer}`;
    const event = {
      ...{ version: '2.0', routeKey: '$default', rawPath: path, rawQueryString: query.toString() },
      headers: Object.fromEntries(Object.entries(headers).filter(([name]) => name !== 'authorization')),
      requestContext: {
        ...{ accountId, apiId: 'local', requestId: randomUUID(), routeKey: '$default', stage: '$default' },
        domainName: headers.host ?? '',
        ...(open === undefined
          ? { authorizer: { iam: { accessKey: signer, accountId, callerId: signer, userArn, userId: signer } } }
          : {}),
        http: { method, path, protocol: 'HTTP/1.1', sourceIp: '127.0.0.1', userAgent: headers['user-agent'] ?? '' },
      },
      ...(body === '' ? {} : { body: Buffer.from(body).toString('base64') }),
      isBase64Encoded: body !== '',
    };
    const answer = await host.invoke(functionName, JSON.stringify(event), qualifier);
    if (answer.functionError) return { status: 502, body: { Message: 'Internal Server Error' } };
    const result = JSON.parse(answer.payload) as UrlResult;
    if (result.statusCode === undefined) return { body: result };
    return { status: result.statusCode, headers: result.headers ?? {}, body: result.body ?? '' };
  });
}
