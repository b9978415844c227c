// The claim function: one tick of the calendar.
import { v7 as newToken } from 'uuid';
import { claimDue } from '../core/claim-due.ts';
import { busAnnouncements } from '../events/announcements.ts';
import { sqsInvitations } from '../queue/invitations.ts';
import { functionHandler } from '../runtime/handler-stack.ts';
import { DataApi } from '../store/data-api.ts';
import { PostgresLedger } from '../store/ledger.ts';
import { type ClaimRequest, type ClaimResponse, claimFunction } from './contract.ts';

/** Lambda's entry point. */
export const handler = functionHandler<ClaimRequest, ClaimResponse>(claimFunction, (environment, { log, clock }) => {
  const tools = {
    ledger: new PostgresLedger(
      new DataApi({
        resourceArn: environment.read('DATABASE_ARN'),
        secretArn: environment.read('DATABASE_SECRET_ARN'),
        database: environment.read('DATABASE_NAME'),
        settings: environment.settings,
      }),
    ),
    invitations: sqsInvitations({ queueUrl: environment.read('INVITATION_QUEUE_URL'), log }),
    announcements: busAnnouncements({ eventBusName: environment.read('EVENT_BUS_NAME'), log }),
    clock,
    settings: environment.settings,
    newToken: () => newToken(),
  };
  return (_tick, run) => claimDue(tools, run);
});
