// The look at the ledger on PostgreSQL: three statements that only read, at once.

import { LedgerError } from '../core/errors.ts';
import type { Observations } from '../core/observe-ledger.ts';
import type { Statement, StatementRunner } from './statement.ts';
import { observeCalendar } from './statements/observe-calendar.ts';
import { observeDestinations } from './statements/observe-destinations.ts';
import { observeOutcomes } from './statements/observe-outcomes.ts';

/** The most rows that a statement reads of one kind: a count of so many means so many or more. */
const rowLimit = 10_000;
const rowLimitPerDestination = 1000;

/** Implements the port `Observations`. */
export function postgresObservations(database: StatementRunner): Observations {
  const only = async <Row>(statement: Statement<{ limit: number }, Row>, limit: number): Promise<Row> => {
    const [row] = await database.run(statement, { limit });
    if (row === undefined) {
      const facts = { fault: 'defect', ran: 'yes', retry: 'never', reason: 'it answered no row' } as const;
      throw new LedgerError({ statement: statement.name, ...facts });
    }
    return row;
  };
  return {
    async look() {
      const [calendar, { destinations, ...ofDestinations }, outcomes] = await Promise.all([
        only(observeCalendar, rowLimit),
        only(observeDestinations, rowLimitPerDestination),
        only(observeOutcomes, rowLimit),
      ]);
      return { measured: { ...calendar, ...ofDestinations, ...outcomes }, destinations };
    },
  };
}
