// Virtual time and what happens in it: events in the order of their times, and a trace of all that was done.
import { createHash } from 'node:crypto';
import { Chance } from './chance.ts';

/** One line of the trace. */
export interface TraceLine {
  readonly at: number;
  readonly who: string;
  readonly text: string;
}

interface Planned {
  readonly at: number;
  readonly order: number;
  readonly work: () => void | Promise<void>;
}

/** When a run begins, virtual time: a moment far from today, so that a real clock read by mistake shows. */
const beginning = Date.UTC(2040, 0, 1);

/** One run's world: nothing in it happens but by its events, one at a time. */
export class World {
  readonly beginning = beginning;
  /** Virtual milliseconds since the epoch, in eighths, which a double and a timestamp both hold. True, and the database's. */
  at = beginning;
  /** How much of that time nothing was done. */
  leaptMs = 0;
  readonly trace: TraceLine[] = [];
  readonly #seed: string;
  readonly #streams = new Map<string, Chance>();
  #planned: Planned[] = [];
  readonly #hash = createHash('sha256');
  #order = 0;

  constructor(seed: string) {
    this.#seed = seed;
  }

  /** The chance of one concern: a stream of its own, so that a draw more for one of them changes nothing of the others. */
  chanceOf(concern: string): Chance {
    const known = this.#streams.get(concern);
    if (known !== undefined) return known;
    const stream = new Chance(`${this.#seed} ${concern}`);
    this.#streams.set(concern, stream);
    return stream;
  }

  /** Does `work` after so many virtual milliseconds; what is planned for one moment comes in the order of planning. */
  after(ms: number, work: Planned['work']): void {
    const at = Math.ceil((this.at + Math.max(0, ms)) * 8) / 8;
    this.#order += 1;
    // Latest first: the next one is taken from the end.
    let low = 0;
    let high = this.#planned.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#planned[middle]?.at ?? 0) > at) low = middle + 1;
      else high = middle;
    }
    this.#planned.splice(low, 0, { at, order: this.#order, work });
  }

  /** Lets much time pass in which nothing is done: what is still planned comes as long after it as before. */
  leap(ms: number): void {
    this.leaptMs += ms;
    this.at += ms;
    this.#planned = this.#planned.map((planned) => ({ ...planned, at: planned.at + ms }));
    this.note('world', `${ms / 86_400_000} days pass`);
  }

  /** Writes a line of the trace: every line goes into the hash that tells two runs apart. */
  note(who: string, text: string): void {
    this.trace.push({ at: this.at, who, text });
    this.#hash.update(`${this.at} ${who} ${text}\n`);
  }

  /** The hash of the trace so far. */
  hash(): string {
    return this.#hash.copy().digest('hex');
  }

  /** Does what is planned, in order, until nothing is left or `until` says that it is enough. */
  async run(until: () => boolean): Promise<void> {
    for (let next = this.#planned.pop(); next !== undefined; next = this.#planned.pop()) {
      this.at = next.at;
      await next.work();
      // Lets all that the event woke go on until it waits for another one.
      await new Promise((resolve) => setImmediate(resolve));
      if (until()) return;
    }
  }
}
