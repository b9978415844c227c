// Lambda on this machine: finds or starts an execution environment for each invocation, and throttles beyond the limit.
import { randomUUID } from 'node:crypto';
import { closeSync, mkdirSync, openSync, watch as watchFolder } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { arn } from './addresses.ts';
import { deathWatch } from './death-watch.ts';
import { FaultPlans } from './fault-plans.ts';
import { type ServiceAnswer, ServiceError, type ServiceRequest, serve } from './http-service.ts';
import { ExecutionEnvironment, type HostedFunction, type Outcome } from './lambda-environment.ts';

/** What an invocation came to, and the id under which it ran. */
export interface InvokeAnswer extends Outcome {
  readonly requestId: string;
}

/** A child process: free, or working at a request. */
export interface EnvironmentFacts {
  readonly functionName: string;
  readonly pid: number;
  readonly requestId: string | undefined;
}

/** The functions, ready to be invoked. */
export interface LambdaHost {
  /**
   * Runs a function and waits for its answer.
   * @param payload JSON
   * @param qualifier the alias to call it by; every alias stands for the one version there is
   * @throws {ServiceError} `ResourceNotFoundException`, or `TooManyRequestsException` when it is at its concurrency limit
   */
  invoke(name: string, payload: string, qualifier?: string): Promise<InvokeAnswer>;
  /**
   * Runs a function without waiting. A throttled event is tried again until it is 60 s old, an error of the function is
   * in its log and nowhere else: the stack gives asynchronous invocations these numbers.
   * @throws {ServiceError} `ResourceNotFoundException`
   */
  invokeAsync(name: string, payload: string, qualifier?: string): void;
  environments(): EnvironmentFacts[];
  /** SIGKILL to the environment with that process id, or at work for that request. False: there is none. */
  kill(pidOrRequestId: number | string): boolean;
  stop(): Promise<void>;
}

/** What a rehearsal does to every process of the host. */
export interface Rehearsal {
  /** Where {@link FaultPlans} for their fault points lie. @default nobody listens at fault points */
  readonly faultDirectory?: string;
  /** How far their wall clocks are ahead of the machine's, in milliseconds. @default 0 */
  readonly clockSkewMs?: number;
}

const oldestEventMs = 60_000;
const throttledPauseMs = 500;

/** Starts the host. The output of function `name` goes to `<directory>/<name>.log`, appended. */
export async function startLambdaHost(
  functions: readonly HostedFunction[],
  directory: string,
  rehearsal: Rehearsal = {},
): Promise<LambdaHost> {
  mkdirSync(directory, { recursive: true });
  const hosted = new Map(
    functions.map((fn) => [fn.name, { fn, log: openSync(join(directory, `${fn.name}.log`), 'a') }]),
  );
  const environments = new Map<string, ExecutionEnvironment>();
  const watch = deathWatch('KILL');
  const watchOver = () => watch.over([...environments.values()].map(({ pid }) => pid));
  const preloads = preloadsOf(rehearsal);
  const { clockSkewMs = 0 } = rehearsal;
  const thawing = thaw(rehearsal.faultDirectory, (pid) => [...environments.values()].find((one) => one.pid === pid));
  let stopping = false;

  /** The Lambda Runtime API (AWS Lambda Developer Guide, "Using the Lambda runtime API"). */
  async function runtimeApi({ path, body }: ServiceRequest): Promise<ServiceAnswer> {
    const [, id = '', rest = ''] = /^\/([^/]+)\/2018-06-01\/runtime\/(.*)$/.exec(path) ?? [];
    const environment = environments.get(id);
    const [, requestId = '', kind] = /^invocation\/(.+)\/(response|error)$/.exec(rest) ?? [];
    // A child that was given up may still speak.
    if (environment === undefined) return null;
    if (rest === 'invocation/next') {
      const next = await environment.next();
      const headers = {
        'lambda-runtime-aws-request-id': next.requestId,
        'lambda-runtime-deadline-ms': String(next.deadlineMs),
        'lambda-runtime-invoked-function-arn': next.functionArn,
      };
      return { headers, body: next.payload };
    }
    if (rest === 'init/error') environment.initFailed(body);
    if (kind !== undefined) environment.answer(requestId, { payload: body, functionError: kind === 'error' });
    return { status: 202 };
  }

  const service = await serve({}, runtimeApi);
  const api = new URL(service.endpoint).host;

  function environmentFor(name: string): ExecutionEnvironment {
    const found = hosted.get(name);
    if (found === undefined || stopping) {
      throw new ServiceError(
        'ResourceNotFoundException',
        404,
        `Function not found: ${arn('lambda', `function:${name}`)}`,
      );
    }
    const { fn, log } = found;
    const own = [...environments.values()].filter((environment) => environment.fn === fn);
    const free = own.find(({ requestId }) => requestId === undefined);
    if (free !== undefined) return free;
    if (own.length >= fn.concurrency) throw new ServiceError('TooManyRequestsException', 429, 'Rate Exceeded.');
    const onEnd = () => {
      environments.delete(environment.id);
      watchOver();
    };
    const compileCache = join(directory, 'compile-cache');
    const environment: ExecutionEnvironment = new ExecutionEnvironment({
      ...{ fn, api, log, compileCache, preloads, clockSkewMs, onEnd },
    });
    environments.set(environment.id, environment);
    watchOver();
    return environment;
  }

  async function invoke(name: string, payload: string, qualifier?: string): Promise<InvokeAnswer> {
    const environment = environmentFor(name);
    const requestId = randomUUID();
    const functionArn = arn('lambda', `function:${name}${qualifier === undefined ? '' : `:${qualifier}`}`);
    return { requestId, ...(await environment.run({ requestId, functionArn, payload })) };
  }

  async function untilTaken(name: string, payload: string, qualifier?: string): Promise<void> {
    for (const end = Date.now() + oldestEventMs; Date.now() < end && !stopping; await sleep(throttledPauseMs)) {
      const answer = await invoke(name, payload, qualifier).catch(() => undefined);
      if (answer !== undefined) return;
    }
  }

  return {
    invoke,
    invokeAsync(name, payload, qualifier) {
      if (!hosted.has(name)) environmentFor(name);
      void untilTaken(name, payload, qualifier);
    },
    environments: () =>
      [...environments.values()].map(({ fn, pid, requestId }) => ({ functionName: fn.name, pid, requestId })),
    kill(target) {
      const environment = [...environments.values()].find(
        ({ pid, requestId }) => pid === target || requestId === target,
      );
      environment?.kill();
      return environment !== undefined;
    },
    async stop() {
      stopping = true;
      await Promise.all([...environments.values()].map((environment) => environment.stop()));
      watch.end();
      thawing?.close();
      await service.close();
      for (const { log } of hosted.values()) closeSync(log);
    },
  };
}

/** The environment variables that load a rehearsal into a process of Node. */
function preloadsOf({ faultDirectory, clockSkewMs }: Rehearsal): Record<string, string> {
  const modules = [
    ...(faultDirectory === undefined ? [] : ['./fault-subscriber.ts']),
    ...(clockSkewMs === undefined ? [] : ['./clock-skew.ts']),
  ];
  if (modules.length === 0) return {};
  const imports = modules.map((file) => `--import=${fileURLToPath(new URL(file, import.meta.url))}`);
  return {
    NODE_OPTIONS: imports.join(' '),
    FAULT_DIRECTORY: faultDirectory ?? '',
    CLOCK_SKEW_MS: `${clockSkewMs ?? 0}`,
  };
}

/** Lets processes that a plan froze go on when their time has come. */
function thaw(directory: string | undefined, environmentOf: (pid: number) => ExecutionEnvironment | undefined) {
  if (directory === undefined) return undefined;
  const plans = new FaultPlans(directory);
  return watchFolder(plans.firedFolder, (_event, id) => {
    const fired = id === null ? undefined : plans.readFired(id);
    if (fired?.plan.action.kind === 'freeze') environmentOf(fired.pid)?.thawAfter(fired.plan.action.ms);
  });
}
