// The demo's verdict by itself: a clean log breaks nothing, and each planted breach is found and named.
import { describe, expect, test } from 'vitest';
import { type Asked, type Part, planDemo } from '../../bin/demo-plan.ts';
import { sabotages } from '../../bin/demo-sabotage.ts';
import { type Intent, judge, latenessBoundMs, percentile, type Received } from '../../bin/demo-verdict.ts';
import { settingsOf } from '../../lambdas/core/settings.ts';

interface Log {
  readonly asked: Asked[];
  received: Received[];
  intents: Intent[];
  readonly mayRepeat: Set<string>;
}

/** What a run leaves in which every promise held: failures retried, a killed sender, cancels and reschedules included. */
function cleanLog(): Log {
  const { asked: planned } = planDemo(settingsOf('rehearsal'), 300, 1_800_000_000_000);
  const asked = planned.map((one, no) => ({
    ...one,
    deliveryId: `delivery-${no}`,
    cancelled: one.part === 'cancelled',
  }));
  const log: Log = { asked, received: [], intents: [], mayRepeat: new Set() };
  for (const one of asked) {
    if (one.cancelled || one.part === 'far') continue;
    // A killed sender had its answer, perhaps: the request shows a 2xx, and comes again.
    const statuses = { flaky: [500, 500, 200], killed: [200, 200] }[one.part as string] ?? [200];
    if (one.part === 'killed') log.mayRepeat.add(one.deliveryId);
    for (const [no, status] of statuses.entries()) {
      const at = one.dueAt + 20 + no * 1000;
      log.intents.push({ deliveryId: one.deliveryId, startedAt: at - 5 });
      log.received.push({
        at,
        webhookId: one.deliveryId,
        idempotencyKey: one.key,
        bodySha256: one.payloadSha256,
        status,
      });
    }
  }
  return log;
}

const verdictOn = ({ asked, received, intents, mayRepeat }: Log) => judge(asked, received, intents, mayRepeat);

function first(log: Log, part: Part): { one: Asked; request: Received } {
  const one = log.asked.find((each) => each.part === part);
  const request = log.received.find(({ webhookId }) => webhookId === one?.deliveryId);
  if (one === undefined) throw new Error(`the plan has no ${part}`);
  return { one, request: request ?? { at: 0, webhookId: '', idempotencyKey: '', bodySha256: null, status: null } };
}

/** Puts another request in place of one. */
function change(log: Log, request: Received, changes: Partial<Received>): void {
  log.received = log.received.map((each) => (each === request ? { ...each, ...changes } : each));
}

test('a log in which every promise held breaks nothing, and is counted', () => {
  const log = cleanLog();
  const verdict = verdictOn(log);
  expect(verdict.broken).toEqual([]);
  expect(verdict.arrived).toBe(log.asked.length - 11);
  expect(verdict.latenessMs).toEqual(log.asked.filter(({ part }) => part === 'plain').map(() => 20));
  const { one } = first(log, 'killed');
  expect(verdict.repeated).toEqual([{ deliveryId: one.deliveryId, requests: 2, keys: 1 }]);
});

/** The promise that must be named, what was done to the log, and how. */
const breaches: [promise: string, what: string, plant: (log: Log) => void][] = [
  [
    'P1 no loss',
    'a request is missing',
    (log) => {
      const { request } = first(log, 'plain');
      log.received = log.received.filter((each) => each !== request);
    },
  ],
  ['P1 no loss', 'no answer was a 2xx', (log) => change(log, first(log, 'lost').request, { status: 500 })],
  [
    'P1 no loss',
    'it was cut before its answer',
    (log) => change(log, first(log, 'duplicated').request, { status: null }),
  ],
  [
    'P1 no loss',
    'nothing came at all',
    (log) => {
      log.received = [];
    },
  ],
  ['P2 one identity', 'another key', (log) => change(log, first(log, 'plain').request, { idempotencyKey: 'other' })],
  [
    'P2 one identity',
    'another key the second time',
    (log) => {
      const { one } = first(log, 'killed');
      const second = log.received.findLast(({ webhookId }) => webhookId === one.deliveryId);
      if (second) change(log, second, { idempotencyKey: `${one.key}-new` });
    },
  ],
  ['P2 one identity', 'other bytes', (log) => change(log, first(log, 'flaky').request, { bodySha256: 'other' })],
  [
    'P2 one identity',
    'an id that nobody was given',
    (log) => {
      log.received.push({ ...first(log, 'plain').request, webhookId: 'nobody' });
    },
  ],
  [
    'P3 terminal means terminal',
    'sent again after a 2xx',
    (log) => {
      const { one, request } = first(log, 'plain');
      log.received.push({ ...request, at: request.at + 1000 });
      log.intents.push({ deliveryId: one.deliveryId, startedAt: request.at + 500 });
    },
  ],
  [
    'P3 terminal means terminal',
    'sent again after a 2xx, which failed',
    (log) => {
      const { one, request } = first(log, 'duplicated');
      log.received.push({ ...request, at: request.at + 1000, status: 500 });
      log.intents.push({ deliveryId: one.deliveryId, startedAt: request.at + 500 });
    },
  ],
  [
    'P5 ledger first',
    'no attempt was recorded',
    (log) => {
      const { one } = first(log, 'plain');
      log.intents = log.intents.filter(({ deliveryId }) => deliveryId !== one.deliveryId);
    },
  ],
  [
    'P5 ledger first',
    'one attempt for two requests',
    (log) => {
      const { one } = first(log, 'killed');
      const last = log.intents.findLastIndex(({ deliveryId }) => deliveryId === one.deliveryId);
      log.intents = log.intents.filter((_, place) => place !== last);
    },
  ],
  [
    'P5 ledger first',
    'the attempt was recorded after the request',
    (log) => {
      const { one, request } = first(log, 'plain');
      log.intents = log.intents.map((each) =>
        each.deliveryId === one.deliveryId ? { ...each, startedAt: request.at + 1 } : each,
      );
    },
  ],
  [
    'P10 never before it is due',
    'a millisecond early',
    (log) => {
      const { one, request } = first(log, 'plain');
      change(log, request, { at: one.dueAt - 1 });
      log.intents.push({ deliveryId: one.deliveryId, startedAt: one.dueAt - 2 });
    },
  ],
  [
    'P10 never before it is due',
    'the one due in forty days came',
    (log) => {
      const { one } = first(log, 'far');
      const { request } = first(log, 'plain');
      log.received.push({
        ...request,
        webhookId: one.deliveryId,
        idempotencyKey: one.key,
        bodySha256: one.payloadSha256,
      });
      log.intents.push({ deliveryId: one.deliveryId, startedAt: request.at - 1 });
    },
  ],
  [
    'P10 never after a cancel',
    'a cancelled one came',
    (log) => {
      const { one } = first(log, 'cancelled');
      const { key: idempotencyKey, payloadSha256: bodySha256, deliveryId: webhookId, dueAt: at } = one;
      log.received.push({ at, webhookId, idempotencyKey, bodySha256, status: 200 });
      log.intents.push({ deliveryId: webhookId, startedAt: at });
    },
  ],
  [
    'on time',
    'two in a hundred come late',
    (log) => {
      const plain = log.asked.filter(({ part }) => part === 'plain');
      const late = new Set(plain.slice(0, Math.ceil(plain.length / 50)).map(({ deliveryId }) => deliveryId));
      log.received = log.received.map((each) =>
        late.has(each.webhookId) ? { ...each, at: each.at + latenessBoundMs } : each,
      );
    },
  ],
];

describe('a breach', () => {
  test.each(breaches)('of "%s" is found and named, and no other: %s', (promise, what, plant) => {
    const log = cleanLog();
    plant(log);
    const { broken } = verdictOn(log);
    expect(broken, what).toEqual([expect.stringMatching(`^${promise}: `)]);
  });

  test.each(Object.entries(sabotages))(
    'of sabotage "%s" breaks a promise that the verdict can name',
    (_name, promise) => {
      expect(breaches.map(([named]) => named)).toContain(promise);
    },
  );

  test('names the first reminder that shows it, and how many do', () => {
    const log = cleanLog();
    const [one, other] = log.asked.filter(({ part }) => part === 'plain');
    log.received = log.received.filter(
      ({ webhookId }) => webhookId !== one?.deliveryId && webhookId !== other?.deliveryId,
    );
    expect(verdictOn(log).broken).toEqual([expect.stringContaining(`; 2 broke it, first ${one?.key}`)]);
  });
});

test('a percentile is a value of the row, and the last for the highest shares', () => {
  const row = Array.from({ length: 100 }, (_, no) => no);
  expect([percentile(row, 0), percentile(row, 0.5), percentile(row, 0.99), percentile(row, 1)]).toEqual([
    0, 50, 99, 99,
  ]);
  expect(percentile([7], 0.99)).toBe(7);
  expect(percentile([], 0.99)).toBeNaN();
});
