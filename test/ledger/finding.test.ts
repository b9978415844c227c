// What people search and list: pages that go on, by an index each, in a ledger of 200,000 rows too.
import { v7 as uuid } from 'uuid';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { FindQuery, FoundReminder } from '../../lambdas/core/find-reminders.ts';
import { postgresSearch } from '../../lambdas/store/search.ts';
import { find } from '../../lambdas/store/statements/find.ts';
import { forecast } from '../../lambdas/store/statements/forecast.ts';
import { arrange } from './situations.ts';
import { startTestLedger, type TestLedger } from './test-ledger.ts';

let ledger: TestLedger;
beforeAll(async () => {
  ledger = await startTestLedger();
});
afterAll(() => ledger.stop());

const query = (more: Partial<FindQuery>): FindQuery => ({
  ...{
    source: 'user',
    userId: null,
    destination: null,
    state: null,
    dueFrom: null,
    dueTo: null,
    limit: 2,
    after: null,
  },
  ...more,
});

/** All pages, one after the other. */
async function all(more: Partial<FindQuery>): Promise<FoundReminder[]> {
  const search = postgresSearch(ledger.database);
  const reminders: FoundReminder[] = [];
  for (let after: FindQuery['after'] = null; ; ) {
    const page = await search.find(query({ ...more, after }));
    reminders.push(...(page?.reminders ?? []));
    if (!page?.next) return reminders;
    after = page.next;
  }
}
const ids = (rows: readonly { deliveryId: string }[]) => rows.map(({ deliveryId }) => deliveryId);

test('each way finds its rows, page by page, none twice and none left out', async () => {
  const user = { columns: { user_id: 'ann' } };
  const rows = [
    await arrange(ledger, 'delivered', { dueIn: -50, ...user }),
    await arrange(ledger, 'scheduled', { dueIn: -40, wakeIn: -200, ...user }),
    await arrange(ledger, 'held', { dueIn: -30, columns: { ...user.columns, unreviewed_since: null } }),
    await arrange(ledger, 'queued', { dueIn: -20, ...user }),
    await arrange(ledger, 'dead', { dueIn: -10, ...user }),
  ];
  await arrange(ledger, 'queued', { dueIn: -5 });
  expect(ids(await all({ userId: 'ann' }))).toEqual(ids(rows));
  expect(ids(await all({ userId: 'ann', state: 'queued' }))).toEqual(ids(rows.slice(3, 4)));
  expect(ids(await all({ source: 'in_flight', state: 'queued' }))).toHaveLength(2);
  expect(ids(await all({ source: 'calendar', state: 'scheduled' }))).toEqual(ids(rows.slice(1, 2)));
  expect(ids(await all({ source: 'unreviewed' })).sort()).toEqual([ids(rows)[2], ids(rows)[4]].sort());
  const to = `to-${ids(rows)[3]}`;
  expect(await all({ source: 'destination', destination: to })).toMatchObject([{ destination: to, state: 'queued' }]);
  const window = { dueFrom: rows[1]?.dueAt ?? null, dueTo: rows[3]?.dueAt ?? null };
  expect(ids(await all({ userId: 'ann', ...window }))).toEqual(ids(rows.slice(1, 3)));
  expect(await postgresSearch(ledger.database).find(query({ source: 'destination', destination: 'nowhere' }))).toBe(
    null,
  );
});

test('a forecast counts what waits and what is in flight, of one destination too, and says where it stopped', async () => {
  const ahead = await arrange(ledger, 'scheduled', { dueIn: 5400, wakeIn: 5400 - ledger.settings.lookaheadSeconds });
  await arrange(ledger, 'queued', { dueIn: 60, wakeIn: 180 });
  const { forecast: count } = postgresSearch(ledger.database);
  const found = await count(3600, 24, null);
  expect(found).toMatchObject({ stoppedAt: null });
  expect(found?.due.reduce((sum, { count: some }) => sum + some, 0)).toBe(2);
  expect((await count(3600, 24, `to-${ahead.deliveryId}`))?.due).toMatchObject([{ count: 1 }]);
  expect(await count(3600, 24, 'nowhere')).toBe(null);
});

test('at 200,000 rows no way reads the table, and a page costs what it looks at', async () => {
  const session = await ledger.session();
  const name = `many-${uuid().slice(-8)}`;
  await ledger.destination(name);
  await session.sql('SET statement_timeout = 0');
  await session.sql(
    `INSERT INTO reminder_delivery (
       delivery_id, producer, user_id, destination_id, idempotency_key, request_fingerprint, payload, payload_sha256,
       created_by_command, created_at, due_at, next_attempt_at, wake_at, state, state_since)
     SELECT gen_random_uuid(), 'product', 'user-' || n % 500, destination_id, 'many-' || n, 'v1', '{}', sha256('{}'),
            gen_random_uuid(), now(), now() + n * interval '1 s', now() + n * interval '1 s',
            now() + n * interval '1 s', 'scheduled', now()
     FROM destination, generate_series(1, 200000) AS n WHERE name = $1`,
    [name],
  );
  await session.sql('ANALYZE reminder_delivery');
  for (const [more, index, most] of [
    [{ source: 'user', userId: 'user-7', state: 'dead' }, 'reminder_delivery_user', 1500],
    [{ source: 'destination', destination: name, state: 'dead' }, 'reminder_delivery_destination', 3000],
    [{ source: 'calendar', state: 'held' }, 'reminder_delivery_wake', 3000],
    [{ source: 'in_flight', state: 'queued' }, 'reminder_delivery_invited', 500],
    [{ source: 'unreviewed' }, 'reminder_delivery_unreviewed', 500],
  ] as const) {
    const plan = (await session.run(find, query({ ...more, limit: 50 }), 'EXPLAIN (ANALYZE, BUFFERS) ')).join('\n');
    expect(plan, more.source).not.toMatch(/Seq Scan on reminder_delivery/);
    expect(plan).toContain(index);
    expect(Number(/shared hit=(\d+)/.exec(plan)?.[1]), more.source).toBeLessThan(most);
  }
  const plan = (
    await session.run(forecast, { seconds: 3600, count: 24, destination: null }, 'EXPLAIN (ANALYZE, BUFFERS) ')
  ).join('\n');
  expect(plan).not.toMatch(/Seq Scan on reminder_delivery/);
  await session.close();
  const stopped = await postgresSearch(ledger.database).forecast(86_400, 10, null);
  expect(stopped?.stoppedAt).toEqual(expect.any(String));
});
