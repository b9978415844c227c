// What people decide about reminders, and what the ledger keeps of it: who, why, on what evidence, and what was seen.
import { v7 as uuid } from 'uuid';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { actor, command, decider } from './decider.ts';
import { empty, ledgerTables } from './ledger-rows.ts';
import { type Arranged, arrange, inSeconds, openToken } from './situations.ts';
import { outcome, startTestLedger, type TestLedger, worker } from './test-ledger.ts';

let ledger: TestLedger;
let tables: string[];
beforeAll(async () => {
  ledger = await startTestLedger();
  tables = await ledgerTables(ledger);
});
beforeEach(() => empty(ledger, tables));
afterAll(() => ledger.stop());

const { decide, rowOf, actions, known } = decider(() => ledger);

test('an action says who decided what, why, on what evidence, and what was seen of the reminder', async () => {
  const row = await arrange(ledger, 'dead', { attempts: 2, expiresIn: 900, columns: { failures: 2 } });
  await known(row, 1, 'retry');
  const [answer] = await decide(command('requeue', [row], { evidence: 'asked ben: attempt 2 never arrived' }));
  expect(answer).toMatchObject({ answer: 'requeued', state: 'scheduled', version: 2, deliveryId: row.deliveryId });
  expect(await actions()).toMatchObject([
    {
      ...{ verb: 'requeue', actor, reason: 'the partner was down', ticket: 'OPS-7', version_seen: 1 },
      delivery_id: row.deliveryId,
      evidence: {
        ...{ given: 'asked ben: attempt 2 never arrived', answer: 'requeued', state: 'dead' },
        ...{ attempts: 2, doubtfulAttempts: 1 },
      },
    },
  ]);
});

describe('requeue', () => {
  test('goes on under the same id and key, with the attempts counted on and the retry policy begun anew', async () => {
    const row = await arrange(ledger, 'dead', { attempts: 1, columns: { failures: 1, invitations: 3 } });
    await known(row, 1, 'permanent');
    await decide(command('requeue', [row]));
    expect(await rowOf(row)).toMatchObject({
      ...{ delivery_id: row.deliveryId, idempotency_key: row.key, state: 'scheduled', attempt_no: 1, failures: 0 },
      ...{ attempts_at_requeue: 1, invitations: 0, first_invited_at: null, unreviewed_since: null },
    });
    const { claimed } = await ledger.ledger.claim({ token: uuid(), worker, limit: 10, lowWater: null });
    expect(claimed).toMatchObject([{ deliveryId: row.deliveryId }]);
    const token = uuid();
    const [opened] = await ledger.ledger.open({ token, worker, deliveryIds: [row.deliveryId] });
    expect(opened).toMatchObject({ answer: 'opened', attemptNo: 2, key: row.key });
    await ledger.ledger.settle({ token: uuid(), outcomes: [outcome(row.deliveryId, token, { attemptNo: 2 })] });
    expect(await rowOf(row)).toMatchObject({ state: 'delivered' });
  });

  test.each(['unknown', 'overtaken', 'delivered'])('asks for evidence when an attempt is %s', async (result) => {
    const row = await arrange(ledger, 'dead', { attempts: 2 });
    await known(row, 1, 'retry');
    await known(row, 2, result);
    expect(await decide(command('requeue', [row]))).toMatchObject([{ answer: 'evidence_needed', state: 'dead' }]);
    expect(await actions()).toEqual([]);
  });

  test('asks for none when every attempt is known to have failed, the one that was unknown first too', async () => {
    const row = await arrange(ledger, 'dead', { attempts: 2 });
    await known(row, 1, 'unknown');
    await known(row, 1, 'retry');
    await known(row, 2, 'not_sent');
    expect(await decide(command('requeue', [row]))).toMatchObject([{ answer: 'requeued' }]);
  });

  test('a second time answers with what is true, and so does one from a stale screen', async () => {
    const row = await arrange(ledger, 'dead');
    await decide(command('requeue', [row]));
    expect(await decide(command('requeue', [row]))).toMatchObject([
      { answer: 'refused', state: 'scheduled', version: 2 },
    ]);
    await ledger.sql("UPDATE reminder_delivery SET state = 'dispatching', lease_owner = $1, lease_until = now()", [
      uuid(),
    ]);
    expect(await decide(command('hold', [row]))).toMatchObject([{ answer: 'stale', state: 'dispatching', version: 2 }]);
    expect(await actions()).toHaveLength(1);
  });

  test('what dies again is announced again', async () => {
    const row = await arrange(ledger, 'delivering, lease live');
    const dies = async (attemptNo: number, token: string) =>
      ledger.ledger.settle({
        token: uuid(),
        outcomes: [outcome(row.deliveryId, token, { attemptNo, outcome: 'permanent', status: 400 })],
      });
    await dies(1, openToken(1));
    await decide(command('requeue', [row]));
    await ledger.ledger.claim({ token: uuid(), worker, limit: 10, lowWater: null });
    const token = uuid();
    await ledger.ledger.open({ token, worker, deliveryIds: [row.deliveryId] });
    await dies(2, token);
    const events = await ledger.sql('SELECT version, state FROM lifecycle_event ORDER BY event_no');
    expect(events).toEqual([
      { version: 1, state: 'dead' },
      { version: 2, state: 'dead' },
    ]);
  });

  test('with a new expiry, and due later, it waits for its time', async () => {
    const row = await arrange(ledger, 'held', { dueIn: 600 });
    const expiresAt = inSeconds(900).toISOString();
    const answers = await decide(command('release', [row], { expiresAt }));
    expect(answers).toMatchObject([{ answer: 'released', version: 2, expiresAt, dueAt: row.dueAt }]);
    expect(await rowOf(row)).toMatchObject({ version: 2 });
    const { next_attempt_at: next, wake_at: wake } = (await rowOf(row)) as { next_attempt_at: Date; wake_at: Date };
    expect(next.toISOString()).toBe(row.dueAt);
    expect(next.getTime() - wake.getTime()).toBe(ledger.settings.lookaheadSeconds * 1000);
  });
});

test('hold: no sender may open it, and its invitation that is in the queue is only a receipt', async () => {
  const row = await arrange(ledger, 'queued', { expiresIn: 900 });
  expect(await decide(command('hold', [row]))).toMatchObject([{ answer: 'held', state: 'held', version: 2 }]);
  expect(await rowOf(row)).toMatchObject({ hold_reason: 'the partner was down', unreviewed_since: expect.any(Date) });
  const [opened] = await ledger.ledger.open({ token: uuid(), worker, deliveryIds: [row.deliveryId] });
  expect(opened).toMatchObject({ answer: 'not_claimed', state: 'held' });
  expect(await decide(command('hold', [row]))).toMatchObject([{ answer: 'held', version: 2 }]);
  expect(await actions()).toHaveLength(1);
});

test('review: what a person has seen waits for none; dead once more it waits anew', async () => {
  const row = await arrange(ledger, 'dead');
  expect(await rowOf(row)).toMatchObject({ unreviewed_since: expect.any(Date) });
  await decide(command('review', [row]));
  expect(await rowOf(row)).toMatchObject({ state: 'dead', version: 1, unreviewed_since: null });
  expect(await decide(command('review', [row]))).toMatchObject([{ answer: 'reviewed' }]);
  expect(await actions()).toHaveLength(1);
});

test('cancel, while it is being sent: the wish is kept, once, and its failure then ends it', async () => {
  const row = await arrange(ledger, 'delivering, lease live');
  expect(await decide(command('cancel', [row]))).toMatchObject([{ answer: 'too_late', state: 'delivering' }]);
  await decide(command('cancel', [row]));
  expect(await actions()).toHaveLength(1);
  const failed = outcome(row.deliveryId, openToken(1), { attemptNo: 1, outcome: 'retry', status: 503 });
  await ledger.ledger.settle({ token: uuid(), outcomes: [failed] });
  expect(await rowOf(row)).toMatchObject({ state: 'cancelled' });
});

test('where the receiver may have forgotten the key, a replay needs evidence though every attempt has failed', async () => {
  const row = await arrange(ledger, 'dead', { attempts: 1 });
  await known(row, 1, 'retry');
  const window = (seconds: number) => ledger.sql('UPDATE destination SET dedup_window_seconds = $1', [seconds]);
  await window(30);
  expect(await decide(command('requeue', [row]))).toMatchObject([{ answer: 'evidence_needed' }]);
  await window(3600);
  expect(await decide(command('requeue', [row]))).toMatchObject([{ answer: 'requeued' }]);
});

test('an attempt that was made since it was seen makes the screen an old one', async () => {
  const row = await arrange(ledger, 'held', { attempts: 2 });
  const seen = { ...command('release', [], { evidence: 'attempt 1 never arrived' }) };
  const reminders = [{ deliveryId: row.deliveryId, versionSeen: 1, attemptsSeen: 1 }];
  expect(await decide({ ...seen, reminders })).toMatchObject([{ answer: 'stale', state: 'held' }]);
});

test('what a decision writes, column by column', async () => {
  const expiresAt = inSeconds(3600);
  const lives = { expiresIn: 900, columns: { invitations: 2, first_invited_at: inSeconds(-5) } };
  const [dead, held, queued, sending] = [
    await arrange(ledger, 'dead', lives),
    await arrange(ledger, 'held', { expiresIn: 900 }),
    await arrange(ledger, 'queued', { expiresIn: 900 }),
    await arrange(ledger, 'delivering, lease live', { expiresIn: 900, wakeIn: 60 }),
  ];
  const [sendingBefore, heldBefore] = [await rowOf(sending), await rowOf(held)];
  await decide(command('requeue', [dead], { expiresAt: expiresAt.toISOString() }));
  expect(await rowOf(dead)).toMatchObject({ expires_at: expiresAt, first_invited_at: null, cancel_requested_at: null });
  expect(await decide(command('review', [held]))).toMatchObject([{ answer: 'reviewed' }]);
  expect(await rowOf(held)).toMatchObject({
    ...{ wake_at: heldBefore.wake_at, hold_reason: heldBefore.hold_reason, state_since: heldBefore.state_since },
    cancel_requested_at: null,
  });
  await decide(command('cancel', [queued, sending]));
  expect(await rowOf(queued)).toMatchObject({
    state: 'cancelled',
    cancel_requested_at: expect.any(Date),
    wake_at: null,
  });
  expect(await rowOf(sending)).toMatchObject({
    ...{ lease_owner: sendingBefore.lease_owner, lease_until: sendingBefore.lease_until },
    ...{ wake_at: sendingBefore.wake_at, state_since: sendingBefore.state_since, version: 1 },
  });
});

test('what waited for its next try goes at once', async () => {
  const row = await arrange(ledger, 'dead', { columns: { next_attempt_at: inSeconds(900) } });
  await decide(command('requeue', [row]));
  const { next_attempt_at: next } = (await rowOf(row)) as { next_attempt_at: Date };
  expect(next.getTime()).toBeLessThan(Date.now() + 60_000);
});

test('the window of a key is that of its own destination, from its own first attempt', async () => {
  const rows = [await arrange(ledger, 'dead', { attempts: 1 }), await arrange(ledger, 'dead', { attempts: 1 })];
  const [long, short] = rows as [Arranged, Arranged];
  for (const row of rows) await known(row, 1, 'retry');
  const set = (row: Arranged, seconds: number) =>
    ledger.sql('UPDATE destination SET dedup_window_seconds = $2 WHERE destination_id = $1', [
      row.destinationId,
      seconds,
    ]);
  await set(long, 3600);
  await set(short, 30);
  const old = await arrange(ledger, 'delivered', { attempts: 1 });
  const session = await ledger.session();
  await session.sql('SET session_replication_role = replica');
  await session.sql("UPDATE delivery_attempt SET started_at = now() - interval '9 days' WHERE delivery_id = $1", [
    old.deliveryId,
  ]);
  await session.close();
  const answers = await decide(command('requeue', rows));
  expect(answers.map(({ answer }) => answer)).toEqual(['requeued', 'evidence_needed']);
});
