// Announces terminal transitions on the EventBridge bus and says which ones it accepted.
import { EventBridgeClient, PutEventsCommand } from '@aws-sdk/client-eventbridge';
import { atFaultPoint, deliveryIdsIn } from '../core/fault-points.ts';
import type { Announcements, LifecycleEvent, Log } from '../core/ports.ts';

/** The most entries a PutEvents takes (Amazon EventBridge API Reference, PutEvents). */
const callSize = 10;

/** The `source` of every event, for rules to match. */
export const eventSource = 'reminder-ledger';

/** What {@link busAnnouncements} needs. */
export interface BusAnnouncementsOptions {
  readonly eventBusName: string;
  readonly log: Log;
  /** How long one try of one call may take, in milliseconds. Each call is tried twice. @default 2000 */
  readonly requestTimeoutMs?: number;
}

/**
 * The bus of lifecycle events on Amazon EventBridge: source `reminder-ledger`, detail-type `Reminder <state>`. Calls of
 * ten go one after the other; the first that fails is logged and ends the publication. `publish` never rejects: an event
 * that it does not answer stays in the outbox, and a consumer tells a repeated one by `eventId`.
 */
export function busAnnouncements({
  eventBusName,
  log,
  requestTimeoutMs = 2000,
}: BusAnnouncementsOptions): Announcements {
  const bus = new EventBridgeClient({
    maxAttempts: 2,
    requestHandler: { requestTimeout: requestTimeoutMs, throwOnRequestTimeout: true },
  });

  /** One call: the events that the bus accepted, told by their position in the answer. */
  async function put(events: readonly LifecycleEvent[]): Promise<string[]> {
    const command = new PutEventsCommand({ Entries: events.map((event) => entry(event, eventBusName)) });
    const effect = { point: 'put-events', deliveryIds: () => deliveryIdsIn(events) };
    const { Entries = [] } = await atFaultPoint(effect, () => bus.send(command));
    const accepted = events.filter((_, position) => Entries[position]?.EventId);
    if (accepted.length < events.length) {
      const code = Entries.find(({ ErrorCode }) => ErrorCode)?.ErrorCode;
      log.warn('announce_refused', { bus: eventBusName, refused: events.length - accepted.length, code });
    }
    return accepted.map(({ eventNo }) => eventNo);
  }

  return {
    async publish(events): Promise<string[]> {
      const accepted: string[] = [];
      try {
        for (let first = 0; first < events.length; first += callSize) {
          accepted.push(...(await put(events.slice(first, first + callSize))));
        }
      } catch (error) {
        log.warn('announce_failed', { bus: eventBusName, waiting: events.length - accepted.length, error });
      }
      return accepted;
    },
  };
}

function entry(event: LifecycleEvent, eventBusName: string) {
  const { eventId, deliveryId, producer, state, version, dueAt, at, attempts } = event;
  return {
    EventBusName: eventBusName,
    Source: eventSource,
    DetailType: `Reminder ${state}`,
    Time: new Date(at),
    Detail: JSON.stringify({ eventId, deliveryId, producer, state, version, dueAt, at, attempts }),
  };
}
