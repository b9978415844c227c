// Limits of time: the claim's budget, what is left of a sender's run, a destination's deadline, the end of a product's call.
import { v7 as uuid } from 'uuid';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { answerCommands } from '../../lambdas/core/answer-commands.ts';
import { claimDue } from '../../lambdas/core/claim-due.ts';
import { deliverInvitations } from '../../lambdas/core/deliver-invitations.ts';
import type { Invitations, Ledger, WebhookRequest } from '../../lambdas/core/ports.ts';
import { systemClock } from '../../lambdas/runtime/clock.ts';
import { newReminder, outcome, startTestLedger, type TestLedger, worker } from './test-ledger.ts';

let ledger: TestLedger;
beforeAll(async () => {
  ledger = await startTestLedger();
  await ledger.destination('partner');
});
afterAll(() => ledger.stop());

const logged: string[] = [];
const log = {
  info: () => undefined,
  warn: (event: string) => void logged.push(event),
  error: (event: string) => void logged.push(event),
};
const meter = { count: () => undefined, milliseconds: () => undefined, percent: () => undefined };
const newToken = () => uuid();
const accepting: Invitations = {
  publish: async (invitations) => ({
    accepted: invitations.map(({ deliveryId, delaySeconds }) => ({
      deliveryId,
      messageId: uuid(),
      queue: 'queue',
      delaySeconds,
    })),
    refused: [],
    batchRefused: false,
  }),
};

async function overdue(count: number): Promise<string[]> {
  const reminders = Array.from({ length: count }, () => newReminder('partner', -5));
  await ledger.ledger.schedule({ token: uuid(), producer: 'test', reminders });
  return reminders.map(({ deliveryId }) => deliveryId);
}

test('a claim begins no batch beyond its budget, and says so', async () => {
  await overdue(5);
  let now = 0;
  const tick = await claimDue(
    {
      ledger: ledger.ledger,
      invitations: accepting,
      announcements: { publish: async () => [] },
      clock: {
        ...systemClock,
        // Each look at the clock finds half the budget gone.
        monotonic: () => {
          now += (ledger.settings.claimBudgetSeconds * 1000) / 2;
          return now;
        },
      },
      settings: { ...ledger.settings, claimBatchSize: 2 },
      newToken,
    },
    { worker, log, meter },
  );
  expect(tick).toMatchObject({ stopped: 'budget', batches: 1, claimed: 2 });
});

test('an unpark that fails does not keep the tick from its drain', async () => {
  const [deliveryId] = await overdue(1);
  const failing: Ledger = Object.assign(Object.create(ledger.ledger) as Ledger, {
    claim: ledger.ledger.claim.bind(ledger.ledger),
    enqueue: ledger.ledger.enqueue.bind(ledger.ledger),
    release: ledger.ledger.release.bind(ledger.ledger),
    unannounced: ledger.ledger.unannounced.bind(ledger.ledger),
    unpark: async () => Promise.reject(new Error('slow')),
  });
  await claimDue(
    {
      ledger: failing,
      invitations: accepting,
      announcements: { publish: async () => [] },
      clock: systemClock,
      settings: ledger.settings,
      newToken,
    },
    { worker, log, meter },
  );
  expect(logged).toContain('unpark_failed');
  const [row] = await ledger.sql('SELECT state FROM reminder_delivery WHERE delivery_id = $1', [deliveryId]);
  expect(row).toEqual({ state: 'queued' });
});

async function deliver(ids: readonly string[], remainingMs: number): Promise<WebhookRequest[]> {
  await ledger.ledger.claimById({ token: uuid(), worker, deliveryIds: ids });
  const posted: WebhookRequest[] = [];
  await deliverInvitations(
    {
      ledger: ledger.ledger,
      webhook: {
        prepare: async () => ({
          post: async (request) => {
            posted.push(request);
            return outcome(request.deliveryId, '');
          },
          close: async () => undefined,
        }),
      },
      clock: systemClock,
      settings: ledger.settings,
      newToken,
    },
    { worker, signal: new AbortController().signal, remainingMs: () => remainingMs, log, meter },
    ids.map((deliveryId) => ({ deliveryId, notBefore: 0 })),
  );
  return posted;
}

test('a run that has no time for a send and its settling sends nothing, and it is no failure of the destination', async () => {
  const [deliveryId = ''] = await overdue(1);
  expect(await deliver([deliveryId], ledger.settings.webhookDeadlineMs)).toEqual([]);
  const [row] = await ledger.sql(
    `SELECT r.state, r.failures, o.outcome, o.error_class FROM reminder_delivery r JOIN attempt_outcome o USING (delivery_id)
     WHERE r.delivery_id = $1`,
    [deliveryId],
  );
  expect(row).toEqual({ state: 'scheduled', failures: 0, outcome: 'not_sent', error_class: 'time_too_short' });
});

test("a destination's own deadline counts where it is shorter than the stage's", async () => {
  const [first = ''] = await overdue(1);
  await ledger.sql(`UPDATE destination SET deadline_ms = 200 WHERE name = 'partner'`);
  expect((await deliver([first], 30_000))[0]?.deadlineMs).toBe(200);
  await ledger.sql(`UPDATE destination SET deadline_ms = NULL WHERE name = 'partner'`);
  const [second = ''] = await overdue(1);
  expect((await deliver([second], 30_000))[0]?.deadlineMs).toBe(ledger.settings.webhookDeadlineMs);
});

test.each([
  ['the claim fails', 'claimById', async () => Promise.reject(new Error('down'))],
  ['it never answers and time is up', 'claimById', () => new Promise<never>(() => undefined)],
])('what is near due is answered as scheduled although %s', async (_, method, trouble) => {
  const reminder = newReminder('partner', 1);
  const troubled: Ledger = Object.assign(Object.create(ledger.ledger) as Ledger, {
    schedule: ledger.ledger.schedule.bind(ledger.ledger),
    [method]: trouble,
  });
  const answers = await answerCommands(
    { ledger: troubled, invitations: accepting, clock: systemClock, newToken },
    { worker, signal: AbortSignal.timeout(500), log, meter },
    'test',
    [{ verb: 'schedule', reminder }],
  );
  expect(answers).toMatchObject([{ answer: 'scheduled', deliveryId: reminder.deliveryId }]);
});
