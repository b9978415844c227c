// The Lambda host: environments that are reused, frozen, timed out, killed and limited, behind Invoke as on AWS.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { InvokeCommand, LambdaClient } from '@aws-sdk/client-lambda';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { region } from '../../lib/local/addresses.ts';
import type { Service } from '../../lib/local/http-service.ts';
import { startLambdaApi } from '../../lib/local/lambda-api.ts';
import { type LambdaHost, startLambdaHost } from '../../lib/local/lambda-host.ts';
import { functionDirectory, hostedFunction } from './hosted-functions.ts';

const directory = functionDirectory();
let host: LambdaHost;
let api: Service;
let lambda: LambdaClient;

beforeAll(async () => {
  const functions = [
    hostedFunction(directory, 'work', { environment: { STAGE: 'rehearsal' } }),
    hostedFunction(directory, 'single', { concurrency: 1, timeoutSeconds: 1 }),
    hostedFunction(directory, 'broken', {}, 'throw new RangeError("no table");'),
    hostedFunction(directory, 'empty', {}, 'export const other = 1;'),
  ];
  host = await startLambdaHost(functions, join(directory, 'logs'));
  api = await startLambdaApi(host);
  const credentials = { accessKeyId: 'test', secretAccessKey: 'test' };
  lambda = new LambdaClient({ endpoint: api.endpoint, region, credentials, maxAttempts: 1 });
});
afterAll(async () => {
  lambda.destroy();
  await api.close();
  await host.stop();
  rmSync(directory, { recursive: true });
});

interface Told {
  readonly functionError: boolean;
  readonly requestId: string;
  readonly answer: {
    readonly errorType?: string;
    readonly errorMessage?: string;
    readonly event?: unknown;
    readonly context: Record<string, unknown>;
    readonly remaining: number;
    readonly environment: Record<string, string>;
    readonly pid: number;
    readonly runs: number;
    readonly beats: number;
  };
}
async function run(name: string, event: unknown, qualifier?: string): Promise<Told> {
  const { payload, ...more } = await host.invoke(name, JSON.stringify(event), qualifier);
  return { ...more, answer: JSON.parse(payload) };
}
const log = (name: string) => readFileSync(join(directory, 'logs', `${name}.log`), 'utf8');
async function eventually(holds: () => boolean): Promise<void> {
  for (const end = Date.now() + 10_000; !holds(); await sleep(20)) expect(Date.now(), 'in time').toBeLessThan(end);
}
const atWork = (name: string) => host.environments().find((one) => one.functionName === name && one.requestId);
async function working(name: string) {
  await eventually(() => atWork(name) !== undefined);
  return atWork(name) as { pid: number; requestId: string };
}

test('a function gets its event, the context and the environment that Lambda sets, and nothing of ours', async () => {
  process.env.OURS_ALONE = 'secret';
  const { answer, requestId, functionError } = await run('work', { a: 'ä' }, 'shop');
  expect(functionError).toBe(false);
  expect(answer.event).toEqual({ a: 'ä' });
  expect(answer.context).toMatchObject({
    awsRequestId: requestId,
    invokedFunctionArn: 'arn:aws:lambda:us-east-1:000000000000:function:work:shop',
    functionName: 'work',
    functionVersion: '$LATEST',
    logStreamName: expect.stringMatching(/^\d{4}\/\d\d\/\d\d\/\[\$LATEST\][0-9a-f]{32}$/),
  });
  expect(answer.remaining).toBeGreaterThan(3000);
  expect(answer.remaining).toBeLessThanOrEqual(5000);
  expect(answer.environment).toMatchObject({
    STAGE: 'rehearsal',
    AWS_REGION: region,
    AWS_LAMBDA_FUNCTION_NAME: 'work',
  });
  expect(answer.environment.OURS_ALONE).toBeUndefined();
});

test('an environment is used again, and stands still meanwhile', async () => {
  const first = await run('single', {});
  await sleep(600);
  const second = await run('single', {});
  expect(second.answer.pid).toBe(first.answer.pid);
  expect(second.answer.runs).toBe(first.answer.runs + 1);
  expect(second.answer.beats - first.answer.beats).toBeLessThan(15);
});

test('invocations in quick succession never find their own environment busy', async () => {
  const pids = new Set<number>();
  for (let round = 0; round < 50; round += 1) pids.add((await run('single', {})).answer.pid);
  expect(pids.size).toBe(1);
});

test('beyond the concurrency limit an invocation is throttled', async () => {
  const running = run('single', { wait: 300 });
  await expect(run('single', {})).rejects.toMatchObject({ name: 'TooManyRequestsException' });
  expect((await running).functionError).toBe(false);
});

test('an error, an exit, a handler that is missing or fails to load are function errors, told and logged', async () => {
  const thrown = await run('work', { throw: 'not so' });
  expect(thrown).toMatchObject({ functionError: true, answer: { errorType: 'TypeError', errorMessage: 'not so' } });
  expect(log('work')).toContain('"errorMessage":"not so"');
  const ended = await run('work', { exit: 3 });
  const errorMessage = `RequestId: ${ended.requestId} Error: Runtime exited with error: exit status 3`;
  expect(ended).toMatchObject({ functionError: true, answer: { errorType: 'Runtime.ExitError', errorMessage } });
  expect(await run('broken', {})).toMatchObject({ functionError: true, answer: { errorMessage: 'no table' } });
  expect((await run('empty', {})).answer.errorMessage).toContain('not exported');
});

test('an environment that takes too long is killed, and its place is free at once', async () => {
  const late = run('single', { wait: 60_000 });
  const { pid } = await working('single');
  const { answer, requestId } = await late;
  expect(answer).toEqual({
    errorType: 'Sandbox.Timedout',
    errorMessage: `RequestId: ${requestId} Error: Task timed out after 1.00 seconds`,
  });
  expect((await run('single', {})).answer.pid).not.toBe(pid);
  await eventually(() => !alive(pid));
  expect(log('single')).toContain('Task timed out');
});

test('a killed environment fails its invocation, by process id or by request, and does not count any more', async () => {
  for (const by of ['pid', 'requestId'] as const) {
    const cut = run('single', { wait: 60_000 });
    expect(host.kill((await working('single'))[by])).toBe(true);
    const { answer, requestId } = await cut;
    expect(answer).toEqual({
      errorType: 'Runtime.ExitError',
      errorMessage: `RequestId: ${requestId} Error: Runtime exited with error: signal: SIGKILL`,
    });
  }
  expect((await run('single', {})).functionError).toBe(false);
  expect(host.kill('nobody')).toBe(false);
});

test('output goes to the log of the function, line by line', async () => {
  await Promise.all([run('work', { log: 'a'.repeat(5000) }), run('work', { log: 'b'.repeat(5000) })]);
  const lines = log('work')
    .split('\n')
    .filter((line) => line.startsWith('{"said"'));
  expect(lines.map((line) => JSON.parse(line).said.length)).toEqual([5000, 5000]);
});

test('Invoke answers as AWS does: 200, the error header, by name, ARN or alias', async () => {
  const invoke = (FunctionName: string, event: unknown, Qualifier?: string) =>
    lambda.send(new InvokeCommand({ FunctionName, Qualifier, Payload: JSON.stringify(event) }));
  const said = async (name: string, qualifier?: string) => {
    const { Payload, StatusCode, FunctionError } = await invoke(name, {}, qualifier);
    const { context } = JSON.parse(Payload?.transformToString() ?? '');
    return [StatusCode, FunctionError, context.invokedFunctionArn];
  };
  const arn = 'arn:aws:lambda:us-east-1:000000000000:function:work';
  expect(await said('work')).toEqual([200, undefined, arn]);
  expect(await said('work', 'shop')).toEqual([200, undefined, `${arn}:shop`]);
  expect(await said('work:shop')).toEqual([200, undefined, `${arn}:shop`]);
  expect(await said(`${arn}:shop`)).toEqual([200, undefined, `${arn}:shop`]);
  expect(await invoke('work', { throw: 'x' })).toMatchObject({ StatusCode: 200, FunctionError: 'Unhandled' });
  await expect(invoke('none', {})).rejects.toMatchObject({ name: 'ResourceNotFoundException' });
  const long = invoke('work', { text: 'x'.repeat(6 * 1024 * 1024) });
  await expect(long).rejects.toMatchObject({ name: 'RequestTooLargeException' });
  const { FunctionError, Payload } = await invoke('work', { size: 6 * 1024 * 1024 });
  expect([FunctionError, JSON.parse(Payload?.transformToString() ?? '').errorType]).toEqual([
    'Unhandled',
    'Function.ResponseSizeTooLarge',
  ]);
  const busy = run('single', { wait: 300 });
  await expect(invoke('single', {})).rejects.toMatchObject({ name: 'TooManyRequestsException' });
  await busy;
});

test('an event is taken with 202 and runs later, also when it was throttled first', async () => {
  const busy = run('single', { wait: 300 });
  const Payload = JSON.stringify({ log: 'event' });
  const event = new InvokeCommand({ FunctionName: 'single', InvocationType: 'Event', Payload });
  expect((await lambda.send(event)).StatusCode).toBe(202);
  expect(log('single')).not.toContain('{"said":"event"}');
  await busy;
  await eventually(() => log('single').includes('{"said":"event"}'));
});

test('environments, frozen ones too, end when the host is killed', async () => {
  const fn = hostedFunction(directory, 'orphan');
  const source = new URL('../../lib/local/lambda-host.ts', import.meta.url).href;
  const script = `const { startLambdaHost } = await import(${JSON.stringify(source)});
    const host = await startLambdaHost([${JSON.stringify(fn)}], ${JSON.stringify(join(directory, 'orphan-logs'))});
    console.log(JSON.parse((await host.invoke('orphan', '{}')).payload).pid);`;
  const owner = spawn(process.execPath, ['--input-type=module', '-e', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const pid = Number((await once(owner.stdout, 'data'))[0]);
  await sleep(100);
  expect(alive(pid)).toBe(true);
  owner.kill('SIGKILL');
  await eventually(() => !alive(pid));
});

/** Not for a zombie, which some containers never reap. */
function alive(pid: number): boolean {
  try {
    return !/\) Z /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch {
    return false;
  }
}
