// What people decide, on PostgreSQL: one statement for all that one command names.
import type { Decided, Decision, DecisionLedger, SeenReminder } from '../core/decisions.ts';
import { LedgerError } from '../core/errors.ts';
import { answerItems } from './answer-items.ts';
import { facts } from './rows.ts';
import type { StatementRunner } from './statement.ts';
import { type DecideRow, decide } from './statements/decide.ts';

type Item = SeenReminder & { readonly item: number };

/** Implements the port `DecisionLedger`. */
export function postgresDecisions(database: StatementRunner): DecisionLedger {
  return {
    async decide(decision: Decision): Promise<Decided[]> {
      const items = decision.reminders.map((seen, item) => ({ ...seen, item }));
      const ask = (some: readonly Item[]) =>
        answerItems(database, decide, (open) => ({ ...decision, reminders: open }), some);
      const rows = await ask(items).catch(async (error: unknown) => {
        // A row that cannot be updated keeps only itself from being decided.
        if (!(error instanceof LedgerError && error.concernsRows)) throw error;
        const alone = await Promise.all(items.map((item) => ask([item]).catch(unlessItIsTheRow)));
        return new Map(alone.flatMap((answers) => [...answers]));
      });
      return items.map(({ item, deliveryId }) => answerOf(rows.get(item), deliveryId));
    },
  };
}

function unlessItIsTheRow(error: unknown): Map<number, DecideRow> {
  if (error instanceof LedgerError && error.concernsRows) return new Map();
  throw error;
}

function answerOf(row: DecideRow | undefined, deliveryId: string): Decided {
  if (row === undefined || row.answer === null) return { answer: 'unusable', deliveryId };
  return 'state' in row ? { answer: row.answer, ...facts(row) } : { answer: row.answer, deliveryId };
}
