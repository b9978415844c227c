// Carries out what the duty `recover` asks.
import type { z } from 'zod';
import type { DeadLetters } from '../core/dead-letters.ts';
import type { Accounted } from '../core/recoveries.ts';
import { redrive } from '../core/redrive.ts';
import { postgresRecoveries } from '../store/recoveries.ts';
import type { StatementRunner } from '../store/statement.ts';
import { invitationMessage } from '../webhook-sender/contract.ts';
import type {
  RecoverResponse,
  RedriveResponse,
  readmitRequest,
  reclaimRequest,
  redriveRequest,
  republishRequest,
} from './contract-recover.ts';

interface Written {
  readonly commandId: string;
  readonly reason: string;
  readonly ticket?: string | undefined;
  readonly apply: boolean;
}

/** Implements each verb of the duty. */
export function recoverVerbs(database: StatementRunner, deadLetters: DeadLetters) {
  const ledger = postgresRecoveries(database);
  const recover = async (
    request: z.output<typeof reclaimRequest | typeof republishRequest>,
    actor: string,
  ): Promise<RecoverResponse> => {
    const evidence = 'evidence' in request ? (request.evidence ?? null) : null;
    const reminders = await ledger.recover({
      ...accountOf(request, actor),
      ...{ verb: request.verb, evidence, reminders: request.reminders },
    });
    return { answer: 'recovered', applied: request.apply, reminders };
  };
  return {
    reclaim: recover,
    republish: recover,

    async readmit(request: z.output<typeof readmitRequest>, actor: string): Promise<RecoverResponse> {
      const reminders = await ledger.readmit({ ...accountOf(request, actor), deliveryIds: request.deliveryIds });
      return { answer: 'recovered', applied: request.apply, reminders };
    },

    async redrive(request: z.output<typeof redriveRequest>, actor: string): Promise<RedriveResponse> {
      const { evidence = null, most, apply } = request;
      const tools = { ledger, deadLetters, invited };
      const redriven = await redrive(tools, { ...accountOf(request, actor), evidence, most });
      return { answer: 'redriven', applied: apply, ...redriven };
    },
  };
}

function accountOf({ commandId, reason, ticket, apply }: Written, actor: string): Accounted {
  return { token: commandId, actor, reason, ticket: ticket ?? null, dryRun: !apply };
}

/** The reminder that a message of the queue invites to; undefined: it is no invitation of this release. */
export function invited(body: string): string | undefined {
  try {
    return invitationMessage.parse(JSON.parse(body)).delivery_id.toLowerCase();
  } catch {
    return undefined;
  }
}
