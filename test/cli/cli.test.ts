// The command line as a person runs it: a process of its own, against a running local AWS.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { v7 as uuid } from 'uuid';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { schedule } from '../../lambdas/store/statements/schedule.ts';
import { deriveSigningSecret } from '../../lambdas/webhook/signing.ts';
import { type RunningLedger, startRunningLedger } from '../functions/running-ledger.ts';
import { commandLine, type Run } from './command-line.ts';

const elsewhere = mkdtempSync(join(tmpdir(), 'reminder-ledger-cli-'));
let ledger: RunningLedger;
let ok: string;
let root: string;
beforeAll(async () => {
  ledger = await startRunningLedger();
  ok = await ledger.destination('/ok');
  root = JSON.parse(readFileSync(join(ledger.directory, 'signing-secret.json'), 'utf8')).current;
}, 60_000);
afterAll(async () => {
  await ledger.stop();
  rmSync(elsewhere, { recursive: true });
});

const { reminders, json } = commandLine(() => ledger.directory, elsewhere);

/** A usage error or a failure tells its reason in one line, and neither a secret nor where in the code it arose. */
function expectPlain({ stdout, stderr }: Run): void {
  expect(stdout + stderr).not.toMatch(/^\s+at /m);
  for (const secret of [root, 'whsec_', deriveSigningSecret(root, ok)]) expect(stdout + stderr).not.toContain(secret);
}

const scheduling = (key: string, ...more: string[]) => [
  ...['schedule', '--key', key, '--destination', ok, '--user', 'user-1'],
  ...(more.includes('--due') ? [] : ['--due', '+1h']),
  ...(more.some((option) => option.startsWith('--payload')) ? [] : ['--payload', '{"a":1}']),
  ...more,
];

describe('a reminder', () => {
  test('is scheduled, shown, moved and called off, by key and by id', async () => {
    const key = `cli-${uuid()}`;
    const first = await reminders(...scheduling(key, '--payload', '{"amount": 12345678901234567890}'));
    expect(first).toMatchObject({ code: 0, stderr: '' });
    const [, deliveryId = ''] =
      /^scheduled: ([0-9a-f-]{36}) is scheduled, due .*Z, version 1\n$/.exec(first.stdout) ?? [];
    const row = await ledger.row(deliveryId);
    expect(row).toMatchObject({ payload: '{"amount": 12345678901234567890}', producer: 'default', user_id: 'user-1' });
    expect(Math.abs(Number(row.due_at) - Date.now() - 3_600_000)).toBeLessThan(60_000);

    const due = '2040-01-01T01:00:00+01:00';
    const moved = await json(
      'reschedule',
      deliveryId,
      '--due',
      due,
      '--expected-version',
      '1',
      '--expires',
      '2041-01-01T00:00:00Z',
    );
    const facts = { dueAt: '2040-01-01T00:00:00.000Z', expiresAt: '2041-01-01T00:00:00.000Z', version: 2 };
    expect(moved).toMatchObject({ code: 0, value: { answer: 'rescheduled', deliveryId, ...facts } });
    const [again, stale, forEver] = [
      await json('reschedule', '--key', key, '--due', due),
      await json('reschedule', '--key', key, '--due', '+1h', '--expected-version', '1'),
      await json('reschedule', '--key', key, '--due', due, '--expires', 'never'),
    ];
    expect(again).toMatchObject({ code: 0, value: { answer: 'unchanged' } });
    expect(stale).toMatchObject({ code: 1, value: { answer: 'stale', version: 2 } });
    expect(forEver).toMatchObject({ code: 0, value: { answer: 'rescheduled', expiresAt: null, version: 3 } });

    const [byKey, byId, called, afterwards] = [
      await json('show', '--key', key),
      await json('show', deliveryId),
      await reminders('cancel', deliveryId),
      await reminders('reschedule', '--key', key, '--due', '+1h'),
    ];
    expect(byKey).toMatchObject({ code: 0, value: [{ answer: 'reminder', delivery_id: deliveryId, key, version: 3 }] });
    expect(byId.value[0]).toMatchObject({ delivery_id: deliveryId, due_at: byKey.value[0].due_at });
    expect(called).toMatchObject({ code: 0, stdout: expect.stringMatching(`^cancelled: ${deliveryId} is cancelled`) });
    expect(afterwards).toMatchObject({ code: 1, stdout: expect.stringMatching('^finished: .* is cancelled') });
  });

  test('that was delivered shows its story and what happens next', async () => {
    const key = `cli-${uuid()}`;
    const file = join(elsewhere, 'payload.txt');
    writeFileSync(file, '{ "exactly": "this"\n}\n');
    const { value } = await json(...scheduling(key, '--due', '+1s', '--payload-file', file));
    await ledger.settled([value.deliveryId]);
    const [arrival] = ledger.arrivals.filter(({ request }) => request.webhookId === value.deliveryId);
    expect(arrival?.body.toString()).toBe('{ "exactly": "this"\n}\n');
    const story = await reminders('show', '--key', key);
    expect(story).toMatchObject({ code: 0, stderr: '' });
    for (const line of [
      `${value.deliveryId}  delivered since `,
      `key ${key}  producer default`,
      'scheduled by default',
      'queue accepted message',
      'attempt 1 opened by request',
      'attempt 1: delivered (200, in phase body), said sender; moved it to delivered',
      'next: nothing: this is final',
    ]) {
      expect(story.stdout.replaceAll(/\n {26}/g, ' ')).toContain(line);
    }
    expect(story.stdout).not.toContain('exactly');
  });

  test('of one product is nobody for another', async () => {
    const key = `cli-${uuid()}`;
    const scheduled = await json(...scheduling(key, '--product', 'shop', '--payload-text', 'text'));
    expect(scheduled).toMatchObject({ code: 0, value: { answer: 'scheduled' } });
    const [other, taken, own] = [
      await reminders('cancel', '--key', key),
      await reminders(...scheduling(key)),
      await json('cancel', '--key', key, '--product', 'shop'),
    ];
    expect(other).toMatchObject({ code: 1, stdout: 'not found: no such reminder of this product\n' });
    expect(taken).toMatchObject({ code: 1, stdout: expect.stringContaining('belongs to another product') });
    expect(own).toMatchObject({ code: 0, value: { answer: 'cancelled' } });
  });

  test('that nobody has ever heard of, or that was asked for wrongly, is told with exit code 1', async () => {
    const key = `cli-${uuid()}`;
    await json(...scheduling(key, '--due', '2040-01-01T00:00:00Z'));
    const runs = await Promise.all([
      reminders('show', '--key', 'nobody'),
      reminders('show', uuid()),
      reminders(...scheduling(key, '--due', '2040-01-01T00:00:00Z', '--payload', '{"a":2}')),
      reminders(...scheduling('soon', '--due', 'tomorrow')),
      reminders(...scheduling('nowhere', '--destination', 'nowhere')),
    ]);
    for (const run of runs) {
      expect(run).toMatchObject({ code: 1, stderr: '' });
      expectPlain(run);
    }
    const [byKey, byId, conflict, due, destination] = runs.map(({ stdout }) => stdout);
    expect(byKey).toBe('not found: no reminder has that id or key\n');
    expect(byId).toBe(byKey);
    expect(conflict).toMatch(/^conflict: [0-9a-f-]{36} has this key with another payload; use another key\n$/);
    expect(due).toMatch(/^invalid: dueAt: must be an RFC 3339 date/);
    expect(destination).toMatch(/^invalid: destination: no such destination/);
  });
});

describe('the registry and the counts', () => {
  test('a destination is added once, with the secret of its receiver, and listed', async () => {
    const name = `partner-${uuid().slice(-8)}`;
    const adding = [
      'destination',
      'add',
      name,
      ledger.receiver.url('/ok?token=x'),
      '--owner',
      'payments',
      '--deadline',
      '800',
    ];
    const signingSecret = deriveSigningSecret(root, name);
    const added = await reminders(...adding);
    expect(added).toMatchObject({
      code: 0,
      stdout: `${name}: added\nsigning secret for its receiver: ${signingSecret}\n`,
    });
    expect(await json(...adding)).toMatchObject({ code: 0, value: { answer: 'unchanged', name, signingSecret } });
    const other = await reminders(...adding.with(5, 'refunds'));
    expect(other).toMatchObject({ code: 1, stdout: expect.stringContaining('choose another name') });
    expect(other.stdout).not.toContain('whsec_');
    const { value } = await json('destination', 'list');
    const registered = { name, state: 'active', contract: 'honours-key', owner: 'payments', deadlineMs: 800 };
    expect(value).toContainEqual(expect.objectContaining(registered));
    const { stdout } = await reminders('destination', 'list');
    expect(stdout.split('\n')[0]).toMatch(/^name +state +for +parked +failing +contract +owner +url +because$/);
    expect(stdout.replaceAll(/\s/g, '')).toContain('payments');
    // The query of a URL may hold a secret.
    expect(stdout + JSON.stringify(value)).not.toContain('token=x');
    expect(Math.max(...stdout.split('\n').map(({ length }) => length))).toBeLessThanOrEqual(100);
  });

  test('status counts by state', async () => {
    await json(...scheduling(`cli-${uuid()}`));
    const counted = await ledger.sql(
      'SELECT state, CAST(count(*) AS integer) AS count FROM reminder_delivery GROUP BY 1',
    );
    const { code, value } = await json('status');
    expect(code).toBe(0);
    expect(value.dispatch).toEqual({ state: 'active', since: null, reason: null });
    expect(value.states.map(({ state, count }: Record<string, unknown>) => ({ state, count }))).toEqual(
      expect.arrayContaining(counted),
    );
    const { stdout } = await reminders('status');
    expect(stdout).toMatch(/^dispatch is active\n\nstate +reminders +oldest in it for +longest overdue\n/);
    expect(stdout).toMatch(/^scheduled +\d+ /m);
  });
});

describe('what cannot be understood', () => {
  const add = (url: string, ...more: string[]) => ['destination', 'add', 'wrong', url, '--owner', 'me', ...more];
  const cases: [string, string[], RegExp][] = [
    ['an unknown command', ['frobnicate'], /unknown command 'frobnicate'/],
    ['an unknown option', scheduling('k', '--frobnicate'), /unknown option '--frobnicate'/],
    ['no key', ['schedule', '--destination', 'd', '--due', '+1h', '--user', 'u'], /required option '--key <key>'/],
    ['an amount of time beyond dates', scheduling('k', '--due', '+999999999999d'), /--due: got \+999999999999d/],
    [
      'no payload',
      ['schedule', '--key', 'k', '--destination', 'd', '--due', '+1h', '--user', 'u'],
      /give --payload JSON/,
    ],
    ['a payload that is no JSON', scheduling('k', '--payload', '{a:1}'), /--payload: got "\{a:1\}", which is no JSON/],
    ['two payloads', scheduling('k', '--payload', '1', '--payload-text', '1'), /cannot be used with option/],
    [
      'a payload file that is not there',
      scheduling('k', '--payload-file', '/nowhere'),
      /--payload-file: got "\/nowhere"/,
    ],
    ['nobody', ['cancel'], /give either the ID of a reminder or --key KEY/],
    ['an id and a key', ['cancel', uuid(), '--key', 'k'], /give either the ID of a reminder or --key KEY/],
    ['an id that is none', ['cancel', 'first'], /ID: got "first"; give a delivery id, or --key KEY/],
    ['an id in the wrong places', ['show', 'a'.repeat(36)], /ID: got "a{36}"; give a delivery id, or --key KEY/],
    [
      'a version that is no number',
      ['reschedule', uuid(), '--due', '+1h', '--expected-version', 'two'],
      /--expected-version: got two/,
    ],
    ['a URL without TLS', add('http://partner.example/'), /got the scheme http:\/\/; use https:\/\//],
    ['no URL', add('partner.example'), /got something that is no URL/],
    [
      'a URL with a password',
      add('https://me:hunter2@partner.example/'),
      /got a user or a password before the host; remove it/,
    ],
    ['a private address', add('https://10.0.0.1/'), /got 10\.0\.0\.1 \(private\)/],
    ["the metadata service's address", add('https://169.254.169.254/latest'), /got 169\.254\.169\.254 \(linkLocal\)/],
    ['an address written as a number', add('https://167772161/'), /got 10\.0\.0\.1 \(private\)/],
    [
      'a name in capitals',
      ['destination', 'add', 'Partner', 'https://a.example/', '--owner', 'me'],
      /NAME: got "Partner"/,
    ],
    ['an unknown contract', add('https://a.example/', '--contract', 'maybe'), /Allowed choices are honours-key/],
    ['a deadline of 5 ms', add('https://a.example/', '--deadline', '5'), /--deadline: got 5; give 100 to 10000/],
  ];

  test('is told in one line, with exit code 2, and nothing is done', async () => {
    const before = await ledger.sql(
      'SELECT (SELECT count(*) FROM destination), (SELECT count(*) FROM reminder_delivery)',
    );
    const left = cases.values();
    const wrong: string[] = [];
    const lane = async () => {
      for (const [what, args, expected] of left) {
        const run = await reminders(...args);
        expectPlain(run);
        expect(run.stdout + run.stderr).not.toContain('hunter2');
        const oneLine = run.stderr.trim().split('\n').length === 1;
        if (run.code !== 2 || run.stdout !== '' || !oneLine || !expected.test(run.stderr)) {
          wrong.push(`${what}: ${JSON.stringify(run)}`);
        }
      }
    };
    await Promise.all([lane(), lane(), lane()]);
    expect(wrong).toEqual([]);
    const after = await ledger.sql(
      'SELECT (SELECT count(*) FROM destination), (SELECT count(*) FROM reminder_delivery)',
    );
    expect(after).toEqual(before);
  });

  test('help is no error', async () => {
    expect(await reminders('--help')).toMatchObject({ code: 0, stderr: '' });
    expect((await reminders('schedule', '--help')).stdout).toContain('--payload-file <file>');
  });
});

describe('a local AWS', () => {
  test('that does not run is told, with how to start it', async () => {
    const stale = { pid: 2 ** 22 + 1, environment: {}, outputs: {}, trustedCidrs: '' };
    const absent = await reminders('status', '--local', join(elsewhere, 'nowhere'));
    writeFileSync(join(elsewhere, 'endpoints.json'), JSON.stringify(stale));
    const died = await reminders('status', '--local', elsewhere);
    writeFileSync(join(elsewhere, 'endpoints.json'), '{');
    const broken = await reminders('destination', 'list', '--local', elsewhere);
    for (const run of [absent, died, broken]) {
      expect(run).toMatchObject({
        code: 2,
        stdout: '',
        stderr: expect.stringMatching(/does not run in .*`npm start`/),
      });
      expectPlain(run);
    }
  });

  test('whose function fails is told as a failure, with exit code 3 and what to do', async () => {
    const recover = ledger.aws.dataApi.faults.next({
      kind: 'error-before',
      match: new RegExp(RegExp.escape(schedule.text)),
      times: 2,
    });
    const run = await reminders(...scheduling(`cli-${uuid()}`));
    recover();
    expect(run).toMatchObject({ code: 3, stdout: '', stderr: expect.stringContaining('run the same command again') });
    expectPlain(run);
  });
});
