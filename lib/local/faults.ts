// Faults planned for calls to come: which calls, how often, and what then goes wrong.
import { setTimeout as sleep } from 'node:timers/promises';
import type { ServiceAnswer, ServiceError } from './http-service.ts';

/** What every planned fault says. */
export interface PlannedFault {
  /** Only calls whose text matches: the SQL, a message's body, an event's detail. Default: any. */
  readonly match?: RegExp;
  /** How many calls it hits. @default 1 */
  readonly times?: number;
  /** How many calls that it could hit pass before: 2 lets the third one fail. @default 0 */
  readonly skip?: number;
}

/**
 * What can go wrong with a call of any service. `-before`: it has no effect. `-after`: it has its effect, and its caller
 * does not hear of it. `error`: an error is answered. `reset`: the connection breaks. `timeout`: no answer ever comes.
 * `twice`: it is carried out twice, and the second answer is given, as when a network sends a request again. `delay`: it
 * is kept back for `ms` and carried out then, whether or not its caller still waits.
 */
export type CallFaultKind =
  | 'error-before'
  | 'error-after'
  | 'reset-before'
  | 'reset-after'
  | 'timeout-before'
  | 'timeout-after'
  | 'twice'
  | 'delay';

/** A fault of a whole call. */
export interface CallFault extends PlannedFault {
  readonly kind: CallFaultKind;
  /**
   * Only calls that hold this text, such as a delivery id: in what is asked, or for what fails after its effect also in
   * what would be answered. @default any
   */
  readonly naming?: string;
  /** The error's name for `error-*`. @default the service's own for being unavailable */
  readonly error?: string;
  /** The error's message for `error-*`, such as `ERROR: …; SQLState: 40001`. */
  readonly message?: string;
  /** How long the call is kept back, for `delay`. @default 0 */
  readonly ms?: number;
}

const callFaultKinds: ReadonlySet<string> = new Set<CallFaultKind>([
  ...(['error-before', 'error-after', 'reset-before', 'reset-after'] as const),
  ...(['timeout-before', 'timeout-after', 'twice', 'delay'] as const),
]);

/** Whether a fault is one of a whole call, and not one that its service alone knows. */
export const isCallFault = <Fault extends { readonly kind?: string }>(fault: Fault): fault is Fault & CallFault =>
  callFaultKinds.has(fault.kind ?? '');

/**
 * Carries out a call of a service with whatever is planned for it.
 * @param call `text` is what `match` looks at, `request` all that was asked, `fits` which faults are for this operation
 * @param run the call itself
 * @param injected the error to answer for `error-*`
 */
export async function withFaults<Fault extends PlannedFault & { readonly kind?: string }>(
  faults: Faults<Fault>,
  call: { readonly text: string; readonly request: string; readonly fits?: (fault: Fault) => boolean },
  run: () => Promise<ServiceAnswer>,
  injected: (fault: CallFault) => ServiceError,
): Promise<ServiceAnswer> {
  const take = (after: boolean, told: () => string) => {
    const fault = faults.take(
      call.text,
      (one) =>
        isCallFault(one) &&
        (call.fits?.(one) ?? true) &&
        one.kind.endsWith('-after') === after &&
        (!one.naming || told().includes(one.naming)),
    );
    return fault !== undefined && isCallFault(fault) ? fault : undefined;
  };
  const before = take(false, () => call.request);
  if (before?.kind === 'reset-before') return null;
  if (before?.kind === 'timeout-before') return 'never';
  if (before?.kind === 'error-before') throw injected(before);
  if (before?.kind === 'delay') await sleep(before.ms ?? 0, undefined, { ref: false });
  if (before?.kind === 'twice') await run().catch(() => undefined);
  const answer = await run();
  const after = take(true, () => call.request + JSON.stringify(answer));
  if (after?.kind === 'reset-after') return null;
  if (after?.kind === 'timeout-after') return 'never';
  if (after?.kind === 'error-after') throw injected(after);
  return answer;
}

/** Faults in the order in which they were planned; each call takes the first that fits it and lets no more pass. */
export class Faults<Fault extends PlannedFault> {
  #planned: { readonly fault: Fault; left: number; skip: number }[] = [];
  readonly #taken = new WeakMap<Fault, readonly number[]>();

  /** Plans a fault. Answers how to take it away before it is used up. */
  next(fault: Fault): () => void {
    const planned = { fault, left: fault.times ?? 1, skip: fault.skip ?? 0 };
    this.#planned.push(planned);
    return () => this.#drop(planned);
  }

  /** When calls took a fault, epoch milliseconds. Empty: none has, and whoever planned it has tried nothing. */
  taken(fault: Fault): readonly number[] {
    return this.#taken.get(fault) ?? [];
  }

  /** Takes away all that is planned. */
  clear(): void {
    this.#planned = [];
  }

  /** Uses up one of the first fault that fits `text`. @param fits which faults the call can have @default all */
  take(text: string, fits: (fault: Fault) => boolean = () => true): Fault | undefined {
    for (const planned of this.#planned) {
      const { fault } = planned;
      if (!fits(fault) || !(fault.match?.test(text) ?? true)) continue;
      // A call that passes here may still be hit by what was planned later.
      if (planned.skip-- > 0) continue;
      planned.left -= 1;
      this.#taken.set(fault, [...this.taken(fault), Date.now()]);
      if (planned.left <= 0) this.#drop(planned);
      return fault;
    }
    return undefined;
  }

  #drop(gone: { readonly fault: Fault }): void {
    this.#planned = this.#planned.filter((planned) => planned !== gone);
  }
}
