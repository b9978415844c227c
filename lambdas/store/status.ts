// How many reminders are in each state and whether dispatch is paused, as people look at it.
import type { DeliveryState } from '../core/delivery-states.ts';
import type { DispatchStanding } from '../core/dispatch-control.ts';
import { instant } from './rows.ts';
import type { StatementRunner } from './statement.ts';
import { countStates } from './statements/count-states.ts';

interface LedgerStatus {
  readonly dispatch: DispatchStanding;
  readonly states: {
    readonly state: DeliveryState;
    readonly count: number;
    readonly oldestSince: string;
    readonly oldestDue: string | null;
  }[];
}

/** One look at it. @throws {LedgerError} when the database did not answer */
export async function statusOf(database: StatementRunner): Promise<LedgerStatus> {
  const rows = await database.run(countStates, {});
  const states = rows.flatMap((row) => {
    if (row.answer !== 'state') return [];
    const { state, count, oldest_since, oldest_due } = row;
    return [{ state, count, oldestSince: instant(oldest_since), oldestDue: instant(oldest_due) }];
  });
  const gate = rows.find((row) => row.answer === 'dispatch');
  const { state = 'paused', since = null, reason = null } = gate ?? {};
  return { dispatch: { state, since: instant(since), reason }, states };
}
