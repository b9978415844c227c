// What the event bus adapter answers for events that EventBridge accepted, refused, or never answered.
import { afterEach, describe, expect, test } from 'vitest';
import type { LifecycleEvent } from '../../lambdas/core/ports.ts';
import { busAnnouncements } from '../../lambdas/events/announcements.ts';
import { type AwsEndpoint, type EndpointAnswer, startAwsEndpoint } from './aws-endpoint.ts';
import { recordedLog } from './recorded-log.ts';

interface Put {
  Entries: { EventBusName: string; Source: string; DetailType: string; Time: number; Detail: string }[];
}

let endpoint: AwsEndpoint;
afterEach(() => endpoint.close());

const event = (n: number): LifecycleEvent => ({
  eventNo: String(n),
  eventId: `delivery-${n}:1:delivered`,
  deliveryId: `delivery-${n}`,
  producer: 'orders',
  state: 'delivered',
  version: 1,
  dueAt: '2026-12-24T17:00:00.000Z',
  at: '2026-12-24T17:00:01.000Z',
  attempts: 1,
});
const events = (count: number): LifecycleEvent[] => Array.from({ length: count }, (_, n) => event(n));

async function busThat(answer: (put: Put, callNo: number) => EndpointAnswer, requestTimeoutMs = 5000) {
  endpoint = await startAwsEndpoint((body, callNo) => answer(body as unknown as Put, callNo));
  process.env.AWS_ENDPOINT_URL_EVENTBRIDGE = endpoint.url;
  const log = recordedLog();
  return { log, bus: busAnnouncements({ eventBusName: 'reminders', log, requestTimeoutMs }) };
}

const acceptAll = ({ Entries }: Put) => ({
  FailedEntryCount: 0,
  Entries: Entries.map((_, n) => ({ EventId: `event-${n}` })),
});

describe('the announcements of a claim', () => {
  test('go in calls of ten and tell what became of the reminder, nothing of its content', async () => {
    const { bus } = await busThat(acceptAll);
    expect(await bus.publish(events(23))).toEqual(Array.from({ length: 23 }, (_, n) => String(n)));
    const puts = endpoint.calls as unknown as Put[];
    expect(puts.map(({ Entries }) => Entries.length)).toEqual([10, 10, 3]);
    const first = puts[0]?.Entries[0];
    expect(first).toMatchObject({
      EventBusName: 'reminders',
      Source: 'reminder-ledger',
      DetailType: 'Reminder delivered',
      Time: Date.parse('2026-12-24T17:00:01Z') / 1000,
    });
    expect(JSON.parse(first?.Detail ?? '')).toEqual({
      eventId: 'delivery-0:1:delivered',
      deliveryId: 'delivery-0',
      producer: 'orders',
      state: 'delivered',
      version: 1,
      dueAt: '2026-12-24T17:00:00.000Z',
      at: '2026-12-24T17:00:01.000Z',
      attempts: 1,
    });
  });

  test('that the bus refuses or leaves out are not answered', async () => {
    const { bus, log } = await busThat(() => ({
      FailedEntryCount: 1,
      Entries: [{ EventId: 'a' }, { ErrorCode: 'ThrottlingException', ErrorMessage: 'later' }, { EventId: 'c' }],
    }));
    expect(await bus.publish(events(4))).toEqual(['0', '2']);
    expect(log.lines).toEqual([
      ['warn', 'announce_refused', { bus: 'reminders', refused: 2, code: 'ThrottlingException' }],
    ]);
  });

  test('end with the first call that fails, and keep what was accepted before', async () => {
    const { bus, log } = await busThat((put, callNo) =>
      callNo === 1 ? acceptAll(put) : { error: 'InternalException', status: 500 },
    );
    expect(await bus.publish(events(35))).toEqual(Array.from({ length: 10 }, (_, n) => String(n)));
    // Two tries of the second call, none of the third and fourth.
    expect(endpoint.calls.length).toBe(3);
    expect(log.lines).toMatchObject([['warn', 'announce_failed', { waiting: 25 }]]);
  });

  test('are not accepted when the bus never answers', async () => {
    const { bus, log } = await busThat(() => 'hang', 200);
    expect(await bus.publish(events(2))).toEqual([]);
    expect(log.lines[0]?.[2]?.error).toMatchObject({ name: 'TimeoutError' });
  });
});
