// The demo's verdict: the receiver's own log, joined to what was asked. It shares no belief with the ledger's code.
import type { Asked } from './demo-plan.ts';

/** A request as the receiver logged it. */
export interface Received {
  /** Epoch milliseconds when its headers arrived. */
  readonly at: number;
  readonly webhookId: string;
  readonly idempotencyKey: string;
  readonly bodySha256: string | null;
  readonly status: number | null;
}

/** An attempt's intent as the ledger recorded it, epoch milliseconds by the database's clock. */
export interface Intent {
  readonly deliveryId: string;
  readonly startedAt: number;
}

export interface Verdict {
  /** Each broken promise with the first reminder that broke it. Empty: all hold. */
  readonly broken: readonly string[];
  readonly arrived: number;
  /** First arrival after the due time, in milliseconds, of reminders that nothing was done to. Sorted. */
  readonly latenessMs: readonly number[];
  /** Reminders that arrived again after a 2xx, and under how many keys each. */
  readonly repeated: readonly { readonly deliveryId: string; readonly requests: number; readonly keys: number }[];
}

/** The p99 of the time from due to first byte that the demo accepts. */
export const latenessBoundMs = 2000;

/**
 * @param mayRepeat deliveries that a killed run held: their answers may be lost, so at-least-once allows them again
 */
export function judge(
  asked: readonly Asked[],
  received: readonly Received[],
  intents: readonly Intent[],
  mayRepeat: ReadonlySet<string>,
): Verdict {
  const byId = new Map(asked.map((one) => [one.deliveryId, one]));
  const requests = groupBy(received, ({ webhookId }) => webhookId);
  const intentsOf = groupBy(intents, ({ deliveryId }) => deliveryId);
  const broken: string[] = [];
  const promise = (name: string, sentence: string, culprits: readonly string[]) => {
    if (culprits.length > 0) broken.push(`${name}: ${sentence}; ${culprits.length} broke it, first ${culprits[0]}`);
  };
  const received2xx = ({ status }: Received) => status !== null && status >= 200 && status < 300;
  const of = (one: Asked) => requests.get(one.deliveryId) ?? [];

  promise(
    'P1 no loss',
    'each reminder that came due was received',
    asked.filter((one) => !one.cancelled && one.part !== 'far' && !of(one).some(received2xx)).map(({ key }) => key),
  );
  promise(
    'P2 one identity',
    'each request carries the id, key and bytes that were asked for',
    received
      .filter((request) => {
        const one = byId.get(request.webhookId);
        const sameBytes = request.bodySha256 === null || request.bodySha256 === one?.payloadSha256;
        return one === undefined || request.idempotencyKey !== one.key || !sameBytes;
      })
      .map(({ webhookId, idempotencyKey }) => `${webhookId} under key ${idempotencyKey}`),
  );
  promise(
    'P3 terminal means terminal',
    'nothing is sent again after a 2xx that was recorded',
    asked
      .filter((one) => {
        const first = of(one).findIndex(received2xx);
        return first >= 0 && first < of(one).length - 1 && !mayRepeat.has(one.deliveryId);
      })
      .map(({ key }) => key),
  );
  promise(
    'P5 ledger first',
    'each request was preceded by its recorded attempt',
    asked
      .filter((one) => {
        const starts = (intentsOf.get(one.deliveryId) ?? []).map(({ startedAt }) => startedAt).sort((a, b) => a - b);
        return of(one).some(({ at }, place) => !((starts[place] ?? Number.POSITIVE_INFINITY) <= at));
      })
      .map(({ key }) => key),
  );
  promise(
    'P10 never before it is due',
    'nothing arrives before its due time',
    asked.filter((one) => of(one).some(({ at }) => at < one.dueAt)).map(({ key }) => key),
  );
  promise(
    'P10 never after a cancel',
    'nothing arrives that was called off in time',
    asked.filter((one) => one.cancelled && of(one).length > 0).map(({ key }) => key),
  );
  const latenessMs = asked
    .filter((one) => one.part === 'plain' && !mayRepeat.has(one.deliveryId))
    .flatMap((one) =>
      of(one)
        .slice(0, 1)
        .map(({ at }) => at - one.dueAt),
    )
    .sort((a, b) => a - b);
  const p99 = percentile(latenessMs, 0.99);
  if (p99 > latenessBoundMs)
    broken.push(`on time: p99 from due to first byte is ${p99} ms, over ${latenessBoundMs} ms`);
  return {
    broken,
    arrived: asked.filter((one) => of(one).length > 0).length,
    latenessMs,
    repeated: asked
      .filter((one) => of(one).filter(received2xx).length > 1)
      .map((one) => ({
        deliveryId: one.deliveryId,
        requests: of(one).length,
        keys: new Set(of(one).map(({ idempotencyKey }) => idempotencyKey)).size,
      })),
  };
}

/** The value below which `share` of the sorted values lie; NaN for none. */
export function percentile(sorted: readonly number[], share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

function groupBy<Item>(items: readonly Item[], keyOf: (item: Item) => string): Map<string, Item[]> {
  const groups = new Map<string, Item[]>();
  for (const item of items) {
    const key = keyOf(item);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [item]);
    else group.push(item);
  }
  return groups;
}
