// The dashboards: every metric in them is one that somebody publishes, they fit, and whoever looks may.
import { AccountPrincipal, Role } from 'aws-cdk-lib/aws-iam';
import { describe, expect, test } from 'vitest';
import { functions } from '../../lambdas/functions.ts';
import { heartbeat, measures } from '../../lambdas/observe/contract.ts';
import { widgetRequest } from '../../lambdas/widget/contract.ts';
import { ReminderLedgerStack } from '../../lib/stack/reminder-ledger-stack.ts';
import { dashboardOf, metricsOf } from './dashboard-bodies.ts';
import { newApp, synthesized } from './synthesized.ts';

const found = synthesized();
const dashboards = ['Wrong', 'Why'].map((id) => [id, dashboardOf(found, `Ledger/Dashboards/${id}`)] as const);

/** What AWS publishes, by namespace: names, and the dimension that tells one from another (CloudWatch pages of each service's guide). */
const ofServices: Readonly<Record<string, { dimension: string; place: RegExp; names: string[] }>> = {
  'AWS/Lambda': {
    ...{ dimension: 'FunctionName', place: /^Ledger\/\w+\/Function$/ },
    names: ['Errors', 'Throttles', 'Duration'],
  },
  'AWS/SQS': {
    ...{ dimension: 'QueueName', place: /^Ledger\/(Queue|Minute)\/\w+\.QueueName$/ },
    names: [
      ...['ApproximateAgeOfOldestMessage', 'ApproximateNumberOfMessagesDelayed', 'NumberOfMessagesReceived'],
      ...['ApproximateNumberOfMessagesNotVisible', 'ApproximateNumberOfMessagesVisible', 'NumberOfMessagesSent'],
    ],
  },
  'AWS/Scheduler': {
    ...{ dimension: 'ScheduleGroup', place: /^[\w-]+-Minute-Group-\w+$/ },
    names: ['InvocationAttemptCount', 'InvocationDroppedCount'],
  },
  'AWS/RDS': {
    ...{ dimension: 'DBClusterIdentifier', place: /^Ledger\/Database\/Cluster$/ },
    names: ['ACUUtilization', 'ServerlessDatabaseCapacity'],
  },
};

describe.each(dashboards)('%s', (_id, { widgets, bytes }) => {
  const metrics = widgets.flatMap(metricsOf);

  test('has metrics of AWS alone that AWS has, each of a resource of the stack', () => {
    const foreign = metrics.filter(({ namespace }) => namespace !== 'ReminderLedger');
    expect(foreign.length).toBeGreaterThan(3);
    for (const { namespace, name, dimensions } of foreign) {
      const service = ofServices[namespace];
      expect(service?.names, `${namespace} ${name}`).toContain(name);
      expect(Object.keys(dimensions)).toEqual([service?.dimension]);
      expect(dimensions[service?.dimension ?? '']).toMatch(service?.place ?? /^$/);
    }
  });

  test('has of the observer what it measures, and of no function that there is not', () => {
    const own = metrics.filter(({ namespace }) => namespace === 'ReminderLedger');
    expect(own.length).toBeGreaterThan(10);
    const names = functions.map(({ name }) => name as string);
    for (const { name, dimensions } of own) {
      expect(Object.keys(dimensions)).toEqual(['service']);
      expect(names).toContain(dimensions.service);
      if (dimensions.service === 'observe') expect([...Object.keys(measures), heartbeat]).toContain(name);
    }
  });

  // Amazon CloudWatch User Guide, "CloudWatch service quotas" and "Dashboard Body Structure": none of them can be raised.
  test('fits: 500 widgets, 500 metrics in one, 2,500 in all, 100 alarms in one', () => {
    expect(widgets.length).toBeLessThanOrEqual(500);
    for (const widget of widgets) {
      expect(metricsOf(widget).length).toBeLessThanOrEqual(500);
      expect(widget.properties.alarms?.length ?? 0).toBeLessThanOrEqual(100);
      expect(widget.x + widget.width).toBeLessThanOrEqual(24);
    }
    expect(metrics.length).toBeLessThanOrEqual(2500);
    // A stack may have a megabyte of template, of which this is a small part.
    expect(bytes).toBeLessThan(40_000);
  });

  test('overlaps nowhere, and each graph has a title', () => {
    const cells = widgets.flatMap(({ x, y, width, height }) =>
      Array.from({ length: width * height }, (_, place) => `${x + (place % width)}/${y + Math.floor(place / width)}`),
    );
    expect(new Set(cells).size).toBe(cells.length);
    for (const { type, properties } of widgets) if (type !== 'text') expect(properties.title).toMatch(/\w/);
  });
});

test('every measure of the observer is in one of them', () => {
  const shown = dashboards.flatMap(([, { widgets }]) => widgets.flatMap(metricsOf).map(({ name }) => name));
  expect([...Object.keys(measures), heartbeat].filter((name) => !shown.includes(name))).toEqual([]);
});

test('the first shows every alarm that tells somebody, and none that another follows', () => {
  const widget = dashboards[0]?.[1].widgets.find(({ type }) => type === 'alarm');
  const telling = [...found.resources]
    .filter(([path, { Type }]) => /^AWS::CloudWatch::\w*Alarm$/.test(Type) && !path.endsWith('-measured'))
    // These two only keep others quiet.
    .filter(([path]) => !/\/(just-deployed|nothing-to-go-by)$/.test(path))
    .map(([path]) => `${path}.Arn`);
  expect(widget?.properties.alarms?.toSorted()).toEqual(telling.toSorted());
});

describe('the widget', () => {
  const widget = dashboards[1]?.[1].widgets.find(({ type }) => type === 'custom');

  test('is the function by its alias, which CloudWatch knows by its tag, with parameters that it takes', () => {
    expect(widget?.properties.endpoint).toBe('Ledger/Widget/Function/Aliaslook');
    expect(found.properties('Ledger/Widget/Function')).toMatchObject({
      Tags: expect.arrayContaining([{ Key: 'cw-custom-widget', Value: 'describe:readOnly' }]),
    });
    expect(widget?.properties.params).toEqual({ stack: 'ReminderLedger', logGroup: 'Ledger/WebhookSender/Log' });
    expect(widgetRequest.safeParse(widget?.properties.params).success).toBe(true);
  });

  test('is invoked by whom grantLook names, by that alias alone; nobody else may', () => {
    const stack = new ReminderLedgerStack(newApp(), 'ReminderLedger');
    stack.ledger.grantLook(new Role(stack, 'Watcher', { assumedBy: new AccountPrincipal('111122223333') }));
    const { properties, resources, text } = synthesized(stack);
    const { PolicyDocument } = properties<{ PolicyDocument: { Statement: { Action: string; Resource: unknown }[] } }>(
      'Watcher/DefaultPolicy',
    );
    expect(PolicyDocument.Statement.map(({ Action, Resource }) => [Action, text(Resource)])).toEqual([
      ['lambda:InvokeFunction', 'Ledger/Widget/Function/Aliaslook'],
    ]);
    const open = [...resources.values()].filter(
      ({ Type, Properties }) => Type === 'AWS::Lambda::Permission' && text(Properties.FunctionName).includes('Widget'),
    );
    expect(open).toEqual([]);
  });
});
