// What people decide, on PostgreSQL: one statement for all that one command names.
import type { Decided, Decision, DecisionLedger } from '../core/decisions.ts';
import { answerEach } from './answer-items.ts';
import { facts } from './rows.ts';
import type { StatementRunner } from './statement.ts';
import { type DecideRow, decide } from './statements/decide.ts';

/** Implements the port `DecisionLedger`. */
export function postgresDecisions(database: StatementRunner): DecisionLedger {
  return {
    async decide(decision: Decision): Promise<Decided[]> {
      const items = decision.reminders.map((seen, item) => ({ ...seen, item }));
      const rows = await answerEach(database, decide, (open) => ({ ...decision, reminders: open }), items);
      return items.map(({ item, deliveryId }) => answerOf(rows.get(item), deliveryId));
    },
  };
}

function answerOf(row: DecideRow | undefined, deliveryId: string): Decided {
  if (row === undefined || row.answer === null) return { answer: 'unusable', deliveryId };
  return 'state' in row ? { answer: row.answer, ...facts(row) } : { answer: row.answer, deliveryId };
}
