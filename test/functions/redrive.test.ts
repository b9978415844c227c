// A redrive that looks first, on the deployed bundle: every kind of message, twice, by two, beside a move task, and killed.
import { ReceiveMessageCommand } from '@aws-sdk/client-sqs';
import { v7 as uuid } from 'uuid';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { operate } from '../../bin/operate-client.ts';
import type { PoisonResponse, RecoverRequest, RedriveResponse } from '../../lambdas/operate/contract.ts';
import { lostReminders, none } from './lost-reminders.ts';
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

const { lost: lostAt, bury, deadLetters, emptyDeadLetters } = lostReminders(() => ledger);
const lost = () => lostAt(ok);
// What the test before left.
beforeEach(emptyDeadLetters);

const redrive = async (more: Partial<Extract<RecoverRequest, { verb: 'redrive' }>> = {}) =>
  (await operate(ledger.aws.outputs.RecoverUrl ?? '', {
    ...{ verb: 'redrive', commandId: uuid(), reason: 'the queue was purged', apply: true },
    ...more,
  })) as RedriveResponse;
const verdicts = ({ letters }: RedriveResponse) => Object.fromEntries(letters.map((one) => [one.because, one.verdict]));

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
  const before = await ledger.row(live.deliveryId);
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
  expect(await ledger.row(live.deliveryId)).toEqual(before);
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
  const shown = (await operate(ledger.aws.outputs.InspectUrl ?? '', { verb: 'poison' })) as PoisonResponse;
  expect(shown.messages.map(({ body }) => body)).toEqual(expect.arrayContaining(poison));
  const [first] = shown.messages;
  expect(first).toMatchObject({ actor: 'arn:aws:iam::000000000000:user/ann', reason: 'the queue was purged' });

  await ledger.tick();
  await ledger.settled([live.deliveryId]);
  expect(ledger.received(live.deliveryId)).toMatchObject([{ idempotencyKey: live.key }]);
  expect(await ledger.row(live.deliveryId)).toMatchObject({ attempt_no: 1, version: 1 });
  expect(ledger.received(done.deliveryId)).toHaveLength(1);
  expect(await ledger.row(waiting.deliveryId)).toMatchObject({ state: 'scheduled' });
  expect(await ledger.row(held.deliveryId)).toMatchObject({ state: 'held' });
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
    new ReceiveMessageCommand({ QueueUrl: ledger.aws.queue.deadLetterUrl, MaxNumberOfMessages: 10 }),
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
