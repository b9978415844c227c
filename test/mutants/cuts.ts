// Cuts out of SQL: every condition of a text that PostgreSQL's own parser reads, and what takes its place when it is dropped.
import { loadModule, parseSync, scanSync } from 'libpg-query';

await loadModule();

/** A place in a text, in characters, and what stands there instead. */
export interface Cut {
  /** What part of the text the condition belongs to, such as `candidate where`. */
  readonly place: string;
  /** The condition as it is written, on one line and without comments. */
  readonly condition: string;
  readonly from: number;
  readonly to: number;
  readonly instead: string;
}

/** Any node of a syntax tree: the parser's JSON. */
type Tree = { readonly [key: string]: unknown };

interface Found {
  readonly path: readonly (string | number)[];
  readonly place: string;
  readonly instead: string;
}

/**
 * The conditions of a text, each once: conjuncts of WHERE, ON, CHECK and of any other AND become `true`, alternatives of an
 * OR `false`, a WHEN never applies, and a value of an IN list becomes another of its values.
 * @param sql ASCII, with `:name` parameters or without
 * @throws {Error} when the parser does not understand the text, or a condition's place in it cannot be proven
 */
export function cutsOf(sql: string): Cut[] {
  const text = new SourceText(sql);
  // A join `ON true` has no condition to drop.
  return conditionsIn(text.tree)
    .map((found) => text.cut(found))
    .filter(({ condition, instead }) => condition !== instead);
}

/** Whether a text inserts, updates or deletes, in any of its parts. */
export function isWriting(sql: string): boolean {
  return /"(InsertStmt|UpdateStmt|DeleteStmt|MergeStmt)":/.test(JSON.stringify(new SourceText(sql).tree));
}

/** The `:name` parameters of a text: their places with the colon. */
function* namesIn(sql: string): Generator<{ name: string; start: number; end: number }> {
  const tokens = scanSync(sql).tokens;
  for (const [place, { start, text: colon }] of tokens.entries()) {
    const next = tokens[place + 1];
    if (colon === ':' && next?.start === start + 1) yield { name: next.text, start, end: next.end };
  }
}

/** A text with each `:name` as `$1`, `$2` and so on, as PREPARE wants it. */
export function numbered(sql: string): string {
  const found = [...namesIn(sql)];
  const names = [...new Set(found.map(({ name }) => name))];
  return found.toReversed().reduce((text, { name, start, end }) => {
    return `${text.slice(0, start)}$${names.indexOf(name) + 1}${text.slice(end)}`;
  }, sql);
}

/** A text with each `:name`, which is no SQL, as `$1`, as long as it was: so every position stands. */
function withoutNames(sql: string): string {
  return [...namesIn(sql)].reduce(
    (text, { start, end }) => text.slice(0, start) + '$1'.padEnd(end - start) + text.slice(end),
    sql,
  );
}

class SourceText {
  readonly tree: Tree;
  readonly #sql: string;
  readonly #parsed: string;
  readonly #tokens: readonly { start: number; end: number }[];

  constructor(sql: string) {
    if (Buffer.byteLength(sql) !== sql.length) {
      throw new Error(`SQL: got a letter beyond ASCII, and the parser counts bytes; write ASCII: ${sql.slice(0, 60)}`);
    }
    this.#sql = sql;
    this.#parsed = withoutNames(sql);
    this.tree = parseSync(this.#parsed) as unknown as Tree;
    const ends = new Map([...namesIn(sql)].map(({ start, end }) => [start, end]));
    this.#tokens = scanSync(this.#parsed)
      .tokens.filter(({ tokenName }) => !tokenName.includes('COMMENT'))
      .map(({ start, end }) => ({ start, end: ends.get(start) ?? end }));
  }

  /**
   * The parser tells where a node begins, or where its operator stands, and nowhere where it ends. So its place is the
   * shortest run of tokens around these positions in whose stead the parser reads the same tree, but for this one node.
   */
  cut({ path, place, instead }: Found): Cut {
    const positions = [...positionsIn(at(this.tree, path))];
    const expected = JSON.stringify(bare(replaced(this.tree, path, constantOf(instead))));
    const last = this.#tokens.findIndex(({ start }) => start === Math.max(...positions));
    for (let first = this.#tokens.findIndex(({ start }) => start === Math.min(...positions)); first >= 0; first -= 1) {
      for (let end = last; end < last + longestTail; end += 1) {
        const [from, to] = [this.#tokens[first]?.start, this.#tokens[end]?.end];
        if (from === undefined || to === undefined) break;
        if (!isBalanced(this.#parsed.slice(from, to))) continue;
        if (readsAs(this.#parsed.slice(0, from) + instead + this.#parsed.slice(to), expected)) {
          return { place, condition: this.#onOneLine(first, end), from, to, instead };
        }
      }
      // Nothing but parentheses may stand before a node's first position.
      if (this.#parsed[this.#tokens[first - 1]?.start ?? 0] !== '(') break;
    }
    const near = Math.min(...positions);
    throw new Error(`SQL: no place found for the condition near ${near}: ${this.#sql.slice(near, near + 60)}`);
  }

  #onOneLine(first: number, end: number): string {
    let line = '';
    for (let place = first; place <= end; place += 1) {
      const { start, end: stop } = this.#tokens[place] ?? { start: 0, end: 0 };
      const gap = place > first && start > (this.#tokens[place - 1]?.end ?? start);
      line += (gap ? ' ' : '') + this.#sql.slice(start, stop);
    }
    return line;
  }
}

/** How many tokens may follow a node's last position, as in `x IS NOT NULL))`. */
const longestTail = 12;

function conditionsIn(tree: Tree): Found[] {
  const found: Found[] = [];
  const condition = (node: unknown, path: readonly (string | number)[], place: string, instead: string) => {
    // An AND is dropped conjunct by conjunct, where the walk meets it.
    if (boolean(node)?.boolop !== 'AND_EXPR') found.push({ path, place, instead });
  };
  const walk = (node: unknown, path: readonly (string | number)[], place: string): void => {
    if (Array.isArray(node)) {
      for (const [index, item] of node.entries()) walk(item, [...path, index], place);
      return;
    }
    if (typeof node !== 'object' || node === null) return;
    for (const [key, value] of Object.entries(node as Tree)) {
      const under = [...path, key];
      let inside = place;
      if (key === 'CommonTableExpr') inside = String((value as Tree).ctename);
      if (key === 'ResTarget') inside = named(place, (value as Tree).name ?? 'answer');
      if (key === 'Constraint') inside = named('check', (value as Tree).conname ?? '');
      const clause = clauses[key];
      if (clause !== undefined) {
        inside = named(place, clause);
        condition(value, under, inside, 'true');
      }
      if (key === 'BoolExpr' && (value as Tree).boolop !== 'NOT_EXPR') {
        const or = (value as Tree).boolop === 'OR_EXPR';
        const args = (value as { args: unknown[] }).args;
        args.forEach((arg, index) => {
          // One AND inside another's parentheses is dropped by its own conjuncts.
          if (or || boolean(arg)?.boolop !== 'AND_EXPR') {
            found.push({ path: [...under, 'args', index], place: or ? `${inside} or` : inside, instead: String(!or) });
          }
        });
      }
      if (key === 'A_Expr' && (value as Tree).kind === 'AEXPR_IN') {
        const values = (at(value, ['rexpr', 'List', 'items']) as Tree[]).map((item) =>
          at(item, ['A_Const', 'sval', 'sval']),
        );
        values.forEach((one, index) => {
          const other = values.find((candidate) => candidate !== one);
          const itemPath = [...under, 'rexpr', 'List', 'items', index];
          if (other !== undefined) found.push({ path: itemPath, place: `${inside} in`, instead: `'${other}'` });
        });
      }
      if (key === 'CaseExpr') {
        const simple = (value as Tree).arg !== undefined;
        const arms = (value as { args: unknown[] }).args;
        arms.forEach((_, index) => {
          const instead = simple ? 'NULL' : 'false';
          found.push({ path: [...under, 'args', index, 'CaseWhen', 'expr'], place: `${inside} when`, instead });
        });
      }
      if (key === 'Constraint' && (value as Tree).contype === 'CONSTR_CHECK') {
        condition((value as Tree).raw_expr, [...under, 'raw_expr'], inside, 'true');
      }
      walk(value, under, inside);
    }
  };
  walk(tree, [], '');
  return found;
}

const clauses: Readonly<Record<string, string>> = {
  whereClause: 'where',
  quals: 'on',
  whenClause: 'when',
  agg_filter: 'filter',
};

const named = (place: string, name: unknown) => [place, name].filter(Boolean).join(' ');

const boolean = (node: unknown) => (node as { BoolExpr?: { boolop: string } } | null)?.BoolExpr;

function* positionsIn(node: unknown): Generator<number> {
  if (typeof node !== 'object' || node === null) return;
  for (const [key, value] of Object.entries(node)) {
    if (key === 'location' && typeof value === 'number' && value >= 0) yield value;
    else yield* positionsIn(value);
  }
}

function at(tree: unknown, path: readonly (string | number)[]): unknown {
  return path.reduce((node, key) => (node as Record<string | number, unknown> | undefined)?.[key], tree);
}

function replaced(tree: unknown, path: readonly (string | number)[], node: unknown): unknown {
  const [key, ...rest] = path;
  if (key === undefined) return node;
  const copy = (Array.isArray(tree) ? [...tree] : { ...(tree as object) }) as Record<string | number, unknown>;
  copy[key] = replaced(copy[key], rest, node);
  return copy;
}

/** The node that a constant parses to. */
function constantOf(text: string): unknown {
  return at(parseSync(`SELECT ${text}`), ['stmts', 0, 'stmt', 'SelectStmt', 'targetList', 0, 'ResTarget', 'val']);
}

/** A tree without positions. */
function bare(tree: unknown): unknown {
  if (Array.isArray(tree)) return tree.map(bare);
  if (typeof tree !== 'object' || tree === null) return tree;
  return Object.fromEntries(
    Object.entries(tree).flatMap(([key, value]) => (positionKeys.includes(key) ? [] : [[key, bare(value)]])),
  );
}
const positionKeys = [
  'location',
  'stmt_len',
  'stmt_location',
  'rexpr_list_start',
  'rexpr_list_end',
  'list_start',
  'list_end',
];

function readsAs(sql: string, expected: string): boolean {
  try {
    return JSON.stringify(bare(parseSync(sql))) === expected;
  } catch {
    return false;
  }
}

function isBalanced(text: string): boolean {
  let open = 0;
  for (const letter of text) {
    if (letter === '(') open += 1;
    if (letter === ')') open -= 1;
    if (open < 0) return false;
  }
  return open === 0;
}
