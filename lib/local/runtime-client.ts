// Runs inside an execution environment: loads the handler and speaks the Lambda Runtime API, as AWS's own client does.
import { request } from 'node:http';
import { flushCompileCache } from 'node:module';
import { pathToFileURL } from 'node:url';

const api = process.env.AWS_LAMBDA_RUNTIME_API ?? '';
const [file = '', exported = ''] = (process.env._HANDLER ?? '').split('.');

interface Reply {
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: string;
}

/** No time-outs: `next` waits until there is an invocation. */
function call(method: 'GET' | 'POST', path: string, body = ''): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const sent = request(`http://${api}/2018-06-01/runtime/${path}`, { method }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('end', () => resolve({ headers: response.headers, body: Buffer.concat(chunks).toString('utf8') }));
      response.on('error', reject);
    });
    sent.on('error', reject);
    sent.end(body);
  });
}

/** The error as its caller sees it; also a line of the function's log, as on Lambda. */
function reported(error: unknown): string {
  const { name, message, stack } = error instanceof Error ? error : new Error(String(error));
  const body = JSON.stringify({ errorType: name, errorMessage: message, trace: stack?.split('\n') ?? [] });
  console.error(body);
  return body;
}

type Handler = (event: unknown, context: unknown) => unknown;

async function load(): Promise<Handler> {
  try {
    const module = await import(pathToFileURL(`${process.env.LAMBDA_TASK_ROOT}/${file}.mjs`).href);
    if (typeof module[exported] === 'function') return module[exported];
    throw new Error(`${file}.${exported} is undefined or not exported`);
  } catch (error) {
    await call('POST', 'init/error', reported(error));
    process.exit(1);
  }
}

const handler = await load();
// Node writes it when it exits; an environment is killed.
flushCompileCache();
for (;;) {
  const { headers, body } = await call('GET', 'invocation/next');
  const header = (name: string) => String(headers[`lambda-runtime-${name}`]);
  const requestId = header('aws-request-id');
  const deadline = Number(header('deadline-ms'));
  const context = {
    awsRequestId: requestId,
    invokedFunctionArn: header('invoked-function-arn'),
    functionName: process.env.AWS_LAMBDA_FUNCTION_NAME,
    functionVersion: process.env.AWS_LAMBDA_FUNCTION_VERSION,
    memoryLimitInMB: process.env.AWS_LAMBDA_FUNCTION_MEMORY_SIZE,
    logGroupName: process.env.AWS_LAMBDA_LOG_GROUP_NAME,
    logStreamName: process.env.AWS_LAMBDA_LOG_STREAM_NAME,
    callbackWaitsForEmptyEventLoop: true,
    getRemainingTimeInMillis: () => deadline - Date.now(),
  };
  try {
    const answer = await handler(JSON.parse(body), context);
    await call('POST', `invocation/${requestId}/response`, JSON.stringify(answer ?? null));
  } catch (error) {
    await call('POST', `invocation/${requestId}/error`, reported(error));
  }
}
