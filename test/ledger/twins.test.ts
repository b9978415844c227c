// A twin: one command sent twice, the second while the first still runs. Both answer the same, and it has its effect once.
import { v7 as uuid } from 'uuid';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import type { ClaimAnswer } from '../../lambdas/core/ports.ts';
import { claim } from '../../lambdas/store/statements/claim.ts';
import { claimById } from '../../lambdas/store/statements/claim-by-id.ts';
import { unpark } from '../../lambdas/store/statements/unpark.ts';
import { dump, empty, ledgerTables } from './ledger-rows.ts';
import { arrange, type Circumstances } from './situations.ts';
import { startTestLedger, type TestLedger, worker } from './test-ledger.ts';

let ledger: TestLedger;
let tables: string[];
beforeAll(async () => {
  ledger = await startTestLedger();
  tables = await ledgerTables(ledger);
  // Stops whoever took something while the lock 1 is held elsewhere: after its rows are locked, before it says so.
  await ledger.sql(`CREATE FUNCTION stop_here() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN PERFORM pg_advisory_xact_lock_shared(1); RETURN NEW; END $$`);
  await ledger.sql(`CREATE TRIGGER stop_here BEFORE INSERT ON claim_batch FOR EACH ROW WHEN (NEW.claimed <> '{}')
    EXECUTE FUNCTION stop_here()`);
  await ledger.sql(`CREATE TRIGGER stop_here BEFORE INSERT ON command_receipt FOR EACH ROW WHEN (NEW.answer ->> 'count' <> '0')
    EXECUTE FUNCTION stop_here()`);
});
beforeEach(() => empty(ledger, tables));
afterAll(() => ledger.stop());

/** How to run a command through the ledger and in a session, what it takes, and what it answers: the ids or a count. */
const commands = {
  claim: async () => {
    const command = { token: uuid(), worker, limit: 10, lowWater: null };
    await arrangeRows({});
    return {
      token: command.token,
      first: (session: Session) => session.run(claim, command),
      send: async () => idsOf(await ledger.ledger.claim(command)),
    };
  },
  claimById: async () => {
    const deliveryIds = await arrangeRows({});
    const command = { token: uuid(), worker, deliveryIds };
    return {
      token: command.token,
      first: (session: Session) => session.run(claimById, command),
      send: async () => idsOf(await ledger.ledger.claimById(command)),
    };
  },
  unpark: async () => {
    const command = { token: uuid(), limit: 10 };
    await arrangeRows({ columns: { parked: true, wake_at: 'infinity' } });
    return {
      token: command.token,
      first: (session: Session) => session.run(unpark, command),
      send: async () => `${await ledger.ledger.unpark(command)} rows`,
    };
  },
};
type Session = Awaited<ReturnType<TestLedger['session']>>;
const skipping = Object.entries(commands);

async function arrangeRows(circumstances: Circumstances): Promise<string[]> {
  const rows = [await arrange(ledger, 'scheduled', circumstances), await arrange(ledger, 'scheduled', circumstances)];
  return rows.map(({ deliveryId }) => deliveryId);
}
const idsOf = (answer: ClaimAnswer) =>
  answer.claimed
    .map(({ deliveryId }) => deliveryId)
    .sort()
    .join();
const rows = () => dump(ledger, tables);
const changedSince = (before: Awaited<ReturnType<typeof rows>>, after: typeof before) =>
  after.reminder_delivery?.filter((row, place) => row.wake_at !== before.reminder_delivery?.[place]?.wake_at).length;

test.each(skipping)('%s, the first run ended and not committed: the twin answers as the first', async (_, prepare) => {
  const { first, send } = await prepare();
  const twin = await ledger.behind(first, send);
  const once = await rows();
  expect(twin).toBe(await send());
  expect(twin).toMatch(/\w/);
  expect(twin).not.toBe('0 rows');
  expect(await rows()).toEqual(once);
});

test.each(skipping)('%s, the first run amid its work: the twin does not overtake it', async (_, prepare) => {
  const { send } = await prepare();
  const before = await rows();
  const [one, other] = await ledger.behind(
    (session) => session.sql('SELECT pg_advisory_xact_lock(1)'),
    () => Promise.all([send(), send()]),
    'COMMIT',
    2,
  );
  expect(one).toBe(other);
  expect(changedSince(before, await rows())).toBe(2);
});

test.each(skipping)(
  '%s, begun while its rows are held elsewhere, and again: one of the two takes them',
  async (_, prepare) => {
    const { token, send } = await prepare();
    const before = await rows();
    const holder = await ledger.session();
    await holder.sql('BEGIN');
    await holder.sql('SELECT FROM reminder_delivery FOR UPDATE');
    // Each waits for its turn under their token, and must not have looked at any row before it comes.
    const [one, other] = await ledger.behind(
      (session) => session.sql('SELECT pg_advisory_xact_lock(hashtextextended($1, 0))', [token]),
      async () => {
        const first = send();
        await ledger.waitFor(1);
        await holder.sql('COMMIT');
        return Promise.all([first, send()]);
      },
      'COMMIT',
      2,
    );
    await holder.close();
    expect(one).toBe(other);
    expect(changedSince(before, await rows())).toBe(2);
  },
);

test.each(skipping)('%s, the first run killed: the rows are there for the twin or the next', async (_, prepare) => {
  const { first, send } = await prepare();
  await ledger.behind(first, send, 'ROLLBACK');
  await ledger.ledger.unpark({ token: uuid(), limit: 10 });
  await ledger.ledger.claim({ token: uuid(), worker, limit: 10, lowWater: null });
  expect((await rows()).reminder_delivery?.map(({ state }) => state)).toEqual(['dispatching', 'dispatching']);
});

test('a twin of a claim that finds other rows gives them back', async () => {
  await arrangeRows({});
  await arrangeRows({});
  const command = { token: uuid(), worker, limit: 2, lowWater: null };
  const twin = await ledger.behind(
    (session) => session.run(claim, command),
    () => ledger.ledger.claim(command),
  );
  expect(twin.claimed.length).toBe(2);
  expect((await rows()).reminder_delivery?.filter(({ state }) => state === 'dispatching').length).toBe(2);
});

test.each(skipping)(
  '%s passes over a row that somebody holds; run again, it leaves that row alone',
  async (verb, prepare) => {
    const { send } = await prepare();
    const [held, free] = (await rows()).reminder_delivery?.map(({ delivery_id: id }) => String(id)) ?? [];
    const session = await ledger.session();
    await session.sql('BEGIN');
    await session.sql('SELECT FROM reminder_delivery WHERE delivery_id = $1 FOR NO KEY UPDATE', [held]);
    const taken = verb === 'unpark' ? '1 rows' : free;
    expect(await send()).toBe(taken);
    await session.close();
    const once = await rows();
    expect(await send()).toBe(taken);
    expect(await rows()).toEqual(once);
  },
);

test('unpark, while somebody holds every row: none, and it is asked once', async () => {
  const { send } = await commands.unpark();
  const session = await ledger.session();
  await session.sql('BEGIN');
  await session.sql('SELECT FROM reminder_delivery FOR NO KEY UPDATE');
  const before = ledger.api.statements();
  expect(await send()).toBe('0 rows');
  expect(ledger.api.statements() - before).toBe(1);
  await session.close();
});
