// The claim function: one tick of the calendar.
import { v7 as newToken } from 'uuid';
import { claimDue } from '../core/claim-due.ts';
import { busAnnouncements } from '../events/announcements.ts';
import { sqsInvitations } from '../queue/invitations.ts';
import { functionHandler } from '../runtime/handler-stack.ts';
import { openDatabase } from '../store/data-api.ts';
import { PostgresLedger } from '../store/ledger.ts';
import { type ClaimRequest, type ClaimResponse, claimFunction } from './contract.ts';

/** Lambda's entry point. */
export const handler = functionHandler<ClaimRequest, ClaimResponse>(claimFunction, (environment, { log, clock }) => {
  const requestTimeoutMs = environment.settings.transportTimeoutMs;
  const tools = {
    ledger: new PostgresLedger(openDatabase(environment)),
    invitations: sqsInvitations({ queueUrl: environment.read('INVITATION_QUEUE_URL'), log, requestTimeoutMs }),
    announcements: busAnnouncements({ eventBusName: environment.read('EVENT_BUS_NAME'), log, requestTimeoutMs }),
    clock,
    settings: environment.settings,
    newToken: () => newToken(),
  };
  return (_tick, run) => claimDue(tools, run);
});
