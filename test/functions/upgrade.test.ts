// Two releases at work on one ledger, as while a deployment goes on: each one's claim, sender and schedule beside the other's.
import { cpSync, existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { CommandAnswer } from '../../lambdas/schedule/contract.ts';
import { startEventSourceMapping } from '../../lib/local/event-source-mapping.ts';
import { type LambdaHost, startLambdaHost } from '../../lib/local/lambda-host.ts';
import { loginSecretArns } from '../../lib/local/local-aws.ts';
import { buildPreviousRelease } from './previous-release.ts';
import {
  type Asked,
  eventually,
  invitation,
  type RunningLedger,
  sha256,
  sqsEvent,
  startRunningLedger,
} from './running-ledger.ts';

const present = fileURLToPath(new URL('../../dist/functions', import.meta.url));
const releases = ['former', 'present'] as const;
type Release = (typeof releases)[number];
/** Each template names the logins of its own release. */
const rolesOfFormer = [
  'ledger_schedule',
  'ledger_claim',
  'ledger_webhook_sender',
  'ledger_operator',
  'ledger_observer',
] as const;

let folder: string;
let ledger: RunningLedger;
let ok: string;
let hosts: Record<Release, LambdaHost>;
/** Reminders of the former release on the schema of its own, one in each state that a migration may meet. */
let inFlight: Awaited<ReturnType<typeof putInFlight>>;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'reminder-ledger-upgrade-'));
  const former = buildPreviousRelease(join(folder, 'former'));
  const functionsDirectory = join(folder, 'deployed');
  for (const name of readdirSync(present)) {
    // What the former release did not have yet is there, and fails.
    const from = existsSync(join(former, name)) ? former : present;
    cpSync(join(from, name), join(functionsDirectory, name), { recursive: true });
  }
  ledger = await startRunningLedger({ functionsDirectory, loginRoles: rolesOfFormer });
  // Which release claims and which one sends, the tests decide.
  ledger.aws.scheduler.pause();
  await ledger.aws.eventSource.pause();
  const presentFunctions = ledger.aws.functions.map((fn) => ({
    ...fn,
    folder: join(present, fn.name),
    environment: {
      ...fn.environment,
      ...('LOGIN_SECRET_ARNS' in fn.environment ? { LOGIN_SECRET_ARNS: loginSecretArns() } : {}),
    },
  }));
  hosts = { former: ledger.aws.host, present: await startLambdaHost(presentFunctions, join(folder, 'logs')) };
  ok = await ledger.destination('/ok');
  inFlight = await putInFlight();
}, 180_000);
afterAll(async () => {
  await hosts?.present.stop();
  await ledger?.stop();
  rmSync(folder, { recursive: true, force: true });
});

async function invoke(release: Release, name: string, request: unknown): Promise<unknown> {
  const { payload, functionError } = await hosts[release].invoke(name, JSON.stringify(request));
  expect(functionError, payload).toBe(false);
  return JSON.parse(payload);
}

/** What lies in the queue goes to the senders of that release until it is stopped. */
function sendBy(release: Release): () => Promise<void> {
  const to = { host: hosts[release], functionName: 'webhook-sender', queue: ledger.aws.queue };
  const mapping = startEventSourceMapping({ ...to, batchSize: 10, maximumConcurrency: 2 });
  return () => mapping.stop();
}

/** Runs claims of one release and senders of the other until the reminders are delivered. */
async function deliverBy(claim: Release, sender: Release, all: readonly Asked[]): Promise<void> {
  const stop = sendBy(sender);
  try {
    await eventually(`${claim} claims and ${sender} sends`, async () => {
      await invoke(claim, 'claim', {});
      await sleep(200);
      const rows = await Promise.all(all.map(({ deliveryId }) => ledger.row(deliveryId)));
      return rows.every(({ state }) => state === 'delivered');
    });
  } finally {
    await stop();
  }
}

/** What schedule asks to be sent at once the queue refuses: the reminder is left to a claim. */
async function scheduleForClaim(release: Release): Promise<Asked> {
  const dueAt = Date.now();
  const key = `key-${release}-${dueAt}-${Math.random()}`;
  ledger.aws.queue.faults.next({ kind: 'refuse' });
  const payload = `{"of":"${key}"}`;
  const asked = { verb: 'schedule', key, destination: ok, userId: 'me', payloadText: payload };
  const answer = (await invoke(release, 'schedule', {
    ...asked,
    dueAt: new Date(dueAt).toISOString(),
  })) as CommandAnswer;
  expect(answer).toMatchObject({ answer: 'scheduled' });
  const deliveryId = 'deliveryId' in answer ? (answer.deliveryId ?? '') : '';
  expect(await ledger.row(deliveryId)).toMatchObject({ state: 'scheduled', invitations: 1 });
  return { deliveryId, key, payload, dueAt };
}

/** Has a sender killed as the receiver gets its request. */
async function openAndKill(release: Release): Promise<Asked> {
  const asked = await ledger.scheduleUnsent(ok);
  ledger.receiver.onArrival(asked.deliveryId, async () => {
    const attempt = 'SELECT request_id FROM delivery_attempt WHERE delivery_id = $1';
    const [found] = await ledger.sql(attempt, [asked.deliveryId]);
    expect(hosts[release].kill(String(found?.request_id))).toBe(true);
  });
  const event = JSON.stringify(sqsEvent([invitation(asked.deliveryId)]));
  expect(await hosts[release].invoke('webhook-sender', event)).toMatchObject({ functionError: true });
  expect(await ledger.row(asked.deliveryId)).toMatchObject({ state: 'delivering' });
  return asked;
}

async function putInFlight() {
  const delivered = await ledger.scheduleUnsent(ok);
  await invoke('former', 'webhook-sender', sqsEvent([invitation(delivered.deliveryId)]));
  await ledger.settled([delivered.deliveryId]);
  const [waiting] = await ledger.schedule(ok, [{ dueInMs: 3_600_000 }]);
  if (waiting === undefined) throw new Error('nothing was scheduled');
  return {
    ...{ waiting, delivered, queued: await ledger.scheduleUnsent(ok), delivering: await openAndKill('former') },
    held: await sentBy('former', await ledger.destination('/hang', 'none'), 'held'),
    dead: await sentBy('former', await ledger.destination('/status/403'), 'dead'),
    expired: await expiredBy('former'),
    cancelled: await cancelledBy('former'),
    parked: await parkedBy('former'),
    dispatching: await leftDispatching(),
  };
}

/** One that a sender has tried, and what the ledger made of it. */
async function sentBy(release: Release, destination: string, state: string): Promise<Asked> {
  const asked = await ledger.scheduleUnsent(destination);
  await invoke(release, 'webhook-sender', sqsEvent([invitation(asked.deliveryId)]));
  expect(await ledger.row(asked.deliveryId)).toMatchObject({ state, attempt_no: 1 });
  return asked;
}

async function expiredBy(release: Release): Promise<Asked> {
  const expires = Date.now() + 1500;
  const asked = await ledger.scheduleUnsent(ok, { expiresAt: new Date(expires).toISOString() });
  await sleep(expires - Date.now() + 20);
  await invoke(release, 'webhook-sender', sqsEvent([invitation(asked.deliveryId)]));
  expect(await ledger.row(asked.deliveryId)).toMatchObject({ state: 'expired', attempt_no: 0 });
  return asked;
}

async function cancelledBy(release: Release): Promise<Asked> {
  const [asked] = await ledger.schedule(ok, [{ dueInMs: 3_600_000 }]);
  if (asked === undefined) throw new Error('nothing was scheduled');
  const cancel = { verb: 'cancel', deliveryId: asked.deliveryId };
  expect(await invoke(release, 'schedule', cancel)).toMatchObject({ answer: 'cancelled' });
  return asked;
}

async function parkedBy(release: Release): Promise<Asked> {
  const paused = await ledger.destination('/ok');
  await ledger.sql(`UPDATE destination SET state = 'paused' WHERE name = $1`, [paused]);
  const [asked] = await ledger.schedule(paused, [{ dueInMs: 0 }]);
  if (asked === undefined) throw new Error('nothing was scheduled');
  await invoke(release, 'claim', {});
  expect(await ledger.row(asked.deliveryId)).toMatchObject({ state: 'scheduled', parked: true });
  return asked;
}

/** Its message is lost, and so is the word that the queue took it. */
async function leftDispatching(): Promise<Asked> {
  ledger.aws.queue.faults.next({ kind: 'lose' });
  ledger.aws.dataApi.faults.next({ kind: 'error-before', match: /INSERT INTO handoff/, times: 2 });
  const [asked] = await ledger.schedule(ok, [{ dueInMs: 0 }]);
  if (asked === undefined) throw new Error('nothing was scheduled');
  expect(await ledger.row(asked.deliveryId)).toMatchObject({ state: 'dispatching' });
  return asked;
}

/** That every request for it had its id, key and bytes, and how many came. */
function expectRequests({ deliveryId, key, payload }: Asked, count: number): void {
  const received = ledger.received(deliveryId);
  const identity = { idempotencyKey: key, bodySha256: sha256(payload) };
  expect(received).toMatchObject(Array.from({ length: count }, () => identity));
}

/** That its first attempt was recovered and its second one delivered. */
async function expectRecovered(asked: Asked): Promise<void> {
  expectRequests(asked, 2);
  expect(await ledger.outcomes(asked.deliveryId)).toMatchObject([
    { attempt_no: 1, outcome: 'unknown', recorded_by: 'recover', moved_to: 'scheduled' },
    { attempt_no: 2, outcome: 'delivered', recorded_by: 'sender', moved_to: 'delivered' },
  ]);
}

test('migrate of the present release leaves what is in flight as it is, and the former functions go on', async () => {
  const rows = () => ledger.sql('SELECT to_jsonb(r) AS row FROM reminder_delivery r ORDER BY delivery_id');
  const before = await rows();
  expect(await invoke('present', 'migrate', {})).not.toMatchObject({ applied: 0 });
  const after = await rows();
  expect(after).toHaveLength(before.length);
  // What it adds may be new; what was there is unchanged.
  for (const [place, { row }] of before.entries()) expect(after[place]?.row).toMatchObject(row as object);
  // Whoever waits for a person waits since it came to its state, not since the upgrade.
  const { held, dead } = inFlight;
  for (const { row } of after as { row: Record<string, unknown> }[]) {
    const waits = [held.deliveryId, dead.deliveryId].includes(String(row.delivery_id));
    expect(row.unreviewed_since, String(row.state)).toBe(waits ? row.state_since : null);
  }
  // The older migrate, of a deployment that is rolled back, accepts what it does not know.
  expect(await invoke('former', 'migrate', {})).toMatchObject({ applied: 0 });
  const asked = await scheduleForClaim('former');
  await deliverBy('former', 'former', [asked]);
  expectRequests(asked, 1);
});

test.each([
  ['former', 'present'],
  ['present', 'former'],
] as const)(
  'the claim of the %s release and the sender of the %s one deliver what either scheduled',
  async (claim, sender) => {
    const all = [await scheduleForClaim('former'), await scheduleForClaim('present')];
    await deliverBy(claim, sender, all);
    for (const asked of all) expectRequests(asked, 1);
  },
);

test('an attempt that the former release opened and lost, the present one recovers under the same id and key', async () => {
  const { delivering, queued } = inFlight;
  await deliverBy('present', 'present', [delivering, queued]);
  await expectRecovered(delivering);
  expectRequests(queued, 1);
});

test('a key that one release took, the other knows: duplicate, conflict and every verb', async () => {
  for (const [first, second] of [
    ['former', 'present'],
    ['present', 'former'],
  ] as const) {
    const command = { verb: 'schedule', key: `taken-by-${first}`, destination: ok, userId: 'me', payload: { a: 1 } };
    const asked = { ...command, dueAt: '2099-01-01T00:00:00Z' };
    const { deliveryId } = (await invoke(first, 'schedule', asked)) as { deliveryId: string };
    const dueAt = '2098-01-01T00:00:00Z';
    const commands = [
      asked,
      { ...asked, payload: { a: 2 } },
      { verb: 'reschedule', deliveryId, dueAt, expectedVersion: 1 },
      { verb: 'get', deliveryId },
      { verb: 'cancel', deliveryId },
    ];
    const { answers } = (await invoke(second, 'schedule', { commands })) as { answers: CommandAnswer[] };
    expect(answers).toMatchObject([
      { answer: 'duplicate', deliveryId },
      { answer: 'conflict', fields: ['payload'] },
      { answer: 'rescheduled', version: 2 },
      { answer: 'found', deliveryId },
      { answer: 'cancelled', deliveryId },
    ]);
  }
});

test('an invitation that a sender does not know is given back, its neighbour sent, and its reminder sent in time', async () => {
  // While those wait: the other way round.
  const delivering = await openAndKill('present');
  const left: Asked[] = [];
  for (const release of releases) {
    const [known, ofLaterVersion, withMore] = [
      await ledger.scheduleUnsent(ok),
      await ledger.scheduleUnsent(ok),
      await ledger.scheduleUnsent(ok),
    ];
    const message = (of: Asked) => JSON.parse(invitation(of.deliveryId));
    const event = sqsEvent([
      JSON.stringify({ ...message(ofLaterVersion), v: 2 }),
      invitation(known.deliveryId),
      JSON.stringify({ ...message(withMore), more: true }),
    ]);
    const failures = [{ itemIdentifier: '0' }, { itemIdentifier: '2' }];
    expect(await invoke(release, 'webhook-sender', event)).toEqual({ batchItemFailures: failures });
    expectRequests(known, 1);
    for (const { deliveryId } of [ofLaterVersion, withMore]) {
      expect(await ledger.row(deliveryId)).toMatchObject({ state: 'queued', attempt_no: 0 });
    }
    left.push(ofLaterVersion, withMore);
  }
  await deliverBy('former', 'present', [delivering, ...left]);
  await expectRecovered(delivering);
  for (const asked of left) expectRequests(asked, 1);
});

test('what was held, dead, expired or cancelled before the upgrade is so after it, and its message sends nothing', async () => {
  for (const state of ['held', 'dead', 'expired', 'cancelled'] as const) {
    const { deliveryId, key, payload, dueAt } = inFlight[state];
    const { attempt_no: attempts } = await ledger.row(deliveryId);
    const sent = ledger.received(deliveryId).length;
    await invoke('present', 'webhook-sender', sqsEvent([invitation(deliveryId)]));
    expect(await ledger.row(deliveryId)).toMatchObject({ state, attempt_no: attempts });
    expect(ledger.received(deliveryId)).toHaveLength(sent);
    const same = {
      verb: 'schedule',
      key,
      userId: 'user-1',
      payloadText: payload,
      dueAt: new Date(dueAt).toISOString(),
    };
    // Its key is known: with another expiry than it was asked for it is refused by name.
    expect(
      await invoke('present', 'schedule', { ...same, destination: ok, expiresAt: '2099-01-01T00:00:00Z' }),
    ).toMatchObject({
      ...{ answer: 'conflict', deliveryId },
    });
  }
  for (const { deliveryId } of [inFlight.held, inFlight.dead]) {
    expect(await invoke('present', 'schedule', { verb: 'cancel', deliveryId })).toMatchObject({ answer: 'cancelled' });
    expect(await ledger.row(deliveryId)).toMatchObject({ state: 'cancelled', unreviewed_since: null });
  }
});

test('what was parked before the upgrade goes when its destination does, what was dispatching when its allowance is over', async () => {
  const { parked, dispatching } = inFlight;
  expect(await ledger.row(parked.deliveryId)).toMatchObject({ state: 'scheduled', parked: true });
  await ledger.sql(`UPDATE destination SET state = 'active' WHERE state = 'paused'`);
  await deliverBy('present', 'present', [parked, dispatching]);
  expectRequests(parked, 1);
  expectRequests(dispatching, 1);
});

test('what was delivered before the upgrade is as it was, and what waits still waits', async () => {
  expectRequests(inFlight.delivered, 1);
  expect(await ledger.row(inFlight.delivered.deliveryId)).toMatchObject({ state: 'delivered', attempt_no: 1 });
  const rescheduled = { verb: 'reschedule', deliveryId: inFlight.waiting.deliveryId, dueAt: new Date().toISOString() };
  expect(await invoke('present', 'schedule', rescheduled)).toMatchObject({ answer: 'rescheduled' });
  await deliverBy('present', 'former', [inFlight.waiting]);
  expectRequests(inFlight.waiting, 1);
});
