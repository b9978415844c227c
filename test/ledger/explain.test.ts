// Explaining a reminder on PostgreSQL: its evidence read whole, in every situation; and what its table cannot hold.
import { v7 as uuid } from 'uuid';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { situations, stateOf } from '../../lambdas/core/delivery-states.ts';
import type { EvidenceName, ReminderEvidence } from '../../lambdas/core/reminder-evidence.ts';
import { verdict } from '../../lambdas/core/verdict.ts';
import { postgresEvidence } from '../../lambdas/store/evidence.ts';
import { brokenChecks, type Cell, everyCell, evidenceOf } from '../verdict/cells.ts';
import { empty, ledgerTables } from './ledger-rows.ts';
import { archived, as, handedOver, settled } from './long-finished.ts';
import { failure, openOne, recover, settleAll } from './one-reminder.ts';
import { arrange, openToken, producer } from './situations.ts';
import { newReminder, outcome, startTestLedger, type TestLedger, worker } from './test-ledger.ts';

let ledger: TestLedger;
let tables: string[];
beforeAll(async () => {
  ledger = await startTestLedger();
  tables = await ledgerTables(ledger);
});
beforeEach(() => empty(ledger, tables));
afterAll(() => ledger.stop());

const find = (name: EvidenceName) => postgresEvidence(ledger.database).evidence(name);
const judge = (evidence: ReminderEvidence) => verdict(evidence, Date.parse(evidence.readAt), ledger.settings);

async function read(deliveryId: string): Promise<ReminderEvidence> {
  return (await find({ deliveryId })) ?? expect.fail(`nothing is known of ${deliveryId}`);
}

describe('a reminder', () => {
  test('is found by its id, by its key, and by those of its producer alone', async () => {
    const { deliveryId, key } = await arrange(ledger, 'queued');
    await arrange(ledger, 'held');
    for (const name of [{ deliveryId }, { key }, { deliveryId, producer }, { key, producer }]) {
      expect(await find(name)).toMatchObject({ deliveryId, key, producer });
    }
    expect(await find({ deliveryId, producer: 'another' })).toBeNull();
    expect(await find({ key, producer: 'another' })).toBeNull();
  });

  test('that nobody has heard of is null', async () => {
    await arrange(ledger, 'queued');
    expect(await find({ deliveryId: uuid() })).toBeNull();
    expect(await find({ key: 'nobody' })).toBeNull();
  });

  test.each(situations)('is read and judged when it is %s', async (situation) => {
    const { deliveryId, attempts } = await arrange(ledger, situation, { dueIn: -3600, expiresIn: 600, wakeIn: -60 });
    const evidence = await read(deliveryId);
    expect(evidence).toMatchObject({ state: stateOf(situation), attemptNo: attempts, deadLetter: 'not_looked' });
    const life = Date.parse(evidence.expiresAt ?? '') - Date.parse(evidence.dueAt);
    expect(Math.abs(life - 4_200_000)).toBeLessThan(1000);
    expect({ [situation]: judge(evidence).standing }).toEqual({
      [situation]: {
        shadow: 'shadow',
        held: 'needs_person',
        scheduled: 'late',
        dispatching: 'waiting_for_lease',
        queued: 'late',
        'delivering, lease live': 'waiting_for_lease',
        'delivering, lease past': 'abandoned',
        delivered: 'done',
        dead: 'needs_person',
        expired: 'done',
        cancelled: 'done',
      }[situation],
    });
  });

  test('shows its attempts with their workers and outcomes, and its receipts', async () => {
    await ledger.destination('to');
    const reminder = newReminder('to', -1);
    const { deliveryId } = reminder;
    await ledger.ledger.schedule({ token: uuid(), producer, reminders: [reminder] });
    const claimToken = uuid();
    await ledger.ledger.claim({ token: claimToken, worker, limit: 1, lowWater: null });
    expect(judge(await read(deliveryId))).toMatchObject({ standing: 'waiting_for_lease', next: { who: 'claim' } });
    const receipts = [{ deliveryId, messageId: 'm-1', queue: 'invitations', delaySeconds: 0 }];
    await ledger.ledger.enqueue({ claimToken, receipts });
    expect(judge(await read(deliveryId))).toMatchObject({ standing: 'on_time', next: { who: 'sender' } });
    const first = uuid();
    await openOne(ledger, deliveryId, first);
    expect(judge(await read(deliveryId))).toMatchObject({ standing: 'waiting_for_lease', next: { who: 'sender' } });
    await recover(ledger, deliveryId);
    const hostile = outcome(deliveryId, first, { ...failure, phase: 'headers', detail: '\u001b[2Jbusy' });
    await settleAll(ledger, hostile);
    const evidence = await read(deliveryId);
    expect(evidence).toMatchObject({
      ...{ state: 'scheduled', failures: 1, attemptNo: 1, lastError: 'lease_expired: may have been processed' },
      handoffs: [{ messageId: 'm-1', queue: 'invitations' }],
      attempts: [
        {
          ...{ attemptNo: 1, version: 1, host: 'to.example', worker },
          outcomes: [
            { recordedBy: 'recover', outcome: 'unknown', movedTo: 'scheduled' },
            {
              recordedBy: 'sender',
              outcome: 'retry',
              status: 503,
              detail: '\u001b[2Jbusy',
              latencyMs: 12,
              movedTo: null,
            },
          ],
        },
      ],
      exclusions: [],
    });
    // A known failure is better than unknown.
    expect(judge(evidence)).toMatchObject({ standing: 'on_time', cautions: [] });
  });

  test('shows what keeps it: pauses with their reasons, a standing exclusion, what its receiver promises', async () => {
    const destination = { contract: 'none', state: 'paused' };
    const { deliveryId } = await arrange(ledger, 'scheduled', { paused: true, destination });
    await ledger.sql(`UPDATE dispatch_gate SET reason = 'drill'`);
    await ledger.sql(`UPDATE destination SET state_reason = 'maintenance', dedup_window_seconds = 3600`);
    await ledger.ledger.exclude({ token: uuid(), deliveryId, sqlState: 'XX001', reason: 'invalid page' });
    const evidence = await read(deliveryId);
    expect(evidence).toMatchObject({
      pause: { reason: 'drill' },
      destination: { ...destination, owner: 'test', stateReason: 'maintenance', dedupWindowSeconds: 3600 },
      exclusions: [{ sqlState: 'XX001', reason: 'invalid page', readmittedAt: null }],
    });
    expect(judge(evidence)).toMatchObject({ standing: 'excluded', verbs: { readmit: { allowed: true } } });
    await ledger.sql('UPDATE claim_exclusion SET readmitted_at = now()');
    expect(judge(await read(deliveryId)).standing).toBe('paused');
    await ledger.sql('UPDATE dispatch_gate SET paused = false, paused_since = NULL, reason = NULL');
    expect(judge(await read(deliveryId)).standing).toBe('parked');
  });

  test('that is archived is a tombstone: no evidence is left, and nothing to send', async () => {
    const row = await arrange(ledger, 'expired', { attempts: 1 });
    await settled(ledger, row, { outcome: 'unknown', status: null });
    await handedOver(ledger, row);
    expect(judge(await read(row.deliveryId)).standing).toBe('ambiguous');
    expect(await archived(ledger, as(row, { outcomes: 1 }))).toEqual(['archived']);
    const evidence = await read(row.deliveryId);
    expect(evidence).toMatchObject({ key: row.key, attemptNo: 1, attempts: [], handoffs: [], lastError: null });
    expect(judge(evidence)).toMatchObject({
      standing: 'done',
      cautions: [`payload and evidence went to the archive at ${evidence.archivedAt}`],
      verbs: { resolve: { allowed: true }, cancel: { allowed: false }, requeue: { allowed: false } },
    });
  });

  test('has its attempts in their order, and the one that is open without an outcome', async () => {
    const { deliveryId } = await arrange(ledger, 'delivering, lease past', { attempts: 11 });
    const evidence = await read(deliveryId);
    expect(evidence.attempts.map(({ attemptNo }) => attemptNo)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
    expect(evidence.lease?.owner).toBe(openToken(11));
  });

  test('has a receiver that remembers a key for some time, or nobody knows', async () => {
    await ledger.destination('to');
    const set = (seconds: number) => ledger.sql('UPDATE destination SET dedup_window_seconds = $1', [seconds]);
    await expect(set(0)).rejects.toMatchObject({ constraint: 'dedup_window_is_positive' });
    await set(1);
  });
});

test('the table holds what the cells of the verdict show, and refuses those that are left out by the CHECK they name', async () => {
  const destination = await ledger.destination('to');
  const session = await ledger.session();
  // Nothing else of a cell is in the row.
  const rows = new Map(everyCell.map((cell) => [rowOf(cell, destination).slice(1).join(), cell]));
  expect(rows.size).toBeGreaterThan(300);
  const wrong: string[] = [];
  await session.sql('BEGIN');
  for (const cell of rows.values()) {
    await session.sql('SAVEPOINT one');
    const broken = brokenChecks(cell);
    const refusal = await session.sql(insertRow, rowOf(cell, destination)).then(
      () => undefined,
      (error: { constraint?: string }) => error.constraint ?? String(error),
    );
    if (refusal === undefined ? broken.length > 0 : !broken.includes(refusal)) {
      wrong.push(`${Object.values(cell).join()}: ${refusal}, expected ${broken.join(' or ')}`);
    }
    await session.sql('ROLLBACK TO one');
  }
  await session.sql('ROLLBACK');
  await session.close();
  expect(wrong).toEqual([]);
});

const insertRow = `
  INSERT INTO reminder_delivery (
    delivery_id, producer, user_id, destination_id, idempotency_key, request_fingerprint, payload, payload_sha256,
    created_by_command, created_at, state, due_at, next_attempt_at, expires_at, wake_at, state_since, hold_reason,
    lease_owner, lease_until, attempt_no, failures, invitations, first_invited_at, cancel_requested_at, delivered_at)
  VALUES ($1, 'p', 'u', $2, 'k', 'f', '{}', sha256('{}'), gen_random_uuid(), now(), $3, $4, $4, $5, $6, $7, $8,
          $9, $10, $11, $12, $13, $14, $15, $16)`;

function rowOf(cell: Cell, destination: string): unknown[] {
  const { deliveryId, state, dueAt, expiresAt, wakeAt, stateSince, holdReason, lease, ...rest } = evidenceOf(cell);
  const { attemptNo, failures, invitations, firstInvitedAt, cancelRequestedAt, deliveredAt } = rest;
  return [
    ...[deliveryId, destination, state, dueAt, expiresAt, wakeAt, stateSince, holdReason],
    ...[lease?.owner ?? null, lease?.until ?? null, attemptNo, failures, invitations],
    ...[firstInvitedAt, cancelRequestedAt, deliveredAt],
  ];
}
