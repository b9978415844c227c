// The alarms on what functions publish: their metrics are those that the bundles print, and a silent observer pages once.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Stack } from 'aws-cdk-lib';
import { Topic } from 'aws-cdk-lib/aws-sns';
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import { deliverInvitations } from '../../lambdas/core/deliver-invitations.ts';
import { settingsOf } from '../../lambdas/core/settings.ts';
import { heartbeat, measures, observeFunction } from '../../lambdas/observe/contract.ts';
import { systemClock } from '../../lambdas/runtime/clock.ts';
import { functionMeter } from '../../lambdas/runtime/meter.ts';
import { webhookSenderFunction } from '../../lambdas/webhook-sender/contract.ts';
import { type LocalAws, startLocalAws } from '../../lib/local/local-aws.ts';
import { ReminderLedger } from '../../lib/stack/reminder-ledger.ts';
import { outcome, worker } from '../ledger/test-ledger.ts';
import { printedIn, readBy } from './alarm-metrics.ts';
import { newApp, type Resource, synthesized } from './synthesized.ts';

const stack = new Stack(newApp(), 'Shop');
new ReminderLedger(stack, 'Ledger', {
  alarmTopics: { page: new Topic(stack, 'page'), warn: new Topic(stack, 'warn') },
});
const { resources, text } = synthesized(stack);
const alarms = new Map(
  [...resources].flatMap(([path, resource]): [string, Resource][] =>
    /^AWS::CloudWatch::(Composite)?Alarm$/.test(resource.Type) ? [[path.replace('Ledger/Alarms/', ''), resource]] : [],
  ),
);
const readFrom = (functionName: string) => {
  const read = [...alarms.values()].filter(({ Type }) => Type === 'AWS::CloudWatch::Alarm').flatMap(readBy);
  return read.filter((name) => name.startsWith('ReminderLedger ') && name.endsWith(` service=${functionName}`));
};

describe('what alarms read', () => {
  const directory = mkdtempSync(join(tmpdir(), 'reminder-ledger-alarms-'));
  let aws: LocalAws;
  let answer: unknown;
  let printed: ReturnType<typeof printedIn>;
  beforeAll(async () => {
    aws = await startLocalAws({ stage: 'rehearsal', directory, fresh: true });
    answer = await aws.invoke('observe', {});
    printed = printedIn(readFileSync(join(directory, 'logs', 'observe.log'), 'utf8'));
  });
  afterAll(async () => {
    await aws.stop();
    rmSync(directory, { recursive: true });
  });
  afterEach(() => vi.restoreAllMocks());

  test('of the observer is what its bundle prints, name, namespace and dimensions alike', () => {
    const read = readFrom(observeFunction.name);
    expect(read.length).toBeGreaterThan(15);
    expect(read.filter((name) => !printed.has(name))).toEqual([]);
  });

  test('is printed with zeros and a heartbeat, each in the unit that its thresholds count in', () => {
    const zeros = Object.entries(measures).map(([name, unit]): [string, object] => [
      `ReminderLedger ${name} service=observe`,
      { value: 0, unit: unit === 'count' ? 'Count' : 'Milliseconds' },
    ]);
    const beat: [string, object] = [`ReminderLedger ${heartbeat} service=observe`, { value: 1, unit: 'Count' }];
    expect(Object.fromEntries(printed)).toEqual(Object.fromEntries([...zeros, beat]));
    expect(answer).toEqual(Object.fromEntries(Object.keys(measures).map((name) => [name, 0])));
  });

  test('of the sender is what it prints when a success is recorded, and when another cannot be', async () => {
    const lines: string[] = [];
    const keep = (line: unknown) => void lines.push(String(line));
    vi.spyOn(console, 'log').mockImplementation(keep);
    vi.spyOn(process.stdout, 'write').mockImplementation((line) => {
      keep(line);
      return true;
    });
    const meter = functionMeter(webhookSenderFunction.name);
    const log = { info: () => undefined, warn: () => undefined, error: () => undefined };
    const opened = { answer: 'opened', attemptNo: 1, key: 'k', payload: '{}', destination: 'to' } as const;
    const sent = { ...opened, url: 'https://to.example/', deadlineMs: null };
    const session = {
      post: async ({ deliveryId }: { deliveryId: string }) => outcome(deliveryId, ''),
      close: async () => undefined,
    };
    await deliverInvitations(
      {
        ledger: {
          open: async ({ deliveryIds }) => deliveryIds.map((deliveryId) => ({ ...sent, deliveryId })),
          async settle({ outcomes }) {
            if (outcomes.some(({ deliveryId }) => deliveryId === 'stuck')) throw new Error('gone');
            return [];
          },
        },
        webhook: { prepare: async () => session },
        ...{ clock: systemClock, settings: settingsOf('rehearsal'), newToken: () => 'token' },
      },
      { worker, signal: new AbortController().signal, remainingMs: () => 60_000, log, meter },
      ['stuck', 'well'].map((deliveryId) => ({ deliveryId, notBefore: 0 })),
    );
    meter.publish();
    vi.restoreAllMocks();
    const read = readFrom(webhookSenderFunction.name);
    expect(read).toHaveLength(2);
    expect([...printedIn(lines.join('\n')).keys()]).toEqual(expect.arrayContaining(read));
  });
});

describe('a silent observer', () => {
  const followed = [...alarms.keys()].flatMap((id) => (id.endsWith('-measured') ? [id.replace('-measured', '')] : []));

  test('rings one alarm that tells a person', () => {
    const { Properties } = alarms.get('observer-silent') ?? {};
    expect(Properties).toMatchObject({ TreatMissingData: 'breaching', Threshold: 1, EvaluationPeriods: 3 });
    expect([Properties?.AlarmActions].flat().map(text)).toEqual(['page']);
  });

  test('rings no other: each that silence rings is told by one that it suppresses', () => {
    const ringing = [...alarms].filter(
      ([id, alarm]) =>
        alarm.Properties.TreatMissingData === 'breaching' &&
        readBy(alarm).some((name) => name.endsWith(' service=observe')) &&
        id !== 'observer-silent',
    );
    expect(ringing.map(([id]) => id)).toEqual(followed.map((id) => `${id}-measured`));
    expect(followed.length).toBeGreaterThan(8);
  });

  test.each(followed)('%s waits for it, then tells whom it should', (id) => {
    const measured = alarms.get(`${id}-measured`)?.Properties ?? {};
    for (const action of ['AlarmActions', 'OKActions', 'InsufficientDataActions'])
      expect(measured).not.toHaveProperty(action);
    const { Type, Properties } = alarms.get(id) as Resource;
    expect(Type).toBe('AWS::CloudWatch::CompositeAlarm');
    expect(text(Properties.AlarmRule)).toBe(`ALARM("Ledger/Alarms/${id}-measured.Arn")`);
    expect(text(Properties.ActionsSuppressor)).toBe('Ledger/Alarms/observer-silent.Arn');
    const severity = /\((\w+)\)\.$/.exec(String(Properties.AlarmDescription))?.[1];
    for (const actions of [Properties.AlarmActions, Properties.OKActions])
      expect([actions].flat().map(text)).toEqual([severity]);
    // By how much the observer's alarm, three minutes of three, may ring later than one that looks at fewer.
    const later = 3 - Number(measured.EvaluationPeriods);
    expect(Number(Properties.ActionsSuppressorWaitPeriod)).toBeGreaterThanOrEqual(later * 60 + 120);
  });
});

test('two alarms on one age, a warning before a page', () => {
  const threshold = (id: string) => Number(alarms.get(`${id}-measured`)?.Properties.Threshold);
  expect([threshold('scheduler-lag'), threshold('scheduler-lag-long')]).toEqual([180_000, 600_000]);
});
