// Answers what the duty `inspect` asks.
import type { z } from 'zod';
import type { EvidenceLedger } from '../core/reminder-evidence.ts';
import type { Settings } from '../core/settings.ts';
import { verdict } from '../core/verdict.ts';
import { explain } from '../core/verdict-text.ts';
import { postgresEvidence } from '../store/evidence.ts';
import { instant } from '../store/rows.ts';
import type { StatementRunner } from '../store/statement.ts';
import { countStates } from '../store/statements/count-states.ts';
import type { ExplainResponse, explainRequest, StatusResponse, statusRequest } from './contract-inspect.ts';

/** Implements each verb of the duty. */
export function inspectVerbs(database: StatementRunner, settings: Settings) {
  const ledger: EvidenceLedger = postgresEvidence(database);
  return {
    async status(_request: z.output<typeof statusRequest>): Promise<StatusResponse> {
      const rows = await database.run(countStates, {});
      const states = rows.map(({ state, count, oldest_since, oldest_due }) => ({
        ...{ state, count, oldestSince: instant(oldest_since), oldestDue: instant(oldest_due) },
      }));
      return { answer: 'status', states };
    },

    async explain({ deliveryId, key = '' }: z.output<typeof explainRequest>): Promise<ExplainResponse> {
      const evidence = await ledger.evidence(deliveryId === undefined ? { key } : { deliveryId });
      if (evidence === null) return { answer: 'not_found' };
      const judged = verdict(evidence, Date.parse(evidence.readAt), settings);
      return { answer: 'explained', explanation: explain(evidence, judged) };
    },
  };
}
