// A tick tells the event bus what came to an end, whatever its drain met.
import { v7 as uuid } from 'uuid';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { claimDue } from '../../lambdas/core/claim-due.ts';
import type { Invitation, LifecycleEvent } from '../../lambdas/core/ports.ts';
import { systemClock } from '../../lambdas/runtime/clock.ts';
import { empty, ledgerTables } from './ledger-rows.ts';
import { newReminder, startTestLedger, type TestLedger, worker } from './test-ledger.ts';

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

/** One tick in batches of two. Answers what it told the bus of. */
async function tick(announced: LifecycleEvent[], clock = systemClock) {
  return claimDue(
    {
      ledger: ledger.ledger,
      invitations: {
        publish: async (all: readonly Invitation[]) => ({
          accepted: all.map(({ deliveryId }) => ({ deliveryId, messageId: deliveryId, queue: 'q', delaySeconds: 0 })),
          refused: [],
          batchRefused: false,
        }),
      },
      announcements: {
        publish: async (events) => {
          announced.push(...events);
          return events.map(({ eventNo }) => eventNo);
        },
      },
      settings: { ...ledger.settings, claimBatchSize: 2 },
      clock,
      newToken: () => uuid(),
    },
    {
      worker,
      log: { info: () => undefined, warn: () => undefined, error: () => undefined },
      meter: { count: () => undefined, milliseconds: () => undefined, percent: () => undefined },
    },
  );
}

/** Reminders that are due, and another that was called off. */
async function dueBesideCancelled(count: number): Promise<string> {
  const cancelled = newReminder('to', 3600);
  const due = Array.from({ length: count }, () => newReminder('to', -1));
  await ledger.ledger.schedule({ token: uuid(), producer: 'test', reminders: [cancelled, ...due] });
  await ledger.ledger.cancel({ token: uuid(), producer: 'test', reminders: [{ key: cancelled.key }] });
  return cancelled.deliveryId;
}

test('though a broken row is the only one that is due', async () => {
  const deliveryId = await dueBesideCancelled(1);
  await ledger.sql(`
    CREATE FUNCTION refuse_update() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      RAISE EXCEPTION 'this row is broken' USING ERRCODE = 'data_corrupted';
    END $$;
    CREATE TRIGGER broken BEFORE UPDATE ON reminder_delivery FOR EACH ROW EXECUTE FUNCTION refuse_update();
  `);
  const announced: LifecycleEvent[] = [];
  try {
    await expect(tick(announced)).rejects.toMatchObject({ name: 'LedgerError', sqlState: 'XX001' });
  } finally {
    await ledger.sql('DROP FUNCTION refuse_update CASCADE');
  }
  expect(announced).toMatchObject([{ deliveryId, state: 'cancelled' }]);
});

test('though its backlog takes the whole budget', async () => {
  const deliveryId = await dueBesideCancelled(40);
  const announced: LifecycleEvent[] = [];
  let passedMs = 0;
  const fast = {
    ...systemClock,
    monotonic: () => {
      passedMs += 5000;
      return passedMs;
    },
  };
  expect(await tick(announced, fast)).toMatchObject({ stopped: 'budget', announced: 1 });
  expect(announced).toMatchObject([{ deliveryId, state: 'cancelled' }]);
});
