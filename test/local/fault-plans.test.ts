// Fault plans: at the passage they name, and there alone, a process dies, stands still or waits, once over all processes.
import { appendFileSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { faultPointChannel } from '../../lambdas/core/fault-points.ts';
import { FaultPlans } from '../../lib/local/fault-plans.ts';
import { type LambdaHost, startLambdaHost } from '../../lib/local/lambda-host.ts';
import { functionDirectory, hostedFunction } from './hosted-functions.ts';

/** A function that passes the points its event lists: `[point, at, id]`. */
const handler = `
import { channel } from 'node:diagnostics_channel';
const points = channel('${faultPointChannel}');
export const handler = async (passages) => {
  const begun = { monotonic: performance.now(), wall: Date.now() };
  points.publish({ point: 'handler', at: 'before' });
  for (const [point, at, id] of passages) points.publish({ point, at, deliveryIds: () => (id ? [id] : []) });
  return { pid: process.pid, tookMs: performance.now() - begun.monotonic, wall: begun.wall, date: +new Date(), old: +new Date(5) };
};
`;

const directory = functionDirectory();
const faultDirectory = join(directory, 'faults');
const plans = new FaultPlans(faultDirectory);
let host: LambdaHost;
let skewed: LambdaHost;
beforeAll(async () => {
  const functions = [
    hostedFunction(directory, 'one', { timeoutSeconds: 1 }, handler),
    hostedFunction(directory, 'other', {}, handler),
  ];
  host = await startLambdaHost(functions, join(directory, 'logs'), { faultDirectory });
  skewed = await startLambdaHost(functions, join(directory, 'skewed-logs'), { clockSkewMs: -600_000 });
});
afterAll(async () => {
  await host.stop();
  await skewed.stop();
  rmSync(directory, { recursive: true });
});

type Passages = readonly (readonly [point: string, at: 'before' | 'after', id?: string])[];
async function run(name: string, passages: Passages, by = host) {
  const { payload, functionError } = await by.invoke(name, JSON.stringify(passages));
  return { functionError, payload, answer: JSON.parse(payload) };
}

test('a process is killed at the side, the reminder, the function and the pass that a plan names, and nowhere else', async () => {
  const planned = plans.next({
    functionName: 'one',
    point: 'settle',
    at: 'after',
    deliveryId: 'a',
    pass: 2,
    action: { kind: 'kill' },
  });
  const others: Passages = [
    ['settle', 'before', 'a'],
    ['settle', 'after', 'b'],
    ['open', 'after', 'a'],
    ['settle', 'after', 'a'],
  ];
  expect((await run('one', others)).functionError).toBe(false);
  expect((await run('other', others)).functionError).toBe(false);
  expect(planned.fired()).toBeUndefined();
  const killed = await run('one', [
    ['open', 'after', 'c'],
    ['settle', 'after', 'a'],
  ]);
  expect(killed.answer.errorMessage).toContain('signal: SIGKILL');
  expect(planned.fired()).toMatchObject({ functionName: 'one', deliveryIds: ['c', 'a'] });
  expect((await run('one', others)).functionError, 'taken once').toBe(false);
});

test('a passage that names no reminder belongs to those that the same invocation had to do with', async () => {
  const planned = plans.next({ point: 'announce', at: 'before', deliveryId: 'x', action: { kind: 'kill' } });
  await run('one', [['open', 'after', 'x']]);
  expect((await run('one', [['announce', 'before']])).functionError, 'another invocation').toBe(false);
  const killed = run('one', [
    ['put-events', 'after', 'x'],
    ['announce', 'before'],
  ]);
  expect((await killed).functionError).toBe(true);
  expect(planned.fired()?.at).toBeLessThanOrEqual(Date.now());
});

test('of many processes that come by at once one takes the plan; passes are counted over all of them', async () => {
  const planned = plans.next({ point: 'claim', at: 'before', pass: 11, action: { kind: 'kill' } });
  const passages: Passages = Array.from({ length: 5 }, () => ['claim', 'before']);
  await Promise.all([run('other', passages), run('other', passages)]);
  expect(planned.fired()).toBeUndefined();
  const both = await Promise.all([run('other', passages.slice(0, 1)), run('other', [])]);
  expect(both.filter(({ functionError }) => functionError)).toHaveLength(1);
  expect(planned.fired()).toBeDefined();
});

test('a frozen process stands still beyond its time-out, goes on when its time has come, and is no other than before', async () => {
  const planned = plans.next({ functionName: 'one', point: 'dial', at: 'after', action: { kind: 'freeze', ms: 1500 } });
  const begun = performance.now();
  const { functionError, answer } = await run('one', [['dial', 'after']]);
  expect(functionError).toBe(false);
  expect(performance.now() - begun).toBeGreaterThan(1450);
  expect(answer.tookMs, 'its own clock saw it').toBeGreaterThan(1450);
  expect(planned.fired()?.pid).toBe(answer.pid);
});

test('a delay counts against the time-out; a plan that was withdrawn does not fire', async () => {
  const short = await run('other', [['open', 'before']]);
  const planned = plans.next({
    functionName: 'other',
    point: 'open',
    at: 'before',
    action: { kind: 'delay', ms: 300 },
  });
  const long = await run('other', [['open', 'before']]);
  expect(long.answer.tookMs - short.answer.tookMs).toBeGreaterThan(250);
  expect(planned.fired()).toBeDefined();
  plans.next({ functionName: 'one', point: 'open', at: 'before', action: { kind: 'delay', ms: 5000 } });
  expect((await run('one', [['open', 'before']])).answer.errorMessage).toContain('timed out');
  const withdrawn = plans.next({ functionName: 'one', point: 'open', at: 'before', action: { kind: 'kill' } });
  withdrawn.withdraw();
  expect((await run('one', [['open', 'before']])).functionError).toBe(false);
  expect(withdrawn.fired()).toBeUndefined();
});

test('every passage is written down when somebody asks for it', async () => {
  const file = join(faultDirectory, 'passages.jsonl');
  appendFileSync(file, '');
  await run('other', [['open', 'after', 'y']]);
  const lines = readFileSync(file, 'utf8').trim().split('\n');
  rmSync(file);
  expect(lines.map((line) => JSON.parse(line))).toEqual([
    { functionName: 'other', point: 'handler', at: 'before', tried: 1, deliveryIds: [] },
    { functionName: 'other', point: 'open', at: 'after', tried: 1, deliveryIds: ['y'] },
  ]);
});

test('a skewed process has a wrong wall clock and a right monotonic one', async () => {
  const { answer } = await run('one', [], skewed);
  for (const wall of [answer.wall, answer.date]) {
    expect(Math.abs(wall + 600_000 - Date.now())).toBeLessThan(30_000);
  }
  expect(answer.old).toBe(5);
  expect(answer.tookMs).toBeLessThan(30_000);
});
