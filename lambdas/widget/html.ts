// HTML as a tagged template: what is put into one is shown as text, never read as markup.
import { printable } from '../core/verdict-text.ts';

/** Finished HTML, which {@link html} alone makes. */
export class Html {
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
  }

  toString(): string {
    return this.#text;
  }
}

/** What may be put in: text, finished HTML, or a list of them; null is nothing. */
export type Part = string | number | Html | null | readonly Part[];

/** Attributes must stand in double quotes. What cannot be seen, or would turn a line around, is written out. */
export function html(markup: TemplateStringsArray, ...parts: readonly Part[]): Html {
  return new Html(
    markup.map((text, place) => text + (place < parts.length ? shown(parts[place] ?? null) : '')).join(''),
  );
}

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

function shown(part: Part): string {
  if (part === null) return '';
  if (part instanceof Html) return part.toString();
  if (Array.isArray(part)) return part.map(shown).join('');
  return printable(String(part)).replaceAll(/[&<>"']/g, (character) => entities[character] ?? '');
}
