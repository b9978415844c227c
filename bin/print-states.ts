// Prints the state machine into docs/architecture.md: its states, the diagram, and what every verb does in every situation.
import { readFileSync, writeFileSync } from 'node:fs';
import { type Cell, deliveryStates, situations, stateOf, type Verb, verbs } from '../lambdas/core/delivery-states.ts';
import { stateMeanings } from '../lambdas/core/state-meanings.ts';

/** The page that holds the printed part. */
export const statesPage = new URL('../docs/architecture.md', import.meta.url);

const begin = '<!-- printed by npm run states; edit lambdas/core/delivery-states.ts instead -->';
const end = '<!-- end of what npm run states prints -->';

const allVerbs = Object.entries<Verb>(verbs);

/**
 * The page with its printed part made anew; the rest stays as it is.
 * @throws {Error} when a marker is missing, so that there is no place to print to
 */
export function withStates(page: string): string {
  const [before, rest] = page.split(begin);
  const after = rest?.split(end)[1];
  if (before === undefined || after === undefined)
    throw new Error(`docs/architecture.md must hold "${begin}", "${end}"`);
  return [
    before,
    begin,
    '\n\n',
    [statesTable(), diagram(), matrix(), conditions()].join('\n\n'),
    '\n\n',
    end,
    after,
  ].join('');
}

function statesTable(): string {
  const rows = deliveryStates.map((state) => {
    const { meaning, afterCrash } = stateMeanings[state];
    return [`\`${state}\``, meaning, afterCrash];
  });
  return table(['state', 'what it means', 'what a crash leaves there'], rows);
}

/** The moves that a statement carries out today; those of verbs that come later stand in the matrix alone. */
function diagram(): string {
  const moves = new Map<string, Set<string>>();
  for (const [name, { statement, cells }] of allVerbs) {
    if (typeof statement !== 'string') continue;
    for (const situation of situations) {
      const { to, answer } = cells[situation];
      const from = stateOf(situation);
      // The verbs of the claim's statement all meet a silent sender; what they do then is one of them.
      const by = answer === 'recovered' ? 'recover' : name;
      for (const next of to) {
        const move = `${from} --> ${next}`;
        if (from !== next) moves.set(move, (moves.get(move) ?? new Set()).add(by));
      }
    }
  }
  const edges = [...moves].map(([move, by]) => `  ${move}: ${[...by].join(', ')}`);
  return ['```mermaid', 'stateDiagram-v2', '  [*] --> scheduled: schedule', ...edges, '```'].join('\n');
}

/** The row's tests are the group of the verb's name in matrix.test.ts. */
function matrix(): string {
  const rows = allVerbs.map(([name, { statement, cells }]) => [
    `\`${name}\``,
    ...(typeof statement === 'string'
      ? [
          `[\`${statement}\`](../lambdas/store/statements/${statement}.ts)`,
          `[\`${name}\`](../test/ledger/matrix.test.ts)`,
        ]
      : [`comes with ${statement.comesWith}`, '']),
    ...situations.map((situation) => cellText(cells[situation])),
  ]);
  return table(['verb', 'statement', 'test', ...situations], rows);
}

function conditions(): string {
  return table(
    ['verb', 'by', 'its row holds when'],
    allVerbs.map(([name, { by, when }]) => [`\`${name}\``, by, when]),
  );
}

function cellText({ to, answer }: Cell): string {
  return `${to.length === 0 ? '·' : `→${to.join(', ')}`} _${answer}_`;
}

/** Columns padded to their widest cell, as the formatter wants them. */
function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = head.map((title, column) => Math.max(title.length, ...rows.map((row) => row[column]?.length ?? 0)));
  const line = (cells: readonly string[], fill = ' ') =>
    `| ${widths.map((width, column) => (cells[column] ?? '').padEnd(width, fill)).join(' | ')} |`;
  return [line(head), line([], '-'), ...rows.map((row) => line(row))].join('\n');
}

if (import.meta.main) writeFileSync(statesPage, withStates(readFileSync(statesPage, 'utf8')));
