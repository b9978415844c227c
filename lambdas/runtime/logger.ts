// The log of a function: one JSON line an event, with the function's name and the request it belongs to.
import { Logger } from '@aws-lambda-powertools/logger';
import type { Context } from 'aws-lambda';
import type { Log } from '../core/ports.ts';

/** A {@link Log} that stamps each line with the invocation it belongs to. */
export interface FunctionLog extends Log {
  /** From now on lines carry this invocation's request id, function and version. */
  belongTo(context: Context): void;
}

/**
 * Keeps of an error its name, message and stack. An SDK's error also carries its whole response, and a database's error
 * may quote a row in its `cause`: neither belongs in a log.
 */
function bareErrors(_key: string, value: unknown): unknown {
  return value instanceof Error ? { name: value.name, message: value.message, stack: value.stack } : value;
}

/**
 * The log of one function, on standard output.
 * @param functionName becomes `service` in each line
 */
export function functionLog(functionName: string): FunctionLog {
  const logger = new Logger({ serviceName: functionName, jsonReplacerFn: bareErrors });
  return {
    belongTo: (context) => logger.addContext(context),
    info: (event, fields = {}) => logger.info(event, fields),
    warn: (event, fields = {}) => logger.warn(event, fields),
    error: (event, fields = {}) => logger.error(event, fields),
  };
}
