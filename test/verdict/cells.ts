// Every pair of a state and what may be on record beside it, which of them the table's CHECKs allow, and the evidence of each.
import { deliveryStates, terminalStates } from '../../lambdas/core/delivery-states.ts';
import type { RecordedAttempt, RecordedOutcome, ReminderEvidence } from '../../lambdas/core/reminder-evidence.ts';
import { settingsOf } from '../../lambdas/core/settings.ts';

export const settings = settingsOf('production');

/** The instant that the cells are judged at. */
export const now = Date.parse('2026-12-03T12:00:00.000Z');

/** The instant so many seconds later. */
export const later = (seconds: number): string => new Date(now + seconds * 1000).toISOString();

/** The dimensions of the table, in the order of its columns. */
export const dimensions = {
  state: deliveryStates,
  lease: ['none', 'alive', 'past'],
  attempt: ['none', 'open', 'unknown', 'failed', '2xx'],
  /** A receipt of the queue, also beside a message in the dead-letter queue. */
  trace: ['none', 'queue', 'dead'],
  /** All dispatch paused, or its destination. */
  dispatch: ['open', 'paused', 'parked'],
  /** Before it is due, after that, and after its expiry. */
  time: ['early', 'late', 'over'],
  cancel: ['no', 'yes'],
} as const;

export type Cell = { readonly [Name in keyof typeof dimensions]: (typeof dimensions)[Name][number] };

function allCells(): Cell[] {
  let cells: Record<string, string>[] = [{}];
  for (const [name, values] of Object.entries(dimensions)) {
    cells = cells.flatMap((cell) => values.map((value) => ({ ...cell, [name]: value })));
  }
  return cells as unknown as Cell[];
}

export const everyCell: readonly Cell[] = allCells();

/** The CHECKs of reminder_delivery that a cell would break: it cannot be there. test/ledger/explain.test.ts asks PostgreSQL. */
export function brokenChecks({ state, lease, attempt, cancel }: Cell): string[] {
  const leased = state === 'dispatching' || state === 'delivering';
  const mayWish = state === 'delivering' || state === 'delivered' || state === 'cancelled';
  const broken: [boolean, string][] = [
    [leased !== (lease !== 'none'), 'leased_states'],
    [state === 'delivering' && attempt === 'none', 'delivering_has_attempt'],
    [cancel === 'yes' && !mayWish, 'cancel_wish_is_open_or_done'],
  ];
  return broken.filter(([holds]) => holds).map(([, name]) => name);
}

export const possibleCells: readonly Cell[] = everyCell.filter((cell) => brokenChecks(cell).length === 0);

const outcomes: Readonly<
  Record<Cell['attempt'], Pick<RecordedOutcome, 'outcome' | 'status' | 'errorClass' | 'recordedBy'>[]>
> = {
  none: [],
  open: [],
  unknown: [{ outcome: 'unknown', status: null, errorClass: 'lease_expired', recordedBy: 'recover' }],
  failed: [{ outcome: 'retry', status: 503, errorClass: 'http_503', recordedBy: 'sender' }],
  '2xx': [{ outcome: 'delivered', status: 200, errorClass: null, recordedBy: 'sender' }],
};

/** The attempt of that number, half an hour ago. */
export function attemptOf(attemptNo: number, kind: Cell['attempt']): RecordedAttempt {
  return {
    attemptNo,
    version: 1,
    startedAt: later(-1800),
    leaseUntil: later(-1740),
    host: 'to.example',
    worker: { functionVersion: '7', requestId: `request-${attemptNo}`, logStream: '2026/12/03/[7]abc' },
    outcomes: outcomes[kind].map((outcome) => ({
      ...outcome,
      ...{ at: later(-1790), phase: 'headers', detail: null, latencyMs: 12, movedTo: null },
    })),
  };
}

/** The attempts of a cell: in `delivering` the last one is open. */
function attemptsOf({ state, attempt }: Cell): RecordedAttempt[] {
  const earlier = attempt === 'none' || attempt === 'open' ? [] : [attemptOf(1, attempt)];
  return attempt === 'open' || (state === 'delivering' && attempt !== 'none')
    ? [...earlier, attemptOf(earlier.length + 1, 'open')]
    : earlier;
}

const times = { early: [60, 86_400], late: [-900, 86_400], over: [-7200, -600] } as const;

/** What the ledger would hold, were a reminder in that cell; where the row says more, what it commonly says. */
export function evidenceOf(cell: Cell, more: Partial<ReminderEvidence> = {}): ReminderEvidence {
  const { state, lease, trace, dispatch, time } = cell;
  const [dueIn, expiresIn] = times[time];
  const attempts = attemptsOf(cell);
  const receipt = trace !== 'none';
  const flying = state === 'dispatching' || state === 'queued' || state === 'delivering';
  const forPerson = state === 'held' || state === 'dead';
  const wakeIn = flying ? (lease === 'past' ? -30 : Math.max(dueIn, 0) + 120) : dueIn - 180;
  const wakes = state === 'held' || state === 'shadow' ? expiresIn : wakeIn;
  return {
    readAt: later(0),
    deliveryId: '019b0000-0000-7000-8000-000000000001',
    key: 'bill-7',
    producer: 'billing',
    destination: {
      ...{ name: 'partner', owner: 'payments', contract: 'honours-key', dedupWindowSeconds: null },
      state: dispatch === 'parked' ? 'paused' : 'active',
      ...{ stateSince: later(-600), stateReason: dispatch === 'parked' ? 'maintenance' : null },
    },
    pause: dispatch === 'paused' ? { since: later(-600), reason: 'drill' } : null,
    state,
    // The receipt is what makes it queued.
    stateSince: later(state === 'scheduled' ? -86_400 : state === 'queued' ? dueIn - 100 : -30),
    version: 1,
    createdAt: later(-86_400),
    dueAt: later(dueIn),
    nextAttemptAt: later(dueIn),
    expiresAt: later(expiresIn),
    wakeAt: (terminalStates as readonly string[]).includes(state) ? null : later(wakes),
    parked: false,
    failures: attempts.length > 0 && cell.attempt !== 'open' ? 1 : 0,
    invitations: flying ? 1 : 0,
    firstInvitedAt: flying && receipt ? later(dueIn - 100) : null,
    lease:
      lease === 'none'
        ? null
        : { owner: '019b0000-0000-7000-8000-00000000c1a1', until: later(lease === 'alive' ? 30 : -30) },
    holdReason: state === 'held' ? 'outcome unknown' : null,
    cancelRequestedAt: cell.cancel === 'yes' ? later(-20) : null,
    reviewedAt: null,
    unreviewedSince: forPerson ? later(-30) : null,
    lastError: attempts.length > 0 ? 'http_503' : null,
    deliveredAt: state === 'delivered' ? later(-30) : null,
    archivedAt: null,
    attemptNo: attempts.length,
    handoffs: receipt
      ? [{ at: later(dueIn - 100), messageId: 'm-1', queue: 'invitations', visibleFrom: later(dueIn) }]
      : [],
    attempts,
    exclusions: [],
    deadLetter: trace === 'dead' ? 'seen' : 'not_seen',
    ...more,
  };
}
