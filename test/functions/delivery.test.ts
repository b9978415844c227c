// Delivery as the receiver sees it: the exact bytes, signed, once, and not before they are due.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Webhook } from 'standardwebhooks';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { deriveSigningSecret } from '../../lambdas/webhook/signing.ts';
import { eventually, idsOf, invitation, type RunningLedger, sha256, startRunningLedger } from './running-ledger.ts';

let ledger: RunningLedger;
let ok: string;
beforeAll(async () => {
  ledger = await startRunningLedger();
  ok = await ledger.destination('/ok');
}, 60_000);
afterAll(() => ledger.stop());
// A test that failed half way must not fail the next.
afterEach(() => ledger.aws.eventSource.resume());

const arrival = (deliveryId: string) => ledger.arrivals.filter(({ request }) => request.webhookId === deliveryId);
describe('what arrives', () => {
  test('is ten times 32,768 quotes in one batch, byte for byte', async () => {
    const payloadText = '"'.repeat(32_768);
    const wish = { dueInMs: 0, payload: undefined, payloadText };
    await ledger.aws.eventSource.pause();
    const asked = await ledger.schedule(
      ok,
      Array.from({ length: 10 }, () => wish),
    );
    expect(await ledger.deliver(idsOf(asked).map((id) => invitation(id)))).toEqual([]);
    ledger.aws.eventSource.resume();
    await ledger.settled(idsOf(asked));
    for (const { deliveryId, key } of asked) {
      const [only, ...more] = arrival(deliveryId);
      expect(more).toEqual([]);
      expect(only?.body.equals(Buffer.from(payloadText))).toBe(true);
      expect(only?.request.idempotencyKey).toBe(key);
    }
    const sql = 'SELECT DISTINCT request_id FROM delivery_attempt WHERE delivery_id = ANY ($1)';
    expect(await ledger.sql(sql, [idsOf(asked)]), 'batches').toHaveLength(1);
  });

  test('is the exact text, and its signature verifies with the secret of its destination alone', async () => {
    const texts = [
      '{"b":1,"a":2,"B":3,"1":4}',
      '{"amount":12345678901234567890,"rate":1.10,"tiny":1e-400,"huge":1E400}',
      '{ "spaces" :  [ 1 ,2 ] }\n',
      '{"é":"e\u0301","zwj":"👩‍👩‍👧","rtl":"שלום","ls":"\u2028"}',
      '{"escaped":"\\u00e9\\ud800"}',
      '{}',
      '',
      'not JSON at all, "quoted"\r\n\ttext',
      '{"a":1,"a":2,"__proto__":3}',
    ];
    const asked = await ledger.schedule(
      ok,
      texts.map((payloadText) => ({ dueInMs: 0, payloadText })),
    );
    await ledger.settled(idsOf(asked));
    const { current } = JSON.parse(readFileSync(join(ledger.directory, 'signing-secret.json'), 'utf8'));
    const [own, others] = [ok, 'another'].map((name) => new Webhook(deriveSigningSecret(current, name)));
    for (const [place, { deliveryId, key }] of asked.entries()) {
      const [found] = arrival(deliveryId);
      const headers = found?.headers as Record<string, string>;
      expect(found?.body.toString('utf8')).toBe(texts[place]);
      expect(found?.request).toMatchObject({ method: 'POST', path: '/ok', idempotencyKey: key });
      expect(() => own?.verify(found?.body ?? '', headers, { jsonParse: false })).not.toThrow();
      expect(() => others?.verify(found?.body ?? '', headers, { jsonParse: false })).toThrow('No matching signature');
      const [stored] = await ledger.sql(
        `SELECT encode(payload_sha256, 'hex') AS hash FROM reminder_delivery WHERE delivery_id = $1`,
        [deliveryId],
      );
      expect(stored?.hash).toBe(sha256(texts[place] ?? ''));
    }
  });

  test('comes once when a batch holds its id twice, under one attempt', async () => {
    await ledger.aws.eventSource.pause();
    const [one, other] = await ledger.schedule(ok, [{ dueInMs: 0 }, { dueInMs: 0 }]);
    const [first = '', second = ''] = idsOf([one, other].filter((each) => each !== undefined));
    expect(await ledger.deliver([first, second, first, first].map((id) => invitation(id)))).toEqual([]);
    await ledger.settled([first, second]);
    ledger.aws.eventSource.resume();
    // Their own messages, and another, find them finished.
    await ledger.sendMessages([invitation(first), invitation(first)]);
    await eventually('the queue is empty', async () => {
      const { ready, delayed, inFlight } = await ledger.aws.queue.depth();
      return ready + delayed + inFlight === 0;
    });
    for (const id of [first, second]) {
      expect(ledger.received(id)).toHaveLength(1);
      expect(await ledger.outcomes(id)).toMatchObject([{ attempt_no: 1, outcome: 'delivered', moved_to: 'delivered' }]);
    }
  });

  test("never comes before it is due by the database's clock, however early its invitation", async () => {
    const wishes = Array.from({ length: 30 }, (_, place) => ({ dueInMs: 300 + place * 137 }));
    const asked = await ledger.schedule(ok, wishes);
    // Invitations that lie about the time, while most are not due for long.
    await ledger.sendMessages(asked.slice(0, 10).map(({ deliveryId }) => invitation(deliveryId)));
    await ledger.sendMessages(asked.slice(-10).map(({ deliveryId }) => invitation(deliveryId, 1)));
    await ledger.settled(idsOf(asked));
    const early = await ledger.sql(
      `SELECT a.delivery_id FROM delivery_attempt a JOIN reminder_delivery r USING (delivery_id)
       WHERE r.delivery_id = ANY ($1) AND (a.started_at < r.due_at OR a.started_at < r.next_attempt_at)`,
      [idsOf(asked)],
    );
    expect(early).toEqual([]);
    for (const { deliveryId, dueAt } of asked) {
      expect(ledger.received(deliveryId).filter(({ at }) => at < dueAt)).toEqual([]);
      expect(ledger.received(deliveryId)).toHaveLength(1);
    }
  });
});

describe('a receiver that', () => {
  test('fails twice gets the same key, id and bytes a third time', async () => {
    const [flaky] = await ledger.schedule(await ledger.destination('/fail/2'), [{ dueInMs: 0 }]);
    const id = flaky?.deliveryId ?? '';
    await ledger.settled([id]);
    const requests = ledger.received(id);
    expect(requests.map(({ status }) => status)).toEqual([500, 500, 200]);
    const identities = requests.map(({ webhookId, idempotencyKey, bodySha256 }) => [
      webhookId,
      idempotencyKey,
      bodySha256,
    ]);
    expect(identities).toEqual(Array.from({ length: 3 }, () => [id, flaky?.key, sha256(flaky?.payload ?? '')]));
    expect((await ledger.outcomes(id)).map(({ outcome, status, moved_to }) => [outcome, status, moved_to])).toEqual([
      ['retry', 500, 'scheduled'],
      ['retry', 500, 'scheduled'],
      ['delivered', 200, 'delivered'],
    ]);
  });

  test('is gone makes the reminder dead and disables the destination; the next one parks', async () => {
    const gone = await ledger.destination('/status/410');
    const [first] = await ledger.schedule(gone, [{ dueInMs: 0 }]);
    await ledger.settled(idsOf([first].filter((one) => one !== undefined)), 'dead');
    const [destination] = await ledger.sql('SELECT state, state_reason FROM destination WHERE name = $1', [gone]);
    expect(destination).toEqual({ state: 'disabled', state_reason: 'answered 410 Gone' });
    const [next] = await ledger.schedule(gone, [{ dueInMs: 0 }]);
    const id = next?.deliveryId ?? '';
    await eventually('it is parked', async () => (await ledger.row(id)).parked === true);
    expect(await ledger.row(id)).toMatchObject({ state: 'scheduled', attempt_no: 0 });
    expect(ledger.received(id)).toEqual([]);
  });

  test('redirects is not followed', async () => {
    const [moved] = await ledger.schedule(await ledger.destination('/redirect/308'), [{ dueInMs: 0 }]);
    const id = moved?.deliveryId ?? '';
    await ledger.settled([id], 'dead');
    expect(ledger.received(id).map(({ path, method }) => [method, path])).toEqual([['POST', '/redirect/308']]);
    expect(await ledger.outcomes(id)).toMatchObject([{ outcome: 'permanent', status: 308, moved_to: 'dead' }]);
  });

  test('is to get what was called off before it was due gets nothing', async () => {
    const asked = await ledger.schedule(ok, [{ dueInMs: 4000 }, { dueInMs: 4000 }]);
    const [called = '', kept = ''] = idsOf(asked);
    expect(await ledger.command({ verb: 'cancel', deliveryId: called })).toMatchObject({ answer: 'cancelled' });
    await ledger.settled([kept]);
    await eventually('its invitation was refused', () =>
      new RegExp(`${called}","answer":"finished"`).test(ledger.logs()),
    );
    expect(ledger.received(called)).toEqual([]);
  });
});
