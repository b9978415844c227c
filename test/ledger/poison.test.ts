// Rows that cannot be updated: the claim goes around them, sets them aside, and passes over them until they are readmitted.
import { v7 as uuid } from 'uuid';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { claimDue } from '../../lambdas/core/claim-due.ts';
import { deliverInvitations } from '../../lambdas/core/deliver-invitations.ts';
import type { Invitation, OpenAnswer } from '../../lambdas/core/ports.ts';
import { systemClock } from '../../lambdas/runtime/clock.ts';
import { listExclusions } from '../../lambdas/store/statements/list-exclusions.ts';
import { readmit } from '../../lambdas/store/statements/readmit.ts';
import { empty, ledgerTables } from './ledger-rows.ts';
import { arrange } from './situations.ts';
import { newReminder, outcome, startTestLedger, type TestLedger, worker } from './test-ledger.ts';

let ledger: TestLedger;
let tables: string[];
beforeAll(async () => {
  ledger = await startTestLedger();
  // A broken row: whatever is done to it fails, as where a page of it is damaged.
  await ledger.sql(`
    CREATE SCHEMA broken;
    CREATE TABLE broken.row (delivery_id uuid PRIMARY KEY, when_state text);
    CREATE FUNCTION broken.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      RAISE EXCEPTION 'this row is broken' USING ERRCODE = 'data_corrupted';
    END $$;
    CREATE FUNCTION broken.is(id uuid, next text) RETURNS boolean LANGUAGE sql AS $$
      SELECT EXISTS (SELECT FROM broken.row WHERE delivery_id = id AND (when_state IS NULL OR when_state = next)) $$;
    CREATE TRIGGER broken BEFORE UPDATE ON reminder_delivery
      FOR EACH ROW WHEN (broken.is(OLD.delivery_id, NEW.state)) EXECUTE FUNCTION broken.refuse();
  `);
  tables = await ledgerTables(ledger);
});
beforeEach(async () => {
  await empty(ledger, tables);
  await ledger.sql('DELETE FROM broken.row');
  await ledger.destination('to');
});
afterEach(() => ledger.api.faults.clear());
afterAll(() => ledger.stop());

const breakRow = (deliveryId: string, whenState: string | null = null) =>
  ledger.sql('INSERT INTO broken.row VALUES ($1, $2)', [deliveryId, whenState]);
const mend = (deliveryId: string) => ledger.sql('DELETE FROM broken.row WHERE delivery_id = $1', [deliveryId]);

async function schedule(count: number): Promise<string[]> {
  const reminders = Array.from({ length: count }, (_, place) => newReminder('to', -1 - place));
  await ledger.ledger.schedule({ token: uuid(), producer: 'test', reminders });
  return reminders.map(({ deliveryId }) => deliveryId);
}

/** One tick, whose queue takes everything, or nothing. */
async function tick({ refuses = false } = {}) {
  const counted: Record<string, number> = {};
  const errors: string[] = [];
  const answer = await claimDue(
    {
      ledger: ledger.ledger,
      invitations: {
        publish: async (all: readonly Invitation[]) => ({
          accepted: refuses
            ? []
            : all.map(({ deliveryId }) => ({ deliveryId, messageId: deliveryId, queue: 'q', delaySeconds: 0 })),
          refused: refuses ? all.map(({ deliveryId }) => deliveryId) : [],
          batchRefused: refuses,
        }),
      },
      announcements: { publish: async () => [] },
      settings: ledger.settings,
      clock: systemClock,
      newToken: () => uuid(),
    },
    {
      worker,
      log: { info: () => undefined, warn: () => undefined, error: (event) => void errors.push(event) },
      meter: {
        count: (name, value = 1) => {
          counted[name] = (counted[name] ?? 0) + value;
        },
        milliseconds: () => undefined,
        percent: () => undefined,
      },
    },
  );
  return { answer, counted, errors };
}

async function inState(state: string): Promise<string[]> {
  const rows = await ledger.sql<{ id: string }>('SELECT delivery_id AS id FROM reminder_delivery WHERE state = $1', [
    state,
  ]);
  return rows.map(({ id }) => id).sort();
}
const excluded = () => ledger.database.run(listExclusions, { after: null, limit: 99 });

test('of a hundred due rows one cannot be updated: ninety-nine go, it is set aside, and a metric says so', async () => {
  const ids = await schedule(100);
  const broken = ids[42] ?? '';
  await breakRow(broken);
  const { answer, counted, errors } = await tick();
  expect(answer).toMatchObject({ claimed: 99, enqueued: 99, excluded: 1, stopped: 'drained' });
  expect(counted.excluded).toBe(1);
  expect(errors).toEqual(['exclude']);
  expect(await inState('queued')).toEqual(ids.filter((id) => id !== broken).sort());
  expect(await inState('scheduled')).toEqual([broken]);
  expect(await excluded()).toMatchObject([{ delivery_id: broken, sql_state: 'XX001' }]);

  // The next tick passes over it: one claim, no search.
  const [late] = await schedule(1);
  expect((await tick()).answer).toMatchObject({ batches: 1, claimed: 1, excluded: 0 });
  expect(await inState('scheduled')).toEqual([broken]);
  expect(await inState('queued')).toContain(late);
});

test('readmitted it is claimed again, and the ledger says who did it and why', async () => {
  const ids = await schedule(3);
  const broken = ids[0] ?? '';
  await breakRow(broken);
  await tick();
  await mend(broken);
  const command = { token: uuid(), deliveryId: broken, actor: 'ann', reason: 'page restored', ticket: 'OPS-1' };
  expect(await ledger.database.run(readmit, command)).toEqual([{ answer: 'readmitted' }]);
  expect(await excluded()).toEqual([]);
  expect((await tick()).answer).toMatchObject({ claimed: 1, excluded: 0 });
  expect(await ledger.sql('SELECT verb, actor, reason, ticket, delivery_id FROM operator_action')).toEqual([
    { verb: 'readmit', actor: 'ann', reason: 'page restored', ticket: 'OPS-1', delivery_id: broken },
  ]);

  // Set aside anew: the old command, run late, readmits nothing, and answers as before.
  await ledger.ledger.exclude({ token: uuid(), deliveryId: broken, sqlState: 'XX001', reason: 'again' });
  expect(await ledger.database.run(readmit, command)).toEqual([{ answer: 'readmitted' }]);
  expect(await excluded()).toMatchObject([{ delivery_id: broken, reason: 'again' }]);
});

test('a readmission and its twin at once readmit once; of a row that is not set aside, nothing', async () => {
  const [id = '', other = ''] = await schedule(2);
  await ledger.ledger.exclude({ token: uuid(), deliveryId: id, sqlState: 'XX001', reason: 'example' });
  const command = { token: uuid(), deliveryId: id, actor: 'ann', reason: 'mended', ticket: null };
  const answer = await ledger.behind(
    (session) => session.run(readmit, command),
    () => ledger.database.run(readmit, command),
  );
  expect(answer).toEqual([{ answer: 'readmitted' }]);
  expect(await ledger.sql('SELECT count(*)::int AS n FROM operator_action')).toEqual([{ n: 1 }]);
  const rival = { ...command, token: uuid() };
  expect(await ledger.database.run(readmit, rival)).toEqual([{ answer: 'not_excluded' }]);
  expect(await ledger.database.run(readmit, { ...rival, deliveryId: other })).toEqual([{ answer: 'not_excluded' }]);
});

test('rows that cannot be recovered, expired or parked are set aside as well, and their neighbours move', async () => {
  const rows = [
    await arrange(ledger, 'delivering, lease past'),
    await arrange(ledger, 'queued', { dueIn: -9, expiresIn: -1 }),
    await arrange(ledger, 'scheduled', { destination: { state: 'paused' } }),
  ];
  for (const { deliveryId } of rows) await breakRow(deliveryId);
  await arrange(ledger, 'delivering, lease past');
  await arrange(ledger, 'queued', { dueIn: -9, expiresIn: -1 });
  await arrange(ledger, 'scheduled', { destination: { state: 'paused' } });
  expect((await tick()).answer).toMatchObject({ recovered: 1, expired: 1, parked: 1, excluded: 3 });
});

test('what fails for every row is no fault of theirs: none is set aside, and the tick fails', async () => {
  for (const id of await schedule(20)) await breakRow(id);
  await expect(tick()).rejects.toMatchObject({ name: 'LedgerError', sqlState: 'XX001' });
  expect(await excluded()).toEqual([]);
});

test('where many fail no more than ten are set aside at once', async () => {
  const ids = await schedule(40);
  for (const id of ids.slice(0, 15)) await breakRow(id);
  await tick().catch(() => undefined);
  const first = (await excluded()).length;
  expect(first).toBeGreaterThan(0);
  expect(first).toBeLessThanOrEqual(10);
});

test('the search ends when the queue refuses: claiming more helps nobody', async () => {
  const ids = await schedule(8);
  await breakRow(ids[7] ?? '');
  // The oldest is the broken one, in the first half: its three neighbours there go, and the other half waits.
  const { answer } = await tick({ refuses: true });
  expect(answer).toMatchObject({ stopped: 'queue_refused', enqueued: 0 });
  expect(answer.claimed).toBeLessThan(7);
  expect(answer.released).toBe(answer.claimed);
});

test('a pause keeps what is due out of the search, and lets what has ended be closed around a broken row', async () => {
  await schedule(3);
  await ledger.sql('UPDATE dispatch_gate SET paused = true, paused_since = now()');
  const broken = await arrange(ledger, 'delivering, lease past');
  await breakRow(broken.deliveryId);
  await arrange(ledger, 'delivering, lease past');
  expect((await tick()).answer).toMatchObject({ recovered: 1, excluded: 1, claimed: 0 });
  expect(await excluded()).toMatchObject([{ delivery_id: broken.deliveryId }]);
});

test('a row that cannot be marked costs its neighbours no more than their mark', async () => {
  const ids = await schedule(3);
  await breakRow(ids[1] ?? '', 'queued');
  const { answer, errors } = await tick();
  expect(answer).toMatchObject({ claimed: 3, enqueued: 0, excluded: 0, stopped: 'drained' });
  expect(errors).toEqual(['dispatch_failed']);
  expect(await inState('dispatching')).toEqual([...ids].sort());
});

/** Delivers a batch with a webhook that answers 200. Answers the ids in the order in which they were sent, and the failed ones. */
async function deliver(ids: readonly string[], beside = new Set<string>()) {
  const sent: string[] = [];
  const under = new Set<string>();
  const failed = await deliverInvitations(
    {
      ledger: ledger.ledger,
      webhook: {
        prepare: async () => ({
          async post({ deliveryId }) {
            sent.push(deliveryId);
            under.add(deliveryId);
            await systemClock.sleep(30);
            if (under.size > 1) for (const id of under) beside.add(id);
            under.delete(deliveryId);
            return outcome(deliveryId, '');
          },
          close: async () => undefined,
        }),
      },
      clock: systemClock,
      settings: ledger.settings,
      newToken: () => uuid(),
    },
    {
      worker,
      signal: new AbortController().signal,
      remainingMs: () => 30_000,
      log: { info: () => undefined, warn: () => undefined, error: () => undefined },
      meter: { count: () => undefined, milliseconds: () => undefined, percent: () => undefined },
    },
    ids.map((deliveryId) => ({ deliveryId, notBefore: 0 })),
  );
  return { sent, failed: [...failed] };
}

/** A reminder whose sender never reported, invited once more. */
async function recovered(): Promise<string> {
  const { deliveryId } = await arrange(ledger, 'delivering, lease past');
  await ledger.ledger.claim({ token: uuid(), worker, limit: 1, lowWater: null, only: [deliveryId] });
  await ledger.sql(
    `UPDATE reminder_delivery SET next_attempt_at = now() - interval '1 s', wake_at = now() - interval '1 s'
     WHERE delivery_id = $1`,
    [deliveryId],
  );
  await ledger.ledger.claim({ token: uuid(), worker, limit: 1, lowWater: null, only: [deliveryId] });
  return deliveryId;
}

test('rows whose sender never reported are sent after the others, one by one, each settled before the next', async () => {
  const suspects = [await recovered(), await recovered()];
  const others = await schedule(3);
  await ledger.ledger.claim({ token: uuid(), worker, limit: 10, lowWater: null });
  const batch = [...suspects, ...others];
  const answers = await ledger.ledger.open({ token: uuid(), worker, deliveryIds: batch, alone: false });
  const alone = (all: readonly OpenAnswer[]) => all.filter(({ answer }) => answer === 'alone');
  expect(alone(answers).map(({ deliveryId }) => deliveryId)).toEqual([...suspects].sort());
  // What was opened here stands under another lease; these two are still to be had.
  const beside = new Set<string>();
  const { sent, failed } = await deliver([...suspects, ...others], beside);
  expect(failed).toEqual([]);
  expect(sent.sort()).toEqual([...suspects].sort());
  expect([...beside]).toEqual([]);
  expect(await inState('delivered')).toEqual([...suspects].sort());
});

test('a suspect that its batch had no time for is invited again when a lease has passed, however often it was in vain', async () => {
  const id = await recovered();
  await ledger.sql(
    `UPDATE reminder_delivery SET invitations = 5, wake_at = now() + interval '1 hour' WHERE delivery_id = $1`,
    [id],
  );
  const token = uuid();
  const open = () => ledger.ledger.open({ token, worker, deliveryIds: [id], alone: false });
  const wakeIn = async () => {
    const [row] = await ledger.sql<{ seconds: number }>(
      'SELECT extract(epoch FROM wake_at - now())::float AS seconds FROM reminder_delivery WHERE delivery_id = $1',
      [id],
    );
    return row?.seconds ?? 0;
  };
  const { leaseSeconds } = ledger.settings;
  expect(await open()).toMatchObject([{ answer: 'alone', state: 'dispatching' }]);
  expect(await wakeIn()).toBeLessThanOrEqual(leaseSeconds);
  expect(await wakeIn()).toBeGreaterThan(leaseSeconds - 30);

  // The same command, run late: a claim has taken the row meanwhile, and its allowance stands.
  await ledger.sql(`UPDATE reminder_delivery SET wake_at = now() + interval '1 hour' WHERE delivery_id = $1`, [id]);
  expect(await open()).toMatchObject([{ answer: 'alone' }]);
  expect(await wakeIn()).toBeGreaterThan(3000);
});

test('in one batch: the others side by side and first, the suspects alone and last', async () => {
  const suspects = [await recovered(), await recovered()];
  const others = await schedule(3);
  await ledger.ledger.claim({ token: uuid(), worker, limit: 10, lowWater: null });
  const beside = new Set<string>();
  const { sent } = await deliver([...suspects, ...others], beside);
  expect(sent.slice(0, 3).sort()).toEqual([...others].sort());
  expect(sent.slice(3).sort()).toEqual([...suspects].sort());
  expect([...beside].sort()).toEqual([...others].sort());
});

test('a row that cannot be opened, or that somebody holds, keeps no neighbour of its batch from being sent', async () => {
  const ids = await schedule(4);
  await ledger.ledger.claim({ token: uuid(), worker, limit: 10, lowWater: null });
  const [broken = '', held = '', ...well] = ids;
  await breakRow(broken, 'delivering');
  const session = await ledger.session();
  await session.sql('BEGIN');
  await session.sql('SELECT FROM reminder_delivery WHERE delivery_id = $1 FOR UPDATE', [held]);
  const delivering = deliver(ids);
  await expect.poll(() => inState('delivered'), { timeout: 20_000 }).toEqual([...well].sort());
  await session.sql('ROLLBACK');
  await session.close();
  expect((await delivering).failed).toEqual([broken]);
  expect(await inState('delivered')).toEqual([held, ...well].sort());
});

test('a readmission ends the exclusion of its own reminder alone', async () => {
  const [mine, other] = [
    (await arrange(ledger, 'scheduled')).deliveryId,
    (await arrange(ledger, 'scheduled')).deliveryId,
  ];
  for (const id of [mine, other]) {
    await ledger.sql(
      `INSERT INTO claim_exclusion (delivery_id, token, excluded_at, sql_state, reason)
       VALUES ($1, $2, now(), 'XX001', 'data_corrupted')`,
      [id, uuid()],
    );
  }
  const command = { token: uuid(), deliveryId: mine, actor: 'ann', reason: 'page restored', ticket: null };
  expect(await ledger.database.run(readmit, command)).toEqual([{ answer: 'readmitted' }]);
  expect(await ledger.sql('SELECT delivery_id AS id FROM claim_exclusion WHERE readmitted_at IS NULL')).toEqual([
    { id: other },
  ]);
});
