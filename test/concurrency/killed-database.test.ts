// PostgreSQL and senders killed with SIGKILL in the middle of a drain, and the server started again on the same files.
//
// The server runs with fsync off until it is killed, and with fsync on from then. That proves what a crash of its processes
// does: what was committed was given to the kernel, which outlives them, and recovery reads it back from the log. It does not
// prove that a commit survives a loss of power, which only real disks can show and on AWS is Aurora's to keep.
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Postgres, startPostgres } from '../../lib/local/postgres.ts';
import {
  type Asked,
  eventually,
  idsOf,
  type RunningLedger,
  sha256,
  startRunningLedger,
} from '../functions/running-ledger.ts';
import { brokenPromises } from './promises.ts';

const run = promisify(execFile);
const limitMs = 150_000;

let ledger: RunningLedger;
let restarted: Postgres | undefined;
beforeAll(async () => {
  ledger = await startRunningLedger();
}, 60_000);
afterAll(async () => {
  await ledger.stop();
  await restarted?.stop();
});

/** SIGKILL to the server and to all of its sessions, none of which may see another's end before its own. */
async function killPostgres(): Promise<void> {
  const server = Number(
    readFileSync(join(ledger.directory, 'postgres', 'data', 'postmaster.pid'), 'utf8').split('\n')[0],
  );
  process.kill(server, 'SIGSTOP');
  const { stdout } = await run('pgrep', ['-P', String(server)]);
  for (const pid of stdout.trim().split('\n')) process.kill(Number(pid), 'SIGKILL');
  process.kill(server, 'SIGKILL');
}

const outcomes = () =>
  ledger.sql<{ delivery_id: string; attempt_no: number; token: string; outcome: string }>(
    'SELECT delivery_id, attempt_no, token, outcome FROM attempt_outcome',
  );

test('senders and PostgreSQL killed in the middle of a drain: nothing that was answered is lost, all is delivered', async () => {
  const destination = await ledger.destination('/slow/50');
  const asked: Asked[] = [];
  const schedule = async (count: number) => {
    const wishes = Array.from({ length: count }, (_, place) => ({ dueInMs: (place * 6000) / count }));
    asked.push(...(await ledger.schedule(destination, wishes)));
  };
  await schedule(150);
  await eventually('the drain is well under way', async () => (await outcomes()).length > 30);

  const atWork = () =>
    ledger.aws.host
      .environments()
      .filter(({ functionName, requestId }) => functionName === 'webhook-sender' && requestId !== undefined);
  const busy = await eventually('senders are at work', () => atWork().length > 0 && atWork().slice(0, 3));
  for (const { pid } of busy) expect(ledger.aws.host.kill(pid)).toBe(true);

  // Products go on asking up to the very end: an answer they got is a promise.
  let goesOn = true;
  const products = (async () => {
    while (goesOn) await schedule(3).catch(() => undefined);
  })();
  const settled = new Map<string, string>();
  const look = async () => {
    for (const one of await outcomes()) settled.set(`${one.delivery_id} ${one.attempt_no} ${one.token}`, one.outcome);
    return settled.size > 60;
  };
  await eventually('more is settled', look);
  await look();
  await killPostgres();
  const answered = [...asked];
  await sleep(1000);
  const { port } = ledger.aws.postgres;
  restarted = await startPostgres({ directory: ledger.directory, fresh: false, port });
  goesOn = false;
  await products;

  const after = new Map(
    (await outcomes()).map((one) => [`${one.delivery_id} ${one.attempt_no} ${one.token}`, one.outcome]),
  );
  for (const [attempt, outcome] of settled) expect(after.get(attempt), attempt).toBe(outcome);
  const there = await ledger.sql<{ delivery_id: string }>('SELECT delivery_id FROM reminder_delivery');
  const known = new Set(there.map(({ delivery_id: id }) => id));
  expect(answered.filter(({ deliveryId }) => !known.has(deliveryId))).toEqual([]);

  // A call whose answer was lost may have been carried out: all that the ledger knows is to be delivered.
  const undelivered = () =>
    ledger.sql(`SELECT state, attempt_no, failures, last_error, wake_at - now() AS wakes_in, invitations
      FROM reminder_delivery WHERE state <> 'delivered'`);
  await ledger.settled([...known], 'delivered', limitMs).catch(async (error: Error) => {
    throw new Error(`${error.message}: ${JSON.stringify(await undelivered())}`);
  });
  expect(await brokenPromises(ledger.sql)).toEqual([]);
  const keys = await ledger.sql('SELECT idempotency_key FROM reminder_delivery GROUP BY 1 HAVING count(*) > 1');
  expect(keys).toEqual([]);
  expect(ledger.receiver.requests.filter(({ webhookId }) => !known.has(webhookId))).toEqual([]);
  const byId = new Map(asked.map((one) => [one.deliveryId, one]));
  for (const { webhookId, idempotencyKey, bodySha256 } of ledger.receiver.requests) {
    const one = byId.get(webhookId);
    if (one === undefined) continue;
    expect(idempotencyKey).toBe(one.key);
    expect([null, sha256(one.payload)]).toContain(bodySha256);
  }
  const silent = idsOf(asked).filter((id) => ledger.received(id).length === 0);
  expect(silent).toEqual([]);
}, 240_000);
