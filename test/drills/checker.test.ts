// The drills' checker: each promise broken on purpose in otherwise good evidence is reported under its own name.
import { expect, test } from 'vitest';
import type { ReceivedRequest } from '../../lib/local/receiver.ts';
import { type Evidence, judgeDrill } from './checker.ts';

const id = '019b0000-0000-7000-8000-000000000001';
const other = '019b0000-0000-7000-8000-000000000002';
const start = Date.parse('2026-12-24T18:00:00Z');
const hash = 'a'.repeat(64);

const request = (no: number, at: number, status: number | null): ReceivedRequest => ({
  no,
  at,
  monotonic: at,
  method: 'POST',
  path: '/ok/drill-1',
  webhookId: id,
  idempotencyKey: 'key',
  webhookTimestamp: '',
  signature: '',
  bodySha256: hash,
  bodyBytes: 10,
  status,
  end: status === null ? 'cut' : 'answered',
});

/** A sender died after the receiver had it; the second attempt was answered. */
const good: Evidence = {
  asked: [{ key: 'key', payloadSha256: hash, dueAt: start, toldIds: [id], cancelled: false }],
  destination: 'to-drill-1',
  rows: [
    {
      ...{ deliveryId: id, key: 'key', destination: 'to-drill-1', payloadSha256: hash, state: 'delivered' },
      ...{
        stateSince: start + 16_000,
        dueAt: start,
        expiresAt: null,
        wakeAt: null,
        archivedAt: null,
        attemptNo: 2,
        failures: 1,
      },
    },
  ],
  attempts: [
    { deliveryId: id, attemptNo: 1, startedAt: start + 100, leaseUntil: start + 10_100 },
    { deliveryId: id, attemptNo: 2, startedAt: start + 15_500, leaseUntil: start + 25_500 },
  ],
  outcomes: [
    {
      ...{ deliveryId: id, attemptNo: 1, recordedAt: start + 13_000, outcome: 'unknown', status: null },
      movedTo: 'scheduled',
    },
    {
      ...{ deliveryId: id, attemptNo: 2, recordedAt: start + 16_000, outcome: 'delivered', status: 200 },
      movedTo: 'delivered',
    },
  ],
  events: [{ deliveryId: id, state: 'delivered', occurredAt: start + 16_000, announcedAt: start + 17_000 }],
  requests: [request(1, start + 200, null), request(2, start + 15_700, 200)],
  announced: [`${id}:1:delivered`, `${id}:1:delivered`],
  endsIn: ['delivered'],
  deadlineMs: 1000,
  attemptHardCap: 30,
};

test('good evidence breaks nothing, and a duplicate is told with its key and bytes', () => {
  expect(judgeDrill(good)).toEqual({ broken: [], requests: 2, duplicates: 1, sameKeyAndBytes: true, idsMinted: 1 });
});

const changed = (changes: Partial<Evidence>): Evidence => ({ ...good, ...changes });
const rowWith = (changes: Partial<Evidence['rows'][number]>) =>
  changed({ rows: good.rows.map((row) => ({ ...row, ...changes })) });
const requestsWith = (changes: Partial<ReceivedRequest>) =>
  changed({ requests: good.requests.map((one, place) => (place === 0 ? { ...one, ...changes } : one)) });

test.each<[string, string, Evidence]>([
  ['P1', 'a reminder that ended nowhere', rowWith({ state: 'queued', wakeAt: start })],
  ['P1', 'a row that is gone', changed({ rows: [] })],
  ['P1', 'delivered, and the receiver never said so', changed({ requests: good.requests.slice(0, 1) })],
  [
    'P2',
    'a second id that a product was told',
    changed({ asked: good.asked.map((one) => ({ ...one, toldIds: [id, other] })) }),
  ],
  ['P2', 'a request under an id that nobody was told', requestsWith({ webhookId: other })],
  ['P2', 'another destination', rowWith({ destination: 'elsewhere' })],
  [
    'P3',
    'an attempt after the end',
    changed({ attempts: good.attempts.map((one) => ({ ...one, startedAt: start + 16_001 })) }),
  ],
  [
    'P3',
    'two ends',
    changed({ events: [...good.events, ...good.events.map((event) => ({ ...event, state: 'dead' }))] }),
  ],
  ['P4', 'delivered without an outcome', changed({ outcomes: good.outcomes.slice(0, 1) })],
  ['P4', 'delivered by a 500', changed({ outcomes: good.outcomes.map((one) => ({ ...one, status: 500 })) })],
  ['P5', 'a request before its attempt was recorded', requestsWith({ at: start + 50 })],
  ['P6', 'a request after its lease', requestsWith({ at: start + 9500 })],
  ['P6', 'two leases at once', changed({ attempts: good.attempts.map((one) => ({ ...one, startedAt: start + 100 })) })],
  ['P7', 'another key', requestsWith({ idempotencyKey: 'key-new' })],
  ['P7', 'other bytes', requestsWith({ bodySha256: 'b'.repeat(64) })],
  [
    'P8',
    'a stale failure that moved',
    changed({ outcomes: good.outcomes.map((one) => ({ ...one, recordedAt: start + 15_900 })) }),
  ],
  ['P8', 'a success that did not win', rowWith({ state: 'dead' })],
  ['P9', 'an attempt that the row does not count', rowWith({ attemptNo: 1 })],
  ['P9', 'more attempts than the cap', changed({ attemptHardCap: 1 })],
  ['P10', 'sent before it is due', rowWith({ dueAt: start + 150 })],
  ['P10', 'sent after it expired', rowWith({ expiresAt: start + 15_000 })],
  ['P10', 'sent after a cancel', changed({ asked: good.asked.map((one) => ({ ...one, cancelled: true })) })],
  ['P11', 'a live row that nobody looks at', rowWith({ state: 'scheduled' })],
  ['P12', 'more requests than attempts', changed({ requests: [...good.requests, request(3, start + 15_800, 200)] })],
  ['announced', 'an end that nobody hears of', changed({ announced: [] })],
  ['announced', 'an end under two event ids', changed({ announced: [`${id}:1:delivered`, `${id}:2:delivered`] })],
])('%s is reported broken by %s', (promise, _what, evidence) => {
  expect(judgeDrill(evidence).broken.map((sentence) => sentence.split(/[: ]/)[0])).toContain(promise);
});
