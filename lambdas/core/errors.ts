// The error of a ledger command, typed by what is known of its effect.

/** Whether a command that failed had its effect: the caller may run it again only with its token when it may have. */
export type Ran = 'no' | 'unknown' | 'yes';

/** `again`: at once. `later`: after a pause. `never`: another try fails alike. */
export type Retry = 'again' | 'later' | 'never';

/**
 * Who must act. `unavailable`: time mends it. `busy`: a lock or a limit was in the way. `misconfigured`: permission,
 * secret or name, a person mends it. `refused`: the database refused the data. `defect`: ours.
 */
export type LedgerFault = 'unavailable' | 'busy' | 'misconfigured' | 'refused' | 'defect';

/** Thrown by every command of the ledger that could not be carried out or answered. */
export class LedgerError extends Error {
  override readonly name = 'LedgerError';
  readonly statement: string;
  readonly fault: LedgerFault;
  readonly ran: Ran;
  readonly retry: Retry;
  /** PostgreSQL's five characters, where it was PostgreSQL that answered. */
  readonly sqlState: string | null;

  constructor(
    facts: {
      statement: string;
      fault: LedgerFault;
      ran: Ran;
      retry: Retry;
      /** What went wrong, without any of the data. */
      reason: string;
      sqlState?: string | null;
    },
    cause?: unknown,
  ) {
    super(`${facts.statement}: ${facts.fault}, ran: ${facts.ran}: ${facts.reason}`, { cause });
    this.statement = facts.statement;
    this.fault = facts.fault;
    this.ran = facts.ran;
    this.retry = facts.retry;
    this.sqlState = facts.sqlState ?? null;
  }

  /** Whether PostgreSQL ran the statement and a row, or a lock on one, was in its way: without that row it may go through. */
  get concernsRows(): boolean {
    return (
      this.sqlState !== null && this.ran === 'no' && this.fault !== 'unavailable' && this.fault !== 'misconfigured'
    );
  }
}
