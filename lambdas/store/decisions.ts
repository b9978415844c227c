// What people decide, on PostgreSQL: one statement for all that one command names.
import type { Decided, Decision, DecisionLedger } from '../core/decisions.ts';
import { answerItems } from './answer-items.ts';
import { facts } from './rows.ts';
import type { StatementRunner } from './statement.ts';
import { decide } from './statements/decide.ts';

/** Implements the port `DecisionLedger`. */
export function postgresDecisions(database: StatementRunner): DecisionLedger {
  return {
    async decide(decision: Decision): Promise<Decided[]> {
      const items = decision.reminders.map((seen, item) => ({ ...seen, item }));
      const rows = await answerItems(database, decide, (open) => ({ ...decision, reminders: open }), items);
      return items.map(({ item, deliveryId }) => {
        const row = rows.get(item);
        if (row === undefined || row.answer === null || row.answer === 'not_found')
          return { answer: 'not_found', deliveryId };
        return { answer: row.answer, ...facts(row) };
      });
    },
  };
}
