// What a run left behind, for the checker: every version of every row, and who made it. Believes nothing of the ledger's rules.
import type { Stage } from './functions.ts';
import type { Executed } from './run.ts';
import type { Change, Row } from './virtual-database.ts';

/** A promise that did not hold. */
export interface Broken {
  /** `P1` to `P11`; `matrix`, a move that the state machine has not; `commands`, an answer; `database`, a refusal. */
  readonly promise: string;
  readonly sentence: string;
  /** The reminders concerned. */
  readonly ids: readonly string[];
  /** The rows that show it. */
  readonly rows: readonly unknown[];
}

/** A change of a reminder's row, and the statement that made it. */
export interface Move {
  readonly id: string;
  readonly by: Executed;
  readonly at: number;
  readonly before: Row | null;
  readonly after: Row;
}

export class Evidence {
  readonly stage: Stage;
  readonly changes: readonly Change[];
  readonly broken: Broken[] = [];
  readonly moves: readonly Move[];
  readonly #byId = new Map<string, Move[]>();

  constructor(stage: Stage, changes: readonly Change[]) {
    this.stage = stage;
    this.changes = changes;
    this.moves = changes.flatMap((change) => {
      const by = stage.run.executed[change.statement - 1];
      if (change.table !== 'reminder_delivery' || change.after === null || by === undefined) return [];
      const { at, before, after } = change;
      return [{ id: String(after.delivery_id), by, at, before, after }];
    });
    for (const move of this.moves) this.#byId.set(move.id, [...(this.#byId.get(move.id) ?? []), move]);
  }

  report(promise: string, sentence: string, ids: readonly string[], ...rows: readonly unknown[]): void {
    this.broken.push({ promise, sentence, ids, rows });
  }

  /** The reminders that there were, by id. */
  get ids(): string[] {
    return [...this.#byId.keys()];
  }

  movesOf(id: string): readonly Move[] {
    return this.#byId.get(id) ?? [];
  }

  /** A reminder's row once so many statements had run. */
  rowAfter(id: string, statements: number): Row | null {
    return this.movesOf(id).findLast(({ by }) => by.number <= statements)?.after ?? null;
  }

  /** The last row. */
  last(id: string): Row | null {
    return this.movesOf(id).at(-1)?.after ?? null;
  }

  /** Rows of another table as they were inserted, with the number of the statement. */
  inserted(table: string): { statement: number; at: number; row: Row }[] {
    return this.changes.flatMap(({ table: about, before, after, statement, at }) =>
      about === table && before === null && after !== null ? [{ statement, at, row: after }] : [],
    );
  }

  /** The newest version of the rows of another table that `which` finds, before a statement. */
  before(table: string, statement: number, which: (row: Row) => boolean): Row | null {
    const change = this.changes.findLast(
      ({ table: about, after, statement: made }) =>
        about === table && made < statement && after !== null && which(after),
    );
    return change?.after ?? null;
  }
}

/** Milliseconds since the epoch of PostgreSQL's text, with fractions; infinity stays infinite, NULL is NaN. */
export function instant(text: unknown): number {
  if (text === 'infinity') return Number.POSITIVE_INFINITY;
  if (typeof text !== 'string') return Number.NaN;
  const [, fraction = ''] = /\.(\d+)/.exec(text) ?? [];
  return Date.parse(text.replace(/\.\d+/, '')) + Number(`0.${fraction || '0'}`) * 1000;
}
