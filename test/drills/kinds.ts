// The kinds of fault that a call to the outside can meet, and what a call needs so that a drill can run into it.
import { setTimeout as sleep } from 'node:timers/promises';
import type { FaultPlan } from '../../lib/local/fault-plans.ts';
import type { CallFaultKind } from '../../lib/local/faults.ts';
import type { Cell, Reminder } from './cell.ts';
import type { BoundName, Drill } from './drill.ts';

/** What goes wrong with a call. */
export const kinds = {
  'error before': { front: 'error-before', what: 'is answered with an error each time it is tried, without effect' },
  'error after': { front: 'error-after', what: 'has its effect and is answered with an error each time' },
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

/** Plans a fault of a kind: a service's or a process's. */
export function strike(
  cell: Cell,
  kind: Kind,
  by: {
    /** Plans it at the service. `fault` lacks only what chooses the call. */
    readonly front: (fault: { kind: CallFaultKind; times: number; ms?: number }) => void;
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

/** A life by the short way: scheduled far ahead, so that its id is known, then moved close to due. */
export async function nearLife(cell: Cell, planFault: (reminder: Reminder) => void): Promise<Reminder> {
  const reminder = await cell.schedule();
  planFault(reminder);
  await cell.bringNear(reminder);
  return reminder;
}

/** Waits until a reminder is due. */
export const untilDue = ({ dueAt }: Reminder): Promise<void> => sleep(Math.max(0, dueAt - Date.now()) + 20);
