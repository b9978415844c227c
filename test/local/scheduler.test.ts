// The local schedule ticks once a period at an instant nobody can foresee, and ticks can be lost, held and asked for.
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { type ScheduleOptions, type Scheduler, startScheduler } from '../../lib/local/scheduler.ts';

const period = 60_000;
let scheduler: Scheduler | undefined;
let instants: number[] = [];

// Its clock is virtual: an hour of ticks takes no time.
beforeEach(() => void vi.useFakeTimers());
afterEach(() => {
  scheduler?.stop();
  vi.useRealTimers();
});

function start(more: Partial<ScheduleOptions> = {}): Scheduler {
  const begun = performance.now();
  instants = [];
  scheduler?.stop();
  scheduler = startScheduler({ periodSeconds: 60, invoke: () => instants.push(performance.now() - begun), ...more });
  return scheduler;
}
const pass = (periods: number) => vi.advanceTimersByTimeAsync(periods * period);

test('each period has one tick, anywhere in it; the same seed draws the same instants', async () => {
  start({ seed: 7 });
  await pass(200);
  const first = instants;
  expect(first.map((at) => Math.floor(at / period))).toEqual(Array.from({ length: 200 }, (_, place) => place));
  const tenths = new Set(first.map((at) => Math.floor(((at % period) / period) * 10)));
  expect(tenths.size).toBe(10);
  start({ seed: 7 });
  await pass(200);
  expect(instants.map(Math.round)).toEqual(first.map(Math.round));
  start({ seed: 8 });
  await pass(200);
  expect(instants.map(Math.round)).not.toEqual(first.map(Math.round));
});

test('the next ticks can be lost, all can be held, and one can be asked for', async () => {
  const { dropNext, pause, resume, tickNow } = start();
  dropNext();
  dropNext(2);
  await pass(5);
  expect([instants.length, scheduler?.dropped]).toEqual([2, 3]);
  pause();
  await pass(5);
  tickNow();
  expect(instants).toHaveLength(3);
  resume();
  await pass(5);
  expect([instants.length, scheduler?.ticks, scheduler?.dropped]).toEqual([8, 8, 3]);
});

test('now and then a tick is lost, when asked for', async () => {
  start({ lossOneIn: 5 });
  await pass(1000);
  expect(instants.length + (scheduler?.dropped ?? 0)).toBe(1000);
  expect(scheduler?.dropped).toBeGreaterThan(120);
  expect(scheduler?.dropped).toBeLessThan(280);
});
