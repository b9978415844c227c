// The virtual clock: unchanged statements, functions and triggers see it, an index serves it, and one line of events runs on it.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { settingsOf } from '../../lambdas/core/settings.ts';
import { claim } from '../../lambdas/store/statements/claim.ts';
import { schedule } from '../../lambdas/store/statements/schedule.ts';
import { startVirtualDatabase, timestamp, type VirtualDatabase } from './virtual-database.ts';

const settings = settingsOf('production');
const worker = { functionVersion: '1', requestId: 'request', logStream: 'stream' };
const noon = Date.UTC(2040, 0, 1, 12);

describe('the virtual clock', () => {
  let database: VirtualDatabase;
  beforeAll(async () => {
    database = await startVirtualDatabase();
  });
  afterAll(() => database?.stop());

  const at = (ms: number, statement = 1) => ({ at: ms, statement, chance: 0.5 });
  const scheduled = (dueAt: number) =>
    schedule.parameters(
      {
        token: '01890000-0000-7000-8000-000000000001',
        producer: 'product',
        items: [
          {
            item: 0,
            fingerprint: 'print',
            deliveryId: '01890000-0000-7000-8000-000000000002',
            key: 'key',
            destination: 'somewhere',
            userId: 'user',
            dueAt: new Date(dueAt).toISOString(),
            expiresAt: null,
            payload: '{}',
          },
        ],
      },
      settings,
    );
  const claimed = () =>
    claim.parameters({ token: '01890000-0000-7000-8000-000000000003', worker, limit: 10, lowWater: null }, settings);
  const register = () =>
    database.runAt(
      at(noon, 0),
      `INSERT INTO destination (destination_id, name, url, owner, contract, state, state_since, created_at)
       VALUES ('01890000-0000-7000-8000-000000000004', 'somewhere', 'https://somewhere.example/hook', 'test', 'none',
               'active', now(), now())`,
      [],
    );

  test('is what now() says, to the eighth of a millisecond', async () => {
    const [row] = await database.runAt(at(noon + 0.125), 'SELECT CAST(now() AS text)', []);
    expect(row).toEqual(['2040-01-01 12:00:00.000125+00']);
    expect(timestamp(noon + 0.125)).toBe('2040-01-01T12:00:00.000125Z');
  });

  test('a statement of the ledger goes by it, and an index serves it', async () => {
    await database.reset();
    await register();
    const dueAt = noon + settings.lookaheadSeconds * 1000 + 1;
    await database.run(at(noon), schedule.text, scheduled(dueAt));
    const early = await database.run(at(noon + 0.5, 2), claim.text, claimed());
    expect(early.map(([answer]) => JSON.parse(answer ?? '').answer)).toEqual(['high_water']);
    const onTime = { ...claimed(), token: '01890000-0000-7000-8000-000000000005' };
    const rows = await database.run(at(noon + 1, 3), claim.text, onTime);
    expect(rows.map(([answer]) => JSON.parse(answer ?? ''))).toContainEqual({
      answer: 'claimed',
      delivery_id: '01890000-0000-7000-8000-000000000002',
      due_in_ms: settings.lookaheadSeconds * 1000,
      not_before: dueAt,
    });
    await database.sql('SET enable_seqscan = off');
    const plan = await database.sql('EXPLAIN SELECT FROM reminder_delivery WHERE wake_at <= now()');
    await database.sql('SET enable_seqscan = on');
    expect(JSON.stringify(plan)).toContain('reminder_delivery_wake');
  });

  test('no default, function, trigger, view or generated column has a clock of its own', async () => {
    const ownClocks = await database.sql(`
      SELECT 'default of ' || a.attrelid::regclass || '.' || a.attname AS place, pg_get_expr(d.adbin, d.adrelid) AS text
      FROM pg_attrdef d JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum
      WHERE d.adrelid IN (SELECT oid FROM pg_class WHERE relnamespace = 'public'::regnamespace)
      UNION ALL
      SELECT 'function ' || p.oid::regprocedure,
             concat_ws(' ', p.prosrc, pg_get_function_sqlbody(p.oid), p.proconfig::text)
      FROM pg_proc p WHERE p.pronamespace = 'public'::regnamespace
      UNION ALL
      SELECT 'view ' || c.oid::regclass, pg_get_viewdef(c.oid)
      FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('v', 'm')
      UNION ALL
      SELECT 'trigger ' || t.tgname, pg_get_triggerdef(t.oid)
      FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid WHERE c.relnamespace = 'public'::regnamespace`);
    expect(ownClocks.length).toBeGreaterThan(10);
    const reading =
      /current_(timestamp|time|date)|\blocaltime|(clock|statement|transaction)_timestamp|timeofday|\bnow\(|search_path/i;
    // It names now(), which the search path of the session makes the virtual one: tried below.
    const places = ownClocks.filter(({ text }) => reading.test(String(text))).map(({ place }) => place);
    expect(places).toEqual(['function refuse_change_of_young()']);
  });

  test('a guard of ages goes by it', async () => {
    await database.reset();
    const answered = `INSERT INTO command_receipt (token, item, verb, answer, answered_at)
      VALUES ('01890000-0000-7000-8000-000000000006', 0, 'open', '{}', now())`;
    await database.runAt(at(noon), answered, []);
    const later = (days: number) => database.runAt(at(noon + days * 86_400_000), 'DELETE FROM command_receipt', []);
    await expect(later(29)).rejects.toThrow('stays for 30 days');
    await later(31);
    expect(await database.sql('SELECT FROM command_receipt')).toEqual([]);
  });

  test('the same moment draws the same chance', async () => {
    const drawn = [];
    for (let again = 0; again < 2; again += 1) drawn.push(await database.runAt(at(noon), 'SELECT random()', []));
    expect(drawn[0]).toEqual(drawn[1]);
  });

  test('every change of a row is recorded with its statement and its time', async () => {
    await database.reset();
    await register();
    await database.run(at(noon, 7), schedule.text, scheduled(noon));
    const changes = await database.changes();
    expect(changes.map(({ statement, table, at: when }) => [statement, table, when])).toEqual([
      [0, 'destination', noon],
      [7, 'reminder_delivery', noon],
    ]);
  });
});
