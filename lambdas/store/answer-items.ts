// Runs a statement over items until each has its answer: what a twin or a rival held is asked for again, never guessed.
import { LedgerError } from '../core/errors.ts';
import type { Statement, StatementRunner } from './statement.ts';

/** How often in a row nothing may be answered before that counts as a defect: a twin or a rival must have been in the way. */
export const roundLimit = 8;

/**
 * Runs a statement over items, and again over those it could not answer, until each has its row.
 * @param itemOf whose answer a row is @default by its `item`
 * @throws {LedgerError} when the database did not answer, or answered nothing new in {@link roundLimit} rounds
 */
export async function answerItems<Item extends { item: number }, Input, Row extends { answer: string | null }>(
  database: StatementRunner,
  statement: Statement<Input, Row>,
  input: (open: readonly Item[]) => Input,
  items: readonly Item[],
  itemOf: (row: Row) => number | undefined = (row) => (row as Row & { item?: number }).item,
): Promise<Map<number, Row>> {
  const answers = new Map<number, Row>();
  for (let stalled = 0; stalled < roundLimit; ) {
    const open = items.filter(({ item }) => !answers.has(item));
    if (open.length === 0) return answers;
    for (const row of await database.run(statement, input(open))) {
      const item = itemOf(row);
      if (row.answer !== null && item !== undefined) answers.set(item, row);
    }
    // One reminder under many names is answered a name a round: that is slow, and no defect.
    stalled = items.length - answers.size < open.length ? 0 : stalled + 1;
  }
  throw defect(
    statement.name,
    `${items.length - answers.size} of ${items.length} items unanswered in ${roundLimit} rounds`,
  );
}

/**
 * The same; a row that cannot be updated keeps only its own item from being answered.
 * @throws {LedgerError} when the database did not answer
 */
export async function answerEach<Item extends { item: number }, Input, Row extends { answer: string | null }>(
  database: StatementRunner,
  statement: Statement<Input, Row>,
  input: (open: readonly Item[]) => Input,
  items: readonly Item[],
): Promise<Map<number, Row>> {
  try {
    return await answerItems(database, statement, input, items);
  } catch (error) {
    if (!concernsRows(error)) throw error;
    const alone = await Promise.all(
      items.map((item) =>
        answerItems(database, statement, input, [item]).catch((cause: unknown) => {
          if (concernsRows(cause)) return new Map<number, Row>();
          throw cause;
        }),
      ),
    );
    return new Map(alone.flatMap((answers) => [...answers]));
  }
}

const concernsRows = (error: unknown): boolean => error instanceof LedgerError && error.concernsRows;

/** What must not happen did: running the command again does not help. */
export function defect(statement: string, sentence: string): LedgerError {
  return new LedgerError({ statement, fault: 'defect', ran: 'unknown', retry: 'never', reason: sentence });
}
