// What surrounds every function: dependencies built once, early time-out, log and metrics of each invocation.
import { setTimeout as wait } from 'node:timers/promises';
import middy, { type MiddyHandlerObject } from '@middy/core';
import type { Context } from 'aws-lambda';
import { atFaultPoint } from '../core/fault-points.ts';
import type { FunctionContract } from '../core/function-contract.ts';
import type { Clock, Log, Meter, Worker } from '../core/ports.ts';
import { systemClock } from './clock.ts';
import { type Environment, readEnvironment } from './environment.ts';
import { functionLog } from './logger.ts';
import { functionMeter } from './meter.ts';

/** What a function builds its dependencies with, once per execution environment. */
export interface Tools {
  readonly log: Log;
  readonly meter: Meter;
  readonly clock: Clock;
}

/** One invocation, as the inner function sees it. */
export interface Invocation {
  readonly context: Context;
  /** Aborted shortly before the time is up (2 s; a fifth of the time-out where that is less): stop, record, answer. */
  readonly signal: AbortSignal;
  /** Milliseconds until Lambda ends the invocation. */
  readonly remainingMs: () => number;
  readonly log: Log;
  readonly meter: Meter;
  readonly worker: Worker;
}

/** The function without what surrounds it. */
export type InnerFunction<Event, Answer> = (event: Event, invocation: Invocation) => Promise<Answer>;

/** A function could not build what it needs. Lambda reports it as the failure of the init phase and starts anew. */
export class ColdStartError extends Error {
  override readonly name = 'ColdStartError';

  constructor(functionName: string, cause: unknown) {
    super(`${functionName} cannot start: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
  }
}

/** The inner function neither answered nor failed after its signal was aborted. */
export class TimeIsUpError extends Error {
  override readonly name = 'TimeIsUpError';

  constructor(functionName: string, timeoutMs: number) {
    super(`${functionName}: no answer within its ${timeoutMs} ms; the ledger's leases recover what it left open`);
  }
}

/**
 * Makes a Lambda handler. Call it at the top of the handler's module: the environment is read and `build` runs once, in
 * the init phase; each invocation then gets its own signal, log and meter, and its metrics are published at its end.
 * Events are never logged, and an error leaves with its name, message and stack alone.
 * @throws {ColdStartError} when a variable is missing, the stage's numbers do not hold, or `build` throws
 */
export function functionHandler<Event, Answer>(
  contract: FunctionContract,
  build: (environment: Environment, tools: Tools) => InnerFunction<Event, Answer>,
): (event: Event, context: Context) => Promise<Answer> {
  const log = functionLog(contract.name);
  const meter = functionMeter(contract.name);
  const { inner, timeoutMs } = coldStart(contract, build, { log, meter, clock: systemClock });
  const reserveMs = Math.floor(Math.min(2000, timeoutMs / 5));

  const invoke = middy<Event, Answer>(
    (event: Event, context: Context, { signal }: MiddyHandlerObject) =>
      inner(event, {
        context,
        signal,
        remainingMs: () => context.getRemainingTimeInMillis(),
        log,
        meter,
        worker: {
          functionVersion: context.functionVersion,
          requestId: context.awsRequestId,
          logStream: context.logStreamName,
        },
      }),
    {
      requestStart: ({ context }) => log.belongTo(context as Context),
      requestEnd: () => meter.publish(),
      timeoutEarlyInMillis: reserveMs,
      // middy rejects at once with the signal, which would freeze this environment in the middle of recording what it
      // knows. A rejection that comes later leaves the inner function three quarters of the reserve to answer.
      timeoutEarlyResponse: async () => {
        await wait((reserveMs * 3) / 4);
        throw new TimeIsUpError(contract.name, timeoutMs);
      },
    },
  ).onError(({ error }) => log.error('failed', { error }));

  return async (event, context) => {
    try {
      return await atFaultPoint({ point: 'handler' }, () => invoke(event, context));
    } catch (error) {
      throw bare(error);
    }
  };
}

function coldStart<Event, Answer>(
  contract: FunctionContract,
  build: (environment: Environment, tools: Tools) => InnerFunction<Event, Answer>,
  tools: Tools,
): { inner: InnerFunction<Event, Answer>; timeoutMs: number } {
  try {
    const environment = readEnvironment(contract);
    return {
      inner: build(environment, tools),
      timeoutMs: contract.timeoutSeconds(environment.settings) * 1000,
    };
  } catch (cause) {
    throw new ColdStartError(contract.name, cause);
  }
}

/** Lambda's runtime logs what a handler throws, with every field and cause; these may quote a row or a response. */
function bare(error: unknown): Error {
  const { name, message, stack } = error instanceof Error ? error : new Error(String(error));
  return Object.assign(new Error(message), { name, stack });
}
