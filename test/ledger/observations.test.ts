// What one look sees of the calendar: each measure moved by a row in a situation of its own, and left alone by its neighbours.
import { v7 as uuid } from 'uuid';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { heartbeat, measures, observeLedger } from '../../lambdas/core/observe-ledger.ts';
import { postgresObservations } from '../../lambdas/store/observations.ts';
import { empty, ledgerTables } from './ledger-rows.ts';
import { about, lookAt, seenIn, since } from './one-look.ts';
import { arrange, inSeconds, insert } from './situations.ts';
import { startTestLedger, type TestLedger, worker } from './test-ledger.ts';

let ledger: TestLedger;
let tables: string[];
beforeAll(async () => {
  ledger = await startTestLedger();
  tables = await ledgerTables(ledger);
});
afterAll(() => ledger.stop());
beforeEach(() => empty(ledger, tables));

const look = () => lookAt(ledger);
const seen = () => seenIn(ledger);

test('an empty ledger is all zeros, and all of them are published, with a heartbeat', async () => {
  const published: [string, number][] = [];
  const meter = {
    count: (name: string, value = 1) => void published.push([name, value]),
    milliseconds: (name: string, value: number) => void published.push([name, value]),
    percent: (name: string, value: number) => void published.push([name, value]),
  };
  const logged: string[] = [];
  const log = { info: (event: string) => void logged.push(event), warn: () => undefined, error: () => undefined };
  await observeLedger(postgresObservations(ledger.database), { meter, log });
  const [estimate, ...others] = Object.keys(measures);
  expect(estimate).toBe('in_calendar');
  expect(published.slice(1)).toEqual([...others.map((name) => [name, 0]), [heartbeat, 1]]);
  expect(logged).toEqual([]);
});

test('a look that fails publishes nothing, the heartbeat neither', async () => {
  const failing = { look: () => Promise.reject(new Error('gone')) };
  const meter = {
    count: () => expect.fail('published'),
    milliseconds: () => expect.fail('published'),
    percent: () => expect.fail('published'),
  };
  const log = { info: () => undefined, warn: () => undefined, error: () => undefined };
  await expect(observeLedger(failing, { meter, log })).rejects.toThrow('gone');
});

describe('overdue', () => {
  const overdue = { dueIn: -300, wakeIn: -480, columns: since(3600) };

  test('is a scheduled row that is due, as long as it is due', async () => {
    await arrange(ledger, 'scheduled', overdue);
    await arrange(ledger, 'scheduled', { ...overdue, dueIn: -200 });
    expect(await seen()).toMatchObject({ overdue: 2, overdue_age: about(300) });
  });

  test.each([
    ['a row within the lookahead', { ...overdue, dueIn: 60, wakeIn: -120 }],
    ['a row that all dispatch is paused for', { ...overdue, paused: true }],
    ['a parked row', { ...overdue, destination: { state: 'paused' }, columns: { parked: true, wake_at: 'infinity' } }],
    [
      'a parked row whose time is over',
      { ...overdue, expiresIn: -1, destination: { state: 'paused' }, columns: { parked: true } },
    ],
    [
      'a row that expires before it is given back to the calendar',
      { ...overdue, expiresIn: -1, columns: { ...overdue.columns, parked: true } },
    ],
    ['a row that the next claim will park', { ...overdue, destination: { state: 'disabled' } }],
  ])('is not: %s', async (_, under) => {
    await arrange(ledger, 'scheduled', under);
    const { overdue: count, overdue_age: age } = (await look()).measured;
    expect([count, age]).toEqual([0, 0]);
  });

  test('counts from when a claim could take it: an asked-for past, or a stay in the parking lot, is no lag', async () => {
    await arrange(ledger, 'scheduled', { dueIn: -86_400, columns: since(20) });
    expect(await seen()).toMatchObject({ overdue: 1, overdue_age: about(20) });
  });

  test('goes on counting while the queue refuses the row again and again', async () => {
    const refused = { columns: { ...since(1), invitations: 3 } };
    await arrange(ledger, 'scheduled', { dueIn: -300, wakeIn: 240, ...refused });
    await arrange(ledger, 'scheduled', { dueIn: -200, wakeIn: -1, ...refused });
    expect(await seen()).toMatchObject({ overdue: 2, overdue_age: about(300) });
  });

  test('is not a row that was set aside, which has a count of its own', async () => {
    const { deliveryId } = await arrange(ledger, 'scheduled', overdue);
    const columns = {
      delivery_id: deliveryId,
      token: uuid(),
      excluded_at: inSeconds(-9),
      sql_state: 'XX001',
      reason: 'r',
    };
    await insert(ledger, 'claim_exclusion', columns);
    expect(await seen()).toEqual({ excluded: 1 });
    await ledger.sql('UPDATE claim_exclusion SET readmitted_at = now()');
    expect(await seen()).toMatchObject({ overdue: 1, overdue_age: about(300) });
  });
});

describe('queued', () => {
  const waiting = { dueIn: -900, wakeIn: -1, columns: { first_invited_at: inSeconds(-850) } };

  test('counts from the first invitation, also when it is invited again', async () => {
    const { deliveryId } = await arrange(ledger, 'queued', waiting);
    expect(await seen()).toMatchObject({ queued: 1, queued_age: about(850) });
    const token = uuid();
    await ledger.ledger.claim({ token, worker, limit: 10, lowWater: null });
    expect(await seen()).toMatchObject({ dispatching: 1 });
    const receipts = [{ deliveryId, messageId: 'again', queue: 'q', delaySeconds: 0 }];
    expect(await ledger.ledger.enqueue({ claimToken: token, receipts })).toBe(1);
    expect(await seen()).toMatchObject({ queued: 1, queued_age: about(850) });
  });

  test('counts from its due time where it was invited before', async () => {
    await arrange(ledger, 'queued', { ...waiting, dueIn: -100 });
    expect(await seen()).toMatchObject({ queued: 1, queued_age: about(100) });
  });

  test.each([
    ['is not yet due', { ...waiting, dueIn: 60 }],
    ['all dispatch is paused', { ...waiting, paused: true }],
    ['its destination is paused', { ...waiting, destination: { state: 'paused' } }],
  ])('has no age while %s', async (_, under) => {
    await arrange(ledger, 'queued', under);
    expect((await look()).measured).toMatchObject({ queued: 1, queued_age: 0 });
  });
});

describe('an abandoned lease', () => {
  const past = (seconds: number) => ({ columns: { lease_until: inSeconds(-seconds) } });

  test('of a claim counts since it passed', async () => {
    await arrange(ledger, 'dispatching', past(240));
    await arrange(ledger, 'dispatching', past(200));
    expect(await seen()).toMatchObject({ dispatching: 2, dispatching_abandoned_age: about(240) });
  });

  test('of a sender counts since it passed, under a pause too: a claim closes it then as well', async () => {
    await arrange(ledger, 'delivering, lease past', { ...past(240), paused: true });
    expect(await seen()).toMatchObject({ delivering: 1, delivering_abandoned_age: about(240) });
  });

  test('of a claim is no trouble under a pause, which keeps it as it is', async () => {
    await arrange(ledger, 'dispatching', { ...past(240), paused: true });
    expect((await look()).measured).toMatchObject({ dispatching: 1, dispatching_abandoned_age: 0 });
  });

  test('is none while it lives', async () => {
    await arrange(ledger, 'dispatching');
    await arrange(ledger, 'delivering, lease live');
    expect((await look()).measured).toMatchObject({
      ...{ dispatching: 1, dispatching_abandoned_age: 0 },
      ...{ delivering: 1, delivering_abandoned_age: 0 },
    });
  });
});

describe('ahead', () => {
  test('what comes due within the hour counts, what is in flight or later does not', async () => {
    await arrange(ledger, 'scheduled', { dueIn: 1800, wakeIn: 1620 });
    await arrange(ledger, 'scheduled', { dueIn: 60, wakeIn: -120 });
    await arrange(ledger, 'scheduled', { dueIn: 3700, wakeIn: 3520 });
    await arrange(ledger, 'queued', { dueIn: 60, wakeIn: 180 });
    expect((await look()).measured).toMatchObject({ due_next_hour: 2, queued: 1 });
  });

  test('the size of the calendar is what the last ANALYZE found', async () => {
    await arrange(ledger, 'scheduled', { dueIn: 1e6, wakeIn: 1e6 });
    await arrange(ledger, 'delivered');
    await ledger.sql('ANALYZE reminder_delivery');
    expect((await look()).measured.in_calendar).toBe(1);
  });
});

test('a pause counts since it began', async () => {
  await ledger.sql(`UPDATE dispatch_gate SET paused = true, paused_since = now() - interval '1900 s'`);
  expect(await seen()).toEqual({ paused_age: about(1900) });
});

test('the oldest end that was not announced counts since it happened', async () => {
  const { deliveryId } = await arrange(ledger, 'delivered');
  const ended = (seconds: number, version: number, announced: Date | null) =>
    insert(ledger, 'lifecycle_event', {
      ...{ delivery_id: deliveryId, version, state: 'delivered' },
      ...{ occurred_at: inSeconds(-seconds), announced_at: announced },
    });
  await ended(2000, 1, new Date());
  await ended(1000, 2, null);
  await ended(10, 3, null);
  expect(await seen()).toEqual({ unannounced_age: about(1000) });
});
