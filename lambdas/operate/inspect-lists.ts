// The lists of the duty `inspect`: what is set aside, where reminders may go, and what people did.
import type { z } from 'zod';
import { instant } from '../store/rows.ts';
import type { StatementRunner } from '../store/statement.ts';
import { listActions } from '../store/statements/list-actions.ts';
import { listDestinations } from '../store/statements/list-destinations.ts';
import { listExclusions } from '../store/statements/list-exclusions.ts';
import type {
  ActionsResponse,
  actionsRequest,
  DestinationsResponse,
  destinationsRequest,
  ExclusionsResponse,
  exclusionsRequest,
} from './contract-inspect.ts';

/** The most reminders that are counted of one destination. */
const rowsOfDestination = 1000;

/** Implements those verbs. */
export function listVerbs(database: StatementRunner) {
  return {
    async exclusions(request: z.output<typeof exclusionsRequest>): Promise<ExclusionsResponse> {
      const { limit, cursor: after = null } = request;
      const rows = await database.run(listExclusions, { after, limit });
      const exclusions = rows.map(({ delivery_id: deliveryId, excluded_at, sql_state: sqlState, reason }) => ({
        ...{ deliveryId, excludedAt: instant(excluded_at), sqlState, reason },
      }));
      return { answer: 'exclusions', exclusions, next: nextOf(rows, limit, (row) => row.exclusion_no) };
    },

    async destinations(request: z.output<typeof destinationsRequest>): Promise<DestinationsResponse> {
      const { limit, cursor: after = '' } = request;
      const rows = await database.run(listDestinations, { after, limit, rows: rowsOfDestination });
      const destinations = rows.map(({ name, url, owner, contract, state, parked, failing, ...row }) => ({
        ...{ name, url, owner, contract, deadlineMs: row.deadline_ms },
        ...{ state, since: instant(row.state_since), reason: row.state_reason, parked, failing },
      }));
      return { answer: 'destinations', destinations, next: nextOf(rows, limit, (row) => row.name) };
    },

    async actions(request: z.output<typeof actionsRequest>): Promise<ActionsResponse> {
      const { deliveryId = null, destination = null, limit, cursor: before = null } = request;
      const rows = await database.run(listActions, { deliveryId, destination, before, limit });
      const actions = rows.map(({ verb, actor, reason, ticket, evidence, ...row }) => ({
        ...{ actionNo: row.action_no, at: instant(row.acted_at), verb, actor, reason, ticket },
        ...{ deliveryId: row.delivery_id, destination: row.destination, versionSeen: row.version_seen, evidence },
      }));
      return { answer: 'actions', actions, next: nextOf(rows, limit, (row) => row.action_no) };
    },
  };
}

/** A page that is full may have a next one. */
function nextOf<Row>(rows: readonly Row[], limit: number, place: (row: Row) => string): string | null {
  const last = rows.at(-1);
  return last === undefined || rows.length < limit ? null : place(last);
}
