// Judges a drill by the tables and the receiver's own record: each promise in this file's words, none in the code's.
import type pg from 'pg';
import type { Asked } from '../../bin/demo-plan.ts';
import { judge } from '../../bin/demo-verdict.ts';
import type { ReceivedRequest } from '../../lib/local/receiver.ts';

/** A reminder as the product asked for it, and the ids it was told. */
export interface AskedReminder {
  readonly key: string;
  readonly payloadSha256: string;
  /** Epoch milliseconds; moves with a reschedule. */
  readonly dueAt: number;
  /** Every id that an answer named. */
  readonly toldIds: readonly string[];
  /** It was called off, and the product was told so before it was due: nothing may arrive. */
  readonly cancelled: boolean;
}

/** Times are epoch milliseconds by the database's clock; null for NULL. */
export interface RowEvidence {
  readonly deliveryId: string;
  readonly key: string;
  readonly destination: string;
  readonly payloadSha256: string;
  readonly state: string;
  readonly stateSince: number;
  readonly dueAt: number;
  readonly expiresAt: number | null;
  readonly wakeAt: number | null;
  readonly archivedAt: number | null;
  readonly attemptNo: number;
  readonly failures: number;
}
export interface AttemptEvidence {
  readonly deliveryId: string;
  readonly attemptNo: number;
  readonly startedAt: number;
  readonly leaseUntil: number;
}
export interface OutcomeEvidence {
  readonly deliveryId: string;
  readonly attemptNo: number;
  readonly recordedAt: number;
  readonly outcome: string;
  readonly status: number | null;
  readonly movedTo: string | null;
}
export interface EventEvidence {
  readonly deliveryId: string;
  readonly state: string;
  readonly occurredAt: number;
  readonly announcedAt: number | null;
}

/** All that is known of one drill when it is over. */
export interface Evidence {
  readonly asked: readonly AskedReminder[];
  /** The name of the destination that was asked for. */
  readonly destination: string;
  readonly rows: readonly RowEvidence[];
  readonly attempts: readonly AttemptEvidence[];
  readonly outcomes: readonly OutcomeEvidence[];
  readonly events: readonly EventEvidence[];
  /** What came to the drill's own path, under whatever id. */
  readonly requests: readonly ReceivedRequest[];
  /** Each event on the bus about one of the rows: its id. */
  readonly announced: readonly string[];
  readonly endsIn: readonly string[];
  /** How long a request may take, by the settings. */
  readonly deadlineMs: number;
  readonly attemptHardCap: number;
}

export interface Verdict {
  /** Each broken promise, by name, with what shows it. */
  readonly broken: readonly string[];
  readonly requests: number;
  /** Requests beyond the first of each reminder. */
  readonly duplicates: number;
  /** Whether every request carried the key and the bytes that were asked for. */
  readonly sameKeyAndBytes: boolean;
  /** Delivery ids that exist anywhere: in rows, in answers, in requests. */
  readonly idsMinted: number;
}

const terminal = ['delivered', 'dead', 'expired', 'cancelled'];
const live = ['scheduled', 'dispatching', 'queued', 'delivering'];
const is2xx = (status: number | null): boolean => status !== null && status >= 200 && status < 300;

export function judgeDrill(evidence: Evidence): Verdict {
  const { asked, rows, requests } = evidence;
  const broken: string[] = [];
  const promise = (name: string, sentence: string, culprits: readonly string[]) => {
    if (culprits.length > 0) broken.push(`${name}: ${sentence}; got ${culprits.slice(0, 2).join(', ')}`);
  };
  const keyed = new Map(asked.map((one) => [one.key, one]));
  const ids = new Set([
    ...rows.map(({ deliveryId }) => deliveryId),
    ...asked.flatMap(({ toldIds }) => toldIds),
    ...requests.map(({ webhookId }) => webhookId),
  ]);
  broken.push(...byReceiver(evidence));
  promise(
    'P1 no loss',
    `each reminder ends ${evidence.endsIn.join(' or ')}`,
    asked.flatMap(({ key }) => {
      const row = rows.find((one) => one.key === key);
      return row === undefined ? [`no row for ${key}`] : evidence.endsIn.includes(row.state) ? [] : [row.state];
    }),
  );
  promise('P2 one identity', 'one id for a key, its destination and payload unchanged', [
    ...(ids.size === asked.length ? [] : [`${ids.size} ids for ${asked.length} keys: ${[...ids].join(' ')}`]),
    ...rows
      .filter(({ destination, payloadSha256, key }) => {
        return destination !== evidence.destination || payloadSha256 !== keyed.get(key)?.payloadSha256;
      })
      .map(({ deliveryId }) => `${deliveryId} with another destination or payload`),
  ]);
  for (const row of rows) judgeRow(row, evidence, promise);
  const misKeyed = requests.filter(
    ({ idempotencyKey, bodySha256 }) =>
      !keyed.has(idempotencyKey) || ![null, keyed.get(idempotencyKey)?.payloadSha256].includes(bodySha256),
  );
  promise(
    'P7 same key and bytes',
    'each attempt carries those that were asked for',
    misKeyed.map(({ no }) => `no. ${no}`),
  );
  return {
    broken,
    requests: requests.length,
    duplicates: Math.max(0, requests.length - new Set(requests.map(({ webhookId }) => webhookId)).size),
    sameKeyAndBytes: misKeyed.length === 0,
    idsMinted: ids.size,
  };
}

/** What the demo's verdict reads from the receiver's record: P1, P2, P5 and P10. */
function byReceiver({ asked, rows, requests, attempts }: Evidence): readonly string[] {
  const all = asked.map((one): Asked => {
    const row = rows.find(({ key }) => key === one.key);
    return {
      key: one.key,
      // It counts as one that must arrive when the ledger says that it did.
      part: row?.state === 'delivered' ? 'killed' : 'far',
      destination: 'partner',
      payloadText: '',
      payloadSha256: one.payloadSha256,
      userId: '',
      dueAt: one.dueAt,
      deliveryId: row?.deliveryId ?? '',
      cancelled: one.cancelled,
    };
  });
  const mayRepeat = new Set(all.map(({ deliveryId }) => deliveryId));
  return judge(all, requests, attempts, mayRepeat).broken;
}

type PromiseBreach = (name: string, sentence: string, culprits: readonly string[]) => void;

function judgeRow(row: RowEvidence, evidence: Evidence, promise: PromiseBreach): void {
  const own = <One extends { readonly deliveryId: string }>(all: readonly One[]) =>
    all.filter(({ deliveryId }) => deliveryId === row.deliveryId);
  const attempts = own(evidence.attempts).toSorted((a, b) => a.attemptNo - b.attemptNo);
  const outcomes = own(evidence.outcomes).toSorted((a, b) => a.recordedAt - b.recordedAt);
  const events = own(evidence.events);
  const requests = evidence.requests.filter(({ webhookId }) => webhookId === row.deliveryId);
  const attemptNos = (some: readonly { readonly attemptNo: number }[]) =>
    some.map(({ attemptNo }) => `attempt ${attemptNo}`);

  const firstEnd = Math.min(
    ...events.map(({ occurredAt }) => occurredAt),
    ...(terminal.includes(row.state) ? [row.stateSince] : []),
  );
  promise('P3 terminal means terminal', 'one end is announced, it is the row’s, and nothing is opened after it', [
    ...(terminal.includes(row.state) && !(events.length === 1 && events[0]?.state === row.state)
      ? [`state ${row.state} and events ${events.map(({ state }) => state).join(', ') || 'none'}`]
      : []),
    ...attemptNos(attempts.filter(({ startedAt }) => startedAt > firstEnd)),
  ]);
  const successes = outcomes.filter(({ outcome }) => outcome === 'delivered');
  promise('P4 delivered is proven', 'delivered has an outcome with a 2xx', [
    ...(row.state === 'delivered' && !successes.some(({ status }) => is2xx(status)) ? ['no such outcome'] : []),
  ]);
  // Both clocks are this machine's.
  promise('P6 one live lease', 'a request comes under a lease that outlasts its deadline, and leases do not overlap', [
    ...requests
      .filter(({ at }) => !attempts.some((one) => one.startedAt <= at && at + evidence.deadlineMs <= one.leaseUntil))
      .map(({ no }) => `request no. ${no}`),
    ...attemptNos(
      attempts.slice(1).filter(({ startedAt }, place) => {
        const before = attempts[place];
        const closed = outcomes.find(({ attemptNo }) => attemptNo === before?.attemptNo)?.recordedAt;
        return startedAt < Math.min(before?.leaseUntil ?? 0, closed ?? Number.POSITIVE_INFINITY);
      }),
    ),
  ]);
  promise('P8 a stale failure moves nothing, a stale success wins', 'outcomes move only what is theirs to move', [
    ...attemptNos(
      outcomes.filter(
        ({ outcome, movedTo, attemptNo, recordedAt }) =>
          movedTo !== null &&
          outcome !== 'delivered' &&
          attempts.some((later) => later.attemptNo > attemptNo && later.startedAt < recordedAt),
      ),
    ),
    ...(successes.length > 0 && row.state !== 'delivered' ? [`a success, and the row is ${row.state}`] : []),
  ]);
  const failed = outcomes.filter(({ outcome }) => !['delivered', 'not_sent', 'overtaken'].includes(outcome)).length;
  promise('P9 attempts are counted', 'every attempt has its number, none is above the cap, failures are outcomes', [
    ...(row.attemptNo !== attempts.length || attempts.some(({ attemptNo }, place) => attemptNo !== place + 1)
      ? [`${row.attemptNo} on the row and ${attempts.length} recorded`]
      : []),
    ...(row.attemptNo > evidence.attemptHardCap ? [`${row.attemptNo} attempts`] : []),
    ...(row.failures > failed ? [`${row.failures} failures and ${failed} failed outcomes`] : []),
  ]);
  promise('P10 never early, never after expiry', 'an attempt starts between due time and expiry', [
    ...attemptNos(
      attempts.filter(
        ({ startedAt }) => startedAt < row.dueAt || startedAt >= (row.expiresAt ?? Number.POSITIVE_INFINITY),
      ),
    ),
  ]);
  promise('P11 the calendar looks again', 'a live row has a time to wake', [
    ...(live.includes(row.state) && row.wakeAt === null ? [row.state] : []),
  ]);
  promise('P12 no request without an attempt', 'the receiver got at most one request an attempt', [
    ...(requests.length > attempts.length ? [`${requests.length} requests and ${attempts.length} attempts`] : []),
  ]);
  const eventIds = evidence.announced.filter((id) => id.startsWith(row.deliveryId));
  promise('announced', 'an end is announced, under one event id however often', [
    ...(terminal.includes(row.state) && new Set(eventIds).size !== 1 ? [`${new Set(eventIds).size} event ids`] : []),
  ]);
}

/** What the database says. */
export type Tables = Pick<Evidence, 'rows' | 'attempts' | 'outcomes' | 'events'>;

/** Reads the tables as they are: all reminders of one producer. */
export async function readTables(pool: pg.Pool, producer: string): Promise<Tables> {
  const ms = (column: string) => `CAST(extract(epoch FROM ${column}) * 1000 AS float8)`;
  const own = 'delivery_id IN (SELECT delivery_id FROM reminder_delivery WHERE producer = $1)';
  const read = async <Row extends pg.QueryResultRow>(sql: string) => (await pool.query<Row>(sql, [producer])).rows;
  return {
    rows: await read<RowEvidence>(
      `SELECT r.delivery_id AS "deliveryId", idempotency_key AS key, d.name AS destination,
              encode(sha256(convert_to(payload, 'UTF8')), 'hex') AS "payloadSha256", r.state,
              ${ms('r.state_since')} AS "stateSince", ${ms('due_at')} AS "dueAt", ${ms('expires_at')} AS "expiresAt",
              ${ms('wake_at')} AS "wakeAt", ${ms('archived_at')} AS "archivedAt", attempt_no AS "attemptNo", failures
       FROM reminder_delivery r JOIN destination d USING (destination_id) WHERE producer = $1`,
    ),
    attempts: await read<AttemptEvidence>(
      `SELECT delivery_id AS "deliveryId", attempt_no AS "attemptNo", ${ms('started_at')} AS "startedAt",
              ${ms('lease_until')} AS "leaseUntil" FROM delivery_attempt WHERE ${own}`,
    ),
    outcomes: await read<OutcomeEvidence>(
      `SELECT delivery_id AS "deliveryId", attempt_no AS "attemptNo", ${ms('recorded_at')} AS "recordedAt", outcome,
              status, moved_to AS "movedTo" FROM attempt_outcome WHERE ${own}`,
    ),
    events: await read<EventEvidence>(
      `SELECT delivery_id AS "deliveryId", state, ${ms('occurred_at')} AS "occurredAt",
              ${ms('announced_at')} AS "announcedAt" FROM lifecycle_event WHERE ${own}`,
    ),
  };
}
