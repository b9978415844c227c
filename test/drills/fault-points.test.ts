// Every fault point that is listed is passed by a real run of the bundles, on both sides, and nothing passes unlisted.
import { appendFileSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { v7 as uuid } from 'uuid';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { faultPoints } from '../../lambdas/core/fault-points.ts';
import { undiciPoints } from '../../lib/local/fault-plans.ts';
import { loginSecretArn } from '../../lib/local/local-aws.ts';
import { Cell } from './cell.ts';
import { nearLife } from './kinds.ts';
import { type Stage, startStage } from './stage.ts';

let stage: Stage;
beforeAll(async () => {
  stage = await startStage(undefined, true);
  appendFileSync(join(stage.faultDirectory, 'passages.jsonl'), '');
});
afterAll(() => stage.stop());

interface Passed {
  readonly functionName: string;
  readonly point: string;
  readonly at: string;
  readonly deliveryIds: readonly string[];
}
const passed = (): Passed[] =>
  readFileSync(join(stage.faultDirectory, 'passages.jsonl'), 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));

/** A row whose update fails, beside one whose update does not: the claim goes around it. */
async function liveWithAPoisonedRow(cell: Cell): Promise<void> {
  const poisoned = await cell.schedule();
  const sound = await cell.schedule();
  await cell.sql(`CREATE FUNCTION refuse_one() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN RAISE EXCEPTION 'poisoned' USING ERRCODE = '23514'; END $$`);
  for (const reminder of [poisoned, sound])
    await cell.bringNear(reminder, cell.settings.lookaheadSeconds * 1000 + 4000);
  await cell.sql(`CREATE TRIGGER refuse_one BEFORE UPDATE ON reminder_delivery FOR EACH ROW
    WHEN (OLD.delivery_id = '${poisoned.deliveryId}') EXECUTE FUNCTION refuse_one()`);
  await cell.untilSql('SELECT FROM claim_exclusion WHERE delivery_id = $1', poisoned);
  await cell.untilState(sound, 'delivered');
}

/** All that products, ticks and senders do when nothing is in the way, and when the queue refuses. */
async function liveOrdinarily(cell: Cell): Promise<void> {
  const called = await cell.schedule();
  await cell.product({ verb: 'get', key: called.key });
  await cell.product({ verb: 'cancel', key: called.key });
  const match = (id: string) => ({ match: new RegExp(id), times: 2 });
  const refused = await nearLife(cell, ({ deliveryId }) =>
    cell.fault(stage.aws.queue.faults, { kind: 'error-before', ...match(deliveryId) }),
  );
  await cell.untilState(refused, 'delivered');
  await cell.untilSql('SELECT FROM lifecycle_event WHERE delivery_id = $1 AND announced_at IS NOT NULL', refused);
}

/** A day's run of retention, when what was delivered is long past. */
async function retain(cell: Cell): Promise<void> {
  await cell.sql(`UPDATE reminder_delivery SET next_attempt_at = now() - interval '91 days',
    state_since = now() - interval '91 days' WHERE state = 'delivered'`);
  expect(await stage.aws.invoke('retain', {})).toMatchObject({ finished: true });
}

/** A person looks, and decides about a reminder. */
async function decide(): Promise<void> {
  const { rows } = await stage.pool.query<{ id: string }>('SELECT delivery_id AS id FROM reminder_delivery LIMIT 1');
  const [{ id: deliveryId } = { id: '' }] = rows;
  const requestContext = { authorizer: { iam: { userArn: 'arn:aws:iam::000000000000:user/ann' } } };
  const ask = (duty: string, request: object) =>
    stage.aws.invoke('operate', { requestContext, body: JSON.stringify(request) }, duty);
  const decision = { verb: 'review', commandId: uuid(), reason: 'a look', apply: true };
  const reminders = [{ deliveryId, versionSeen: 1, attemptsSeen: 1 }];
  expect(await ask('inspect', { verb: 'status' })).toMatchObject({ statusCode: 200 });
  expect(await stage.aws.invoke('widget', {}, 'look')).toContain('<h2>Set aside');
  expect(await ask('inspect', { verb: 'explain', deliveryId })).toMatchObject({ statusCode: 200 });
  expect(await ask('decide', { ...decision, reminders })).toMatchObject({ statusCode: 200 });
  const recovery = { commandId: uuid(), reason: 'a look', apply: true };
  await stage.sendMessages(['no JSON'], { endpoint: stage.aws.queue.endpoint, url: stage.aws.queue.deadLetterUrl });
  for (const [duty, request] of [
    ['inspect', { verb: 'handoffs' }],
    ['inspect', { verb: 'explain', deliveryId, lookInDeadLetters: true }],
    ['inspect', { verb: 'poison' }],
    ['inspect', { verb: 'find', userId: 'anna' }],
    ['inspect', { verb: 'forecast', by: 'hour' }],
    ['inspect', { verb: 'exclusions' }],
    ['inspect', { verb: 'destinations' }],
    ['inspect', { verb: 'actions' }],
    ['control', { verb: 'pause', commandId: uuid(), reason: 'a look' }],
    ['recover', { verb: 'reclaim', ...recovery, reminders }],
    ['recover', { verb: 'readmit', ...recovery, deliveryIds: [deliveryId] }],
    ['recover', { verb: 'redrive', ...recovery }],
  ] as const) {
    expect(await ask(duty, request)).toMatchObject({ statusCode: 200 });
  }
}

test('each listed point is passed, before and after, and no other', async () => {
  await liveOrdinarily(new Cell(stage, 1));
  await retain(new Cell(stage, 1));
  await liveWithAPoisonedRow(new Cell(stage, 2));
  await decide();
  await stage.aws.invoke('canary', {});
  await stage.aws.invoke('migrate', {});
  await stage.aws.rotateSecret(loginSecretArn('ledger_observer'));
  const own = Object.keys(faultPoints).flatMap((point) => [`${point} before`, `${point} after`]);
  const undici = ['write before', 'write after', 'headers after', 'body after'];
  expect(new Set(undici.map((side) => side.split(' ')[0]))).toEqual(new Set(Object.keys(undiciPoints)));
  const sides = () => new Set(passed().map(({ point, at }) => `${point} ${at}`));
  // Those of the minute that come last.
  for (const end = Date.now() + 20_000; sides().size < own.length + undici.length && Date.now() < end; )
    await sleep(200);
  expect([...sides()].sort()).toEqual([...own, ...undici].sort());
});

test('a passage names delivery ids, where it knows them, and nothing else of a reminder', async () => {
  const rows = await stage.pool.query<{ id: string }>('SELECT delivery_id AS id FROM reminder_delivery');
  const known = new Set(rows.rows.map(({ id }) => id));
  expect(passed().flatMap(({ deliveryIds }) => deliveryIds.filter((id) => !known.has(id)))).toEqual([]);
  const naming = new Set(passed().flatMap(({ point, deliveryIds }) => (deliveryIds.length > 0 ? [point] : [])));
  const silent =
    /^(handler|unpark|announce|fetch-signing-secret|observe-.*|list-finished-producers|count-states|set-aside|list-handoffs|list-(poison|destinations|actions)|control|count-affected|find|forecast|.*-dead-letters|get-queue-attributes|forget|execute|invoke-schedule|add-destination|.*-transaction|.*-secret.*)$/;
  const expected = Object.keys({ ...faultPoints, ...undiciPoints }).filter((point) => !silent.test(point));
  expect([...naming].sort()).toEqual(expected.sort());
  expect(readFileSync(join(stage.faultDirectory, 'passages.jsonl'), 'utf8')).not.toMatch(/drill-|payload|https?:/);
});
