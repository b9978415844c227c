// What surrounds a function: its environment, its log and metrics, its early time-out, and what an error may tell.
import type { Context } from 'aws-lambda';
import { afterEach, beforeEach, describe, expect, type MockInstance, test, vi } from 'vitest';
import { claimFunction } from '../../lambdas/claim/contract.ts';
import { readEnvironment } from '../../lambdas/runtime/environment.ts';
import { functionHandler, type InnerFunction } from '../../lambdas/runtime/handler-stack.ts';
import { webhookSenderFunction } from '../../lambdas/webhook-sender/contract.ts';

const complete = {
  ...Object.fromEntries(claimFunction.environment.map((name) => [name, `value of ${name}`])),
  STAGE: 'production',
};

describe('the environment', () => {
  test('names every missing variable at once', () => {
    expect(() => readEnvironment(claimFunction, { ...complete, DATABASE_ARN: undefined, EVENT_BUS_NAME: '' })).toThrow(
      expect.objectContaining({
        name: 'EnvironmentError',
        names: ['DATABASE_ARN', 'EVENT_BUS_NAME'],
        message: expect.stringContaining('environment of claim: DATABASE_ARN, EVENT_BUS_NAME not set'),
      }),
    );
  });

  test('gives what the contract lists and nothing else', () => {
    const environment = readEnvironment(webhookSenderFunction, { ...complete, SIGNING_SECRET_ARN: 'arn:secret' });
    expect(environment.settings.stage).toBe('production');
    expect(environment.read('SIGNING_SECRET_ARN')).toBe('arn:secret');
    expect(environment.find('WEBHOOK_TRUSTED_CIDRS')).toBeUndefined();
    expect(() => environment.read('EVENT_BUS_NAME')).toThrow('its contract does not list EVENT_BUS_NAME');
  });

  test('refuses an unknown stage', () => {
    expect(() => readEnvironment(claimFunction, { ...complete, STAGE: 'staging' })).toThrow(/"staging"; use one of/);
  });
});

describe('a function', () => {
  let printed: string[];
  let output: MockInstance[];
  beforeEach(() => {
    for (const [name, value] of Object.entries(complete)) vi.stubEnv(name, value);
    printed = [];
    output = [process.stdout, process.stderr].map((stream) =>
      vi.spyOn(stream, 'write').mockImplementation((text) => {
        printed.push(String(text));
        return true;
      }),
    );
  });
  afterEach(() => {
    for (const spy of output) spy.mockRestore();
    vi.unstubAllEnvs();
  });

  const lines = (): Record<string, unknown>[] => printed.map((text) => JSON.parse(text));
  const metrics = () => lines().filter((line) => '_aws' in line);
  const context = (timeLeftMs = 30_000): Context => {
    const end = Date.now() + timeLeftMs;
    return {
      functionName: 'Claim-1A2B3C',
      functionVersion: '7',
      awsRequestId: 'request-1',
      logStreamName: '2026/12/02/[7]abc',
      invokedFunctionArn: 'arn:aws:lambda:eu-central-1:000000000000:function:Claim-1A2B3C:tick',
      getRemainingTimeInMillis: () => end - Date.now(),
    } as Context;
  };
  const handlerOf = <Answer>(inner: InnerFunction<object, Answer>) => functionHandler(claimFunction, () => inner);

  test('learns which worker it is, and is built once for many invocations', async () => {
    const build = vi.fn(
      () =>
        async (_event: object, { worker }: { worker: object }) =>
          worker,
    );
    const handler = functionHandler(claimFunction, build);
    expect(build).toHaveBeenCalledTimes(1);
    await handler({}, context());
    expect(await handler({}, context())).toEqual({
      functionVersion: '7',
      requestId: 'request-1',
      logStream: '2026/12/02/[7]abc',
    });
    expect(build).toHaveBeenCalledTimes(1);
  });

  test('that cannot be built fails at its start, with its name and the reason', () => {
    const fails = () => {
      throw new Error('no such secret');
    };
    expect(() => functionHandler(claimFunction, fails)).toThrow(
      expect.objectContaining({ name: 'ColdStartError', message: 'claim cannot start: no such secret' }),
    );
    vi.stubEnv('DATABASE_ARN', '');
    expect(() => functionHandler(claimFunction, fails)).toThrow(/^claim cannot start: .*DATABASE_ARN not set/);
  });

  test('logs JSON with its name and request, and publishes its metrics under the one dimension', async () => {
    await handlerOf(async (_event, { log, meter }) => {
      log.info('claimed', { ids: 3 });
      meter.count('claimed', 3);
      meter.count('claimed', 2);
      meter.milliseconds('claim', 12.5);
    })({}, context());
    expect(lines()[0]).toMatchObject({
      level: 'INFO',
      message: 'claimed',
      service: 'claim',
      function_request_id: 'request-1',
      ids: 3,
    });
    const { _aws, ...values } = metrics()[0] as { _aws: { CloudWatchMetrics: unknown } };
    expect(values).toEqual({ service: 'claim', claimed: [3, 2], claim: 12.5 });
    expect(_aws.CloudWatchMetrics).toEqual([
      {
        Namespace: 'ReminderLedger',
        Dimensions: [['service']],
        Metrics: [
          { Name: 'claimed', Unit: 'Count' },
          { Name: 'claim', Unit: 'Milliseconds' },
        ],
      },
    ]);
  });

  test('prints no metrics when it measured none', async () => {
    await handlerOf(async () => 'done')({}, context());
    expect(printed).toEqual([]);
  });

  test('that fails publishes its metrics, and its error leaves without cause, response or event', async () => {
    const handler = handlerOf(async (_event, { meter }) => {
      meter.count('claimed');
      throw Object.assign(new TypeError('the row is odd', { cause: new Error('canary of a row') }), {
        $response: { body: 'canary of a response' },
      });
    });
    const thrown = await handler({ payload: 'canary of an event' }, context()).catch((error: unknown) => error);
    expect(thrown).toMatchObject({ name: 'TypeError', message: 'the row is odd' });
    expect(thrown).not.toHaveProperty('cause');
    expect(thrown).not.toHaveProperty('$response');
    expect(lines()).toContainEqual(
      expect.objectContaining({
        level: 'ERROR',
        message: 'failed',
        function_request_id: 'request-1',
        error: expect.objectContaining({ name: 'TypeError', message: 'the row is odd' }),
      }),
    );
    expect(metrics()).toHaveLength(1);
    expect(printed.join('')).not.toContain('canary');
  });

  test('never prints its event, even where the environment asks for it', async () => {
    vi.stubEnv('POWERTOOLS_LOGGER_LOG_EVENT', 'true');
    await handlerOf(async (_event, { log }) => log.info('claimed'))({ payload: 'canary' }, context());
    expect(lines()).toHaveLength(1);
    expect(printed.join('')).not.toContain('canary');
  });

  test('may still answer after its signal told it that the time is nearly up', async () => {
    const answer = await handlerOf(async (_event, { signal, remainingMs }) => {
      await new Promise((aborted) => signal.addEventListener('abort', aborted));
      await new Promise((recorded) => setTimeout(recorded, 50));
      return remainingMs();
    })({}, context(2600));
    expect(answer).toBeGreaterThan(500);
    expect(answer).toBeLessThanOrEqual(2000);
  });

  test('that does not stop fails by itself, with its metrics published', async () => {
    const handler = handlerOf((_event, { meter }) => {
      meter.count('claimed');
      return new Promise(() => {});
    });
    const thrown = await handler({}, context(2100)).catch((error: unknown) => error);
    expect(thrown).toMatchObject({ name: 'TimeIsUpError' });
    expect(metrics()).toHaveLength(1);
  });
});
