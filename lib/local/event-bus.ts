// EventBridge on this machine: PutEvents, and what was put, to look at.
import { randomUUID } from 'node:crypto';
import { type CallFault, Faults, isCallFault, type PlannedFault, withFaults } from './faults.ts';
import { ServiceError, serve } from './http-service.ts';

/** An entry as a publisher gave it. */
export interface BusEvent {
  readonly Source?: string;
  readonly DetailType?: string;
  readonly Detail?: string;
  readonly EventBusName?: string;
}

/** An entry that the bus shall refuse with a code; `match` looks at its detail. */
export interface RefusedEvent extends PlannedFault {
  readonly kind?: 'refuse';
  /** @default InternalFailure */
  readonly code?: string;
}

/** What shall go wrong with an entry, or with a whole call; then `match` looks at the details of all its entries. */
export type EventFault = RefusedEvent | CallFault;

/** A bus that keeps what it accepts. */
export interface EventBus {
  readonly endpoint: string;
  readonly name: string;
  /** What the bus accepted, in order. */
  readonly events: readonly BusEvent[];
  readonly faults: Faults<EventFault>;
  close(): Promise<void>;
}

/** Limits of PutEvents (Amazon EventBridge User Guide, "PutEvents"). */
const entryLimit = 10;
const entryBytes = 256 * 1024;

/** Starts a bus. @param port 0: any free port */
export async function startEventBus(port = 0): Promise<EventBus> {
  const name = 'reminder-lifecycle';
  const events: BusEvent[] = [];
  const faults = new Faults<EventFault>();

  function refusal(event: BusEvent): string | undefined {
    const { Source, DetailType, Detail } = event;
    if (!Source || !DetailType || !Detail) return 'InvalidArgument';
    if (Buffer.byteLength(Source + DetailType + Detail) > entryBytes) return 'InvalidArgument';
    if (!isJsonObject(Detail)) return 'MalformedDetail';
    const fault = faults.take(Detail, (one) => !isCallFault(one));
    return fault && (('code' in fault && fault.code) || 'InternalFailure');
  }

  const service = await serve({ port, contentType: 'application/x-amz-json-1.1' }, async ({ headers, body }) => {
    const target = headers['x-amz-target'];
    if (target !== 'AWSEvents.PutEvents') {
      throw new ServiceError('UnknownOperationException', 400, `Unknown operation ${target}`);
    }
    const { Entries: entries = [] }: { Entries?: BusEvent[] } = JSON.parse(body);
    if (entries.length === 0 || entries.length > entryLimit) {
      throw new ServiceError(
        'ValidationException',
        400,
        `got ${entries.length} entries; send 1 to ${entryLimit} a call`,
      );
    }
    const put = async () => {
      const answers = entries.map((event) => {
        const code = refusal(event);
        if (code !== undefined) return { ErrorCode: code, ErrorMessage: `${code}: the entry was not accepted` };
        events.push(event);
        return { EventId: randomUUID() };
      });
      return { body: { FailedEntryCount: answers.filter(({ EventId }) => !EventId).length, Entries: answers } };
    };
    const text = entries.map(({ Detail }) => Detail).join('\n');
    return withFaults(
      faults,
      { text, request: text },
      put,
      ({ error = 'InternalException', message = 'Injected fault' }) => {
        return new ServiceError(error, error === 'InternalException' ? 500 : 400, message);
      },
    );
  });
  return { endpoint: service.endpoint, name, events, faults, close: service.close };
}

function isJsonObject(text: string): boolean {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value);
  } catch {
    return false;
  }
}
