// Answers what the duty `inspect` asks.
import type { z } from 'zod';
import { type DeadLetters, sighting } from '../core/dead-letters.ts';
import type { EvidenceLedger } from '../core/reminder-evidence.ts';
import type { Settings } from '../core/settings.ts';
import { verdict } from '../core/verdict.ts';
import { explain } from '../core/verdict-text.ts';
import { postgresEvidence } from '../store/evidence.ts';
import { instant } from '../store/rows.ts';
import type { StatementRunner } from '../store/statement.ts';
import { countStates } from '../store/statements/count-states.ts';
import { reminderLimit } from './contract-fields.ts';
import type { ExplainResponse, explainRequest, StatusResponse, statusRequest } from './contract-inspect.ts';
import { queueVerbs } from './queues.ts';
import { invited } from './recover.ts';

/** Implements each verb of the duty. */
export function inspectVerbs(database: StatementRunner, deadLetters: DeadLetters, settings: Settings) {
  const ledger: EvidenceLedger = postgresEvidence(database);
  return {
    ...queueVerbs(database, deadLetters),

    async status(_request: z.output<typeof statusRequest>): Promise<StatusResponse> {
      const rows = await database.run(countStates, {});
      const states = rows.map(({ state, count, oldest_since, oldest_due }) => ({
        ...{ state, count, oldestSince: instant(oldest_since), oldestDue: instant(oldest_due) },
      }));
      return { answer: 'status', states };
    },

    async explain({
      deliveryId,
      key = '',
      lookInDeadLetters,
    }: z.output<typeof explainRequest>): Promise<ExplainResponse> {
      const found = await ledger.evidence(deliveryId === undefined ? { key } : { deliveryId });
      if (found === null) return { answer: 'not_found' };
      const isOfIt = (body: string) => invited(body) === found.deliveryId;
      const seen = lookInDeadLetters ? await sighting(deadLetters, reminderLimit, isOfIt) : found.deadLetter;
      const evidence = { ...found, deadLetter: seen };
      const judged = verdict(evidence, Date.parse(evidence.readAt), settings);
      return { answer: 'explained', explanation: explain(evidence, judged) };
    },
  };
}
