// The kinds of fault that a call to the outside can meet, and what a call needs so that a drill can run into it.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Statement } from '../../lambdas/store/statement.ts';
import type { FaultPlan } from '../../lib/local/fault-plans.ts';
import type { CallFaultKind } from '../../lib/local/faults.ts';
import type { Cell, Reminder } from './cell.ts';
import type { BoundName, Drill } from './drill.ts';

/** What goes wrong with a call. */
export const kinds = {
  'error before': { front: 'error-before', what: 'is answered with an error each time it is tried, without effect' },
  'error after': { front: 'error-after', what: 'has its effect and is answered with an error each time' },
  'reset before': { front: 'reset-before', what: 'has no effect: its connection is reset each time it is tried' },
  'reset after': { front: 'reset-after', what: 'has its effect, and its connection is reset instead of an answer' },
  'time-out with effect': { front: 'timeout-after', what: 'has its effect and no answer comes' },
  'time-out without effect': { front: 'timeout-before', what: 'is swallowed: no effect and no answer' },
  'run twice': { front: 'twice', what: 'is carried out twice for one asking' },
  'slow past the lease': {
    front: 'delay',
    what: 'is carried out later than a lease lasts, when nobody waits any more',
  },
  'kill before': { at: 'before', what: 'never happens: its process is killed right before' },
  'kill after': { at: 'after', what: 'happens, and its process is killed before it can act on the answer' },
} as const satisfies Record<string, { what: string } & ({ front: CallFaultKind } | { at: FaultPlan['at'] })>;
export type Kind = keyof typeof kinds;

/** A call to the outside, and how a drill runs into it. */
export interface Call {
  readonly name: string;
  /** The fault points at which it stops a process, by kind. */
  readonly points: Readonly<Partial<Record<Kind, string>>>;
  readonly promises: readonly string[];
  /** How each kind is overcome. A sentence instead: why the pair makes no sense. */
  readonly bounds: Readonly<Record<Kind, BoundName | { readonly noSense: string }>>;
  /** Its kind in the fast subset. */
  readonly fast: Kind;
  readonly endsIn?: readonly string[];
  readonly until?: Drill['until'];
  /** Lives a reminder's life, and calls `strike` right before the call in question can happen. */
  readonly run: (cell: Cell, kind: Kind) => Promise<unknown>;
}

/** Both kills stand at one point. */
export const killedAt = (point: string): Call['points'] => ({ 'kill before': point, 'kill after': point });

/** The same bound for every kind but those that are named. */
export const all = (bound: BoundName, others: Partial<Call['bounds']> = {}): Call['bounds'] => ({
  'error before': bound,
  'error after': bound,
  'reset before': bound,
  'reset after': bound,
  'time-out with effect': bound,
  'time-out without effect': bound,
  'run twice': bound,
  'slow past the lease': bound,
  'kill before': bound,
  'kill after': bound,
  ...others,
});

/** What a drill plans at a service; it lacks only what chooses the call. */
export interface PlannedKind {
  readonly kind: CallFaultKind;
  readonly times: number;
  readonly ms?: number;
}

/** Plans a fault of a kind: a service's or a process's. */
export function strike(
  cell: Cell,
  kind: Kind,
  by: {
    /** Plans it at the service. */
    readonly front: (fault: PlannedKind) => void;
    readonly point: Pick<FaultPlan, 'point' | 'functionName' | 'deliveryId'>;
    readonly plans?: Parameters<Cell['plan']>[1];
  },
): void {
  const chosen = kinds[kind];
  if ('at' in chosen) {
    cell.plan({ ...by.point, at: chosen.at, action: { kind: 'kill' } }, by.plans);
    return;
  }
  // A command is tried twice, by us or by the SDK: a fault that hits one try alone would be mended unseen.
  const times = chosen.front === 'twice' ? 1 : 2;
  const late = chosen.front === 'delay' ? { ms: (cell.settings.leaseSeconds + 1) * 1000 } : {};
  by.front({ kind: chosen.front, times, ...late });
}

/** Which passages or calls of a statement a fault is for. */
interface Chosen {
  /** Of which function. @default any */
  readonly functionName?: string;
  /** What its parameters, or later its answer, must hold. @default any */
  readonly naming?: string;
  readonly deliveryId?: string;
  /** Where the plans lie that its process looks for. @default the stage's */
  readonly plans?: Parameters<Cell['plan']>[1];
}

/** Plans a fault of a statement. */
export function atStatement(
  cell: Cell,
  kind: Kind,
  { name, text }: Statement<never, unknown>,
  { naming, plans, ...chosen }: Chosen,
): void {
  const match = new RegExp(RegExp.escape(text));
  strike(cell, kind, {
    front: (fault) =>
      cell.fault(cell.stage.aws.dataApi.faults, { ...fault, match, ...(naming === undefined ? {} : { naming }) }),
    point: { point: name as FaultPlan['point'], ...chosen },
    ...(plans === undefined ? {} : { plans }),
  });
}

/** For a statement that names a reminder. */
export const named = ({ deliveryId }: Reminder) => ({ naming: deliveryId, deliveryId });
/** For a call whose messages name a reminder. */
export const about = ({ deliveryId }: Reminder) => new RegExp(deliveryId);

/** The queue refuses a reminder's message until its call is given up. */
export function refuse(cell: Cell, reminder: Reminder): void {
  cell.fault(cell.stage.aws.queue.faults, { kind: 'error-before', match: about(reminder), times: 2 });
}

/** Plans a fault of the call that hands a reminder's message to the queue. */
export function atSending(cell: Cell, kind: Kind, functionName: string, reminder: Reminder): void {
  strike(cell, kind, {
    front: (fault) => cell.fault(cell.stage.aws.queue.faults, { ...fault, match: about(reminder) }),
    point: { point: 'send-message-batch', functionName, deliveryId: reminder.deliveryId },
  });
}

/** A life by the short way: scheduled far ahead, so that its id is known, then moved close to due. */
export async function nearLife(cell: Cell, planFault: (reminder: Reminder) => void): Promise<Reminder> {
  const reminder = await cell.schedule();
  planFault(reminder);
  await cell.bringNear(reminder);
  return reminder;
}

/** Waits until a reminder is due. */
export const untilDue = ({ dueAt }: Reminder): Promise<void> => sleep(Math.max(0, dueAt - Date.now()) + 20);

/** A reminder's message as the event source hands it to a sender. */
export const invitationOf = ({ deliveryId }: Reminder) => ({ Records: [{ messageId: '0', body: bodyOf(deliveryId) }] });

/** The text of a message. @param notBefore epoch milliseconds; a hint that may be wrong @default 0 */
export const bodyOf = (deliveryId: string, notBefore = 0): string =>
  JSON.stringify({ v: 1, delivery_id: deliveryId, not_before: notBefore });
