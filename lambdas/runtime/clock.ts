// The clock of a function: it waits and measures. What is due, leased or expired is the database's to say.
import { setTimeout as wait } from 'node:timers/promises';
import type { Clock } from '../core/ports.ts';

/** Application time from Node. `sleep` rejects with an `AbortError` as soon as its signal is aborted. */
export const systemClock: Clock = {
  monotonic: () => performance.now(),
  wall: () => Date.now(),
  sleep: (ms, signal) => wait(ms, undefined, signal === undefined ? {} : { signal }),
};
