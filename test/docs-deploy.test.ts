// The deployment's guide holds: its table of props, the policy to paste, the app of one's own, and each of its sums.
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { RetentionDays } from 'aws-cdk-lib/aws-logs';
import { describe, expect, test } from 'vitest';
import { measures } from '../lambdas/observe/contract.ts';
import { defaultsOf } from '../lib/stack/deployment-stages.ts';
import { ReminderLedgerStack } from '../lib/stack/reminder-ledger-stack.ts';
import { newApp, synthesized } from './stack/synthesized.ts';

const repository = fileURLToPath(new URL('..', import.meta.url));
const read = (path: string): string => readFileSync(join(repository, path), 'utf8');
const guide = read('docs/deploy.md');

/** The rows of the first table after a text, each as its cells. */
function tableAfter(text: string): string[][] {
  const [table = ''] = /(\|.*\n)+/.exec(guide.slice(guide.indexOf(text))) ?? [];
  const rows = table.trim().split('\n').slice(2);
  return rows.map((row) =>
    row
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.trim()),
  );
}

/** A number as the guide prints it, without what stands around it. */
const number = (text = ''): number => Number(/[\d,]+(\.\d+)?/.exec(text)?.[0].replaceAll(',', ''));
const cents = (dollars: number): string => dollars.toFixed(2);

describe('the table of props', () => {
  const [body = ''] =
    /export interface ReminderLedgerProps \{[\s\S]*?\n\}/.exec(read('lib/stack/reminder-ledger-props.ts')) ?? [];
  const props = [...body.matchAll(/^ {2}readonly (\w+)\?:/gm)].map(([, name]) => name);
  const defaults = [...body.matchAll(/@default (.+)\n {3}\*\/\n {2}readonly (\w+)\?:/g)].map(([, text, name]) => [
    `\`${name}\``,
    text,
  ]);

  test('has a row for each prop in its order, with the default that the prop documents, and no other', () => {
    expect(defaults.map(([name]) => name)).toEqual(props.map((name) => `\`${name}\``));
    expect(tableAfter('takes these props').map(([name, text]) => [name, text])).toEqual(defaults);
  });

  test('tells the defaults that the stages have', () => {
    const [production, dev] = [defaultsOf('production'), defaultsOf('dev')];
    const told = Object.fromEntries(defaults.map(([name = '', text]) => [name.replaceAll('`', ''), text]));
    const span = { [RetentionDays.THREE_MONTHS]: '3 months', [RetentionDays.ONE_WEEK]: 'a week' } as Record<
      number,
      string
    >;
    const inStages = (one: string, other: string) => `${one} in production, ${other} in dev`;
    expect(told).toMatchObject({
      capacity: inStages(
        `${production.capacity.minimum} to ${production.capacity.maximum}`,
        `${dev.capacity.minimum} to ${dev.capacity.maximum}`,
      ),
      reader: inStages(String(production.reader), String(dev.reader)),
      backupRetention: inStages(`${production.backupRetention.toDays()} days`, `${dev.backupRetention.toDays()} day`),
      logRetention: inStages(span[production.logRetention] ?? '', span[dev.logRetention] ?? ''),
    });
  });
});

describe('the policies to paste', () => {
  const policies = [...guide.matchAll(/```json\n([\s\S]*?)```/g)].map(
    ([, text = '']) => JSON.parse(text) as { Statement: { Action: string | string[] }[] },
  );
  const actions = policies.map(({ Statement }) => Statement.flatMap(({ Action }) => Action));

  test('let CloudFormation work with each service that a stack of either stage has, and IAM by single actions', () => {
    const [deployment = []] = actions;
    const types = (['production', 'dev'] as const).flatMap((stage) => {
      const { template } = synthesized(new ReminderLedgerStack(newApp(), 'Any', { stage }));
      return Object.values<{ Type: string }>(template.toJSON().Resources).map(({ Type }) => Type);
    });
    const services = new Set(types.flatMap((type) => /^AWS::(\w+)::/.exec(type)?.[1]?.toLowerCase() ?? []));
    const allowed = new Set(deployment.map((action) => action.split(':')[0]));
    expect([...services].filter((service) => !allowed.has(service))).toEqual([]);
    expect(deployment.filter((action) => /^(iam:)?\*/.test(action))).toEqual([]);
    // Every template asks for the bootstrap's version by a parameter.
    expect(deployment).toContain('ssm:GetParameters');
  });

  test('let who deploys assume the roles of the bootstrap, and nothing more', () => {
    expect(actions[1]).toEqual(['sts:AssumeRole']);
    const bootstrap = read('node_modules/aws-cdk/lib/api/bootstrap/bootstrap-template.yaml');
    const roles = [...JSON.stringify(policies[1]).matchAll(/role\/cdk-hnb659fds-([a-z-]+)-\d/g)].map(
      ([, role]) => role,
    );
    expect(roles).toHaveLength(3);
    for (const role of roles) expect(bootstrap).toContain(`cdk-\${Qualifier}-${role}-\${AWS::AccountId}`);
  });
});

test("the app of one's own synthesizes: alarms tell the topic of their severity and name a team, and the command line finds it", async () => {
  const outdir = mkdtempSync(join(tmpdir(), 'reminders-app-'));
  const environment = { ...process.env, CDK_OUTDIR: outdir };
  await promisify(execFile)(process.execPath, ['docs/examples/reminders-app.ts'], {
    cwd: repository,
    env: environment,
  });
  const { Resources: resources, Outputs: outputs } = JSON.parse(
    readFileSync(join(outdir, 'Reminders.template.json'), 'utf8'),
  ) as {
    Resources: Record<
      string,
      { Type: string; Properties: { AlarmDescription: string; AlarmActions?: { Ref: string }[] } }
    >;
    Outputs: object;
  };
  rmSync(outdir, { recursive: true });
  const alarms = Object.values(resources).filter(({ Type }) => Type.startsWith('AWS::CloudWatch::'));
  const telling = alarms.filter(({ Properties }) => Properties.AlarmActions);
  expect(telling.length).toBeGreaterThan(30);
  for (const { Properties } of telling) {
    const [, team, severity = ''] = /Acts: (.+) \((page|warn)\)\. Next: /.exec(Properties.AlarmDescription) ?? [];
    expect(['support', 'platform', 'billing', 'platform on call']).toContain(team);
    expect(Properties.AlarmActions?.map(({ Ref }) => Ref.toLowerCase().slice(0, 4))).toEqual([severity]);
  }
  const [, needed = ''] = /const outputNames = \[([\s\S]*?)\]/.exec(read('bin/ledger-target.ts')) ?? [];
  const names = [...needed.matchAll(/'(\w+)'/g)].map(([, name]) => name);
  expect(names.length).toBeGreaterThan(5);
  expect(Object.keys(outputs)).toEqual(expect.arrayContaining(names));
});

describe('what it costs', () => {
  const price = (of: string): number => {
    const row = tableAfter('## What it costs').find(([name]) => name === of);
    return number(row?.[1]);
  };

  test.each(['each alone', 'in full batches'])('a million reminders, %s: the products and their sum', (column) => {
    const place = column === 'each alone' ? 2 : 4;
    const rows = tableAfter('| a million of');
    const items = rows.slice(0, -1);
    for (const row of items) {
      expect(number(row[1]), row[0]).toBeCloseTo(price(row[0] ?? '') * (row[0] === 'Lambda compute' ? 1e6 : 1), 5);
      expect(cents(number(row[place + 1])), row[0]).toBe(cents(number(row[1]) * number(row[place])));
    }
    const sum = items.reduce((total, row) => total + number(row[place + 1]), 0);
    expect(number(rows.at(-1)?.[place + 1])).toBeCloseTo(sum, 5);
  });

  test('an idle ledger: what is counted is in the stack, and the sums are right', () => {
    const { template } = synthesized();
    const resources = Object.values<{ Type: string; Properties: { Metrics?: { MetricStat?: object }[] } }>(
      template.toJSON().Resources,
    );
    const count = (type: string) => resources.filter(({ Type }) => Type === type).length;
    const alarmMetrics = resources
      .filter(({ Type }) => Type === 'AWS::CloudWatch::Alarm')
      .reduce((sum, { Properties }) => sum + (Properties.Metrics?.filter((one) => one.MetricStat).length ?? 1), 0);
    const rows = tableAfter('### An idle ledger');
    // RDS keeps the owner's secret beside those of the template.
    expect(rows.find(([what]) => what === 'secrets')?.[1]).toContain(`${count('AWS::SecretsManager::Secret') + 1} ×`);
    const alarms = rows.find(([what]) => what === 'alarms')?.[1];
    expect(alarms).toContain(`${alarmMetrics} metrics ×`);
    expect(alarms).toContain(`${count('AWS::CloudWatch::CompositeAlarm')} composite ones ×`);
    expect(rows.find(([what]) => what === 'dashboards')?.[1]).toContain(`${count('AWS::CloudWatch::Dashboard')} ×`);
    // And the heartbeat.
    expect(rows.find(([what]) => what === 'metrics')?.[1]).toContain(
      `${Object.keys(measures).length + 1} of \`observe\``,
    );
    for (const [place, stage] of [
      [2, 'dev'],
      [3, 'production'],
    ] as const) {
      const sum = rows.slice(0, -1).reduce((total, row) => total + number(row[place]), 0);
      expect(number(rows.at(-1)?.[place]), stage).toBeCloseTo(sum, 5);
    }
  });

  test('each product that is written out is right', () => {
    const products = [...guide.matchAll(/((?:[\d.,]+ × )+[\d.,]+) = ([\d.,]+\d)/g)];
    expect(products.length).toBeGreaterThan(5);
    for (const [text, factors = '', product] of products) {
      const value = factors.split(' × ').reduce((total, factor) => total * number(factor), 1);
      expect(cents(number(product)), text).toBe(cents(value));
    }
  });
});
