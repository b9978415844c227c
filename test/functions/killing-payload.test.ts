// A payload that kills its sender: it takes its neighbours down once, is sent alone from then on, and ends dead.
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { idsOf, invitation, type RunningLedger, startRunningLedger } from './running-ledger.ts';

let ledger: RunningLedger;
beforeAll(async () => {
  ledger = await startRunningLedger();
}, 60_000);
afterAll(() => ledger.stop());

test('its neighbours are delivered, each killed no more than once; it is dead after its attempts, all of them unknown', {
  timeout: 180_000,
}, async () => {
  const ok = await ledger.destination('/ok');
  const attempts = 2;
  await ledger.sql('UPDATE destination SET policy = $1 WHERE name = $2', [{ maxFailures: attempts }, ok]);
  const asked = await ledger.schedule(
    ok,
    Array.from({ length: 10 }, () => ({ dueInMs: 60_000 })),
  );
  const [killing, ...neighbours] = asked;
  if (killing === undefined) throw new Error('nothing was scheduled');

  /** The attempts that were open at the sender each time it was killed. */
  const killed: string[][] = [];
  let watching = true;
  const watch = async () => {
    for (; watching; await sleep(10)) {
      const open = await ledger.sql<{ request_id: string; delivery_id: string; attempt_no: number }>(
        `SELECT a.request_id, a.delivery_id, a.attempt_no FROM delivery_attempt a
         JOIN reminder_delivery r ON r.delivery_id = a.delivery_id AND r.attempt_no = a.attempt_no
         WHERE r.state = 'delivering'`,
      );
      const now = open.find(({ delivery_id }) => delivery_id === killing.deliveryId);
      if (now === undefined || killed.length >= now.attempt_no || !ledger.aws.host.kill(now.request_id)) continue;
      const mates = open.filter(({ request_id }) => request_id === now.request_id);
      killed.push(mates.map(({ delivery_id }) => delivery_id).sort());
    }
  };
  const watched = watch();
  try {
    // Slow enough to be killed in the middle; all ten in one batch of one sender.
    await ledger.sql('UPDATE destination SET url = $1 WHERE name = $2', [ledger.receiver.url('/slow/300'), ok]);
    await ledger.sql(
      `UPDATE reminder_delivery SET due_at = now(), next_attempt_at = now(), wake_at = now() + interval '13 s',
              state = 'dispatching', lease_owner = gen_random_uuid(), lease_until = now() + interval '10 s', invitations = 1
       WHERE delivery_id = ANY ($1)`,
      [idsOf(asked)],
    );
    await ledger.deliver(asked.map(({ deliveryId }) => invitation(deliveryId))).catch(() => undefined);
    await ledger.settled(idsOf(neighbours), 'delivered', 90_000);
    await ledger.settled([killing.deliveryId], 'dead', 90_000);
  } finally {
    watching = false;
    await watched;
  }

  expect(killed.map((mates) => mates.length)).toEqual([10, ...Array(attempts - 1).fill(1)]);
  expect(killed.slice(1)).toEqual(Array(attempts - 1).fill([killing.deliveryId]));
  expect((await ledger.outcomes(killing.deliveryId)).map((row) => [row.outcome, row.recorded_by])).toEqual(
    Array(attempts).fill(['unknown', 'recover']),
  );
  for (const { deliveryId } of neighbours) {
    const outcomes = await ledger.outcomes(deliveryId);
    expect(outcomes.map(({ outcome }) => outcome)).toEqual(['unknown', 'delivered']);
  }
  expect((await ledger.row(killing.deliveryId)).last_error).toMatch(/may have been processed/);
});
