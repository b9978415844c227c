// Carries out what the duty `control` asks.
import type { z } from 'zod';
import { type ControlVerb, controlVerbs } from '../core/dispatch-control.ts';
import { postgresControl } from '../store/control.ts';
import type { StatementRunner } from '../store/statement.ts';
import type { ControlResponse, controlRequest } from './contract-control.ts';

type Switch = (request: z.output<typeof controlRequest>, actor: string) => Promise<ControlResponse>;

/** Implements each verb of the duty. */
export function controlVerbsOf(database: StatementRunner): Readonly<Record<ControlVerb, Switch>> {
  const ledger = postgresControl(database);
  const control: Switch = async (request, actor) => {
    const { verb, commandId, reason, ticket = null, destination = null, seen = null, apply } = request;
    const command = { token: commandId, verb, destination, actor, reason, ticket, seen, dryRun: !apply };
    const [outcome, affected] = await Promise.all([
      ledger.control(command),
      apply ? null : ledger.affected(destination),
    ]);
    return { answer: 'controlled', applied: apply, outcome, affected };
  };
  return Object.fromEntries(controlVerbs.map((verb) => [verb, control])) as Record<ControlVerb, Switch>;
}
