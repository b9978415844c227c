// Chance that a seed decides: the same seed draws the same numbers.
import { createHash } from 'node:crypto';
import { v7 } from 'uuid';

/** A stream of numbers drawn from a seed, by xoshiro128** (Blackman and Vigna, "Scrambled linear pseudorandom number generators"). */
export class Chance {
  readonly #state: Uint32Array;

  constructor(seed: string) {
    const hash = createHash('sha256').update(seed).digest();
    this.#state = Uint32Array.from({ length: 4 }, (_, place) => hash.readUInt32LE(place * 4));
  }

  /** 0 to 4,294,967,295. */
  bits(): number {
    const [a = 0, b = 0, c = 0, d = 0] = this.#state;
    const five = Math.imul(b, 5);
    const result = Math.imul((five << 7) | (five >>> 25), 9) >>> 0;
    const mixed = d ^ b;
    this.#state.set([a ^ mixed, b ^ c ^ a, c ^ a ^ (b << 9), (mixed << 11) | (mixed >>> 21)]);
    return result;
  }

  /** From `low` up to, and without, `high`. */
  between(low: number, high: number): number {
    return low + (this.bits() / 2 ** 32) * (high - low);
  }

  /** A whole number from `low` to `high`, both among them. */
  integer(low: number, high: number): number {
    return low + Math.floor(this.between(0, high - low + 1));
  }

  happens(probability: number): boolean {
    return this.between(0, 1) < probability;
  }

  pick<One>(list: readonly [One, ...One[]]): One {
    return list[this.integer(0, list.length - 1)] ?? list[0];
  }

  shuffled<One>(list: readonly One[]): One[] {
    return list
      .map((one) => ({ one, order: this.bits() }))
      .sort((left, right) => left.order - right.order)
      .map(({ one }) => one);
  }

  /** A UUID of version 7 of this virtual millisecond. */
  uuid(at: number): string {
    return v7({ msecs: Math.floor(at), random: Uint8Array.from({ length: 16 }, () => this.bits() & 0xff) });
  }
}
