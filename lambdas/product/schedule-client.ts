// The schedule function as a product calls it: by its alias, which is who calls.
import { InvokeCommand, LambdaClient } from '@aws-sdk/client-lambda';
import { atFaultPoint } from '../core/fault-points.ts';
import type { CommandAnswer, ScheduleCommand } from '../schedule/contract.ts';

/** Schedules a reminder. */
export type ScheduleClient = (reminder: Omit<ScheduleCommand, 'verb'>) => Promise<CommandAnswer>;

/** The schedule function failed. The message has what it failed with. */
export class ScheduleFailedError extends Error {
  override readonly name = 'ScheduleFailedError';
}

/**
 * @param functionArn of the product's alias
 * @param requestTimeoutMs how long one try of the call may take, in milliseconds; it is tried twice, under the same key
 */
export function scheduleClient({
  functionArn,
  requestTimeoutMs,
}: {
  readonly functionArn: string;
  readonly requestTimeoutMs: number;
}): ScheduleClient {
  const lambda = new LambdaClient({
    maxAttempts: 2,
    requestHandler: { connectionTimeout: 1000, requestTimeout: requestTimeoutMs, throwOnRequestTimeout: true },
  });
  return async (reminder) => {
    const command = new InvokeCommand({
      FunctionName: functionArn,
      Payload: JSON.stringify({ verb: 'schedule', ...reminder }),
    });
    const { FunctionError, Payload } = await atFaultPoint({ point: 'invoke-schedule' }, () => lambda.send(command));
    const text = Payload?.transformToString() ?? '';
    if (FunctionError !== undefined) throw new ScheduleFailedError(`the schedule function failed: ${text}`);
    return JSON.parse(text) as CommandAnswer;
  };
}
