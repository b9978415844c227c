// What makes reminders go on, as commands: several in one, under a token, at once, beside what they do not name.
import { v7 as uuid } from 'uuid';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Recovery } from '../../lambdas/core/recoveries.ts';
import { reclaim } from '../../lambdas/store/statements/reclaim.ts';
import { decider } from './decider.ts';
import { dump, empty, ledgerTables } from './ledger-rows.ts';
import { lost, recoverer, recovery, silent } from './recoverer.ts';
import { type Arranged, arrange } from './situations.ts';
import { startTestLedger, type TestLedger, worker } from './test-ledger.ts';

let ledger: TestLedger;
let tables: string[];
beforeAll(async () => {
  ledger = await startTestLedger();
  tables = await ledgerTables(ledger);
});
beforeEach(() => empty(ledger, tables));
afterAll(() => ledger.stop());

const { recover, rowOf, actions } = recoverer(() => ledger);
const { known } = decider(() => ledger);
const claim = () => ledger.ledger.claim({ token: uuid(), worker, limit: 10, lowWater: null });
const soon = (row: { wake_at: Date }) => Math.abs(row.wake_at.getTime() - Date.now()) < 30_000;

describe('a command', () => {
  test('under its token answers the same for ever, also after another has changed the row', async () => {
    const row = await lost(ledger);
    const command = recovery('republish', [row]);
    const answer = await recover(command);
    await claim();
    const before = await dump(ledger, tables);
    expect(await recover(command)).toEqual(answer);
    expect(await dump(ledger, tables)).toEqual(before);
  });

  test('and its twin at once bring it forward once, and answer alike', async () => {
    const row = await lost(ledger);
    const { reminders, ...rest } = recovery('republish', [row]);
    const input = { ...rest, reminders: reminders.map((one, item) => ({ ...one, item })) };
    const answer = await ledger.behind(
      (session) => session.run(reclaim, input),
      () => recover({ ...rest, reminders }),
    );
    expect(answer).toMatchObject([{ answer: 'republished', deliveryId: row.deliveryId }]);
    expect(await actions()).toHaveLength(1);
  });

  test('of somebody else at once does it once', async () => {
    const row = await lost(ledger);
    const other = recovery('republish', [row]);
    const input = { ...other, reminders: other.reminders.map((one, item) => ({ ...one, item })) };
    const answer = await ledger.behind(
      (session) => session.run(reclaim, input),
      () => recover(recovery('republish', [row])),
    );
    expect(answer).toMatchObject([{ answer: 'republished' }]);
    expect(await actions()).toHaveLength(1);
  });

  test('another one under the same id does nothing, and is not told the answer of the first', async () => {
    const [first, second] = [await lost(ledger), await silent(ledger)];
    const done = recovery('republish', [first]);
    await recover(done);
    const before = await dump(ledger, tables);
    for (const other of [
      recovery('reclaim', [second]),
      recovery('republish', [second]),
      recovery('reclaim', [first]),
    ]) {
      const [{ deliveryId } = { deliveryId: '' }] = other.reminders;
      expect(await recover({ ...other, token: done.token })).toEqual([{ answer: 'token_used', deliveryId }]);
    }
    expect(await dump(ledger, tables)).toEqual(before);
  });

  test('is answered one by one, in order; a dry run writes nothing and leaves its token free', async () => {
    const rows = [await silent(ledger), await arrange(ledger, 'held'), await silent(ledger)];
    const command = recovery('reclaim', [...rows, { ...(rows[0] as Arranged), deliveryId: uuid() }]);
    const before = await dump(ledger, tables);
    const look = await recover({ ...command, dryRun: true });
    expect(look.map(({ answer }) => answer)).toEqual(['reclaimed', 'not_leased', 'reclaimed', 'not_found']);
    expect(await dump(ledger, tables)).toEqual(before);
    expect(await recover(command)).toEqual(look);
    expect([...(await claim()).recovered].sort()).toEqual([rows[0], rows[2]].map((row) => row?.deliveryId).sort());
  });

  test('a row that cannot be updated keeps only itself', async () => {
    const [broken, sound] = [await lost(ledger), await lost(ledger)];
    await ledger.sql(
      `CREATE FUNCTION refuse_one() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
         RAISE EXCEPTION 'damaged' USING ERRCODE = 'XX001'; END $$;
       CREATE TRIGGER refuse_one BEFORE UPDATE ON reminder_delivery FOR EACH ROW
         WHEN (OLD.delivery_id = '${broken.deliveryId}') EXECUTE FUNCTION refuse_one()`,
    );
    try {
      expect(await recover(recovery('republish', [broken, sound]))).toMatchObject([
        { answer: 'unusable', deliveryId: broken.deliveryId },
        { answer: 'republished', deliveryId: sound.deliveryId },
      ]);
    } finally {
      await ledger.sql('DROP TRIGGER refuse_one ON reminder_delivery; DROP FUNCTION refuse_one()');
    }
  });

  test('neither waits for another reminder nor takes its attempts, receipts or exclusions for its own', async () => {
    const [row, other] = [await lost(ledger, { attempts: 1 }), await lost(ledger, { attempts: 1 })];
    await known(row, 1, 'retry');
    await ledger.ledger.exclude({ token: uuid(), deliveryId: other.deliveryId, sqlState: 'XX001', reason: 'damaged' });
    await ledger.sql(
      `INSERT INTO handoff (delivery_id, message_id, queue, token, visible_from, moved, recorded_at)
       VALUES ($1, 'm', 'invitations', $2, now(), true, now())`,
      [other.deliveryId, uuid()],
    );
    const session = await ledger.session();
    try {
      await session.sql('BEGIN');
      await session.sql('SELECT FROM reminder_delivery WHERE delivery_id = $1 FOR UPDATE', [other.deliveryId]);
      expect(await recover(recovery('republish', [row]))).toMatchObject([{ answer: 'republished' }]);
    } finally {
      await session.close();
    }
    expect(soon(await rowOf(other))).toBe(false);
    expect(await recover(recovery('republish', [other]))).toMatchObject([{ answer: 'excluded' }]);
  });
});

describe('a command about several', () => {
  const run = ({ reminders, ...rest }: Recovery, some = reminders) =>
    ledger.database.run(reclaim, { ...rest, reminders: some.map((one, item) => ({ ...one, item })) });

  test.each(['reclaim', 'republish', 'redrive'] as const)(
    'is answered in one run, and run again says the same of each: %s',
    async (verb) => {
      const make = verb === 'reclaim' ? silent : lost;
      const command = recovery(verb, [await make(ledger), await make(ledger)]);
      const [answer] = [verb === 'reclaim' ? 'reclaimed' : 'republished'];
      const unknown = { deliveryId: uuid(), versionSeen: 1, attemptsSeen: 0 };
      const all = [...command.reminders, unknown];
      const lines = [
        ...command.reminders.map((one, item) => ({ item, answer, delivery_id: one.deliveryId })),
        { item: 2, answer: 'not_found' },
      ];
      expect(await run(command, command.reminders.slice(0, 1))).toMatchObject(lines.slice(0, 1));
      for (let times = 0; times < 2; times += 1) {
        const found = await run(command, all);
        expect(found).toHaveLength(3);
        expect(found).toMatchObject(lines);
      }
      const both = recovery(verb, [await make(ledger), await make(ledger)]);
      expect(await run(both)).toMatchObject(
        both.reminders.map((one, item) => ({ item, answer, delivery_id: one.deliveryId })),
      );
      expect(await actions()).toHaveLength(4);
    },
  );
});

describe('what another reminder is known by', () => {
  test('its attempts that failed are no evidence for this one, and its first one is not this one’s', async () => {
    const [row, other] = [await lost(ledger, { attempts: 1 }), await lost(ledger, { attempts: 3 })];
    for (const attemptNo of [1, 2, 3]) await known(other, attemptNo, 'retry');
    expect(await recover(recovery('republish', [row]))).toMatchObject([{ answer: 'evidence_needed' }]);
    await known(row, 1, 'retry');
    await ledger.sql('UPDATE destination SET dedup_window_seconds = 3600');
    const session = await ledger.session();
    await session.sql('SET session_replication_role = replica');
    await session.sql("UPDATE delivery_attempt SET started_at = now() - interval '9 days' WHERE delivery_id = $1", [
      other.deliveryId,
    ]);
    await session.close();
    expect(await recover(recovery('republish', [row]))).toMatchObject([{ answer: 'republished' }]);
  });

  test('what claims passed over once, and do not any more, goes on', async () => {
    const row = await lost(ledger);
    await ledger.ledger.exclude({ token: uuid(), deliveryId: row.deliveryId, sqlState: 'XX001', reason: 'damaged' });
    await ledger.sql('UPDATE claim_exclusion SET readmitted_at = now()');
    expect(await recover(recovery('republish', [row]))).toMatchObject([{ answer: 'republished' }]);
  });
});
