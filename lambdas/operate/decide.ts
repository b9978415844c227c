// Carries out what the duty `decide` asks.
import type { z } from 'zod';
import { type DecisionVerb, decisionVerbs } from '../core/decisions.ts';
import { postgresDecisions } from '../store/decisions.ts';
import type { StatementRunner } from '../store/statement.ts';
import type { DecisionResponse, decisionRequest } from './contract-decide.ts';

type Decide = (request: z.output<typeof decisionRequest>, actor: string) => Promise<DecisionResponse>;

/** Implements each verb of the duty. */
export function decideVerbs(database: StatementRunner): Readonly<Record<DecisionVerb, Decide>> {
  const decisions = postgresDecisions(database);
  const decide: Decide = async (request, actor) => {
    const { verb, commandId, reason, ticket, evidence, expiresAt, apply, reminders } = request;
    const decided = await decisions.decide({
      ...{ token: commandId, verb, actor, reason, reminders, dryRun: !apply },
      ...{ ticket: ticket ?? null, evidence: evidence ?? null },
      ...(expiresAt === undefined ? {} : { expiresAt }),
    });
    return { answer: 'decided', applied: apply, reminders: decided };
  };
  return Object.fromEntries(decisionVerbs.map((verb) => [verb, decide])) as Record<DecisionVerb, Decide>;
}
