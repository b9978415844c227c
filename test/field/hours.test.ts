// Outages of minutes and hours, at the numbers of production: what waited is delivered under its own id, or has expired.
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { stateWatches } from '../../lib/stack/observer-watches.ts';
import { type SlowMotion, startSlowMotion } from './slow-motion.ts';

let world: SlowMotion;
beforeAll(async () => {
  world = await startSlowMotion();
}, 60_000);
beforeEach(async () => {
  await world.reset();
  await world.destination('partner');
});
afterAll(() => world.stop());

/** So many reminders that come due evenly over a span, in seconds from now. */
const evenly = (count: number, from: number, to: number) =>
  Array.from({ length: count }, (_, place) => ({ due: from + ((to - from) * place) / count }));

/** How often each reminder was sent; each time under its own key and with its own bytes. */
function timesSent(): Map<string, number> {
  const times = new Map<string, number>();
  for (const { deliveryId, key, payload } of world.sent) {
    expect({ key, payload }).toEqual({ key: `key of ${deliveryId}`, payload: `{"of":"${deliveryId}"}` });
    times.set(deliveryId, (times.get(deliveryId) ?? 0) + 1);
  }
  return times;
}

/** Each of them was sent, and exactly once. */
function expectSentOnce(ids: readonly string[]): void {
  const times = timesSent();
  expect([...times.keys()].sort()).toEqual([...ids].sort());
  expect([...times.values()].filter((count) => count !== 1)).toEqual([]);
}

// sidekiq/sidekiq#309, #843: the poller of the scheduled jobs had been dead for hours, and nobody knew.
test('the tick off for 2 hours with 500 due, some past expiry: those expire unsent, the others go out once', async () => {
  const kept = await world.schedule('partner', evenly(400, 300, 7100));
  const expiring = await world.schedule(
    'partner',
    evenly(100, 300, 6000).map(({ due }) => ({ due, expires: due + 600 })),
  );
  world.works.ticks = false;
  await world.pass(120);
  expect(world.sent).toEqual([]);
  const { measured } = await world.look();
  const lag = stateWatches().find(({ id }) => id === 'scheduler-lag-long');
  expect(measured.overdue_age).toBeGreaterThan(lag?.threshold ?? Number.POSITIVE_INFINITY);
  world.works.ticks = true;
  await world.pass(3);
  expect(await world.states()).toEqual({ delivered: 400, expired: 100 });
  expectSentOnce(kept);
  const [attempts] = await world.sql(
    'SELECT count(*)::integer AS count FROM delivery_attempt WHERE delivery_id = ANY ($1)',
    [expiring],
  );
  expect(attempts).toEqual({ count: 0 });
});

// OptimalBits/bull#1143, roostorg/coop#146: the rows of an emptied queue waited for ever.
test('queue purged with 500 queued: each is invited again after its allowance, and goes out once', async () => {
  const ids = await world.schedule('partner', evenly(500, 60, 170));
  world.works.eventSource = false;
  await world.pass(1);
  expect(await world.states()).toEqual({ queued: 500 });
  world.purge();
  world.works.eventSource = true;
  await world.pass(7);
  expect(await world.states()).toEqual({ delivered: 500 });
  expectSentOnce(ids);
});

// sidekiq/sidekiq#843: the queue's own figures looked well while two million jobs waited behind a dead poller.
test('event source off for 15 minutes with the claim running: the queued age passes its alarm, and stays', async () => {
  const ids = await world.schedule('partner', evenly(200, 60, 120));
  const alarm = stateWatches().find(({ id }) => id === 'broken-handoff');
  const [needed = 0, of = 0] = alarm?.points ?? [];
  world.works.eventSource = false;
  const ages: number[] = [];
  await world.pass(15, async () => void ages.push((await world.look()).measured.queued_age));
  const breaching = ages.slice(-of).filter((age) => age > (alarm?.threshold ?? Number.POSITIVE_INFINITY));
  expect(breaching.length, `queued ages ${ages.join(', ')} ms`).toBeGreaterThanOrEqual(Math.max(1, needed));
  world.works.eventSource = true;
  await world.pass(2);
  expect((await world.look()).measured.queued_age).toBe(0);
  expectSentOnce(ids);
});

// celery/celery#2481: twenty copies of a task had gathered by the time it was due.
test('a 10 minute backlog multiplies messages at most 2.5 times, and sends nothing twice', async () => {
  const ids = await world.schedule('partner', evenly(500, 0, 600));
  world.works.eventSource = false;
  await world.pass(10);
  expect(world.waiting()).toBe(world.published());
  expect(world.published() / ids.length).toBeLessThanOrEqual(2.5);
  world.works.eventSource = true;
  await world.pass(5);
  expect(await world.states()).toEqual({ delivered: 500 });
  expectSentOnce(ids);
  expect(world.published() / ids.length).toBeLessThanOrEqual(2.5);
});

// frain-dev/convoy#1667: a retry stood in the list with a time that had passed, and nobody took it up again.
test('SendMessage denied for 5 minutes with 600 due: each is released and re-driven, and goes out once', async () => {
  const ids = await world.schedule('partner', evenly(600, 0, 60));
  world.works.queue = false;
  const ages: number[] = [];
  let before = 0;
  await world.pass(5, async () => {
    // A tick stops at its first refusal: it takes one batch, and not all there are.
    const released = world.counted('released') - before;
    before += released;
    expect(released).toBeLessThanOrEqual(world.settings.claimBatchSize);
    ages.push((await world.look()).measured.overdue_age);
  });
  expect(world.published()).toBe(0);
  expect(world.counted('claimed')).toBe(world.counted('released'));
  expect(world.counted('released')).toBeGreaterThan(ids.length);
  expect(ages.at(-1), `overdue ages ${ages.join(', ')} ms`).toBeGreaterThan(240_000);
  const [told] = await world.sql(
    `SELECT count(*)::integer AS count, max(attempt_no) AS attempts FROM reminder_delivery
     WHERE state = 'scheduled' AND last_error LIKE 'queue_refused%' AND wake_at IS NOT NULL`,
  );
  expect(told).toEqual({ count: 600, attempts: 0 });
  world.works.queue = true;
  // The longest pause that five refusals in a row can have led to, and two ticks.
  await world.pass(10);
  expect(await world.states()).toEqual({ delivered: 600 });
  expectSentOnce(ids);
  expect(world.deadLetters).toEqual([]);
});

// graphile/worker#254, strelov1/freehire#2008: an outage of the store itself used up the attempts of jobs without fault.
test('the database gone for 10 minutes with 500 in flight: nothing dead for that alone, all delivered after', async () => {
  const ids = await world.schedule('partner', evenly(500, 60, 110));
  await world.pass(1);
  // With the first hundred requests at the receiver it goes, before any of their last outcomes is recorded.
  world.onRequest(() => {
    if (world.sent.length === 100) world.works.database = false;
  });
  await world.pass(1);
  expect(world.works.database).toBe(false);
  await world.pass(10);
  const during = timesSent().size;
  expect(during).toBeLessThan(500);
  world.works.database = true;
  await world.pass(30);
  expect(await world.states()).toEqual({ delivered: 500 });
  expect([...timesSent().keys()].sort()).toEqual([...ids].sort());
  const spent = await world.sql(`SELECT max(attempt_no) AS attempts, max(failures) AS failures FROM reminder_delivery`);
  expect(spent).toEqual([{ attempts: 2, failures: 1 }]);
  expect(world.deadLetters).toEqual([]);
});
