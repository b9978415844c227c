// The operate function as people reach it: by the signed URL of a duty, on the deployed bundle and a real ledger.
import { v7 as uuid } from 'uuid';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { operate } from '../../bin/operate-client.ts';
import type { DecisionRequest, DecisionResponse, OperateResponse } from '../../lambdas/operate/contract.ts';
import { type RunningLedger, startRunningLedger } from './running-ledger.ts';

let ledger: RunningLedger;
let broken: string;
beforeAll(async () => {
  ledger = await startRunningLedger();
  broken = await ledger.destination('/status/400');
  Object.assign(process.env, ledger.aws.environment, { AWS_ACCESS_KEY_ID: 'ann' });
}, 60_000);
afterAll(() => ledger.stop());

const url = (duty: 'Inspect' | 'Decide') => ledger.aws.outputs[`${duty}Url`] ?? '';
const ask = (request: object, duty: 'Inspect' | 'Decide' = 'Decide') => operate(url(duty), request);
const actions = () => ledger.sql('SELECT verb, actor, reason, ticket, version_seen, evidence FROM operator_action');

/** A reminder that its receiver refused for good. */
async function dead(): Promise<string> {
  const [asked] = await ledger.schedule(broken, [{ dueInMs: 0 }]);
  const { deliveryId = '' } = asked ?? {};
  await ledger.settled([deliveryId], 'dead');
  return deliveryId;
}

const requeue = (deliveryId: string, more: Partial<DecisionRequest> = {}): DecisionRequest => ({
  ...{ verb: 'requeue', commandId: uuid(), reason: 'the partner mended it', apply: true },
  reminders: [{ deliveryId, versionSeen: 1, attemptsSeen: 1 }],
  ...more,
});

describe('a person', () => {
  test('requeues what died, with a reason: it is delivered under its own id and key, and the audit says who and why', async () => {
    const mended = await ledger.destination(`/fail/1/${uuid()}`);
    await ledger.sql(`UPDATE destination SET policy = '{"maxFailures": 1}' WHERE name = $1`, [mended]);
    const [asked] = await ledger.schedule(mended, [{ dueInMs: 0 }]);
    const { deliveryId = '', key } = asked ?? {};
    await ledger.settled([deliveryId], 'dead');
    const answer = await ask(requeue(deliveryId, { ticket: 'OPS-1' }));
    expect(answer).toMatchObject({ answer: 'decided', applied: true, reminders: [{ answer: 'requeued', version: 2 }] });
    await ledger.tick();
    await ledger.settled([deliveryId]);
    expect(ledger.received(deliveryId).map(({ idempotencyKey }) => idempotencyKey)).toEqual([key, key]);
    expect(await actions()).toMatchObject([
      {
        ...{ verb: 'requeue', actor: 'arn:aws:iam::000000000000:user/ann', reason: 'the partner mended it' },
        ...{ ticket: 'OPS-1', version_seen: 1, evidence: { state: 'dead', doubtfulAttempts: 0, attempts: 1 } },
      },
    ]);
    const again = (await ask(requeue(deliveryId))) as DecisionResponse;
    expect(again.reminders).toMatchObject([{ answer: 'refused', state: 'delivered', deliveryId }]);
    expect(await actions()).toHaveLength(1);
  });

  test('sees first what would be done: nothing is, unless it is asked for', async () => {
    const deliveryId = await dead();
    const { apply: _, ...request } = requeue(deliveryId);
    expect(await ask(request)).toMatchObject({
      applied: false,
      reminders: [{ answer: 'requeued', state: 'scheduled' }],
    });
    expect(await ledger.row(deliveryId)).toMatchObject({ state: 'dead', version: 1 });
    expect(await ask({ ...request, apply: true })).toMatchObject({
      applied: true,
      reminders: [{ answer: 'requeued' }],
    });
  });

  test('whose answer is lost asks again under the same id, and it is done once', async () => {
    const deliveryId = await dead();
    const request = requeue(deliveryId, { verb: 'review' });
    const answers = [await ask(request), await ask(request)];
    expect(answers[1]).toEqual(answers[0]);
    const done = await ledger.sql('SELECT FROM operator_action WHERE delivery_id = $1', [deliveryId]);
    expect(done).toHaveLength(1);
  });

  test('asks where a reminder stands, by id and by key, and decides with the version that was told', async () => {
    const deliveryId = await dead();
    const { idempotency_key: key } = (await ledger.row(deliveryId)) as { idempotency_key?: string };
    const explained = await ask({ verb: 'explain', deliveryId }, 'Inspect');
    expect(explained).toMatchObject({
      answer: 'explained',
      explanation: { state: 'dead', version: 1, verbs: { requeue: { allowed: true }, release: { allowed: false } } },
    });
    expect(await ask({ verb: 'explain', key }, 'Inspect')).toMatchObject({ explanation: { deliveryId } });
    expect(await ask({ verb: 'explain', key: 'nobody' }, 'Inspect')).toEqual({ answer: 'not_found' });
    expect(await ask({ verb: 'explain' }, 'Inspect')).toMatchObject({
      answer: 'invalid',
      message: 'key: give either key or deliveryId',
    });
  });

  test('asks how many are in each state', async () => {
    const deliveryId = await dead();
    const answer = await ask({ verb: 'status' }, 'Inspect');
    expect(answer).toMatchObject({
      answer: 'status',
      states: expect.arrayContaining([expect.objectContaining({ state: 'dead', oldestDue: null })]),
    });
    expect(await ledger.row(deliveryId)).toMatchObject({ state: 'dead' });
  });
});

describe('is refused, and nothing changes', () => {
  const row = (deliveryId: string) => ledger.row(deliveryId);
  test.each<[why: string, spoilt: (request: DecisionRequest) => object, message: RegExp]>([
    ['a missing reason', ({ reason: _, ...request }) => request, /^reason: /],
    ['a reason of blanks', (request) => ({ ...request, reason: '  ' }), /^reason: must not be empty/],
    ['no command id', ({ commandId: _, ...request }) => request, /^commandId: must be a UUID/],
    ['no reminder', (request) => ({ ...request, reminders: [] }), /^reminders: must name a reminder/],
    [
      'more than a hundred',
      (request) => ({
        ...request,
        reminders: Array.from({ length: 101 }, () => ({ deliveryId: uuid(), versionSeen: 1, attemptsSeen: 0 })),
      }),
      /^reminders: must name at most 100 reminders/,
    ],
    [
      'one of them twice',
      (request) => ({ ...request, reminders: [...request.reminders, ...request.reminders] }),
      /^reminders: must name each once/,
    ],
    ['a field of nobody', (request) => ({ ...request, force: true }), /^force: is no field/],
    [
      'an expiry for a hold',
      (request) => ({ ...request, verb: 'hold', expiresAt: null }),
      /^expiresAt: is of release and requeue/,
    ],
    ['NUL in the evidence', (request) => ({ ...request, evidence: 'a\u0000b' }), /^evidence: must not contain NUL/],
    [
      'an expiry without an offset',
      (r) => ({ ...r, expiresAt: '2099-01-01T00:00:00' }),
      /^expiresAt: must be an RFC 3339/,
    ],
  ])('%s', async (_why, spoilt, message) => {
    const deliveryId = await dead();
    const before = await row(deliveryId);
    const answer = await ask(spoilt(requeue(deliveryId)));
    expect(answer).toMatchObject({ answer: 'invalid', message: expect.stringMatching(message) });
    expect(await row(deliveryId)).toEqual(before);
  });

  test('a verb of another duty, and one of nobody', async () => {
    expect(await ask(requeue(uuid()), 'Inspect')).toMatchObject({
      answer: 'wrong_duty',
      message: 'requeue is of the duty decide, and not of inspect',
    });
    expect(await ask({ verb: 'delete' })).toMatchObject({ answer: 'unknown_verb', message: /use one of status, hold/ });
    for (const verb of ['toString', '__proto__', 7, null]) {
      expect((await ask({ verb })).answer).toMatch(/^(unknown_verb|invalid)$/);
    }
  });

  test('a stale version, an unknown id', async () => {
    const deliveryId = await dead();
    const answer = (await ask(
      requeue(deliveryId, {
        reminders: [
          { deliveryId, versionSeen: 7, attemptsSeen: 1 },
          { deliveryId: uuid(), versionSeen: 1, attemptsSeen: 0 },
        ],
      }),
    )) as DecisionResponse;
    expect(answer.reminders).toMatchObject([{ answer: 'stale', state: 'dead', version: 1 }, { answer: 'not_found' }]);
  });

  test('a request that nobody signed', async () => {
    const { status } = await fetch(url('Decide'), { method: 'POST', body: JSON.stringify(requeue(uuid())) });
    expect(status).toBe(403);
  });

  test('a plain invocation: without what the URL writes nobody is known, and outside a duty nothing may be done', async () => {
    const deliveryId = await dead();
    const body = JSON.stringify(requeue(deliveryId));
    const iam = { userArn: 'arn:aws:iam::000000000000:user/forged' };
    const invoked = async (event: object, qualifier?: string) =>
      JSON.parse(((await ledger.aws.invoke('operate', event, qualifier)) as { body: string }).body) as OperateResponse;
    expect(await invoked({ body }, 'decide')).toMatchObject({ answer: 'not_signed' });
    expect(await invoked({ body, requestContext: { authorizer: { iam } } })).toMatchObject({ answer: 'not_signed' });
    expect(await invoked({ body, requestContext: { authorizer: { iam } } }, 'claim')).toMatchObject({
      answer: 'not_signed',
    });
    expect(await row(deliveryId)).toMatchObject({ state: 'dead', version: 1 });
  });

  test('what is no JSON', async () => {
    const { AwsClient } = await import('aws4fetch');
    const client = new AwsClient({ accessKeyId: 'ann', secretAccessKey: 'x', region: 'us-east-1', service: 'lambda' });
    const response = await client.fetch(url('Decide'), { method: 'POST', body: '{"verb"' });
    expect([response.status, await response.json()]).toMatchObject([
      400,
      { answer: 'invalid', message: 'body: must be JSON' },
    ]);
  });
});

test('a database that does not answer: the same request, sent again, is answered, and was done once', async () => {
  const deliveryId = await dead();
  const request = requeue(deliveryId);
  ledger.aws.dataApi.faults.next({
    kind: 'reset-after',
    match: /^\nWITH item AS MATERIALIZED.*operator_action/s,
    times: 50,
  });
  expect(await ask(request)).toMatchObject({ answer: 'unavailable', message: expect.stringContaining('ran: unknown') });
  ledger.aws.dataApi.faults.clear();
  expect(await ask(request)).toMatchObject({ answer: 'decided', reminders: [{ answer: 'requeued', version: 2 }] });
  expect(await ledger.row(deliveryId)).toMatchObject({ version: 2 });
});
