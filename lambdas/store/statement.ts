// What a statement is: static SQL with named parameters, and one JSON text a result row.
import type { Settings } from '../core/settings.ts';

/** Values bound by name. Everything is text, a whole number or NULL; SQL casts it. */
export type Parameters = Readonly<Record<string, string | number | null>>;

/**
 * One statement of the store. Its result rows have one column, `answer`, a JSON object; a second one, `payload`, where
 * there is one, is base64 and lands decoded in the row's `payload` (a payload inside JSON could pass the Data API's
 * 64 KB a row through its escapes).
 */
export interface Statement<Input, Row> {
  /** The file's name, which is also what logs and metrics call it. */
  readonly name: string;
  readonly text: string;
  parameters(input: Input, settings: Settings): Parameters;
  /** Never there: carries the row's type. */
  readonly row?: Row;
}

/** What runs statements: the Data API, or whatever stands in its place. */
export interface StatementRunner {
  /**
   * Runs a statement and reads its rows.
   * @param onTry called before each try with the monotonic time (ms), for whoever measures from the one that answered
   * @throws {LedgerError} when no try succeeded; its `ran` says whether the command may have had its effect
   */
  run<Input, Row>(
    statement: Statement<Input, Row>,
    input: Input,
    onTry?: (monotonicMs: number) => void,
  ): Promise<Row[]>;
}
