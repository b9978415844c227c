// Pauses and resumes on PostgreSQL, and what they concern.
import type { ControlCommand, ControlLedger, Controlled } from '../core/dispatch-control.ts';
import { answerItems, defect } from './answer-items.ts';
import { instant } from './rows.ts';
import type { StatementRunner } from './statement.ts';
import { control } from './statements/control.ts';
import { countAffected } from './statements/count-affected.ts';

/** The most rows of one kind that a count looks at. */
const rowLimit = 10_000;

/** Implements the port `ControlLedger`. */
export function postgresControl(database: StatementRunner): ControlLedger {
  return {
    async control(command: ControlCommand): Promise<Controlled> {
      const rows = await answerItems(
        database,
        control,
        () => command,
        [{ item: 0 }],
        () => 0,
      );
      const { answer = null, state, since = null, reason = null } = rows.get(0) ?? {};
      if (answer === null) throw defect(control.name, 'it answered nothing');
      const { destination } = command;
      if (answer === 'not_found' || answer === 'token_used') return { answer, destination };
      if (state === undefined) throw defect(control.name, 'it answered no state');
      return { answer, destination, state, since: instant(since), reason };
    },

    async affected(destination) {
      const [row] = await database.run(countAffected, { destination, limit: rowLimit });
      if (row === undefined) throw defect(countAffected.name, 'it answered no row');
      const { sending, in_flight: inFlight, due, parked, complete } = row;
      return { sending, inFlight, due, parked, complete };
    },
  };
}
