// The duty `recover` and what `inspect` knows of the queues, on the deployed bundles: signed URLs, a real ledger, a queue.
import { v7 as uuid } from 'uuid';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { operate } from '../../bin/operate-client.ts';
import type { HandoffsResponse, RecoverRequest, RecoverResponse } from '../../lambdas/operate/contract.ts';
import { lostReminders, none } from './lost-reminders.ts';
import { type Asked, invitation, type RunningLedger, startRunningLedger } from './running-ledger.ts';

let ledger: RunningLedger;
let ok: string;
beforeAll(async () => {
  ledger = await startRunningLedger();
  ok = await ledger.destination('/ok');
  Object.assign(process.env, ledger.aws.environment, { AWS_ACCESS_KEY_ID: 'ann' });
  // No tick but those a test asks for: a lost reminder stays lost.
  ledger.aws.scheduler.pause();
}, 60_000);
afterAll(() => ledger.stop());

const url = (duty: 'Inspect' | 'Decide' | 'Recover') => ledger.aws.outputs[`${duty}Url`] ?? '';
const inspect = (request: object) => operate(url('Inspect'), request);
const recover = (request: object) => operate(url('Recover'), request);
const writing = () => ({ commandId: uuid(), reason: 'the queue was purged', apply: true });
const naming = (...all: readonly Asked[]) =>
  all.map(({ deliveryId }) => ({ deliveryId, versionSeen: 1, attemptsSeen: 0 }));
const rowOf = (deliveryId: string) => ledger.row(deliveryId);

const { lost: lostAt, age, bury, deadLetters, emptyDeadLetters } = lostReminders(() => ledger);
const lost = () => lostAt(ok);

describe('reclaim and republish', () => {
  test('a reminder whose invitation is lost is delivered at the next tick, under its own id and key, and not before', async () => {
    const asked = await lost();
    expect(await ledger.tick()).toMatchObject({ claimed: 0 });
    const request = { verb: 'republish', ...writing(), reminders: naming(asked) } satisfies RecoverRequest;
    expect(await recover({ ...request, apply: false })).toMatchObject({
      ...{ answer: 'recovered', applied: false },
      reminders: [{ answer: 'republished', state: 'queued', deliveryId: asked.deliveryId }],
    });
    expect(await ledger.tick()).toMatchObject({ claimed: 0 });
    const answer = await recover(request);
    expect(answer).toMatchObject({ applied: true, reminders: [{ answer: 'republished' }] });
    expect(await recover(request)).toEqual(answer);
    await ledger.tick();
    await ledger.settled([asked.deliveryId]);
    expect(ledger.received(asked.deliveryId)).toMatchObject([{ idempotencyKey: asked.key, status: 200 }]);
    const actions = 'SELECT verb, actor, reason FROM operator_action WHERE delivery_id = $1';
    expect(await ledger.sql(actions, [asked.deliveryId])).toEqual([
      { verb: 'republish', actor: 'arn:aws:iam::000000000000:user/ann', reason: 'the queue was purged' },
    ]);
    const again = { ...request, commandId: uuid() };
    expect(await recover(again)).toMatchObject({ reminders: [{ answer: 'finished', state: 'delivered' }] });
  });

  test('a lease that has passed ends at the next tick; one that lives is left to its sender', async () => {
    const hanging = await ledger.destination('/hang');
    const [asked] = await ledger.schedule(hanging, [{ dueInMs: 0 }]);
    if (asked === undefined) throw new Error('nothing was scheduled');
    await ledger.settled([asked.deliveryId], 'delivering');
    const reminders = [{ deliveryId: asked.deliveryId, versionSeen: 1, attemptsSeen: 1 }];
    const request = { verb: 'reclaim', ...writing(), reminders };
    expect(await recover(request)).toMatchObject({ reminders: [{ answer: 'leased', state: 'delivering' }] });

    const silent = await lost();
    const columns = `state = 'delivering', attempt_no = 1, lease_owner = gen_random_uuid(), lease_until = now()`;
    await ledger.sql(`UPDATE reminder_delivery SET ${columns} WHERE delivery_id = $1`, [silent.deliveryId]);
    await ledger.sql(
      `INSERT INTO delivery_attempt (delivery_id, attempt_no, version, lease_owner, lease_until, started_at,
         destination_host, function_version, request_id, log_stream)
       SELECT delivery_id, 1, version, lease_owner, lease_until, now(), 'to.example', '1', 'r', 's'
       FROM reminder_delivery WHERE delivery_id = $1`,
      [silent.deliveryId],
    );
    const reclaimed = [{ deliveryId: silent.deliveryId, versionSeen: 1, attemptsSeen: 1 }];
    expect(await recover({ verb: 'reclaim', ...writing(), reminders: reclaimed })).toMatchObject({
      reminders: [{ answer: 'reclaimed' }],
    });
    expect(await ledger.tick()).toMatchObject({ recovered: 1 });
    expect(await ledger.outcomes(silent.deliveryId)).toMatchObject([{ outcome: 'unknown', recorded_by: 'recover' }]);
  });

  test('what claims pass over is readmitted, after a look', async () => {
    const asked = await lost();
    await ledger.sql(
      `INSERT INTO claim_exclusion (delivery_id, token, excluded_at, sql_state, reason)
       VALUES ($1, $2, now(), 'XX001', 'damaged')`,
      [asked.deliveryId, uuid()],
    );
    const request = { verb: 'readmit', ...writing(), deliveryIds: [asked.deliveryId] };
    expect(await recover({ verb: 'republish', ...writing(), reminders: naming(asked) })).toMatchObject({
      reminders: [{ answer: 'excluded' }],
    });
    for (const apply of [false, true, true]) {
      expect(await recover({ ...request, apply })).toMatchObject({
        applied: apply,
        reminders: [{ answer: 'readmitted' }],
      });
    }
    expect(await recover({ ...request, commandId: uuid() })).toMatchObject({ reminders: [{ answer: 'not_excluded' }] });
  });

  test('a request that is wrong, or of another duty, changes nothing', async () => {
    const asked = await lost();
    const before = await rowOf(asked.deliveryId);
    const request = { verb: 'republish', ...writing(), reminders: naming(asked) };
    const { reason: _, ...silent } = request;
    for (const [spoilt, told] of [
      [silent, /^reason: /],
      [{ ...request, force: true }, /^force: is no field/],
      [{ ...request, verb: 'reclaim', evidence: 'x' }, /^evidence: is no field/],
      [{ verb: 'readmit', ...writing(), deliveryIds: [] }, /^deliveryIds: must name a reminder/],
      [{ verb: 'redrive', ...writing(), most: 101 }, /^most: /],
    ] as const) {
      expect(await recover(spoilt)).toMatchObject({ answer: 'invalid', message: expect.stringMatching(told) });
    }
    expect(await inspect(request)).toMatchObject({
      answer: 'wrong_duty',
      message: 'republish is of the duty recover, and not of inspect',
    });
    expect(await operate(url('Decide'), request)).toMatchObject({ answer: 'wrong_duty' });
    const stale = { ...request, reminders: [{ deliveryId: asked.deliveryId, versionSeen: 1, attemptsSeen: 3 }] };
    expect(await recover(stale)).toMatchObject({ reminders: [{ answer: 'stale' }] });
    expect(await rowOf(asked.deliveryId)).toEqual(before);
  });
});

describe('inspect', () => {
  beforeAll(emptyDeadLetters);

  test('an explanation with a look into the dead-letter queue says what is there, and leaves it', async () => {
    const [seen, other] = [await lost(), await lost()];
    await bury(invitation(seen.deliveryId), 'no JSON');
    const look = (deliveryId: string, lookInDeadLetters = true) =>
      inspect({ verb: 'explain', deliveryId, lookInDeadLetters });
    expect(await look(seen.deliveryId)).toMatchObject({
      explanation: { evidence: { deadLetter: 'seen' }, verbs: { redrive: { allowed: true } } },
    });
    expect(await look(other.deliveryId)).toMatchObject({
      explanation: { evidence: { deadLetter: 'not_seen' }, verbs: { redrive: { allowed: false } } },
    });
    expect(await look(seen.deliveryId, false)).toMatchObject({
      explanation: { evidence: { deadLetter: 'not_looked' } },
    });
    expect(await deadLetters()).toEqual({ ...none, ready: 2 });
    // More than it looks at: that it was not seen says nothing.
    await bury(...Array.from({ length: 110 }, () => 'no JSON'));
    expect(await look(other.deliveryId)).toMatchObject({ explanation: { evidence: { deadLetter: 'not_looked' } } });
    expect(await deadLetters()).toEqual({ ...none, ready: 112 });
  });

  test('a purge is told from a queue that is only slow, and what it took is invited again', async () => {
    await ledger.aws.eventSource.pause();
    try {
      const handoffs = async () => (await inspect({ verb: 'handoffs' })) as HandoffsResponse;
      // What other tests left.
      await ledger.sql(`UPDATE reminder_delivery SET state = 'held', hold_reason = 'of another test', wake_at = NULL, invitations = 0
        WHERE state = 'queued'`);
      expect(await handoffs()).toMatchObject({
        finding: 'none',
        lostAtLeast: 0,
        overdue: 0,
        oldestSince: null,
        reminders: [],
      });
      const all = await ledger.schedule(ok, [{ dueInMs: 0 }, { dueInMs: 0 }, { dueInMs: 0 }]);
      for (const asked of all) await age(asked);
      expect(await handoffs()).toMatchObject({
        ...{
          finding: 'waiting',
          lostAtLeast: 0,
          queued: 3,
          overdue: 3,
          queue: { visible: 3, notVisible: 0, delayed: 0 },
        },
      });
      await ledger.aws.queue.purge();
      const found = await handoffs();
      expect(found).toMatchObject({ finding: 'lost', lostAtLeast: 3, deadLetters: { visible: 112 } });
      const reminders = found.reminders.map(({ deliveryId, version, attempts }) => ({
        ...{ deliveryId, versionSeen: version, attemptsSeen: attempts },
      }));
      const answer = (await recover({ verb: 'republish', ...writing(), reminders })) as RecoverResponse;
      expect(answer.reminders.map((one) => one.answer)).toEqual(['republished', 'republished', 'republished']);
      await ledger.tick();
      expect(await handoffs()).toMatchObject({ finding: 'none', overdue: 0 });
      await ledger.aws.eventSource.resume();
      await ledger.settled(all.map(({ deliveryId }) => deliveryId));
      for (const { deliveryId } of all) expect(ledger.received(deliveryId)).toHaveLength(1);
    } finally {
      await ledger.aws.eventSource.resume();
    }
  });
});
