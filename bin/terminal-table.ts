// Tables and lines for a terminal of 100 columns: what is wide counts as wide, and what comes from outside is escaped.
import { styleText } from 'node:util';
import stringWidth from 'string-width';
import { printable, textColumns } from '../lambdas/core/verdict-text.ts';

const gap = 2;
const narrowest = 8;
const graphemes = new Intl.Segmenter();

/** How the words for standings look, where there is colour. */
const styles: Readonly<Record<string, Parameters<typeof styleText>[0]>> = {
  ...{ active: 'green', delivered: 'green' },
  ...{ held: 'yellow', paused: 'yellow', parked: 'yellow' },
  ...{ dead: 'red', disabled: 'red', broken: 'red' },
};

/** The word in its colour, on a terminal that has some and wants it. */
export function coloured(word: string, padded: string = word): string {
  const style = styles[word];
  return style === undefined ? padded : styleText(style, padded);
}

/**
 * Columns padded to their widest cell. Where all together are wider than the terminal, cells are broken into lines.
 * @param whole columns, by their titles, whose cells people copy: they are never broken
 */
export function table(
  head: readonly string[],
  rows: readonly (readonly string[])[],
  whole: readonly string[] = ['reminder'],
): string {
  const cells = rows.map((row) => row.map(printable));
  const widths = fitted(
    head.map((title, column) => Math.max(stringWidth(title), ...cells.map((row) => stringWidth(row[column] ?? '')))),
    head.map((title) => whole.includes(title)),
  );
  const titles = linesOf(head, widths).map((line) => styleText('bold', line));
  return [...titles, ...cells.flatMap((row) => linesOf(row, widths, head.indexOf('state')))].join('\n');
}

/** The widest gives way until all have room. */
function fitted(wanted: readonly number[], whole: readonly boolean[]): number[] {
  const widths = [...wanted];
  const sum = () => widths.reduce((total, width) => total + width, (widths.length - 1) * gap);
  while (sum() > textColumns) {
    const room = Math.max(...widths.filter((_, column) => !whole[column]));
    if (room <= narrowest) break;
    widths[widths.findIndex((width, column) => width === room && !whole[column])] = room - 1;
  }
  return widths;
}

function linesOf(row: readonly string[], widths: readonly number[], inColour = -1): string[] {
  const broken = row.map((cell, column) => wrap(cell, widths[column] ?? narrowest));
  const height = Math.max(...broken.map(({ length }) => length));
  return Array.from({ length: height }, (_, line) => {
    const parts = broken.map((lines, column) => {
      const part = lines[line] ?? '';
      const padded = column === broken.length - 1 ? part : part + ' '.repeat((widths[column] ?? 0) - stringWidth(part));
      return column === inColour ? coloured(part, padded) : padded;
    });
    return parts.join(' '.repeat(gap)).trimEnd();
  });
}

/** Printable text in lines of so many columns, broken at a space where there is one. */
export function wrap(text: string, columns: number = textColumns): string[] {
  const lines: string[] = [];
  let line = '';
  for (const { segment } of graphemes.segment(printable(text))) {
    if (stringWidth(line + segment) > columns) {
      const space = line.lastIndexOf(' ');
      const cut = space > 0 ? space : line.length;
      lines.push(line.slice(0, cut).trimEnd());
      line = line.slice(cut).trimStart();
      if (line === '' && segment === ' ') continue;
    }
    line += segment;
  }
  return [...lines, line];
}
