// The duty `recover` and what `inspect` knows of the queues, on the deployed bundles: signed URLs, a real ledger, a queue.
import { PurgeQueueCommand, ReceiveMessageCommand, SendMessageBatchCommand } from '@aws-sdk/client-sqs';
import { v7 as uuid } from 'uuid';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { operate } from '../../bin/operate-client.ts';
import type {
  HandoffsResponse,
  PoisonResponse,
  RecoverRequest,
  RecoverResponse,
  RedriveResponse,
} from '../../lambdas/operate/contract.ts';
import { type Asked, eventually, invitation, type RunningLedger, startRunningLedger } from './running-ledger.ts';

let ledger: RunningLedger;
let ok: string;
beforeAll(async () => {
  ledger = await startRunningLedger({ faults: true });
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

/** Its invitation had its time, as time passes in production, and the calendar looks at it much later. */
async function lost(more: string = ''): Promise<Asked> {
  const asked = await ledger.scheduleUnsent(ok);
  await ledger.sql(
    `UPDATE reminder_delivery SET wake_at = now() + interval '1 h', state_since = now() - interval '1 h',
       first_invited_at = now() - interval '1 h', next_attempt_at = now() - interval '1 h' ${more}
     WHERE delivery_id = $1`,
    [asked.deliveryId],
  );
  await longVisible(asked);
  return asked;
}

/** Receipts are evidence, which nobody changes: a test does, past the triggers. */
async function longVisible({ deliveryId }: Asked): Promise<void> {
  await ledger.sql(
    `DO $$ BEGIN SET LOCAL session_replication_role = replica;
       UPDATE handoff SET visible_from = now() - interval '1 h' WHERE delivery_id = '${deliveryId}'; END $$`,
  );
}

const deadLetterUrl = () => ledger.aws.outputs.DeadLetterQueueUrl ?? '';
async function bury(...bodies: readonly string[]): Promise<void> {
  for (let first = 0; first < bodies.length; first += 10) {
    const Entries = bodies.slice(first, first + 10).map((MessageBody, place) => ({ Id: String(place), MessageBody }));
    await ledger.sqs.send(new SendMessageBatchCommand({ QueueUrl: deadLetterUrl(), Entries }));
  }
}
const deadLetters = async () => (await ledger.aws.queue.depth()).deadLetters;
const none = { ready: 0, delayed: 0, inFlight: 0 };

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

describe('redrive', () => {
  // What the test before left.
  beforeEach(() => ledger.sqs.send(new PurgeQueueCommand({ QueueUrl: deadLetterUrl() })));

  const redrive = async (more: Partial<Extract<RecoverRequest, { verb: 'redrive' }>> = {}) =>
    (await recover({ verb: 'redrive', ...writing(), ...more })) as RedriveResponse;
  const verdicts = ({ letters }: RedriveResponse) =>
    Object.fromEntries(letters.map((one) => [one.because, one.verdict]));

  /** One message of each kind, and what becomes of it. */
  async function fiveKinds() {
    const [live, done, waiting, held] = [await lost(), await lost(), await lost(), await lost()];
    await ledger.deliver([invitation(done.deliveryId)]);
    await ledger.settled([done.deliveryId]);
    const scheduled = `SET state = 'scheduled', invitations = 0, first_invited_at = NULL`;
    await ledger.sql(`UPDATE reminder_delivery ${scheduled} WHERE delivery_id = $1`, [waiting.deliveryId]);
    const hold = `SET state = 'held', hold_reason = 'a person must look', wake_at = NULL`;
    await ledger.sql(`UPDATE reminder_delivery ${hold} WHERE delivery_id = $1`, [held.deliveryId]);
    const poison = ['no JSON \u202e', JSON.stringify({ v: 2, delivery_id: live.deliveryId }), invitation(uuid())];
    await bury(...[live, done, waiting, held].map(({ deliveryId }) => invitation(deliveryId)), ...poison);
    return { live, done, waiting, held, poison };
  }

  test('looks first: counts and reasons, message by message, and the queue is as it was', async () => {
    const { live, held } = await fiveKinds();
    const before = await rowOf(live.deliveryId);
    const look = await redrive({ apply: false });
    expect(look).toMatchObject({
      ...{ answer: 'redriven', applied: false, all: true },
      counts: { drop: 2, 're-invite': 1, hold: 1, poison: 3 },
    });
    expect(verdicts(look)).toEqual({
      ...{ republished: 're-invite', finished: 'drop', scheduled: 'drop', held: 'hold' },
      ...{ no_invitation: 'poison', not_found: 'poison' },
    });
    expect(look.letters.find(({ because }) => because === 'held')).toMatchObject({
      ...{ deliveryId: held.deliveryId, state: 'held', gone: false },
    });
    // At once, not when its time is over.
    expect(await deadLetters()).toEqual({ ...none, ready: 7 });
    expect(await rowOf(live.deliveryId)).toEqual(before);
    expect((await redrive({ apply: false, most: 3 })).letters).toHaveLength(3);
    expect(await deadLetters()).toEqual({ ...none, ready: 7 });
  });

  test('then does it: what is held stays, what nobody can read is kept and shown, the rest goes on under its id', async () => {
    const { live, done, waiting, held, poison } = await fiveKinds();
    const received = ledger.aws.queue.sendCalls();
    const redriven = await redrive();
    expect(redriven.counts).toEqual({ drop: 2, 're-invite': 1, hold: 1, poison: 3 });
    expect(redriven.letters.filter(({ gone }) => gone)).toHaveLength(6);
    expect(await deadLetters()).toEqual({ ...none, ready: 1 });
    expect(ledger.aws.queue.sendCalls()).toBe(received);
    const shown = (await inspect({ verb: 'poison' })) as PoisonResponse;
    expect(shown.messages.map(({ body }) => body)).toEqual(expect.arrayContaining(poison));
    const [first] = shown.messages;
    expect(first).toMatchObject({ actor: 'arn:aws:iam::000000000000:user/ann', reason: 'the queue was purged' });

    await ledger.tick();
    await ledger.settled([live.deliveryId]);
    expect(ledger.received(live.deliveryId)).toMatchObject([{ idempotencyKey: live.key }]);
    expect(await rowOf(live.deliveryId)).toMatchObject({ attempt_no: 1, version: 1 });
    expect(ledger.received(done.deliveryId)).toHaveLength(1);
    expect(await rowOf(waiting.deliveryId)).toMatchObject({ state: 'scheduled' });
    expect(await rowOf(held.deliveryId)).toMatchObject({ state: 'held' });
    // Twice is harmless.
    expect((await redrive()).counts).toEqual({ drop: 0, 're-invite': 0, hold: 1, poison: 0 });
  });

  test('by two people at once, each message is one’s, and each reminder is invited once', async () => {
    const all: Asked[] = [];
    for (let times = 0; times < 4; times += 1) all.push(await lost());
    // Doubles too: a message may be there more than once.
    await bury(
      ...all.flatMap(({ deliveryId }) => [invitation(deliveryId), invitation(deliveryId)]),
      'no JSON',
      'neither',
    );
    const both = await Promise.all([redrive(), redrive()]);
    const left = await redrive();
    const ids = [...both, left].flatMap(({ letters }) =>
      letters.filter(({ gone }) => gone).map(({ messageId }) => messageId),
    );
    expect(new Set(ids).size).toBe(10);
    expect(await deadLetters()).toEqual(none);
    await ledger.tick();
    await ledger.settled(all.map(({ deliveryId }) => deliveryId));
    for (const { deliveryId } of all) expect(ledger.received(deliveryId)).toHaveLength(1);
    const kept = await ledger.sql(
      `SELECT FROM operator_action WHERE verb = 'set_aside' AND evidence ->> 'messageId' = ANY ($1)`,
      [ids],
    );
    expect(kept).toHaveLength(2);
  });

  test('what a person moved from the console is harmless, before a redrive and after it', async () => {
    const [moved, both] = [await lost(), await lost()];
    await bury(invitation(moved.deliveryId), invitation(both.deliveryId));
    // A move task sends each body anew, under an id of its own, and deletes what it took.
    const { Messages = [] } = await ledger.sqs.send(
      new ReceiveMessageCommand({ QueueUrl: deadLetterUrl(), MaxNumberOfMessages: 10 }),
    );
    expect(Messages).toHaveLength(2);
    await ledger.sendMessages(Messages.map(({ Body = '' }) => Body));
    await ledger.settled([moved.deliveryId, both.deliveryId]);
    // The one that it did not delete is shown again, as after a task that was cancelled.
    await bury(invitation(both.deliveryId));
    expect((await redrive()).counts).toMatchObject({ drop: 1, 're-invite': 0 });
    await ledger.tick();
    for (const { deliveryId } of [moved, both]) expect(ledger.received(deliveryId)).toHaveLength(1);
  });

  test('killed between the ledger and the delete, it ends the same under the same id and under another', async () => {
    const all = [await lost(), await lost(), await lost(), await lost()];
    await bury(...all.map(({ deliveryId }) => invitation(deliveryId)), 'no JSON', 'neither');
    const commandId = uuid();
    const action = { kind: 'kill' } as const;
    const plan = { functionName: 'operate', point: 'delete-dead-letters', at: 'before', action } as const;
    const planned = ledger.plans.next(plan);
    // Whoever asked has no answer, asks again, and finds the queue empty for the moment.
    expect(await redrive({ commandId })).toMatchObject({ all: false, letters: [] });
    expect(planned.fired()).toBeDefined();
    expect(await deadLetters()).toEqual({ ...none, inFlight: 6 });
    await ledger.tick();
    // Hidden for as long as a run may last.
    const shown = async () => (await redrive({ apply: false })).letters.length === 6;
    await eventually('its messages are shown again', shown);
    const rest = [await redrive({ commandId, most: 3 }), await redrive()];
    expect(rest.flatMap(({ letters }) => letters.filter(({ gone }) => gone))).toHaveLength(6);
    expect(await deadLetters()).toEqual(none);
    await ledger.tick();
    await ledger.settled(all.map(({ deliveryId }) => deliveryId));
    for (const { deliveryId } of all) expect(ledger.received(deliveryId)).toHaveLength(1);
    const actions = `SELECT delivery_id FROM operator_action
      WHERE delivery_id = ANY ($1) AND evidence ->> 'answer' = 'republished'`;
    expect(await ledger.sql(actions, [all.map(({ deliveryId }) => deliveryId)])).toHaveLength(4);
  }, 40_000);

  test('a ledger or a queue that does not answer: nothing is lost, and the messages are shown at once', async () => {
    const asked = await lost();
    await bury(invitation(asked.deliveryId));
    ledger.aws.dataApi.faults.next({ kind: 'error-before', match: /AS judgement/, times: 50 });
    expect(await redrive()).toMatchObject({
      answer: 'unavailable',
      message: expect.stringContaining('(reclaim, ran:'),
    });
    ledger.aws.dataApi.faults.clear();
    expect(await deadLetters()).toEqual({ ...none, ready: 1 });
    ledger.aws.queue.faults.next({ kind: 'error-before', operation: 'ReceiveMessage', times: 10_000 });
    expect(await redrive()).toMatchObject({
      answer: 'unavailable',
      message: expect.stringContaining('the queue did not answer (receive-dead-letters)'),
    });
    ledger.aws.queue.faults.clear();
    ledger.aws.queue.faults.next({
      kind: 'error-before',
      operation: 'DeleteMessageBatch',
      times: 2,
      match: new RegExp(asked.deliveryId),
    });
    const left = await redrive();
    expect(left).toMatchObject({ letters: [{ verdict: 're-invite', gone: false }] });
    ledger.aws.queue.faults.clear();
    expect(await deadLetters()).toEqual({ ...none, ready: 1 });
    expect((await redrive()).letters).toMatchObject([{ gone: true }]);
  });
});

describe('inspect', () => {
  beforeAll(() => ledger.sqs.send(new PurgeQueueCommand({ QueueUrl: deadLetterUrl() })));

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
      await ledger.sql(
        `UPDATE reminder_delivery SET wake_at = now() + interval '1 h', state_since = now() - interval '1 h',
           first_invited_at = now() - interval '1 h', next_attempt_at = now() - interval '1 h' WHERE state = 'queued'`,
      );
      for (const asked of all) await longVisible(asked);
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
