// The product of a soak: schedules through Lambda's API in batches, tries again until it is answered, and keeps what it heard.
import { closeSync, openSync, writeSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { InvokeCommand, LambdaClient } from '@aws-sdk/client-lambda';
import type { CommandAnswer } from '../../lambdas/schedule/contract.ts';
import type { LocalAws } from '../../lib/local/local-aws.ts';
import { draw } from './draw.ts';
import type { Call, Wish } from './plan.ts';

const callsAtOnce = 4;
const pauseMs = 200;

/**
 * Makes the calls at their times. Some are made twice at once, at the given rate. Each reminder becomes a line of `file`:
 * what was asked, and every answer that was heard. Once `signal` is aborted nothing more is asked for.
 * @param told called with how many reminders were taken so far
 */
export async function askFor(
  aws: LocalAws,
  calls: readonly Call[],
  options: { seed: number; twiceRate: number; file: string; told: (taken: number) => void; signal: AbortSignal },
): Promise<void> {
  const lambda = new LambdaClient({
    region: aws.environment.AWS_REGION,
    endpoint: aws.environment.AWS_ENDPOINT_URL_LAMBDA,
    credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
    maxAttempts: 1,
  });
  const file = openSync(options.file, 'a');
  let taken = 0;

  async function ask(wishes: readonly Wish[]): Promise<readonly CommandAnswer[] | undefined> {
    const commands = wishes.map(({ key, destination, payloadText, dueAt }) => {
      return { verb: 'schedule', key, destination, payloadText, userId: 'user', dueAt: new Date(dueAt).toISOString() };
    });
    const request = { FunctionName: aws.outputs.ScheduleFunctionName, Qualifier: 'soak' };
    while (!options.signal.aborted) {
      try {
        const { FunctionError, Payload } = await lambda.send(
          new InvokeCommand({ ...request, Payload: JSON.stringify({ commands }) }),
        );
        if (FunctionError === undefined) return JSON.parse(Payload?.transformToString() ?? '').answers;
      } catch {
        // Throttled, or no answer came: what is not surely taken is asked again.
      }
      await sleep(pauseMs);
    }
    return undefined;
  }

  async function make({ at, wishes }: Call, place: number): Promise<void> {
    await sleep(Math.max(0, at - Date.now()), undefined, { signal: options.signal }).catch(() => undefined);
    if (options.signal.aborted) return;
    const times = draw(options.seed, 'twice', place) < options.twiceRate ? 2 : 1;
    const heard = await Promise.all(Array.from({ length: times }, () => ask(wishes)));
    const lines = wishes.map(({ payloadText: _text, ...wish }, no) => {
      const answers = heard.flatMap((all) => all?.[no] ?? []);
      return `${JSON.stringify({ ...wish, answers })}\n`;
    });
    writeSync(file, lines.join(''));
    taken += wishes.length;
    options.told(taken);
  }

  const waiting = calls.entries();
  const lane = async () => {
    for (const [place, call] of waiting) await make(call, place);
  };
  try {
    await Promise.all(Array.from({ length: callsAtOnce }, lane));
  } finally {
    lambda.destroy();
    closeSync(file);
  }
}
