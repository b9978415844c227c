// Answers what the duty `inspect` asks.
import type { z } from 'zod';
import { type DeadLetters, sighting } from '../core/dead-letters.ts';
import { type FindSource, type FoundPage, sourceOfState } from '../core/find-reminders.ts';
import type { EvidenceLedger, EvidenceName } from '../core/reminder-evidence.ts';
import type { Settings } from '../core/settings.ts';
import { verdict } from '../core/verdict.ts';
import { explain } from '../core/verdict-text.ts';
import { postgresEvidence } from '../store/evidence.ts';
import { postgresSearch } from '../store/search.ts';
import type { StatementRunner } from '../store/statement.ts';
import { showEvidence } from '../store/statements/show-evidence.ts';
import { statusOf } from '../store/status.ts';
import type { OperateResponse, StatusResponse } from './contract.ts';
import { reminderLimit } from './contract-fields.ts';
import { type FindResponse, type findRequest, type forecastRequest, forecastUnits } from './contract-find.ts';
import type {
  ExplainResponse,
  explainRequest,
  ShowResponse,
  showRequest,
  statusRequest,
  unreviewedRequest,
} from './contract-inspect.ts';
import { listVerbs } from './inspect-lists.ts';
import { queueVerbs } from './queues.ts';
import { invited } from './recover.ts';

/** Implements each verb of the duty. */
export function inspectVerbs(database: StatementRunner, deadLetters: DeadLetters, settings: Settings) {
  const ledger: EvidenceLedger = postgresEvidence(database);
  const search = postgresSearch(database);
  return {
    ...queueVerbs(database, deadLetters),
    ...listVerbs(database),

    async status(_request: z.output<typeof statusRequest>): Promise<StatusResponse> {
      return { answer: 'status', ...(await statusOf(database)) };
    },

    async explain(request: z.output<typeof explainRequest>): Promise<ExplainResponse> {
      const found = await ledger.evidence(nameOf(request));
      if (found === null) return { answer: 'not_found' };
      const isOfIt = (body: string) => invited(body) === found.deliveryId;
      const seen = request.lookInDeadLetters ? await sighting(deadLetters, reminderLimit, isOfIt) : found.deadLetter;
      const evidence = { ...found, deadLetter: seen };
      const judged = verdict(evidence, Date.parse(evidence.readAt), settings);
      return { answer: 'explained', explanation: explain(evidence, judged) };
    },

    async show(request: z.output<typeof showRequest>): Promise<ShowResponse> {
      const lines = await database.run(showEvidence, nameOf(request));
      return lines.length === 0 ? { answer: 'not_found' } : { answer: 'shown', lines };
    },

    async find(request: z.output<typeof findRequest>): Promise<OperateResponse> {
      const { userId = null, destination = null, state = null, dueFrom = null, dueTo = null } = request;
      const { limit, cursor: after = null } = request;
      const source = sourceOf(request);
      const page = await search.find({ source, userId, destination, state, dueFrom, dueTo, limit, after });
      return page === null ? unknownDestination(destination) : response(page);
    },

    async unreviewed(request: z.output<typeof unreviewedRequest>): Promise<FindResponse> {
      const { limit, cursor: after = null } = request;
      const anyone = { userId: null, destination: null, state: null, dueFrom: null, dueTo: null } as const;
      const page = await search.find({ source: 'unreviewed', ...anyone, limit, after });
      return response(page ?? { reminders: [], next: null });
    },

    async forecast(request: z.output<typeof forecastRequest>): Promise<OperateResponse> {
      const { by, count, destination = null } = request;
      const found = await search.forecast(forecastUnits[by], count, destination);
      return found === null ? unknownDestination(destination) : { answer: 'forecast', ...found };
    },
  };
}

function nameOf({
  deliveryId,
  key = '',
  producer,
}: z.output<typeof explainRequest | typeof showRequest>): EvidenceName {
  return { ...(deliveryId === undefined ? { key } : { deliveryId }), ...(producer === undefined ? {} : { producer }) };
}

/** A user has fewer reminders than a destination; of a state alone there is an index, or the contract refuses it. */
function sourceOf({ userId, destination, state }: z.output<typeof findRequest>): FindSource {
  const source = state && sourceOfState[state];
  if (userId !== undefined) return 'user';
  if (destination !== undefined && source !== 'in_flight') return 'destination';
  return source ?? 'calendar';
}

function response({ reminders, next }: FoundPage): FindResponse {
  return { answer: 'reminders', reminders, next: next && `${next.at}/${next.id}` };
}

function unknownDestination(name: string | null): OperateResponse {
  const message = `got ${JSON.stringify(name)}, which nobody has registered: see the destinations`;
  return { answer: 'invalid', message: `destination: ${message}`, issues: [{ path: 'destination', message }] };
}
