// `reminders recover`, `handoffs`, `poison` and `explain --dead-letters` as a person runs them, against a running local AWS.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { v7 as uuid } from 'uuid';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { lostReminders } from '../functions/lost-reminders.ts';
import { invitation, type RunningLedger, startRunningLedger } from '../functions/running-ledger.ts';
import { commandLine, type Run } from './command-line.ts';

const elsewhere = mkdtempSync(join(tmpdir(), 'reminder-ledger-recover-'));
let ledger: RunningLedger;
let ok: string;
beforeAll(async () => {
  ledger = await startRunningLedger();
  ok = await ledger.destination('/ok');
  ledger.aws.scheduler.pause();
}, 60_000);
afterAll(async () => {
  await ledger.stop();
  rmSync(elsewhere, { recursive: true });
});

const { reminders, json } = commandLine(() => ledger.directory, elsewhere);
const because = ['--reason', 'the queue was purged', '--ticket', 'OPS-8'];

const { lost: lostAt, bury } = lostReminders(() => ledger);
const lost = () => lostAt(ok);

/** That no line is longer than a hundred columns. */
function expectNarrow({ stdout }: Run): void {
  expect(stdout.split('\n').filter((line) => line.length > 100)).toEqual([]);
}

test('a lost handoff: it is told, looked at, invited again and delivered, under its own id', async () => {
  const asked = await lost();
  const name = `${asked.deliveryId}@1.0`;
  const handoffs = await reminders('handoffs');
  expect(handoffs).toMatchObject({ code: 0, stderr: '' });
  expect(handoffs.stdout).toMatch(
    /^lost: at least 1 lost: .*reminders recover republish --lost\n1 queued, 1 of them overdue/,
  );
  expect(handoffs.stdout).toContain(name);

  const look = await reminders('recover', 'republish', asked.deliveryId, ...because);
  expect(look).toMatchObject({ code: 0, stderr: '' });
  expect(look.stdout).toMatch(/would be\n.* queued +1 +republished\n/);
  expect(look.stdout).toContain(`nothing was done; to do it: reminders recover republish … --apply\n  ${name}\n`);
  expect(await ledger.tick()).toMatchObject({ claimed: 0 });

  const done = await reminders('recover', 'republish', '--lost', ...because, '--apply');
  expect(done).toMatchObject({ code: 0, stderr: '' });
  expect(done.stdout).toMatch(/republished +the next claim invites it again\n\ndone, as command [0-9a-f-]{36}/);
  for (const run of [handoffs, look, done]) expectNarrow(run);
  await ledger.tick();
  await ledger.settled([asked.deliveryId]);
  expect(ledger.received(asked.deliveryId)).toHaveLength(1);
  expect(await ledger.sql('SELECT verb, reason, ticket, version_seen FROM operator_action')).toEqual([
    { verb: 'republish', reason: 'the queue was purged', ticket: 'OPS-8', version_seen: 1 },
  ]);

  const again = await reminders('recover', 'republish', name, ...because, '--apply');
  expect(again.code).toBe(1);
  expect(again.stdout).toMatch(/delivered +1 +finished\n[\s\S]*finished +it has come to its end/);
  expect(await json('handoffs')).toMatchObject({ code: 0, value: { finding: 'none', overdue: 0 } });
  expect(await reminders('recover', 'republish', '--lost', ...because)).toMatchObject({
    ...{ code: 0, stdout: 'nothing that was handed over is lost\n' },
  });
}, 60_000);

test('the dead-letter queue: explained, looked at, redriven; what nobody can read is shown, with nothing that moves a cursor', async () => {
  const [live, done] = [await lost(), await lost()];
  await ledger.deliver([invitation(done.deliveryId)]);
  await bury(invitation(live.deliveryId), invitation(done.deliveryId), 'no JSON \u202e!');
  const explained = await json('explain', live.deliveryId, '--dead-letters', '--log-group', '/aws/lambda/sender');
  expect(explained).toMatchObject({
    code: 0,
    value: { evidence: { deadLetter: 'seen' }, verbs: { redrive: { allowed: true } } },
  });
  const text = await reminders('explain', live.deliveryId, '--dead-letters');
  expect(text.stdout).toContain('note: a message of it is in the dead-letter queue');
  expect((await json('explain', uuid(), '--dead-letters')).code).toBe(1);

  const look = await reminders('recover', 'redrive', ...because);
  expect(look).toMatchObject({ code: 0, stderr: '' });
  expect(look.stdout).toMatch(/^3 messages, all there are\n/);
  expect(look.stdout).toMatch(new RegExp(`^${live.deliveryId} +re-invite +republished`, 'm'));
  expect(look.stdout).toContain('nothing was done; to do it: reminders recover redrive … --apply');
  const redriven = await json('recover', 'redrive', ...because, '--apply');
  expect(redriven).toMatchObject({
    code: 0,
    value: { counts: { drop: 1, 're-invite': 1, hold: 0, poison: 1 }, commandId: expect.any(String) },
  });
  const poison = await reminders('poison');
  expect(poison.stdout).toMatch(/no_invitation +no JSON \\u202e!/);
  const empty = await reminders('recover', 'redrive', ...because, '--apply');
  expect(empty.stdout).toMatch(/^no messages in the dead-letter queue; all there are\n/);
  for (const run of [look, poison, empty]) expectNarrow(run);
  await ledger.tick();
  await ledger.settled([live.deliveryId]);

  const held = await lost();
  await ledger.sql(
    `UPDATE reminder_delivery SET state = 'held', hold_reason = 'looked', wake_at = NULL WHERE delivery_id = $1`,
    [held.deliveryId],
  );
  await bury(invitation(held.deliveryId));
  const stays = await reminders('recover', 'redrive', ...because, '--apply', '--most', '5');
  expect(stays.code).toBe(1);
  expect(stays.stdout).toMatch(/hold +held +\d+ +stays\n/);
}, 60_000);

test('leases and exclusions: what there is nothing to do about says so', async () => {
  const asked = await lost();
  const id = asked.deliveryId;
  const reclaim = await reminders('recover', 'reclaim', `${id}@1.0`, ...because, '--apply');
  expect(reclaim.code).toBe(1);
  expect(reclaim.stdout).toMatch(/not_leased +there is no lease to take away/);
  await ledger.sql(
    `INSERT INTO claim_exclusion (delivery_id, token, excluded_at, sql_state, reason) VALUES ($1, $2, now(), 'XX001', 'x')`,
    [id, uuid()],
  );
  expect(await json('recover', 'readmit', id, ...because)).toMatchObject({ code: 0, value: { applied: false } });
  const readmitted = await json('recover', 'readmit', id, ...because, '--apply');
  expect(readmitted).toMatchObject({ code: 0, value: { reminders: [{ answer: 'readmitted' }] } });
  const { commandId } = readmitted.value;
  expect((await json('recover', 'readmit', id, ...because, '--apply', '--command-id', commandId)).value).toEqual(
    readmitted.value,
  );
  const again = await reminders('recover', 'readmit', id, ...because, '--apply');
  expect(again.code).toBe(1);
  expect(again.stdout).toMatch(/not_excluded +claims do not pass over it/);
});

test('what was not understood says what to give, and nothing is asked', async () => {
  const id = uuid();
  const cases = [
    [['recover', 'reclaim', id, '--reason', 'x', '--apply'], 'alone; give ID@VERSION.ATTEMPTS as you saw it'],
    [['recover', 'republish', '--reason', 'x'], 'give either reminders or --lost'],
    [['recover', 'republish', id, '--lost', '--reason', 'x'], 'give either reminders or --lost'],
    [['recover', 'readmit', 'bill-7', '--reason', 'x'], 'give an id, or ID@VERSION.ATTEMPTS'],
    [['recover', 'redrive'], "required option '--reason <text>' not specified"],
    [['recover', 'redrive', '--reason', 'x', '--most', 'all'], '--most: got all; give a whole number'],
    [['recover', 'redrive', '--reason', 'x', '--most', '101'], 'most: '],
    [['recover', 'purge'], "unknown command 'purge'"],
  ] as const;
  const runs = await Promise.all(cases.map(([args]) => reminders(...args)));
  for (const [place, [args, told]] of cases.entries()) {
    expect(runs[place]?.stderr, args.join(' ')).toContain(told);
    expect(runs[place]?.code, args.join(' ')).toBe(2);
  }
});
