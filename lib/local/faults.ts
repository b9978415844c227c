// Faults planned for calls to come: which calls, how often, and what then goes wrong.

/** What every planned fault says. */
export interface PlannedFault {
  /** Only calls whose text matches: the SQL, a message's body, an event's detail. Default: any. */
  readonly match?: RegExp;
  /** How many calls it hits. @default 1 */
  readonly times?: number;
}

/** Faults in the order in which they were planned; each call takes the first that fits it. */
export class Faults<Fault extends PlannedFault> {
  #planned: { readonly fault: Fault; left: number }[] = [];

  /** Plans a fault. Answers how to take it away before it is used up. */
  next(fault: Fault): () => void {
    const planned = { fault, left: fault.times ?? 1 };
    this.#planned.push(planned);
    return () => this.#drop(planned);
  }

  /** Takes away all that is planned. */
  clear(): void {
    this.#planned = [];
  }

  /** Uses up one of the first fault that fits `text`. @param fits which faults the call can have @default all */
  take(text: string, fits: (fault: Fault) => boolean = () => true): Fault | undefined {
    const planned = this.#planned.find(({ fault }) => fits(fault) && (fault.match?.test(text) ?? true));
    if (planned === undefined) return undefined;
    planned.left -= 1;
    if (planned.left <= 0) this.#drop(planned);
    return planned.fault;
  }

  #drop(gone: { readonly fault: Fault }): void {
    this.#planned = this.#planned.filter((planned) => planned !== gone);
  }
}
