// One mutant: a file of the product with one change, and that file's text.
import { readFileSync } from 'node:fs';

export const repository = new URL('../../', import.meta.url);

/** One file of the product with one change. */
export interface Mutant {
  /** Unique, and the same as long as the condition is: subject, place in it, condition, and what stands instead. */
  readonly name: string;
  /** The statement, SQL function, trigger, table or TypeScript file that is changed: decides which tests run. */
  readonly subject: string;
  /** The file's path in the repository. */
  readonly file: string;
  /** From and to which character of the file. */
  readonly from: number;
  readonly to: number;
  readonly instead: string;
}

/** The text of a file, by its path in the repository. */
export function read(file: string): string {
  return readFileSync(new URL(file, repository), 'utf8');
}

/** Where a text begins in another that holds it once. */
export function onlyPlace(whole: string, part: string, file: string): number {
  const place = whole.indexOf(part);
  if (place < 0 || whole.indexOf(part, place + 1) >= 0) {
    throw new Error(`${file}: holds ${place < 0 ? 'nowhere' : 'more than once'}: ${part.trim().slice(0, 80)}`);
  }
  return place;
}

/** A file's text with the mutant's change in it. */
export function mutated({ file, from, to, instead }: Omit<Mutant, 'name' | 'subject'>): string {
  const text = read(file);
  return text.slice(0, from) + instead + text.slice(to);
}
