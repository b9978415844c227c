// The alarms over what the observer sees of a database in trouble: each rings and is over, and no other way round.
import { Stack } from 'aws-cdk-lib';
import { Topic } from 'aws-cdk-lib/aws-sns';
import { v7 as uuid } from 'uuid';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { observeLedger } from '../../lambdas/core/observe-ledger.ts';
import { observeFunction } from '../../lambdas/observe/contract.ts';
import { postgresObservations } from '../../lambdas/store/observations.ts';
import { ReminderLedger } from '../../lib/stack/reminder-ledger.ts';
import { empty, ledgerTables } from '../ledger/ledger-rows.ts';
import { since } from '../ledger/one-look.ts';
import { openOne, recover, settleAll } from '../ledger/one-reminder.ts';
import { arrange, inSeconds, insert } from '../ledger/situations.ts';
import { outcome, startTestLedger, type TestLedger } from '../ledger/test-ledger.ts';
import { runAlarms, type Series, type Told } from './alarm-evaluation.ts';
import { printedBy, readBy } from './alarm-metrics.ts';
import { newApp, synthesized } from './synthesized.ts';

const stack = new Stack(newApp(), 'Shop');
new ReminderLedger(stack, 'Ledger', {
  alarmTopics: { page: new Topic(stack, 'page'), warn: new Topic(stack, 'warn') },
});
const template = synthesized(stack);
const alarms = [...template.resources].filter(([, { Type }]) => /^AWS::CloudWatch::(Composite)?Alarm$/.test(Type));
const telling = alarms.flatMap(([path, { Properties }]) =>
  Properties.AlarmActions === undefined ? [] : [path.replace('Ledger/Alarms/', '')],
);

let ledger: TestLedger;
let tables: string[];
beforeAll(async () => {
  ledger = await startTestLedger();
  tables = await ledgerTables(ledger);
});
afterAll(() => ledger.stop());
beforeEach(() => empty(ledger, tables));

type Values = ReadonlyMap<string, number>;

/** What the observer publishes of the database as it is. */
async function look(): Promise<Values> {
  const log = { info: () => undefined, warn: () => undefined, error: () => undefined };
  const printed = await printedBy(observeFunction.name, (meter) =>
    observeLedger(postgresObservations(ledger.database), { log, meter }),
  );
  return new Map([...printed].map(([name, { value }]) => [name, Number(value)]));
}

/** A ledger at work: delivered reminders, one on its way, one for later. */
async function healthy(): Promise<Values> {
  await empty(ledger, tables);
  await settled(3, {});
  await ledger.sql('UPDATE lifecycle_event SET announced_at = now()');
  await arrange(ledger, 'queued', { dueIn: -1 });
  await arrange(ledger, 'scheduled', { dueIn: 1800, wakeIn: 1620 });
  return look();
}

/** Reminders that are opened and settled so. */
async function settled(count: number, how: Parameters<typeof outcome>[2]): Promise<void> {
  for (let place = 0; place < count; place += 1) {
    const { deliveryId } = await arrange(ledger, 'queued');
    const token = uuid();
    await openOne(ledger, deliveryId, token);
    await settleAll(ledger, outcome(deliveryId, token, how));
  }
}

/** Whether a canary comes in this minute; it did so before the first, too. */
const inTurn = (minute: number) => (((minute - 3) % 5) + 5) % 5 === 0;

/** What AWS and the other functions publish each minute, when all is well; `over` goes before it. */
const quiet =
  (over: (metric: string, minute: number) => number | undefined | null = () => undefined): Series =>
  (metric, minute) => {
    const value = over(metric, minute);
    if (value !== undefined) return value ?? undefined;
    if (metric.includes('canary_lateness')) return inTurn(minute) ? 800 : undefined;
    if (metric.includes('lease_used')) return 10;
    if (metric.includes('settle_failed') || metric.includes(' service=observe')) return undefined;
    if (metric.startsWith('AWS/Lambda Invocations')) return metric.includes('LedgerMigrate') ? undefined : 1;
    return metric.includes('ACUUtilization') ? 20 : 0;
  };

/** A look each minute, by what it saw at that time; null: nobody looks. */
const observedAs = (seenAt: (minute: number) => Values | null): Series =>
  quiet((metric, minute) => {
    if (!metric.endsWith(' service=observe')) return undefined;
    return seenAt(minute)?.get(metric) ?? null;
  });

const told = (series: Series, until = 120, from = 0): Told[] => runAlarms(template, series, { from, until });
const of = (all: readonly Told[], alarm: string) => all.filter((one) => one.alarm === alarm).map(({ state }) => state);

test('a healthy hour rings none', async () => {
  const well = await healthy();
  expect(told(observedAs(() => well))).toEqual([]);
});

/** How the database comes into the state that the alarm is about. */
const states: Readonly<Record<string, () => Promise<unknown>>> = {
  'scheduler-lag': () => arrange(ledger, 'scheduled', { dueIn: -300, wakeIn: -480, columns: since(3600) }),
  'scheduler-lag-long': () => arrange(ledger, 'scheduled', { dueIn: -700, wakeIn: -880, columns: since(3600) }),
  'abandoned-dispatching': () => arrange(ledger, 'dispatching', { columns: { lease_until: inSeconds(-240) } }),
  'broken-handoff': () => arrange(ledger, 'queued', { dueIn: -900, columns: { first_invited_at: inSeconds(-850) } }),
  'abandoned-delivering': () =>
    arrange(ledger, 'delivering, lease past', { columns: { lease_until: inSeconds(-240) } }),
  'dead-unreviewed': () => arrange(ledger, 'dead', { columns: since(5 * 3600) }),
  'held-unreviewed': () => arrange(ledger, 'held', { columns: since(5 * 3600) }),
  async 'parked-but-active'() {
    await arrange(ledger, 'scheduled', { columns: { parked: true, wake_at: 'infinity', ...since(900) } });
    await ledger.sql(`UPDATE destination SET state_since = now() - interval '400 s'`);
  },
  async 'rows-excluded'() {
    const { deliveryId } = await arrange(ledger, 'scheduled', { dueIn: -300 });
    const because = { excluded_at: inSeconds(-9), sql_state: 'XX001', reason: 'r' };
    await insert(ledger, 'claim_exclusion', { delivery_id: deliveryId, token: uuid(), ...because });
  },
  'paused-too-long': () =>
    ledger.sql(`UPDATE dispatch_gate SET paused = true, paused_since = now() - interval '31 min'`),
  async 'outbox-lag'() {
    const { deliveryId } = await arrange(ledger, 'delivered');
    const ended = { version: 1, state: 'delivered', occurred_at: inSeconds(-1000), announced_at: null };
    await insert(ledger, 'lifecycle_event', { delivery_id: deliveryId, ...ended });
  },
  'dead-reminder': () => settled(1, { outcome: 'permanent', status: 400 }),
  'dead-rate': () => settled(10, { outcome: 'permanent', status: 400 }),
  'unknown-outcomes': () => settled(5, { outcome: 'unknown', status: null, errorClass: 'deadline' }),
  async 'rescue-rate'() {
    for (let place = 0; place < 10; place += 1) {
      const { deliveryId } = await arrange(ledger, 'queued');
      await openOne(ledger, deliveryId, uuid());
      await recover(ledger, deliveryId);
    }
  },
  async 'endpoint-trouble'() {
    const failing = { attempts: 3, dueIn: 60, wakeIn: 60 };
    const { destinationId } = await arrange(ledger, 'scheduled', { ...failing, columns: { failures: 3 } });
    for (let place = 1; place < 10; place += 1) {
      await arrange(ledger, 'scheduled', { ...failing, columns: { failures: 3, destination_id: destinationId } });
    }
  },
};

describe('a database in trouble', () => {
  test.each(Object.keys(states))('%s rings while it is in that state, once, and is over afterwards', async (alarm) => {
    const well = await healthy();
    await states[alarm]?.();
    const ill = await look();
    const all = told(observedAs((minute) => (minute >= 30 && minute < 60 ? ill : well)));
    expect(of(all, alarm)).toEqual(['ALARM', 'OK']);
  });

  test('dead rows an hour apart ring both times, though nobody has looked at the first', async () => {
    const before = await healthy();
    await settled(1, { outcome: 'permanent', status: 400 });
    const first = await look();
    // As if an hour went by: evidence itself never changes.
    await ledger.sql(
      `BEGIN; SET LOCAL session_replication_role = replica;
       UPDATE attempt_outcome SET recorded_at = recorded_at - interval '1 hour'; COMMIT`,
    );
    const between = await look();
    await settled(1, { outcome: 'permanent', status: 400 });
    const second = await look();
    const names = ['dead_unreviewed', 'recent_dead'].map((name) => `ReminderLedger ${name} service=observe`);
    const counts = [before, first, between, second].map((seen) => names.map((name) => seen.get(name)));
    expect(counts).toEqual([
      [0, 0],
      [1, 1],
      [1, 0],
      [2, 1],
    ]);
    // A look sees an outcome for five minutes.
    const seenAt = (minute: number) => {
      if (minute < 20) return before;
      if (minute < 25) return first;
      return minute >= 80 && minute < 85 ? second : between;
    };
    expect(told(observedAs(seenAt)).map(({ alarm, minute, state }) => [alarm, minute, state])).toEqual([
      ['dead-reminder', 20, 'ALARM'],
      ['dead-reminder', 25, 'OK'],
      ['dead-reminder', 80, 'ALARM'],
      ['dead-reminder', 85, 'OK'],
    ]);
  });
});

/** What the metric of an alarm is while it rings, of those that are no look's. Null: nothing is published. */
const elsewhere: Readonly<Record<string, (metric: string) => number | null | undefined>> = {
  'lease-headroom-claim': (metric) => (metric.includes('lease_used') && metric.endsWith('=claim') ? 80 : undefined),
  'lease-headroom-webhook-sender': (metric) =>
    metric.includes('lease_used') && metric.endsWith('=webhook-sender') ? 80 : undefined,
  'settle-failed': (metric) => (metric.includes('settle_failed') ? 1 : undefined),
  'canary-late': (metric) => (metric.includes('canary_lateness') ? null : undefined),
  'tick-not-running': (metric) =>
    metric.startsWith('AWS/Lambda Invocations') && metric.includes('LedgerClaim') && metric.includes(':tick')
      ? null
      : undefined,
  'observer-silent': (metric) => (metric.endsWith(' service=observe') ? null : undefined),
  'database-capacity': (metric) => (metric.includes('ACUUtilization') ? 90 : undefined),
  'queue-age': (metric) => (metric.includes('ApproximateAgeOfOldestMessage') ? 400 : undefined),
  'dead-letters': (metric) => (metric.includes('NotVisible') && metric.includes('DeadLetters') ? 1 : undefined),
  'lost-ticks': (metric) => (metric.includes('LostTicks') ? 1 : undefined),
  'schedule-drops': (metric) => (metric.startsWith('AWS/Scheduler') ? 1 : undefined),
};

describe('what others measure', () => {
  test.each(Object.entries(elsewhere))(
    '%s rings while it is so, once, and is over afterwards',
    async (alarm, metric) => {
      const well = await healthy();
      const series = quiet((name, minute) => {
        const bad = minute >= 30 && minute < 60 ? metric(name) : undefined;
        return bad === undefined ? well.get(name) : bad;
      });
      expect(told(series).map((one) => [one.alarm, one.state])).toEqual([
        [alarm, 'ALARM'],
        [alarm, 'OK'],
      ]);
    },
  );

  test('a late canary rings too, and one that is late once does not', async () => {
    const well = await healthy();
    const late = (from: number, until: number) =>
      told(
        quiet((name, minute) => {
          const canary = name.includes('canary_lateness') && inTurn(minute) && minute >= from && minute < until;
          return canary ? 61_000 : well.get(name);
        }),
      );
    expect(of(late(30, 60), 'canary-late')).toEqual(['ALARM', 'OK']);
    expect(late(30, 35)).toEqual([]);
  });

  test.each(telling.filter((alarm) => /-(errors|throttles)$/.test(alarm)))('%s rings and is over', async (alarm) => {
    const well = await healthy();
    const [, failing = ''] = /-(errors|throttles)$/.exec(alarm) ?? [];
    const named = template.resources.get(`Ledger/Alarms/${alarm}`);
    const reads = (named === undefined ? [] : readBy(named)).filter((name) =>
      name.toLowerCase().includes(` ${failing} `),
    );
    expect(reads).toHaveLength(1);
    const series = quiet((name, minute) => (reads.includes(name) && minute >= 30 && minute < 60 ? 1 : well.get(name)));
    expect(told(series).map((one) => [one.alarm, one.state])).toEqual([
      [alarm, 'ALARM'],
      [alarm, 'OK'],
    ]);
  });

  test('of every alarm that tells somebody it was shown that it rings', () => {
    const shown = [...Object.keys(states), ...Object.keys(elsewhere)];
    expect(telling.filter((alarm) => !/-(errors|throttles)$/.test(alarm)).toSorted()).toEqual(shown.toSorted());
  });
});

test('a silent observer pages once, for itself, and holds no trouble back that outlasts it', async () => {
  const well = await healthy();
  const silent = observedAs((minute) => (minute >= 30 && minute < 60 ? null : well));
  expect(told(silent).map(({ alarm, state }) => [alarm, state])).toEqual([
    ['observer-silent', 'ALARM'],
    ['observer-silent', 'OK'],
  ]);
  await states['broken-handoff']?.();
  const ill = await look();
  const during = observedAs((minute) => (minute < 30 ? well : minute < 60 ? null : ill));
  expect(told(during).map(({ alarm, state }) => [alarm, state])).toEqual([
    ['observer-silent', 'ALARM'],
    ['observer-silent', 'OK'],
    ['broken-handoff', 'ALARM'],
  ]);
});

describe('a first deployment', () => {
  // Migrated in minute 0; schedules and alarms some minutes later; the first data when their turn has come.
  const deployed = (first: Values | null, migrated: boolean): Series =>
    quiet((metric, minute) => {
      if (metric.includes('LedgerMigrate') && metric.includes('Invocations'))
        return migrated && minute === 0 ? 1 : null;
      if (minute < 8) return null;
      if (metric.includes('canary_lateness')) return minute >= 13 ? undefined : null;
      return metric.endsWith(' service=observe') ? (first?.get(metric) ?? null) : undefined;
    });

  test('pages nobody', async () => {
    expect(told(deployed(await look(), true), 120, 4)).toEqual([]);
  });

  test('would page for want of data, were it not known that there was one', async () => {
    const pages = told(deployed(await look(), false), 120, 4).map(({ alarm }) => alarm);
    expect(pages).toEqual(expect.arrayContaining(['observer-silent', 'tick-not-running', 'canary-late']));
  });

  test('that leaves no observer and no tick behind pages for both, when it has had its time', async () => {
    const series: Series = (metric, minute) => {
      if (metric.startsWith('AWS/Lambda Invocations') && metric.includes(':tick')) return undefined;
      return deployed(null, true)(metric, minute);
    };
    const pages = told(series, 120, 4);
    expect(pages.map(({ alarm }) => alarm).toSorted()).toEqual(['observer-silent', 'tick-not-running']);
    for (const { minute } of pages) expect(minute).toBeLessThanOrEqual(25);
  });
});
