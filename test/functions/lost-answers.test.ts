// Each writing statement runs and its answer is lost: the command goes on as if it had come, and nothing happens twice.
import { readdirSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Statement } from '../../lambdas/store/statement.ts';
import { announce } from '../../lambdas/store/statements/announce.ts';
import { archive } from '../../lambdas/store/statements/archive.ts';
import { cancel } from '../../lambdas/store/statements/cancel.ts';
import { claim } from '../../lambdas/store/statements/claim.ts';
import { claimById } from '../../lambdas/store/statements/claim-by-id.ts';
import { enqueue } from '../../lambdas/store/statements/enqueue.ts';
import { forget } from '../../lambdas/store/statements/forget.ts';
import { open } from '../../lambdas/store/statements/open.ts';
import { release } from '../../lambdas/store/statements/release.ts';
import { reschedule } from '../../lambdas/store/statements/reschedule.ts';
import { schedule } from '../../lambdas/store/statements/schedule.ts';
import { settle } from '../../lambdas/store/statements/settle.ts';
import { unpark } from '../../lambdas/store/statements/unpark.ts';
import { type Asked, eventually, type RunningLedger, startRunningLedger } from './running-ledger.ts';

/** Statements that change nothing, or that only a person at the command line runs, who sees the answer. */
const notHere = [
  'get',
  'show-evidence',
  'count-states',
  'list-destinations',
  'list-due',
  'list-archivable',
  'list-attention',
  'list-finished-producers',
  'list-exclusions',
  'list-actions',
  'count-affected',
  'find',
  'forecast',
  'observe-calendar',
  'observe-destinations',
  'observe-outcomes',
  'unannounced',
  'add-destination',
  'list-handoffs',
  'list-poison',
  // Lost answers of these: test/ledger/{lost-answers,poison,control}.test.ts, test/functions/operate.test.ts,
  // and test/functions/recover.test.ts.
  'exclude',
  'readmit',
  'decide',
  'reclaim',
  'set-aside',
  'control',
];

let ledger: RunningLedger;
let ok: string;
beforeAll(async () => {
  ledger = await startRunningLedger();
  ok = await ledger.destination('/ok');
  // No tick but those a test asks for: what is delivered has not waited for one.
  ledger.aws.scheduler.pause();
}, 60_000);
afterAll(() => ledger.stop());
beforeEach(() => ledger.aws.dataApi.faults.clear());

const covered: string[] = [];

/** The statement's next run loses its answer: it is committed, and the connection breaks. */
function loseAnswerOf({ text }: Statement<never, unknown>): void {
  ledger.aws.dataApi.faults.next({ kind: 'reset-after', match: new RegExp(RegExp.escape(text)) });
}

/** A test of one statement; it fails when the statement did not run at all. */
function losing(statement: Statement<never, unknown>, what: string, body: () => Promise<void>): void {
  covered.push(statement.name);
  test(`${statement.name}: ${what}`, async () => {
    loseAnswerOf(statement);
    await body();
    const lost = ledger.aws.dataApi.faults.take(statement.text) === undefined;
    expect(lost, 'its answer was lost; if not, is dist/ older than the statement? Run `npm run build`').toBe(true);
  });
}

/** It arrives before its lease or its allowance has passed, with no tick, and only once, under one attempt. */
async function expectDeliveredOnce({ deliveryId, key }: Asked): Promise<void> {
  const { leaseSeconds } = ledger.aws.settings;
  await ledger.settled([deliveryId], 'delivered', (leaseSeconds - 2) * 1000);
  expect(ledger.received(deliveryId)).toMatchObject([{ idempotencyKey: key, status: 200 }]);
  expect(await ledger.outcomes(deliveryId)).toMatchObject([{ attempt_no: 1, outcome: 'delivered' }]);
  const events = await ledger.sql('SELECT FROM lifecycle_event WHERE delivery_id = $1', [deliveryId]);
  expect(events).toHaveLength(1);
}

async function one(destination: string, dueInMs: number): Promise<Asked> {
  const [asked] = await ledger.schedule(destination, [{ dueInMs }]);
  if (asked === undefined) throw new Error('nothing was scheduled');
  return asked;
}

describe('a product', () => {
  losing(schedule, 'is answered `scheduled`, and the reminder goes out at its time', async () => {
    const key = 'lost-schedule';
    const dueAt = new Date(Date.now() + 1000).toISOString();
    const command = { verb: 'schedule', key, destination: ok, userId: 'u', dueAt, payload: {} };
    const answer = (await ledger.command(command)) as { answer: string; deliveryId: string };
    expect(answer).toMatchObject({ answer: 'scheduled', version: 1 });
    await expectDeliveredOnce({ deliveryId: answer.deliveryId, key, payload: '{}', dueAt: 0 });
  });

  losing(claimById, 'has its near-due reminder invited', async () => {
    await expectDeliveredOnce(await one(ok, 1000));
  });

  losing(enqueue, 'has its hand-off recorded', async () => {
    const asked = await one(ok, 3000);
    expect(await ledger.row(asked.deliveryId)).toMatchObject({ state: 'queued', invitations: 1 });
    const receipts = await ledger.sql('SELECT moved FROM handoff WHERE delivery_id = $1', [asked.deliveryId]);
    expect(receipts).toEqual([{ moved: true }]);
    await expectDeliveredOnce(asked);
  });

  losing(release, 'has a refused hand-off given back, for the next tick and not for a lease', async () => {
    ledger.aws.queue.faults.next({ kind: 'refuse' });
    const asked = await one(ok, 0);
    const { state, wake_at: wakeAt } = await ledger.row(asked.deliveryId);
    const { releaseBaseSeconds } = ledger.aws.settings;
    expect(state).toBe('scheduled');
    expect(wakeAt?.getTime()).toBeLessThanOrEqual(Date.now() + releaseBaseSeconds * 1000);
    await sleep(releaseBaseSeconds * 1000);
    expect(await ledger.tick()).toMatchObject({ claimed: 1, released: 0 });
    await expectDeliveredOnce(asked);
  });

  losing(cancel, 'is answered `cancelled`, and nothing goes out', async () => {
    const asked = await one(ok, 3000);
    const answer = await ledger.command({ verb: 'cancel', key: asked.key });
    expect(answer).toMatchObject({ answer: 'cancelled', state: 'cancelled' });
    const refused = new RegExp(`${asked.deliveryId}","answer":"finished"`);
    await eventually('its invitation is refused', () => refused.test(ledger.logs()));
    expect(ledger.received(asked.deliveryId)).toEqual([]);
    expect(await ledger.sql('SELECT state FROM lifecycle_event WHERE delivery_id = $1', [asked.deliveryId])).toEqual([
      { state: 'cancelled' },
    ]);
  });

  losing(reschedule, 'is answered `rescheduled`, once, and the reminder goes out at its new time', async () => {
    const asked = await one(ok, 3_600_000);
    const dueAt = new Date(Date.now() + 1000).toISOString();
    const answer = await ledger.command({ verb: 'reschedule', key: asked.key, dueAt, expectedVersion: 1 });
    expect(answer).toMatchObject({ answer: 'rescheduled', dueAt, version: 2 });
    await expectDeliveredOnce(asked);
    expect(ledger.received(asked.deliveryId)[0]?.at).toBeGreaterThanOrEqual(Date.parse(dueAt));
  });
});

describe('a tick', () => {
  losing(claim, 'hands over what it took', async () => {
    ledger.aws.queue.faults.next({ kind: 'refuse' });
    const asked = await one(ok, 0);
    await sleep(ledger.aws.settings.releaseBaseSeconds * 1000);
    expect(await ledger.tick()).toMatchObject({ claimed: 1, released: 0 });
    const batches = await ledger.sql('SELECT FROM claim_batch WHERE $1 = ANY (claimed)', [asked.deliveryId]);
    expect(batches, 'the refused one and the repeated one').toHaveLength(2);
    await expectDeliveredOnce(asked);
  });

  losing(unpark, 'invites what waited for its destination', async () => {
    const paused = await ledger.destination('/ok');
    await ledger.sql(`UPDATE destination SET state = 'paused' WHERE name = $1`, [paused]);
    const asked = await one(paused, 0);
    ledger.aws.dataApi.faults.clear();
    expect(await ledger.tick()).toMatchObject({ parked: 1 });
    await ledger.sql(`UPDATE destination SET state = 'active' WHERE name = $1`, [paused]);
    loseAnswerOf(unpark);
    expect(await ledger.tick()).toMatchObject({ unparked: 1, claimed: 1 });
    await expectDeliveredOnce(asked);
  });

  losing(announce, 'announces an end once', async () => {
    const asked = await one(ok, 0);
    await ledger.settled([asked.deliveryId]);
    const events = () => ledger.aws.bus.events.filter(({ Detail }) => Detail?.includes(asked.deliveryId));
    expect((await ledger.tick()).announced).toBeGreaterThanOrEqual(1);
    expect(events()).toHaveLength(1);
    await ledger.tick();
    expect(events()).toHaveLength(1);
  });
});

describe('a sender', () => {
  losing(open, 'sends under the attempt that it has opened', async () => {
    await expectDeliveredOnce(await one(ok, 500));
  });

  losing(settle, 'records the success it had', async () => {
    await expectDeliveredOnce(await one(ok, 500));
  });
});

describe('a run of retention', () => {
  losing(archive, 'tells of what it took', async () => {
    const delivered = await one(ok, 500);
    await expectDeliveredOnce(delivered);
    await ledger.tick();
    const ofLongAgo = "next_attempt_at = now() - interval '91 days', state_since = now() - interval '91 days'";
    await ledger.sql(`UPDATE reminder_delivery SET ${ofLongAgo} WHERE delivery_id = $1`, [delivered.deliveryId]);
    expect(await ledger.aws.invoke('retain', {})).toMatchObject({ archived: 1, changed: 0, finished: true });
    expect(await ledger.row(delivered.deliveryId)).toMatchObject({ state: 'delivered', payload: null });
  });

  losing(forget, 'leaves nothing that is as old', async () => {
    await ledger.sql(
      `INSERT INTO command_receipt (token, item, verb, answer, answered_at)
       VALUES ('00000000-0001-7000-8000-000000000000', 0, 'cancel', '{}', now() - interval '91 days')`,
    );
    expect(await ledger.aws.invoke('retain', {})).toMatchObject({ finished: true });
    expect(await ledger.sql("SELECT FROM command_receipt WHERE answered_at < now() - interval '90 days'")).toEqual([]);
  });
});

test('every writing statement of the store has its case here', () => {
  const folder = new URL('../../lambdas/store/statements/', import.meta.url);
  const modules = readdirSync(folder).map((file) => file.replace(/\.ts$/, ''));
  expect(modules.filter((name) => !notHere.includes(name)).toSorted()).toEqual(covered.toSorted());
});
