// The canary's rules: what it asks for, when it is no canary, and whose signature its receiver believes.
import { expect, test } from 'vitest';
import {
  CanaryError,
  type CanaryTools,
  canaryDestination,
  receiveCanary,
  sendCanary,
} from '../../lambdas/core/canary.ts';
import { settingsOf } from '../../lambdas/core/settings.ts';
import { scheduleCommand } from '../../lambdas/schedule/contract.ts';
import { isSigned, signedHeaders } from '../../lambdas/webhook/signing.ts';

const now = Date.parse('2026-12-03T12:00:00.000Z');
const clock = { wall: () => now, monotonic: () => 0, sleep: async () => undefined };
const worker = { functionVersion: '7', requestId: 'request-1', logStream: 'stream' };
const log = { info: () => undefined, warn: () => undefined, error: () => undefined };

function run(tools: Partial<CanaryTools> = {}) {
  const measured: [string, number][] = [];
  const meter = {
    count: (name: string, value = 1) => void measured.push([name, value]),
    milliseconds: (name: string, value: number) => void measured.push([name, value]),
    percent: () => undefined,
  };
  const registered: { name: string; url: string }[] = [];
  const all: CanaryTools = {
    register: async (destination) => {
      registered.push(destination);
      return 'unchanged';
    },
    schedule: async () => ({ answer: 'scheduled', deliveryId: 'd' }),
    url: 'https://abc.lambda-url.us-east-1.on.aws/',
    ...{ clock, settings: settingsOf('production') },
    ...tools,
  };
  return { sent: sendCanary(all, { worker, log, meter }), measured, registered, meter };
}

test('it is due a second past the lookahead, so that a claim takes it, and expires when the next one is due', async () => {
  const { sent, measured, registered } = run();
  const destination = canaryDestination('abc.lambda-url.us-east-1.on.aws');
  const reminder = await sent;
  expect(reminder).toEqual({
    key: 'canary-request-1',
    ...{ destination, userId: 'canary', payload: { dueAt: '2026-12-03T12:03:01.000Z' } },
    ...{ dueAt: '2026-12-03T12:03:01.000Z', expiresAt: '2026-12-03T12:08:01.000Z' },
  });
  expect(registered).toEqual([{ name: destination, url: 'https://abc.lambda-url.us-east-1.on.aws/' }]);
  expect(scheduleCommand.parse({ verb: 'schedule', ...reminder })).toMatchObject({ key: 'canary-request-1' });
  expect(measured).toEqual([['canary_sent', 1]]);
});

test('a URL that was made anew is another destination, since the URL of one never changes', () => {
  const names = ['a.lambda-url.us-east-1.on.aws', 'b.lambda-url.us-east-1.on.aws'].map(canaryDestination);
  expect(new Set(names).size).toBe(2);
  for (const name of names) expect(name).toMatch(/^canary-[0-9a-f]{12}$/);
});

test.each([
  ['the destination is another', { register: async () => 'conflict' as const }, /is registered otherwise/],
  ['the destination is being registered', { register: async () => null }, /is being registered at this moment/],
  ['the reminder is refused', { schedule: async () => ({ answer: 'invalid' }) }, /schedule answered invalid/],
])('where %s it fails, and counts as not sent', async (_, tools, message) => {
  const { sent, measured } = run(tools);
  const error = await sent.catch((caught: unknown) => caught);
  expect(error).toBeInstanceOf(CanaryError);
  expect(String(error)).toMatch(message);
  expect(measured).toEqual([]);
});

test('Lambda’s second run of one event sends no second one', async () => {
  await expect(run({ schedule: async () => ({ answer: 'duplicate' }) }).sent).resolves.toMatchObject({
    key: 'canary-request-1',
  });
});

test.each([
  ['2026-12-03T11:59:58.500Z', 1500],
  ['2026-12-03T12:00:00.200Z', 0],
])('one that was due at %s came %i ms late', (dueAt, lateness) => {
  const { meter, measured } = run();
  expect(receiveCanary({ dueAt, deliveryId: 'd' }, clock, { log, meter })).toBe(lateness);
  expect(measured).toEqual([['canary_lateness', lateness]]);
});

test('while a rotation overlaps, either root’s signature is believed, and afterwards the new one’s alone', () => {
  const [older, newer] = ['o'.repeat(32), 'n'.repeat(32)];
  const request = { deliveryId: 'd', key: 'k', destination: 'canary-1', payload: '{}' };
  const by = (roots: Parameters<typeof signedHeaders>[1]) => ({
    ...request,
    headers: signedHeaders(request, roots, new Date()),
  });
  const overlapping = { current: newer, previous: older };
  expect(isSigned(by({ current: older }), overlapping)).toBe(true);
  expect(isSigned(by({ current: newer }), overlapping)).toBe(true);
  expect(isSigned(by(overlapping), { current: older })).toBe(true);
  expect(isSigned(by({ current: older }), { current: newer })).toBe(false);
});
