// The alarms on what functions publish: their metrics are those that the bundles print, and a silent observer pages once.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Stack } from 'aws-cdk-lib';
import { Topic } from 'aws-cdk-lib/aws-sns';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { deliverInvitations } from '../../lambdas/core/deliver-invitations.ts';
import { settingsOf } from '../../lambdas/core/settings.ts';
import { heartbeat, measures, observeFunction } from '../../lambdas/observe/contract.ts';
import { systemClock } from '../../lambdas/runtime/clock.ts';
import { webhookSenderFunction } from '../../lambdas/webhook-sender/contract.ts';
import { type LocalAws, startLocalAws } from '../../lib/local/local-aws.ts';
import { ReminderLedger } from '../../lib/stack/reminder-ledger.ts';
import { outcome, worker } from '../ledger/test-ledger.ts';
import { printedBy, printedIn, readBy } from './alarm-metrics.ts';
import { newApp, type Resource, synthesized } from './synthesized.ts';

const repository = fileURLToPath(new URL('../..', import.meta.url));

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
    const log = { info: () => undefined, warn: () => undefined, error: () => undefined };
    const opened = { answer: 'opened', attemptNo: 1, key: 'k', payload: '{}', destination: 'to' } as const;
    const sent = { ...opened, url: 'https://to.example/', deadlineMs: null };
    const session = {
      post: async ({ deliveryId }: { deliveryId: string }) => outcome(deliveryId, ''),
      close: async () => undefined,
    };
    const printed = await printedBy(webhookSenderFunction.name, (meter) =>
      deliverInvitations(
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
      ),
    );
    const read = readFrom(webhookSenderFunction.name);
    expect(read).toHaveLength(2);
    expect([...printed.keys()]).toEqual(expect.arrayContaining(read));
  });
});

test('what alarms on the claim and the canary read is what their functions print', async () => {
  expect(readFrom('claim')).toEqual(['ReminderLedger lease_used service=claim']);
  expect(readFrom('canary-receiver')).toEqual(['ReminderLedger canary_lateness service=canary-receiver']);
});

describe('an alarm for which silence is a fault', () => {
  const followed = [...alarms.keys()].flatMap((id) => (id.endsWith('-measured') ? [id.replace('-measured', '')] : []));
  const causes = ['observer-silent', 'tick-not-running', 'canary-late'];

  test('is one that is measured and tells nobody', () => {
    const silent = [...alarms].filter(([, { Properties }]) => Properties.TreatMissingData === 'breaching');
    expect(silent.map(([id]) => id)).toEqual(followed.map((id) => `${id}-measured`));
    expect(followed).toEqual(expect.arrayContaining(causes));
    expect(followed.length).toBeGreaterThan(12);
  });

  test.each(followed)('%s follows it, waits for what else may be the cause, then tells whom it should', (id) => {
    const measured = alarms.get(`${id}-measured`)?.Properties ?? {};
    for (const action of ['AlarmActions', 'OKActions', 'InsufficientDataActions'])
      expect(measured).not.toHaveProperty(action);
    const { Type, Properties } = alarms.get(id) as Resource;
    expect(Type).toBe('AWS::CloudWatch::CompositeAlarm');
    expect(text(Properties.AlarmRule)).toBe(`ALARM("Ledger/Alarms/${id}-measured.Arn")`);
    // None of these needs the observer.
    const cause = causes.includes(id) ? 'just-deployed' : 'nothing-to-go-by';
    expect(text(Properties.ActionsSuppressor)).toBe(`Ledger/Alarms/${cause}.Arn`);
    const severity = /\((\w+)\)\. Next: /.exec(String(Properties.AlarmDescription))?.[1];
    for (const actions of [Properties.AlarmActions, Properties.OKActions])
      expect([actions].flat().map(text)).toEqual([severity]);
    // By how much the observer's alarm, three minutes of three, may ring later than one that looks at fewer.
    const later = Math.max(0, 3 - Number(measured.EvaluationPeriods));
    expect(Number(Properties.ActionsSuppressorWaitPeriod)).toBeGreaterThanOrEqual(later * 60 + 120);
  });

  test('has a silent observer and a migration as its other causes, which tell nobody themselves', () => {
    const rule = text(alarms.get('nothing-to-go-by')?.Properties.AlarmRule);
    expect(rule).toBe(
      '(ALARM("Ledger/Alarms/observer-silent-measured.Arn") OR ALARM("Ledger/Alarms/just-deployed.Arn"))',
    );
    for (const id of ['nothing-to-go-by', 'just-deployed'])
      expect(alarms.get(id)?.Properties).not.toHaveProperty('AlarmActions');
  });
});

test('each alarm names a command that the command line has, and the stack to type', () => {
  const help = execFileSync(process.execPath, ['bin/reminders.ts', '--help'], { encoding: 'utf8', cwd: repository });
  const known = [...help.matchAll(/^ {2}([a-z]+) /gm)].map(([, name]) => name);
  for (const [id, { Properties }] of alarms) {
    const [, command = ''] =
      /\. Next: npm run reminders -- --stack Shop ([a-z]+)( [\w-]+| '[^']+')*$/.exec(
        String(Properties.AlarmDescription),
      ) ?? [];
    expect(known, id).toContain(command);
  }
});

test('two alarms on one age, a warning before a page', () => {
  const threshold = (id: string) => Number(alarms.get(`${id}-measured`)?.Properties.Threshold);
  expect([threshold('scheduler-lag'), threshold('scheduler-lag-long')]).toEqual([180_000, 600_000]);
});
