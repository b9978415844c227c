// Pausing, searching and listing as a person does: the command line in a process of its own, against a running local AWS.
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import stringWidth from 'string-width';
import { v7 as uuid } from 'uuid';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type RunningLedger, startRunningLedger } from '../functions/running-ledger.ts';
import { commandLine } from './command-line.ts';

const elsewhere = mkdtempSync(join(tmpdir(), 'reminder-ledger-control-'));
let ledger: RunningLedger;
let ok: string;
beforeAll(async () => {
  ledger = await startRunningLedger();
  ok = await ledger.destination('/ok');
}, 60_000);
afterAll(async () => {
  await ledger.stop();
  rmSync(elsewhere, { recursive: true });
});

const { reminders, json } = commandLine(() => ledger.directory, elsewhere);

test('a look, a pause with what was seen, a resume: nothing is sent meanwhile, and the actions say who and why', async () => {
  const reason = ['--reason', "the partner's database is full"];
  const look = await reminders('control', 'pause', '--destination', ok, ...reason);
  expect(look).toMatchObject({ code: 0, stderr: '' });
  expect(look.stdout).toMatch(/^would be: paused\n/);
  const [, seen = ''] = /--seen (active@\S+Z) --apply\n$/.exec(look.stdout) ?? [];
  const paused = await json('control', 'pause', '--destination', ok, ...reason, '--seen', seen, '--apply');
  expect(paused).toMatchObject({ code: 0, value: { applied: true, outcome: { answer: 'paused' } } });
  const [asked] = await ledger.schedule(ok, [{ dueInMs: 0 }]);
  await ledger.tick();
  expect(await ledger.row(asked?.deliveryId ?? '')).toMatchObject({ state: 'scheduled' });
  expect((await reminders('destination', 'list')).stdout).toContain('paused');
  const old = await reminders('control', 'resume', '--destination', ok, ...reason, '--seen', seen, '--apply');
  expect(old).toMatchObject({ code: 1, stdout: expect.stringMatching(/^stale: it was switched since/) });
  const { value } = await json('control', 'resume', '--destination', ok, ...reason);
  const now = `${value.outcome.state}@${value.outcome.since}`;
  expect(await reminders('control', 'resume', '--destination', ok, ...reason, '--seen', now, '--apply')).toMatchObject({
    code: 0,
  });
  const { stdout } = await reminders('actions', '--destination', ok);
  expect(stdout).toMatch(new RegExp(`resume {2}${ok}\\n {4}arn:.*database is full[\\s\\S]*pause {2}${ok}\\n`));
});

test('what was not understood says what to give', async () => {
  for (const [args, told] of [
    [['control', 'pause'], "required option '--reason <text>' not specified"],
    [['control', 'pause', '--reason', 'x', '--apply'], '--apply: got no --seen; look first'],
    [['control', 'pause', '--reason', 'x', '--seen', 'up'], '--seen: got "up"; give STATE@SINCE'],
    [['find'], 'userId: name a user, a destination or a state'],
    [['find', '--state', 'delivered'], 'state: name a user or a destination: of all delivered there is no index'],
    [['find', '--destination', 'nowhere'], 'destination: got "nowhere", which nobody has registered'],
    [['find', '--user', 'u', '--cursor', 'x'], 'cursor: must be the `next` of the page before'],
    [['find', '--user', 'u', '--watch', '0'], 'give whole seconds, 1 or more'],
  ] as const) {
    const run = await reminders(...args);
    expect({ code: run.code, stdout: run.stdout }, args.join(' ')).toEqual({ code: 2, stdout: '' });
    expect(run.stderr).toContain(told);
  }
});

test('lists keep to 100 columns with long names and wide characters, without escape codes, and go on by their cursor', async () => {
  const user = `${'記憶'.repeat(20)}\u001b[31m${'x'.repeat(40)}`;
  await ledger.schedule(ok, [{ dueInMs: 3_600_000 }, { dueInMs: 3_700_000 }]);
  const last = await ledger.schedule(ok, [{ dueInMs: 3_800_000 }]);
  await ledger.sql('ALTER TABLE reminder_delivery DISABLE TRIGGER USER');
  await ledger.sql('UPDATE reminder_delivery SET user_id = $1 WHERE due_at > now()', [user]);
  await ledger.sql('ALTER TABLE reminder_delivery ENABLE TRIGGER USER');
  const { stdout } = await reminders('find', '--destination', ok, '--state', 'scheduled');
  expect(stdout).toContain(`${last[0]?.deliveryId}@1.0`);
  for (const line of stdout.split('\n')) expect(stringWidth(line)).toBeLessThanOrEqual(100);
  expect(stdout).not.toContain('\u001b');
  const first = await json('find', '--user', user, '--limit', '2');
  expect(first.value.reminders).toHaveLength(2);
  const second = await json('find', '--user', user, '--limit', '2', '--cursor', first.value.next);
  expect(second.value.reminders).toMatchObject([{ deliveryId: last[0]?.deliveryId }]);
  const forecast = await reminders('forecast', '--destination', ok);
  expect(forecast.stdout).toMatch(/\n3 from .*Z to .*Z\n$/);
  expect((await reminders('unreviewed')).stdout).toBe('nothing waits for a person\n');
  expect((await reminders('actions', uuid())).stdout).toBe('nobody did anything\n');
});

test('--watch looks until it is interrupted, and ends with 0; as JSON one line a look', async () => {
  const program = fileURLToPath(new URL('../../bin/reminders.ts', import.meta.url));
  const args = [program, '--local', ledger.directory, '--json', 'status', '--watch', '1'];
  const running = spawn(process.execPath, args, { cwd: elsewhere, env: { PATH: process.env.PATH } });
  let said = '';
  const ended = new Promise((resolve) => running.once('exit', (code, signal) => resolve({ code, signal })));
  running.stdout.on('data', (part: Buffer) => {
    said += part;
    if (said.trim().split('\n').length >= 2) running.kill('SIGINT');
  });
  expect(await ended).toEqual({ code: 0, signal: null });
  for (const line of said.trim().split('\n')) expect(JSON.parse(line)).toMatchObject({ answer: 'status' });
});
