// Many claims, senders and ticks at once: each reminder in one claim, pauses and parking.
import { setTimeout as sleep } from 'node:timers/promises';
import { v7 as uuid } from 'uuid';
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { claimDue } from '../../lambdas/core/claim-due.ts';
import type { ClaimAnswer, Invitation, Ledger, PublishAnswer } from '../../lambdas/core/ports.ts';
import { PostgresLedger } from '../../lambdas/store/ledger.ts';
import { empty, ledgerTables } from './ledger-rows.ts';
import { producer } from './situations.ts';
import { newReminder, outcome, startTestLedger, type TestLedger, worker } from './test-ledger.ts';

let ledger: TestLedger;
let tables: string[];
beforeAll(async () => {
  ledger = await startTestLedger();
  tables = await ledgerTables(ledger);
});
beforeEach(async () => {
  await empty(ledger, tables);
  await ledger.destination('to');
});
afterAll(() => ledger.stop());

/** Schedules reminders and answers their ids. */
async function schedule(count: number, dueInSeconds: number, destination = 'to', expiresInSeconds?: number) {
  const expiresAt =
    expiresInSeconds === undefined ? null : new Date(Date.now() + expiresInSeconds * 1000).toISOString();
  const reminders = Array.from({ length: count }, () => newReminder(destination, dueInSeconds, { expiresAt }));
  await ledger.ledger.schedule({ token: uuid(), producer, reminders });
  return reminders.map(({ deliveryId }) => deliveryId);
}

/** How often each reminder stands in a claim's batch. */
async function timesClaimed(): Promise<Map<string, number>> {
  const rows = await ledger.sql<{ id: string; times: string }>(
    'SELECT id, count(*) AS times FROM claim_batch, unnest(claimed) AS id GROUP BY id',
  );
  return new Map(rows.map(({ id, times }) => [id, Number(times)]));
}

async function states(): Promise<Record<string, number>> {
  const rows = await ledger.sql<{ state: string; count: string }>(
    'SELECT state, count(*) AS count FROM reminder_delivery GROUP BY state',
  );
  return Object.fromEntries(rows.map(({ state, count }) => [state, Number(count)]));
}

const silent = { info: () => undefined, warn: () => undefined, error: () => undefined };
const uncounted = { count: () => undefined, milliseconds: () => undefined, percent: () => undefined };

/** A queue in memory. */
function acceptAll(invitations: readonly Invitation[]): PublishAnswer {
  const accepted = invitations.map(({ deliveryId, delaySeconds }) => ({
    deliveryId,
    messageId: uuid(),
    queue: 'memory',
    delaySeconds,
  }));
  return { accepted, refused: [], batchRefused: false };
}
const refuseAll = (invitations: readonly Invitation[]): PublishAnswer => ({
  accepted: [],
  refused: invitations.map(({ deliveryId }) => deliveryId),
  batchRefused: true,
});

/** One tick of the claim function over a queue; `claims` is how often it asked the ledger for a claim. */
async function tick(publish: (invitations: readonly Invitation[]) => PublishAnswer = acceptAll, batchSize = 1000) {
  const watched = ledger.openLedger();
  const asked = vi.spyOn(watched, 'claim');
  const answer = await claimDue(
    {
      ledger: watched,
      invitations: { publish: async (invitations) => publish(invitations) },
      announcements: { publish: async (events) => events.map(({ eventNo }) => eventNo) },
      clock: { monotonic: () => performance.now(), wall: () => Date.now(), sleep: async () => undefined },
      settings: { ...ledger.settings, claimBatchSize: batchSize },
      newToken: () => uuid(),
    },
    { worker, log: silent, meter: uncounted },
  );
  return { ...answer, claims: asked.mock.calls.length };
}

type ClaimCommand = Parameters<Ledger['claim']>[0];

const ids = (answer: ClaimAnswer) => answer.claimed.map(({ deliveryId }) => deliveryId).sort();

test('eight claim while eight open and settle: each reminder stands in one claim and is attempted once', async () => {
  const now = [...(await schedule(400, -7200)), ...(await schedule(400, -1))];
  const later = await schedule(400, 100);
  // A queue that now and then delivers a message twice.
  const queue: string[] = [];
  let claiming = 8;

  async function drain(claimer: PostgresLedger): Promise<void> {
    let lowWater: string | null = null;
    for (let batch = 0; ; batch += 1) {
      const command: ClaimCommand = { token: uuid(), worker, limit: 40, lowWater };
      const [answer, twin]: [ClaimAnswer, ClaimAnswer?] = await Promise.all([
        claimer.claim(command),
        batch % 3 === 0 ? claimer.claim(command) : undefined,
      ]);
      if (twin !== undefined) expect(ids(twin)).toEqual(ids(answer));
      if (batch % 3 === 1) expect(ids(await claimer.claim(command))).toEqual(ids(answer));
      if (answer.claimed.length === 0) return;
      const { accepted } = acceptAll(answer.claimed.map((claimed) => ({ ...claimed, delaySeconds: 0 })));
      expect(await claimer.enqueue({ claimToken: command.token, receipts: accepted })).toBe(accepted.length);
      queue.push(...ids(answer), ...ids(answer).slice(0, 3));
      lowWater = answer.highWater;
    }
  }
  async function send(sender: PostgresLedger): Promise<void> {
    while (claiming > 0 || queue.length > 0) {
      const deliveryIds = queue.splice(0, 10);
      if (deliveryIds.length === 0) await sleep(5);
      else {
        const command = { token: uuid(), worker, deliveryIds };
        const opened = (await sender.open(command)).filter(({ answer }) => answer === 'opened');
        const outcomes = opened.map(({ deliveryId }, place) =>
          outcome(deliveryId, command.token, place % 5 === 0 ? { outcome: 'permanent', status: 400 } : {}),
        );
        if (outcomes.length > 0) await sender.settle({ token: uuid(), outcomes });
      }
    }
  }
  const connection = () => new PostgresLedger(ledger.openDatabase('ledger', ledger.settings, { tries: 5 }));
  const eight = Array.from({ length: 8 }, connection);
  await Promise.all([
    ...eight.map((claimer) =>
      drain(claimer).finally(() => {
        claiming -= 1;
      }),
    ),
    ...eight.map(() => send(connection())),
  ]);

  const times = await timesClaimed();
  expect([...times.keys()].sort()).toEqual([...now, ...later].sort());
  expect([...times].filter(([, count]) => count !== 1)).toEqual([]);
  const { delivered = 0, dead = 0, ...others } = await states();
  expect({ ended: delivered + dead, ...others }).toEqual({ ended: now.length, queued: later.length });
  expect(dead).toBeGreaterThan(0);
  const [attempts] = await ledger.sql(
    'SELECT count(*) AS all, count(DISTINCT delivery_id) AS rows FROM delivery_attempt',
  );
  expect(attempts).toEqual({ all: String(now.length), rows: String(now.length) });
});

describe('a tick', () => {
  test('claims 2,500 rows that are two hours overdue once each, in batches of 1,000', async () => {
    const scheduled: string[] = [];
    for (let part = 0; part < 5; part += 1) scheduled.push(...(await schedule(500, -7200)));
    expect(await tick()).toMatchObject({ claims: 3, claimed: 2500, enqueued: 2500, released: 0, stopped: 'drained' });
    const times = await timesClaimed();
    expect([...times.keys()].sort()).toEqual(scheduled.sort());
    expect([...times.values()].every((count) => count === 1)).toBe(true);
    expect(await states()).toEqual({ queued: 2500 });
    expect(await tick()).toMatchObject({ claims: 1, claimed: 0 });
  });

  test('whose queue refuses everything stops after one claim and gives back what it took', async () => {
    await schedule(30, -1);
    const answer = await tick(refuseAll, 10);
    expect(answer).toMatchObject({ claimed: 10, enqueued: 0, released: 10, stopped: 'queue_refused' });
    expect(answer.claims).toBeLessThanOrEqual(2);
    expect(await states()).toEqual({ scheduled: 30 });
    // What was refused waits; what was not tried yet goes first.
    expect(await tick(acceptAll, 10)).toMatchObject({ claimed: 20 });
  });

  test('under a pause claims and opens nothing, yet recovers and expires', async () => {
    const [queued = ''] = await schedule(1, -1);
    await tick();
    const [abandoned = ''] = await schedule(1, -1);
    await tick();
    await ledger.ledger.open({ token: uuid(), worker, deliveryIds: [abandoned] });
    await ledger.sql(
      `UPDATE reminder_delivery SET lease_until = now() - interval '1 s', wake_at = now() WHERE delivery_id = $1`,
      [abandoned],
    );
    const [waiting = ''] = await schedule(1, -1);
    const [over = ''] = await schedule(1, -60, 'to', 60);
    await ledger.sql(`UPDATE reminder_delivery SET expires_at = now() WHERE delivery_id = $1`, [over]);
    await ledger.sql('UPDATE dispatch_gate SET paused = true, paused_since = now()');

    expect(await tick()).toMatchObject({ claimed: 0, recovered: 1, expired: 1, parked: 0, announced: 1 });
    const opened = await ledger.ledger.open({ token: uuid(), worker, deliveryIds: [queued] });
    expect(opened.map(({ answer }) => answer)).toEqual(['paused']);
    await ledger.sql('UPDATE dispatch_gate SET paused = false, paused_since = NULL');
    expect((await ledger.ledger.open({ token: uuid(), worker, deliveryIds: [queued] }))[0]?.answer).toBe('opened');
    expect((await tick()).claimed).toBe(2);
    expect([...(await timesClaimed()).keys()].sort()).toEqual([queued, abandoned, waiting].sort());
  });
});

describe('rows of a destination that is not active', () => {
  const set = (name: string, state: string) =>
    ledger.sql('UPDATE destination SET state = $2 WHERE name = $1', [name, state]);
  const parked = () =>
    ledger.sql<{ id: string; wake: string }>(
      `SELECT delivery_id AS id, CASE WHEN wake_at = expires_at THEN 'expiry' ELSE wake_at::text END AS wake
     FROM reminder_delivery WHERE parked ORDER BY 1`,
    );

  test.each(['paused', 'disabled', 'broken'])('%s: are parked once, and cost the next claim nothing', async (state) => {
    const endless = await schedule(3, -1);
    const bounded = await schedule(1, -60, 'to', 600);
    await set('to', state);
    expect(await tick()).toMatchObject({ claimed: 0, parked: 4 });
    expect(await parked()).toEqual(
      [...endless.map((id) => ({ id, wake: 'infinity' })), ...bounded.map((id) => ({ id, wake: 'expiry' }))].sort(
        (one, other) => (one.id < other.id ? -1 : 1),
      ),
    );
    expect(await tick()).toMatchObject({ claimed: 0, parked: 0, unparked: 0 });
  });

  test('expire where they are parked', async () => {
    await schedule(1, -60, 'to', 600);
    await set('to', 'paused');
    await tick();
    // Ten minutes later.
    await ledger.sql(`UPDATE reminder_delivery SET expires_at = now(), wake_at = now()`);
    expect(await tick()).toMatchObject({ parked: 0, expired: 1, announced: 1 });
    expect(await states()).toEqual({ expired: 1 });
    expect(await parked()).toEqual([]);
  });

  test('of more destinations than a batch has rows go back a batch at a time', async () => {
    for (const name of ['one', 'two', 'three']) {
      await ledger.destination(name, { state: 'paused' });
      await schedule(1, -1, name);
    }
    await tick();
    await ledger.sql(`UPDATE destination SET state = 'active'`);
    expect(await ledger.ledger.unpark({ token: uuid(), limit: 2 })).toBe(2);
    expect((await parked()).length).toBe(1);
  });

  test('go back to the calendar in batches when it is active again, and those of others stay', async () => {
    await ledger.destination('other');
    await schedule(5, -1);
    await schedule(2, -1, 'other');
    await set('to', 'paused');
    await set('other', 'paused');
    await tick();
    await set('to', 'active');
    expect(await ledger.ledger.unpark({ token: uuid(), limit: 2 })).toBe(2);
    expect((await parked()).length).toBe(5);
    expect(await tick()).toMatchObject({ unparked: 3, claimed: 5, enqueued: 5, parked: 0 });
    expect((await parked()).length).toBe(2);
  });
});

test('within a drain a claim looks no further back than the one before it ended', async () => {
  const [early = '', late = ''] = [...(await schedule(1, -600)), ...(await schedule(1, -300))];
  const lowWater = new Date(Date.now() - 500_000).toISOString();
  const claim = (from: string | null) => ledger.ledger.claim({ token: uuid(), worker, limit: 10, lowWater: from });
  // The calendar looks a lookahead before they are due.
  expect(ids(await claim(lowWater))).toEqual([late]);
  expect(ids(await claim(null))).toEqual([early]);
});

test('what a claim used of its lease counts from before it asks until its batch is marked; an empty one uses none', async () => {
  const deliveryIds = await schedule(3, -5);
  let now = 0;
  const measured: [string, number][] = [];
  const watched = ledger.openLedger();
  const marking = watched.enqueue.bind(watched);
  vi.spyOn(watched, 'claim').mockImplementation(async (command) => ({
    ...(await ledger.ledger.claim(command)),
    askedAt: now,
  }));
  vi.spyOn(watched, 'enqueue').mockImplementation(async (command) => {
    now += 10_000;
    return marking(command);
  });
  const run = () =>
    claimDue(
      {
        ledger: watched,
        invitations: {
          publish: async (invitations) => {
            now += 5000;
            return acceptAll(invitations);
          },
        },
        announcements: { publish: async () => [] },
        clock: { monotonic: () => now, wall: () => Date.now(), sleep: async () => undefined },
        settings: ledger.settings,
        newToken: () => uuid(),
      },
      {
        worker,
        log: silent,
        meter: {
          count: () => undefined,
          milliseconds: (name, value) => void (name === 'publish' && measured.push([name, value])),
          percent: (name, value) => void measured.push([name, value]),
        },
      },
    );
  expect(await run()).toMatchObject({ claimed: deliveryIds.length, enqueued: deliveryIds.length });
  expect(await run()).toMatchObject({ claimed: 0 });
  expect(measured).toEqual([
    ['publish', 5000],
    ['lease_used', 25],
  ]);
});
