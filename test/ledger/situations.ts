// Brings a reminder into any situation of the state machine, by INSERT, with the evidence that belongs to it.
import { createHash } from 'node:crypto';
import { v7 as uuid } from 'uuid';
import { type Situation, stateOf } from '../../lambdas/core/delivery-states.ts';
import type { TestLedger } from './test-ledger.ts';

export type Columns = Readonly<Record<string, unknown>>;

/** Under what circumstances a reminder is in its situation. Times are seconds from now, negative for the past. */
export interface Circumstances {
  /** @default -1, due */
  readonly dueIn?: number;
  /** When the calendar looks at a live row. @default -1 */
  readonly wakeIn?: number;
  /** @default never */
  readonly expiresIn?: number;
  /** Attempts opened so far; the last one is open where the situation is `delivering`. @default 1 there, else 0 */
  readonly attempts?: number;
  /** The gate is closed. @default false */
  readonly paused?: boolean;
  readonly destination?: { readonly state?: string; readonly contract?: string; readonly policy?: object };
  /** More columns of the row, over all others. */
  readonly columns?: Columns;
}

/** A reminder that was arranged. */
export interface Arranged {
  readonly deliveryId: string;
  readonly destinationId: string;
  readonly key: string;
  readonly dueAt: string;
  readonly attempts: number;
}

export const producer = 'product';

/** The token of the claim that holds a `dispatching` row. */
export const claimToken = '00000000-0000-7000-8000-00000000c1a1';
/** The token under which an attempt was opened. */
export const openToken = (attemptNo: number): string =>
  `00000000-0000-7000-8000-${String(attemptNo).padStart(12, '0')}`;

/** The instant so many seconds from now. */
export const inSeconds = (seconds: number): Date => new Date(Date.now() + seconds * 1000);

/** The columns that depend on the situation, as a row that needs none of them has them. */
const neutral: Columns = {
  wake_at: null,
  parked: false,
  hold_reason: null,
  cancel_requested_at: null,
  lease_owner: null,
  lease_until: null,
  delivered_at: null,
  archived_at: null,
  invitations: 0,
  first_invited_at: null,
};

interface Times {
  readonly wake: Date;
  readonly expiry: Date | null;
  readonly attempts: number;
}

const particular: Readonly<Record<Situation, (times: Times) => Columns>> = {
  shadow: ({ expiry }) => ({ wake_at: expiry }),
  held: ({ expiry }) => ({ wake_at: expiry, hold_reason: 'a person must look' }),
  scheduled: ({ wake }) => ({ wake_at: wake }),
  dispatching: ({ wake }) => ({
    wake_at: wake,
    lease_owner: claimToken,
    lease_until: inSeconds(60),
    invitations: 1,
  }),
  queued: ({ wake }) => ({ wake_at: wake, invitations: 1, first_invited_at: inSeconds(-1) }),
  'delivering, lease live': ({ wake, attempts }) => ({
    wake_at: wake,
    lease_owner: openToken(attempts),
    lease_until: inSeconds(60),
    invitations: 1,
    first_invited_at: inSeconds(-1),
  }),
  'delivering, lease past': ({ wake, attempts }) => ({
    wake_at: wake,
    lease_owner: openToken(attempts),
    lease_until: inSeconds(-1),
    invitations: 1,
    first_invited_at: inSeconds(-1),
  }),
  delivered: () => ({ delivered_at: inSeconds(-1) }),
  dead: () => ({}),
  expired: () => ({}),
  cancelled: () => ({ cancel_requested_at: inSeconds(-1) }),
};

/** Valid values for every column that the situation decides, and the state. */
export function columnsOf(situation: Situation, circumstances: Circumstances = {}): Columns {
  const { wakeIn = -1, expiresIn } = circumstances;
  const expiry = expiresIn === undefined ? null : inSeconds(expiresIn);
  const times = { wake: inSeconds(wakeIn), expiry, attempts: attemptsOf(situation, circumstances) };
  return {
    ...neutral,
    state: stateOf(situation),
    attempt_no: times.attempts,
    expires_at: expiry,
    ...particular[situation](times),
  };
}

function attemptsOf(situation: Situation, { attempts }: Circumstances): number {
  return attempts ?? (stateOf(situation) === 'delivering' ? 1 : 0);
}

/** Writes one reminder, its destination and its attempts, and sets the gate. */
export async function arrange(
  ledger: TestLedger,
  situation: Situation,
  circumstances: Circumstances = {},
): Promise<Arranged> {
  const deliveryId = uuid();
  const key = `key-${deliveryId}`;
  const destinationId = await ledger.destination(`to-${deliveryId}`, circumstances.destination);
  const due = inSeconds(circumstances.dueIn ?? -1);
  const payload = '{"text":"pay your bill"}';
  const attempts = attemptsOf(situation, circumstances);
  await insert(ledger, 'reminder_delivery', {
    delivery_id: deliveryId,
    producer,
    user_id: 'user-1',
    destination_id: destinationId,
    idempotency_key: key,
    request_fingerprint: 'v1.a.b.c.d.e',
    payload,
    payload_sha256: createHash('sha256').update(payload).digest(),
    created_by_command: uuid(),
    created_at: inSeconds(-3600),
    due_at: due,
    next_attempt_at: due,
    state_since: inSeconds(-30),
    ...columnsOf(situation, circumstances),
    ...circumstances.columns,
  });
  for (let attemptNo = 1; attemptNo <= attempts; attemptNo += 1) {
    await insert(ledger, 'delivery_attempt', {
      delivery_id: deliveryId,
      attempt_no: attemptNo,
      version: 1,
      lease_owner: openToken(attemptNo),
      lease_until: inSeconds(0),
      started_at: inSeconds(-60),
      destination_host: 'to.example',
      function_version: '1',
      request_id: 'request',
      log_stream: 'stream',
    });
  }
  if (circumstances.paused) {
    await ledger.sql('UPDATE dispatch_gate SET paused = true, paused_since = now()');
  }
  return { deliveryId, destinationId, key, dueAt: due.toISOString(), attempts };
}

/** Inserts a row of named columns. */
export async function insert({ sql }: Pick<TestLedger, 'sql'>, table: string, columns: Columns): Promise<void> {
  const places = Object.keys(columns).map((_, place) => `$${place + 1}`);
  await sql(
    `INSERT INTO ${table} (${Object.keys(columns).join(', ')}) VALUES (${places.join(', ')})`,
    Object.values(columns),
  );
}
