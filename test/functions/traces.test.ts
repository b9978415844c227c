// What deliveries leave behind elsewhere: dead letters, announcements, and nothing about the people they are for.
import { SetQueueAttributesCommand } from '@aws-sdk/client-sqs';
import { v7 as uuid } from 'uuid';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { claim } from '../../lambdas/store/statements/claim.ts';
import { schedule } from '../../lambdas/store/statements/schedule.ts';
import { eventually, idsOf, invitation, type RunningLedger, startRunningLedger } from './running-ledger.ts';

let ledger: RunningLedger;
let ok: string;
beforeAll(async () => {
  ledger = await startRunningLedger();
  ok = await ledger.destination('/ok');
}, 60_000);
afterAll(() => ledger.stop());
// A test that failed half way must not fail the next.
afterEach(() => ledger.aws.eventSource.resume());

/** The events of a reminder that the bus accepted. */
const announced = (deliveryId: string) =>
  ledger.aws.bus.events
    .map(({ DetailType, Detail = '' }) => ({ type: DetailType, ...JSON.parse(Detail) }))
    .filter((event) => event.deliveryId === deliveryId);

test('what is no invitation, or names nobody, ends in the dead-letter queue and harms no neighbour', async () => {
  const visibility = (seconds: number) =>
    ledger.sqs.send(
      new SetQueueAttributesCommand({
        QueueUrl: ledger.aws.queue.url,
        Attributes: { VisibilityTimeout: String(seconds) },
      }),
    );
  const unknown = uuid();
  const bad = [
    'not JSON',
    'null',
    '[]',
    '{"v":1}',
    JSON.stringify({ v: 2, delivery_id: unknown, not_before: 0 }),
    JSON.stringify({ v: 1, delivery_id: "'; --", not_before: 0 }),
    JSON.stringify({ v: 1, delivery_id: unknown, not_before: 0, key: 'k' }),
    invitation(unknown),
  ];
  await ledger.aws.eventSource.pause();
  const asked = await ledger.schedule(ok, [{ dueInMs: 0 }, { dueInMs: 0 }]);
  const neighbours = idsOf(asked);
  const bodies = [neighbours[0] ?? '', neighbours[1] ?? ''].map((id) => invitation(id));
  const failed = await ledger.deliver([bodies[0] ?? '', ...bad, bodies[1] ?? '']);
  expect(failed.toSorted()).toEqual(bad.map((_, place) => String(place + 1)).toSorted());
  await ledger.settled(neighbours);
  // Five receives at the stage's own visibility would take minutes.
  await visibility(1);
  await ledger.sendMessages(bad);
  ledger.aws.eventSource.resume();
  await eventually('all are set aside', async () => (await ledger.aws.queue.depth()).deadLetters.ready === bad.length);
  await visibility(ledger.aws.settings.visibilityTimeoutSeconds);
  const there = await ledger.messages(ledger.aws.queue.deadLetterUrl);
  expect(there.map(({ Body }) => Body).toSorted()).toEqual(bad.toSorted());
  for (const id of neighbours) expect(ledger.received(id)).toHaveLength(1);
});

test('each end is announced once, by an id that tells it from any other', async () => {
  const dies = await ledger.destination('/status/400');
  const [well, dead, called, expires] = [
    ...(await ledger.schedule(ok, [{ dueInMs: 0 }], 'shop')),
    ...(await ledger.schedule(dies, [{ dueInMs: 0 }], 'shop')),
    ...(await ledger.schedule(ok, [{}], 'shop')),
    ...(await ledger.schedule(await ledger.destination('/status/500'), [
      { dueInMs: 0, expiresAt: new Date(Date.now() + 1200).toISOString() },
    ])),
  ];
  await ledger.command({ verb: 'cancel', key: called?.key }, 'shop');
  const ends = [
    [well, 'delivered'],
    [dead, 'dead'],
    [called, 'cancelled'],
    [expires, 'expired'],
  ] as const;
  for (const [one, state] of ends) {
    const id = one?.deliveryId ?? '';
    await ledger.settled([id], state);
    ledger.aws.scheduler.tickNow();
    const found = await eventually(`${state} is announced`, () => announced(id)[0]);
    expect(found).toMatchObject({ eventId: `${id}:1:${state}`, type: `Reminder ${state}`, state, version: 1 });
  }
  for (const _ of [1, 2]) await ledger.tick();
  for (const [one] of ends) expect(announced(one?.deliveryId ?? '')).toHaveLength(1);
  expect(announced(well?.deliveryId ?? '')[0]).toMatchObject({ producer: 'shop', attempts: 1 });
});

test('nothing of payload, key, user or URL query stands in messages, logs, events or dead letters', async () => {
  const canary = (what: string) => `canary-${what}-${uuid()}`;
  const [payload, key, userId, query] = [canary('payload'), canary('key'), canary('user'), canary('query')];
  // The receiver says back what it got; every kind of end is met.
  const paths = [
    '/echo/500',
    '/echo/400',
    '/echo/410',
    '/ok',
    '/reset',
    '/hang',
    '/redirect/302',
    '/stall/503',
    '/nowhere',
  ];
  const names = await Promise.all(paths.map((path) => ledger.destination(`${path}?token=${query}`)));
  await ledger.aws.eventSource.pause();
  const all: string[] = [];
  for (const [place, name] of names.entries()) {
    const wish = { dueInMs: 0, key: `${key}-${place}`, userId, payload: { text: payload } };
    all.push(...idsOf(await ledger.schedule(name, [wish])));
  }
  const good = { verb: 'schedule', key, destination: names[0], userId, dueAt: '2040-01-01T00:00:00Z', payload };
  for (const bad of [
    { dueAt: payload },
    { userId: { userId } },
    { key: `${key} ` },
    { destination: query },
    { [payload]: 1 },
  ]) {
    const { failed } = await ledger.invokeText(JSON.stringify({ ...good, ...bad }));
    expect(failed).toBe(false);
  }
  const bodies = (await ledger.messages(ledger.aws.queue.url)).map((message) => JSON.stringify(message));
  expect(bodies.length).toBeGreaterThan(3);
  ledger.aws.eventSource.resume();
  // Statements that the database refuses, with the row in its words.
  for (const { text } of [schedule, claim]) {
    ledger.aws.dataApi.faults.next({
      kind: 'error-before',
      match: new RegExp(RegExp.escape(text)),
      error: 'DatabaseErrorException',
      message: `ERROR: duplicate key\n  Detail: Key (idempotency_key)=(${key}) ${payload} ${userId} exists; SQLState: 23502`,
    });
  }
  const refused = await ledger.invokeText(JSON.stringify(good));
  expect(refused).toMatchObject({ failed: true, answer: { errorType: 'LedgerError' } });
  ledger.aws.scheduler.tickNow();
  await eventually('each was tried', async () => {
    const sql = 'SELECT DISTINCT delivery_id FROM attempt_outcome WHERE delivery_id = ANY ($1)';
    return (await ledger.sql(sql, [all])).length === all.length;
  });
  expect(ledger.aws.dataApi.faults.take(claim.text) === undefined, 'a claim was refused').toBe(true);
  await ledger.command({ verb: 'cancel', key: `${key}-0` });
  const delivered = all[paths.indexOf('/ok')] ?? '';
  await eventually('the delivered one is announced', () => announced(delivered)[0]);
  const places = {
    answers: JSON.stringify(refused),
    messages: bodies.join(),
    logs: ledger.logs(),
    events: JSON.stringify(ledger.aws.bus.events),
    'dead letters': JSON.stringify(await ledger.messages(ledger.aws.queue.deadLetterUrl)),
  };
  // So that the search is known to find something: each place does speak of these reminders.
  for (const [where, id] of Object.entries({ messages: all[0], logs: all[0], events: delivered })) {
    expect(places[where as keyof typeof places], where).toContain(id);
  }
  for (const secret of [payload, key, userId, query]) {
    for (const [where, text] of Object.entries(places))
      expect(text.includes(secret), `${secret} in ${where}`).toBe(false);
  }
});
