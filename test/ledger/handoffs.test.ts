// What operators read of the queue's work: handoffs that should have been opened, and messages that were set aside.
import { v7 as uuid } from 'uuid';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type HandoffFinding, judgeHandoffs } from '../../lambdas/core/handoffs.ts';
import { postgresRecoveries } from '../../lambdas/store/recoveries.ts';
import { listHandoffs } from '../../lambdas/store/statements/list-handoffs.ts';
import { listPoison } from '../../lambdas/store/statements/list-poison.ts';
import { setAside } from '../../lambdas/store/statements/set-aside.ts';
import { dump, empty, ledgerTables } from './ledger-rows.ts';
import { lost, recoverer, recovery } from './recoverer.ts';
import { type Arranged, arrange, inSeconds } from './situations.ts';
import { startTestLedger, type TestLedger } from './test-ledger.ts';

let ledger: TestLedger;
let tables: string[];
beforeAll(async () => {
  ledger = await startTestLedger();
  tables = await ledgerTables(ledger);
});
beforeEach(() => empty(ledger, tables));
afterAll(() => ledger.stop());

const { recover, actions } = recoverer(() => ledger);
const account = { token: uuid(), actor: 'ann', reason: 'looked', ticket: null, dryRun: false };

describe('handoffs', () => {
  const look = async (limit = 2000, names = 100) => {
    const rows = await ledger.database.run(listHandoffs, { limit, names });
    const [counts] = rows.filter((row) => row.answer === 'handoffs');
    return { counts, overdue: rows.filter((row) => row.answer === 'overdue') };
  };

  test('that should have been opened are counted and named, the oldest first, as a republish takes them', async () => {
    const older = await lost(ledger, { dueIn: -900, columns: { version: 3 }, attempts: 2 });
    const newer = await lost(ledger);
    const { counts, overdue } = await look();
    expect(counts).toMatchObject({ queued: 2, overdue: 2 });
    expect(overdue).toMatchObject([
      { delivery_id: older.deliveryId, version: 3, attempts: 2 },
      { delivery_id: newer.deliveryId, version: 1, attempts: 0 },
    ]);
    expect(Date.parse(counts?.oldest ?? '')).toBe(Date.parse(overdue[0]?.since ?? ''));
    expect((await look(2000, 1)).overdue).toHaveLength(1);
    expect((await look(1)).counts).toMatchObject({ queued: 1, overdue: 1 });
    // What it names is what a republish takes: it asks the same.
    const named = recovery('republish', [newer], { dryRun: true });
    expect(await recover(named)).toMatchObject([{ answer: 'republished' }]);
  });

  test.each<[why: string, make: () => Promise<Arranged>, queued: number]>([
    ['it was invited a moment ago', () => lost(ledger, { columns: { state_since: inSeconds(-60) } }), 1],
    ['it is due in a moment', () => lost(ledger, { dueIn: -60 }), 1],
    ['its destination takes nothing', () => lost(ledger, { destination: { state: 'paused' } }), 1],
    ['all is paused', () => lost(ledger, { paused: true }), 1],
    ['its time is over', () => lost(ledger, { expiresIn: -1 }), 1],
    ['it is handed over at this moment', () => arrange(ledger, 'dispatching', { dueIn: -600 }), 0],
    ['it is being sent', () => arrange(ledger, 'delivering, lease live', { dueIn: -600 }), 0],
    [
      'a receipt says that it is visible for a minute',
      async () => {
        const row = await lost(ledger);
        await ledger.sql(
          `INSERT INTO handoff (delivery_id, message_id, queue, token, visible_from, moved, recorded_at)
           VALUES ($1, 'm', 'invitations', $2, now() - interval '60 s', true, now())`,
          [row.deliveryId, uuid()],
        );
        return row;
      },
      1,
    ],
    [
      'claims pass over it',
      async () => {
        const row = await lost(ledger);
        await ledger.ledger.exclude({
          token: uuid(),
          deliveryId: row.deliveryId,
          sqlState: 'XX001',
          reason: 'damaged',
        });
        return row;
      },
      1,
    ],
  ])('is not overdue when %s, as no republish would take it', async (_why, make, queued) => {
    const row = await make();
    expect(await look()).toMatchObject({ counts: { queued, overdue: 0, oldest: null }, overdue: [] });
    expect(await recover(recovery('republish', [row], { dryRun: true }))).not.toMatchObject([
      { answer: 'republished' },
    ]);
  });

  test.each<
    [queued: number, overdue: number, messages: [number, number, number], finding: HandoffFinding, lost: number]
  >([
    [0, 0, [0, 0, 0], 'none', 0],
    [9, 0, [0, 0, 0], 'none', 0],
    [5, 2, [3, 1, 1], 'waiting', 0],
    [5, 2, [90, 0, 0], 'waiting', 0],
    [5, 2, [3, 0, 1], 'lost', 1],
    [5, 5, [0, 0, 0], 'lost', 5],
  ])('%i queued, %i overdue, and messages %j: %s, %i lost', (queued, overdue, messages, finding, lostAtLeast) => {
    const [visible, notVisible, delayed] = messages;
    expect(judgeHandoffs({ queued, overdue }, { visible, notVisible, delayed })).toEqual({ finding, lostAtLeast });
  });
});

describe('a message that is set aside', () => {
  const poison = (messageId: string, body: string) => ({
    messageId,
    receives: 6,
    because: 'no_invitation' as const,
    body,
  });
  const list = () => ledger.database.run(listPoison, { limit: 100 });

  test('is kept once for good, whoever does it and how often, with who and why', async () => {
    const recoveries = postgresRecoveries(ledger.database);
    const messages = [poison(uuid(), '{"v":2}'), poison(uuid(), 'no JSON')];
    await recoveries.setAside({ ...account, messages, dryRun: true });
    await recoveries.setAside({ ...account, messages: [] });
    expect(await list()).toEqual([]);
    await recoveries.setAside({ ...account, messages });
    await recoveries.setAside({ ...account, messages });
    await recoveries.setAside({ ...account, token: uuid(), actor: 'ben', messages });
    expect(await actions()).toHaveLength(2);
    await recoveries.setAside({ ...account, token: uuid(), messages: [poison('later', 'x')] });
    const kept = await list();
    expect(kept).toHaveLength(3);
    expect(kept[0]).toMatchObject({ message_id: 'later' });
    expect(kept).toMatchObject(
      expect.arrayContaining([
        expect.objectContaining({
          body: 'no JSON',
          receives: 6,
          because: 'no_invitation',
          actor: 'ann',
          reason: 'looked',
        }),
      ]),
    );
    expect(await ledger.database.run(listPoison, { limit: 1 })).toMatchObject([{ message_id: 'later' }]);
  });

  test('by two at once is kept once', async () => {
    const messages = [poison(uuid(), 'no JSON')];
    await ledger.behind(
      (session) => session.run(setAside, { ...account, messages }),
      () => postgresRecoveries(ledger.database).setAside({ ...account, token: uuid(), messages }),
    );
    expect(await list()).toHaveLength(1);
  });

  test.each<[what: string, body: string, kept: string]>([
    ['is cut after a thousand characters', 'x'.repeat(5000), 'x'.repeat(1000)],
    ['is cut within no character', `${'x'.repeat(999)}😀`, `${'x'.repeat(999)}\uFFFD`],
    ['has its NULs replaced', 'a\u0000b', 'a\uFFFDb'],
    ['keeps what moves a cursor: whoever shows it escapes it', '\u001b[2J"\\', '\u001b[2J"\\'],
  ])('%s', async (_what, body, kept) => {
    await postgresRecoveries(ledger.database).setAside({ ...account, messages: [poison(uuid(), body)] });
    expect(await list()).toMatchObject([{ body: kept }]);
  });
});

describe('readmit', () => {
  test('is answered one by one; a dry run writes nothing, and run again it says the same', async () => {
    const [excluded, other] = [await arrange(ledger, 'scheduled'), await arrange(ledger, 'scheduled')];
    const { deliveryId } = excluded;
    await ledger.ledger.exclude({ token: uuid(), deliveryId, sqlState: 'XX001', reason: 'damaged' });
    const recoveries = postgresRecoveries(ledger.database);
    const command = { ...account, deliveryIds: [deliveryId, other.deliveryId] };
    const before = await dump(ledger, tables);
    const answers = [
      { deliveryId, answer: 'readmitted' },
      { deliveryId: other.deliveryId, answer: 'not_excluded' },
    ];
    expect(await recoveries.readmit({ ...command, dryRun: true })).toEqual(answers);
    expect(await dump(ledger, tables)).toEqual(before);
    expect(await recoveries.readmit(command)).toEqual(answers);
    expect(await recoveries.readmit(command)).toEqual(answers);
    expect(await recoveries.readmit({ ...command, dryRun: true, token: uuid() })).toMatchObject([
      { answer: 'not_excluded' },
      { answer: 'not_excluded' },
    ]);
    expect(await actions()).toMatchObject([{ verb: 'readmit', actor: 'ann', delivery_id: deliveryId }]);
  });
});
