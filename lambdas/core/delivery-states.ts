// The state machine: every state, every verb, and what each verb does to a reminder in each state.

/** The states of a reminder, in the order in which the tables below print them. */
export const deliveryStates = [
  'shadow',
  'held',
  'scheduled',
  'dispatching',
  'queued',
  'delivering',
  'delivered',
  'dead',
  'expired',
  'cancelled',
] as const;
export type DeliveryState = (typeof deliveryStates)[number];

/** States that no timer leaves. */
export const terminalStates = ['delivered', 'dead', 'expired', 'cancelled'] as const satisfies readonly DeliveryState[];

/** A state, with `delivering` split by whether its lease still lives: the columns of the matrix. */
export const situations = [
  'shadow',
  'held',
  'scheduled',
  'dispatching',
  'queued',
  'delivering, lease live',
  'delivering, lease past',
  'delivered',
  'dead',
  'expired',
  'cancelled',
] as const;
export type Situation = (typeof situations)[number];

/** The state a situation is about. */
export function stateOf(situation: Situation): DeliveryState {
  return situation.startsWith('delivering') ? 'delivering' : (situation as DeliveryState);
}

/** What a verb does in a situation: the states it may lead to (none: nothing moves), and what the caller is told. */
export interface Cell {
  readonly to: readonly DeliveryState[];
  readonly answer: string;
}

/** One row of the matrix. */
export interface Verb {
  readonly by: string;
  /** When the verb applies at all; the cells hold under this condition. */
  readonly when: string;
  /** The module in `lambdas/store/statements/` that carries it out, or what it will come with. */
  readonly statement: string | { readonly comesWith: string };
  readonly cells: Readonly<Record<Situation, Cell>>;
}

const to = (state: DeliveryState | readonly DeliveryState[], answer: string): Cell => ({
  to: typeof state === 'string' ? [state] : state,
  answer,
});
const stays = (answer: string): Cell => ({ to: [], answer });

/** One answer for every situation that `cells` does not name. */
function row(otherwise: Cell, cells: Partial<Record<Situation, Cell>>): Record<Situation, Cell> {
  return Object.fromEntries(situations.map((situation) => [situation, cells[situation] ?? otherwise])) as Record<
    Situation,
    Cell
  >;
}

const afterFailure = ['scheduled', 'dead', 'expired', 'held', 'cancelled'] as const;
const afterUnknown = ['cancelled', 'expired', 'held', 'dead', 'scheduled'] as const;
const absent = stays('absent');
/** Whoever cancels, a product or an operator. */
const calledOff = row(to('cancelled', 'cancelled'), {
  'delivering, lease live': stays('too_late'),
  'delivering, lease past': stays('too_late'),
  delivered: stays('finished'),
  expired: stays('finished'),
  cancelled: stays('cancelled'),
});

/** What of a reminder that is to be invited again goes on. */
const invitable = {
  shadow: stays('shadow'),
  held: stays('held'),
  scheduled: stays('scheduled'),
  queued: stays('republished'),
  'delivering, lease live': stays('leased'),
  'delivering, lease past': stays('abandoned'),
} as const;

/** Every state x every verb. SQL carries it out; the generated test compares each cell, rows and answers, on PostgreSQL. */
export const verbs = {
  claim: {
    by: 'claim',
    when: 'wake_at has passed, the destination is active, no pause, not expired',
    statement: 'claim',
    cells: row(absent, {
      scheduled: to('dispatching', 'claimed'),
      dispatching: to('dispatching', 'claimed'),
      queued: to('dispatching', 'claimed'),
      'delivering, lease past': to(afterUnknown, 'recovered'),
    }),
  },
  claimById: {
    by: 'schedule',
    when: 'wake_at has passed, the destination is active, no pause, not expired; the ids are named',
    statement: 'claim-by-id',
    cells: row(absent, { scheduled: to('dispatching', 'claimed') }),
  },
  recover: {
    by: 'claim',
    when: 'wake_at has passed',
    statement: 'claim',
    cells: row(absent, { 'delivering, lease past': to(afterUnknown, 'recovered') }),
  },
  expireByClaim: {
    by: 'claim',
    when: 'wake_at and expires_at have passed',
    statement: 'claim',
    cells: row(absent, {
      shadow: to('expired', 'expired'),
      held: to('expired', 'expired'),
      scheduled: to('expired', 'expired'),
      dispatching: to('expired', 'expired'),
      queued: to('expired', 'expired'),
      'delivering, lease past': to(['cancelled', 'expired'], 'recovered'),
    }),
  },
  park: {
    by: 'claim',
    when: 'wake_at has passed, the destination is not active',
    statement: 'claim',
    cells: row(absent, {
      scheduled: to('scheduled', 'parked'),
      dispatching: to('scheduled', 'parked'),
      queued: to('scheduled', 'parked'),
      'delivering, lease past': to(afterUnknown, 'recovered'),
    }),
  },
  unpark: {
    by: 'claim',
    when: 'parked, and the destination is active again',
    statement: 'unpark',
    cells: row(stays('0'), { scheduled: to('scheduled', '1') }),
  },
  enqueue: {
    by: 'claim, schedule',
    when: 'the queue accepted the invitation; own token',
    statement: 'enqueue',
    cells: row(stays('receipt_kept'), { dispatching: to('queued', 'queued') }),
  },
  release: {
    by: 'claim, schedule',
    when: 'the queue refused the invitation; own token',
    statement: 'release',
    cells: row(stays('0'), { dispatching: to('scheduled', '1') }),
  },
  open: {
    by: 'webhook-sender',
    when: 'due, not expired, not paused',
    statement: 'open',
    cells: row(stays('finished'), {
      shadow: stays('not_claimed'),
      held: stays('not_claimed'),
      scheduled: stays('not_claimed'),
      dispatching: to('delivering', 'opened'),
      queued: to('delivering', 'opened'),
      'delivering, lease live': stays('leased'),
      'delivering, lease past': stays('leased'),
      expired: stays('expired'),
    }),
  },
  expireByOpen: {
    by: 'webhook-sender',
    when: 'expires_at has passed',
    statement: 'open',
    cells: row(stays('finished'), {
      shadow: stays('not_claimed'),
      held: stays('not_claimed'),
      scheduled: stays('not_claimed'),
      dispatching: to('expired', 'expired'),
      queued: to('expired', 'expired'),
      'delivering, lease live': stays('leased'),
      'delivering, lease past': stays('leased'),
      expired: stays('expired'),
    }),
  },
  settleSuccess: {
    by: 'webhook-sender',
    when: 'a 2xx for an attempt that the ledger opened, whoever holds the lease now',
    statement: 'settle',
    cells: row(to('delivered', 'moved'), { shadow: stays('recorded'), delivered: stays('recorded') }),
  },
  settleFailure: {
    by: 'webhook-sender',
    when: 'anything but a 2xx; moves only under its own lease and attempt',
    statement: 'settle',
    cells: row(stays('recorded'), {
      'delivering, lease live': to(afterFailure, 'moved'),
      'delivering, lease past': to(afterFailure, 'moved'),
    }),
  },
  cancel: {
    by: 'product',
    when: 'always; while it is being sent the wish is kept and the answer says too late',
    statement: 'cancel',
    cells: calledOff,
  },
  cancelByOperator: {
    by: 'operator',
    when: 'with a reason; while it is being sent the wish is kept and the answer says too late',
    statement: 'decide',
    cells: calledOff,
  },
  reschedule: {
    by: 'product',
    when: 'another due time, the expected version, and no attempt unknown or open',
    statement: 'reschedule',
    cells: row(stays('finished'), {
      shadow: to('shadow', 'rescheduled'),
      held: stays('held'),
      scheduled: to('scheduled', 'rescheduled'),
      dispatching: to('scheduled', 'rescheduled'),
      queued: to('scheduled', 'rescheduled'),
      'delivering, lease live': stays('too_late'),
      'delivering, lease past': stays('too_late'),
    }),
  },
  hold: {
    by: 'operator',
    when: 'with a reason; not past its expiry, nor archived',
    statement: 'decide',
    cells: row(stays('finished'), {
      shadow: stays('shadow'),
      held: stays('held'),
      scheduled: to('held', 'held'),
      dispatching: to('held', 'held'),
      queued: to('held', 'held'),
      'delivering, lease live': stays('wait'),
      'delivering, lease past': stays('wait'),
      dead: to('held', 'held'),
    }),
  },
  requeue: {
    by: 'operator',
    when: 'with a reason and, where an attempt may have been received, evidence; past its expiry only with a new one',
    statement: 'decide',
    cells: row(stays('refused'), { dead: to('scheduled', 'requeued') }),
  },
  releaseHeld: {
    by: 'operator',
    when: 'with a reason and, where an attempt may have been received, evidence; past its expiry only with a new one',
    statement: 'decide',
    cells: row(stays('refused'), { held: to('scheduled', 'released') }),
  },
  resolve: {
    by: 'operator',
    when: 'with evidence that the receiver has it',
    statement: 'decide',
    cells: row(to('delivered', 'resolved'), {
      'delivering, lease live': stays('wait'),
      'delivering, lease past': stays('wait'),
      delivered: stays('finished'),
    }),
  },
  review: {
    by: 'operator',
    when: 'always',
    statement: 'decide',
    cells: row(stays('nothing_to_review'), { held: stays('reviewed'), dead: stays('reviewed') }),
  },
  reclaim: {
    by: 'operator',
    when: 'its lease has passed, and no pause keeps the claim from it; wake_at comes to now, and the claim does the rest',
    statement: 'reclaim',
    cells: row(stays('not_leased'), {
      dispatching: stays('reclaimed'),
      'delivering, lease live': stays('leased'),
      'delivering, lease past': stays('reclaimed'),
    }),
  },
  republish: {
    by: 'operator',
    when: 'it can be sent now, and an allowance has passed since its latest invitation; wake_at comes to now',
    statement: 'reclaim',
    cells: row(stays('finished'), { ...invitable, dispatching: stays('abandoned') }),
  },
  redrive: {
    by: 'operator',
    when: 'as republish, for what has a message in the dead-letter queue',
    statement: 'reclaim',
    cells: row(stays('finished'), { ...invitable, dispatching: stays('republished') }),
  },
  adopt: {
    by: 'migration',
    when: 'the cohort passed its gate',
    statement: { comesWith: 'the cut-over' },
    cells: row(stays('not a shadow'), { shadow: to(['scheduled', 'held'], 'adopted') }),
  },
  archive: {
    by: 'retain',
    when: 'written to the archive as it is, no attempt open, and no person must still decide; payload and evidence go',
    statement: 'archive',
    cells: row(stays('not_finished'), {
      delivered: stays('archived'),
      dead: stays('archived'),
      expired: stays('archived'),
      cancelled: stays('archived'),
    }),
  },
} as const satisfies Record<string, Verb>;
export type VerbName = keyof typeof verbs;

/** Every move from one state to another that some verb makes: what the database's guard must allow, and nothing else. */
export function allowedMoves(): [DeliveryState, DeliveryState][] {
  const moves = new Map<string, [DeliveryState, DeliveryState]>();
  for (const verb of Object.values<Verb>(verbs)) {
    for (const situation of situations) {
      const from = stateOf(situation);
      for (const next of verb.cells[situation].to) if (next !== from) moves.set(`${from} ${next}`, [from, next]);
    }
  }
  return [...moves.values()];
}
