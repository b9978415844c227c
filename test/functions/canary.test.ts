// The canary on a ledger at work: it goes the whole way and its lateness is published; what the ledger did not sign is refused.
import { readFileSync } from 'node:fs';
import { type RequestOptions, request } from 'node:https';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type CanaryReminder, canaryDestination } from '../../lambdas/core/canary.ts';
import { signedHeaders } from '../../lambdas/webhook/signing.ts';
import { printedIn, readBy } from '../stack/alarm-metrics.ts';
import { type Resource, synthesized } from '../stack/synthesized.ts';
import { eventually, type RunningLedger, startRunningLedger } from './running-ledger.ts';

/** What the alarm on the canary reads. */
const metrics = readBy(synthesized().resources.get('Ledger/Alarms/canary-late-measured') as Resource);

let ledger: RunningLedger;
let url: string;
let root: string;
beforeAll(async () => {
  ledger = await startRunningLedger({ canary: true });
  url = ledger.aws.functions.find(({ name }) => name === 'canary')?.environment.CANARY_URL ?? '';
  root = JSON.parse(ledger.aws.secrets.current(ledger.aws.outputs.SigningSecretArn ?? '') ?? '{}').current;
});
afterAll(() => ledger.stop());

/** What the receiver answers to a POST. */
async function post(payload: string, headers: Readonly<Record<string, string>>): Promise<number> {
  const options: RequestOptions = { method: 'POST', headers, ca: readFileSync(ledger.caFile) };
  return new Promise((resolve, reject) => {
    const sending = request(url, options, async (response) => {
      await text(response);
      resolve(response.statusCode ?? 0);
    });
    sending.on('error', reject);
    sending.end(payload);
  });
}

/** How late a canary came, as the receiver printed it last. */
const lateness = () =>
  printedIn(readFileSync(join(ledger.directory, 'logs', 'canary-receiver.log'), 'utf8')).get(metrics[0] ?? '');

test('what the ledger did not sign for it is refused, and counts as no canary', async () => {
  const destination = canaryDestination(new URL(url).host);
  const payload = JSON.stringify({ dueAt: new Date().toISOString() });
  const of = { deliveryId: 'msg', key: 'key', destination, payload };
  const signed = (more: Partial<typeof of> = {}, by: string = root, at = new Date()) => ({
    ...signedHeaders({ ...of, ...more }, { current: by }, at),
  });
  const { 'webhook-signature': signature, ...unsigned } = signed();
  const forged: Record<string, Readonly<Record<string, string>>> = {
    'no header at all': {},
    'no signature': unsigned,
    'a version and nothing else': { ...unsigned, 'webhook-signature': 'v1' },
    'another length': { ...unsigned, 'webhook-signature': 'v1,abc' },
    'another root': signed({}, 'f'.repeat(64)),
    'another destination': signed({ destination: 'partner' }),
    'another payload': signed({ payload: '{}' }),
    'another id': { ...unsigned, 'webhook-id': 'other', 'webhook-signature': signature },
    'six minutes ago': signed({}, root, new Date(Date.now() - 360_000)),
    'in six minutes': signed({}, root, new Date(Date.now() + 360_000)),
  };
  for (const [how, headers] of Object.entries(forged)) expect([how, await post(payload, headers)]).toEqual([how, 401]);
  expect(lateness()).toBeUndefined();
  expect(await post('no canary', signed({ payload: 'no canary' }))).toBe(400);
  expect(lateness()).toBeUndefined();
});

test('a canary goes the whole way, the next one to the same destination, and what its alarm reads is how late it came', async () => {
  const { destination, key, dueAt } = (await ledger.aws.invoke('canary', {})) as CanaryReminder;
  expect(await ledger.aws.invoke('canary', {})).toMatchObject({ destination });
  const find = () =>
    ledger.sql<{ id: string; state: string; producer: string; delivered_at: Date; due_at: Date; expires_at: Date }>(
      `SELECT r.delivery_id AS id, r.state, r.producer, r.delivered_at, r.due_at, r.expires_at FROM reminder_delivery r
       WHERE r.idempotency_key = $1`,
      [key],
    );
  const delivered = await eventually('it is delivered', async () => {
    const [row] = await find();
    return row?.state === 'delivered' && row;
  });
  expect(delivered).toMatchObject({ producer: 'canary', due_at: new Date(dueAt) });
  expect(delivered.expires_at.getTime() - delivered.due_at.getTime()).toBe(300_000);
  // By the calendar: a claim took it, not the product's call.
  const [batch] = await ledger.sql('SELECT request_id FROM claim_batch WHERE $1 = ANY (claimed)', [delivered.id]);
  expect(readFileSync(join(ledger.directory, 'logs', 'claim.log'), 'utf8')).toContain(String(batch?.request_id));
  expect(metrics).toHaveLength(1);
  const { value, unit } = lateness() ?? {};
  expect(unit).toBe('Milliseconds');
  expect(value).toBeGreaterThanOrEqual(0);
  expect(value).toBeLessThan(60_000);
  expect(await ledger.sql(`SELECT name FROM destination WHERE name LIKE 'canary-%'`)).toEqual([{ name: destination }]);
});
