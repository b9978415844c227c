// Chance that a seed decides and no order changes: the same question under the same seed has the same answer.
import { createHash } from 'node:crypto';

/** A number from 0 up to, and without, 1. @param about what is drawn for, such as a fault's kind and its place */
export function draw(seed: number, ...about: readonly (string | number)[]): number {
  return (
    createHash('sha256')
      .update(JSON.stringify([seed, ...about]))
      .digest()
      .readUInt32LE() /
    2 ** 32
  );
}

/** One of a list. */
export function pick<One>(list: readonly [One, ...One[]], seed: number, ...about: readonly (string | number)[]): One {
  return list[Math.floor(draw(seed, ...about) * list.length)] ?? list[0];
}
