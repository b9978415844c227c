// The operator's loop from the command line alone: what died is explained, requeued with a reason, and delivered.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { v7 as uuid } from 'uuid';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type RunningLedger, startRunningLedger } from '../functions/running-ledger.ts';
import { commandLine } from './command-line.ts';

const elsewhere = mkdtempSync(join(tmpdir(), 'reminder-ledger-decide-'));
let ledger: RunningLedger;
beforeAll(async () => {
  ledger = await startRunningLedger();
}, 60_000);
afterAll(async () => {
  await ledger.stop();
  rmSync(elsewhere, { recursive: true });
});

const { reminders, json } = commandLine(() => ledger.directory, elsewhere);

/** A reminder that died at a destination which takes it the next time. */
async function dead(): Promise<string> {
  const mended = await ledger.destination(`/fail/1/${uuid()}`);
  await ledger.sql(`UPDATE destination SET policy = '{"maxFailures": 1}' WHERE name = $1`, [mended]);
  const [asked] = await ledger.schedule(mended, [{ dueInMs: 0 }]);
  const { deliveryId = '' } = asked ?? {};
  await ledger.settled([deliveryId], 'dead');
  return deliveryId;
}

test('a destination fails until a reminder is dead: explain, requeue with a reason, delivered under the same id', async () => {
  const deliveryId = await dead();
  const explained = await json('explain', deliveryId);
  expect(explained.value).toMatchObject({
    standing: 'needs_person',
    version: 1,
    verbs: { requeue: { allowed: true } },
  });

  const because = ['--reason', 'the partner was down', '--ticket', 'OPS-9'];
  const look = await reminders('decide', 'requeue', deliveryId, ...because);
  expect(look).toMatchObject({ code: 0, stderr: '' });
  expect(look.stdout).toContain('would be');
  expect(look.stdout).toContain(`to do it: reminders decide requeue ${deliveryId}@1.1 … --apply`);
  expect(await ledger.row(deliveryId)).toMatchObject({ state: 'dead', version: 1 });

  const done = await json('decide', 'requeue', `${deliveryId}@1.1`, ...because, '--apply');
  expect(done).toMatchObject({ code: 0, value: { applied: true, reminders: [{ answer: 'requeued', version: 2 }] } });
  await ledger.tick();
  await ledger.settled([deliveryId]);
  expect((await json('explain', deliveryId)).value).toMatchObject({ standing: 'done', deliveryId });
  expect(await ledger.sql('SELECT verb, reason, ticket, version_seen, evidence FROM operator_action')).toMatchObject([
    { verb: 'requeue', reason: 'the partner was down', ticket: 'OPS-9', version_seen: 1, evidence: { state: 'dead' } },
  ]);

  const second = await reminders('decide', 'requeue', `${deliveryId}@1.1`, ...because, '--apply');
  expect(second.code).toBe(1);
  expect(second.stdout).toMatch(/delivered +2 +refused\n/);
  expect(second.stdout).toMatch(/refused +it is neither held \(release\) nor dead \(requeue\)/);
}, 60_000);

test('what the ledger needs before a replay is told, with what to do', async () => {
  const deliveryId = await dead();
  const name = `${deliveryId}@1.1`;
  const resolve = await reminders('decide', 'resolve', name, '--reason', 'they have it', '--apply');
  expect(resolve.code).toBe(1);
  expect(resolve.stdout.replaceAll(/\s+/g, ' ')).toContain('ask it, and say with --evidence what it answered');
  const stale = await json('decide', 'review', `${deliveryId}@7.1`, '--reason', 'seen', '--apply');
  expect(stale).toMatchObject({ code: 1, value: { reminders: [{ answer: 'stale' }] } });
  const reviewed = await json('decide', 'review', name, '--reason', 'seen', '--apply');
  expect(reviewed).toMatchObject({ code: 0, value: { reminders: [{ answer: 'reviewed' }] } });
  const again = await json(
    'decide',
    'review',
    name,
    '--reason',
    'seen',
    '--apply',
    '--command-id',
    reviewed.value.commandId,
  );
  expect(again.value).toEqual(reviewed.value);
});

test('what was not understood says what to give, and nothing is asked', async () => {
  const id = uuid();
  for (const [args, told] of [
    [['decide', 'requeue', id, '--reason', 'x', '--apply'], 'alone; give ID@VERSION.ATTEMPTS as you saw it'],
    [['decide', 'requeue', 'bill-7', '--reason', 'x'], 'give an id, or ID@VERSION.ATTEMPTS'],
    [['decide', 'requeue', `${id}@0`, '--reason', 'x'], 'give an id, or ID@VERSION.ATTEMPTS'],
    [['decide', 'requeue', `${id}@1`, '--reason', 'x'], 'give an id, or ID@VERSION.ATTEMPTS'],
    [['decide', 'requeue', id], "required option '--reason <text>' not specified"],
    [['decide', 'bury', id, '--reason', 'x'], 'Allowed choices are hold, release, requeue'],
    [['decide', 'review', `${id}@1.0`, '--reason', ' ', '--apply'], 'reason: must not be empty'],
  ] as const) {
    const run = await reminders(...args);
    expect(run.code, args.join(' ')).toBe(2);
    expect(run.stderr).toContain(told);
  }
  expect(await reminders('decide', 'review', id, '--reason', 'x')).toMatchObject({
    code: 1,
    stdout: expect.stringContaining('no reminder has that id'),
  });
});
