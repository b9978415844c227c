// `reminders explain` as a person runs it, against a running local AWS.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { v7 as uuid } from 'uuid';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type RunningLedger, startRunningLedger } from '../functions/running-ledger.ts';
import { commandLine } from './command-line.ts';

const elsewhere = mkdtempSync(join(tmpdir(), 'reminder-ledger-explain-'));
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
const scheduling = (key: string, due: string) => [
  ...['schedule', '--key', key, '--destination', ok, '--user', 'user-1', '--due', due, '--payload', '{"a":1}'],
];

describe('a reminder', () => {
  test('is explained by id and by key: one verdict, as text and as JSON', async () => {
    const key = `cli-${uuid()}`;
    const { value: scheduled } = await json(...scheduling(key, '2040-01-01T00:00:00Z'));
    const { deliveryId } = scheduled;
    const [text, byKey, other] = [
      await reminders('explain', deliveryId),
      await json('explain', key, '--producer', 'default'),
      await reminders('explain', '--key', key, '--producer', 'shop'),
    ];
    expect(text).toMatchObject({ code: 0, stderr: '' });
    const lines = text.stdout.split('\n');
    expect(lines[0]).toMatch(new RegExp(`^${deliveryId}  scheduled since `));
    expect(lines).toContain('future: It waits in the calendar: it is not due yet.');
    expect(text.stdout).toMatch(/^next: claim, by 2039-12-31T23:\d\d:\d\d\.000Z: a claim takes it from /m);
    expect(text.stdout).toMatch(/^ {2}hold +sends it no more/m);
    expect(text.stdout).not.toContain('{"a":1}');
    expect(byKey).toMatchObject({
      code: 0,
      value: { deliveryId, standing: 'future', version: 1, evidence: { key, attempts: [], deadLetter: 'not_looked' } },
    });
    expect(Object.keys(byKey.value.verbs)).toHaveLength(10);
    expect(other).toMatchObject({ code: 1, stdout: 'not found: no reminder has that id or key\n' });
  });

  test('that was delivered is done, and its attempt leads to its log', async () => {
    const { value } = await json(...scheduling(`cli-${uuid()}`, '+1s'));
    await ledger.settled([value.deliveryId]);
    const [text, linked] = [
      await reminders('explain', value.deliveryId),
      await json('explain', value.deliveryId, '--log-group', '/aws/lambda/sender'),
    ];
    expect(text.stdout).toContain('\ndone: It has come to its end, and nobody need act.\n');
    expect(text.stdout).toContain('\nnext: nothing: this is final\n');
    const [attempt] = linked.value.evidence.attempts;
    expect(attempt).toMatchObject({ standing: 'delivered', logs: expect.stringContaining(attempt.worker.requestId) });
  });
});

test('what nobody has heard of, and what is not named, are told apart', async () => {
  const [unknown, nobody, unnamed] = [
    await reminders('explain', uuid()),
    await json('explain', 'nobody'),
    await reminders('explain'),
  ];
  expect(unknown).toMatchObject({ code: 1, stdout: 'not found: no reminder has that id or key\n' });
  expect(nobody).toEqual({ code: 1, value: null });
  expect(unnamed).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining('give either the ID') });
});
