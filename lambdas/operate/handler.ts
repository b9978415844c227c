// The operate function: reads what a person asks, lets the ledger answer, and says who asked.
import type { LambdaFunctionURLEventWithIAMAuthorizer, LambdaFunctionURLResult } from 'aws-lambda';
import type { z } from 'zod';
import type { DecisionLedger } from '../core/decisions.ts';
import { LedgerError } from '../core/errors.ts';
import type { EvidenceLedger } from '../core/reminder-evidence.ts';
import type { Settings } from '../core/settings.ts';
import { verdict } from '../core/verdict.ts';
import { explain } from '../core/verdict-text.ts';
import { functionHandler, type Invocation } from '../runtime/handler-stack.ts';
import { issuesOf } from '../runtime/issues.ts';
import { openDatabase } from '../store/data-api.ts';
import { postgresDecisions } from '../store/decisions.ts';
import { postgresEvidence } from '../store/evidence.ts';
import { instant } from '../store/rows.ts';
import type { StatementRunner } from '../store/statement.ts';
import { countStates } from '../store/statements/count-states.ts';
import {
  type decisionRequest,
  duties,
  type explainRequest,
  type OperateDuty,
  type OperateResponse,
  operateFunction,
  requestsOfDuty,
  type statusRequest,
} from './contract.ts';

type Request = z.output<typeof decisionRequest> | z.output<typeof statusRequest> | z.output<typeof explainRequest>;

/** Lambda's entry point: the URL of one duty's alias. */
export const handler = functionHandler<LambdaFunctionURLEventWithIAMAuthorizer, LambdaFunctionURLResult>(
  operateFunction,
  (environment) => {
    const database = openDatabase(environment);
    const { settings } = environment;
    const tools = { database, settings, decisions: postgresDecisions(database), ledger: postgresEvidence(database) };
    return async (event, run) => {
      const response = await respond(tools, event, run);
      run.meter.count(response.answer);
      return {
        statusCode: statusOf(response),
        headers: { 'content-type': 'application/json', 'cache-control': 'no-store' },
        body: JSON.stringify(response),
      };
    };
  },
);

interface Tools {
  readonly database: StatementRunner;
  readonly settings: Settings;
  readonly decisions: DecisionLedger;
  readonly ledger: EvidenceLedger;
}

async function respond(
  tools: Tools,
  event: LambdaFunctionURLEventWithIAMAuthorizer,
  run: Invocation,
): Promise<OperateResponse> {
  // IAM lets nobody in but by the URL, which writes this part of the event itself: grantInvokeUrl is the only grant.
  const actor = event?.requestContext?.authorizer?.iam?.userArn;
  const duty = duties.find((one) => one === run.context.invokedFunctionArn.split(':')[7]);
  if (typeof actor !== 'string' || actor === '' || duty === undefined) {
    return { answer: 'not_signed', message: 'call the URL of a duty, with a request that is signed for IAM' };
  }
  const read = readRequest(duty, event);
  if ('answer' in read) return read;
  try {
    const response = await answer(tools, actor, read.request);
    run.log.info(read.request.verb, { actor, duty, answer: response.answer });
    return response;
  } catch (error) {
    if (!(error instanceof LedgerError) || error.retry === 'never') throw error;
    run.log.error('failed', { error });
    const { statement, ran } = error;
    const message = `the ledger did not answer (${statement}, ran: ${ran}): send the same request again, as it is`;
    return { answer: 'unavailable', message };
  }
}

async function answer(tools: Tools, actor: string, request: Request): Promise<OperateResponse> {
  const { database, settings, decisions, ledger } = tools;
  if (request.verb === 'explain') {
    const { deliveryId, key = '' } = request;
    const evidence = await ledger.evidence(deliveryId === undefined ? { key } : { deliveryId });
    if (evidence === null) return { answer: 'not_found' };
    const judged = verdict(evidence, Date.parse(evidence.readAt), settings);
    return { answer: 'explained', explanation: explain(evidence, judged) };
  }
  if (request.verb === 'status') {
    const rows = await database.run(countStates, {});
    const states = rows.map(({ state, count, oldest_since, oldest_due }) => ({
      ...{ state, count, oldestSince: instant(oldest_since), oldestDue: instant(oldest_due) },
    }));
    return { answer: 'status', states };
  }
  const { verb, commandId, reason, ticket, evidence, expiresAt, apply, reminders } = request;
  const decided = await decisions.decide({
    ...{ token: commandId, verb, actor, reason, reminders, dryRun: !apply },
    ...{ ticket: ticket ?? null, evidence: evidence ?? null },
    ...(expiresAt === undefined ? {} : { expiresAt }),
  });
  return { answer: 'decided', applied: apply, reminders: decided };
}

function readRequest(
  duty: OperateDuty,
  { body = '', isBase64Encoded }: LambdaFunctionURLEventWithIAMAuthorizer,
): { request: Request } | OperateResponse {
  const invalid = (issues: { path: string; message: string }[]): OperateResponse => ({
    ...{ answer: 'invalid', issues },
    message: issues.map(({ path, message }) => `${path}: ${message}`).join('; '),
  });
  let asked: unknown;
  try {
    asked = JSON.parse(isBase64Encoded ? Buffer.from(body, 'base64').toString('utf8') : body);
  } catch {
    return invalid([{ path: 'body', message: 'must be JSON' }]);
  }
  const verb = typeof asked === 'object' && asked !== null && 'verb' in asked ? asked.verb : undefined;
  if (typeof verb !== 'string') return invalid([{ path: 'verb', message: 'must name what to do' }]);
  const other = duties.find((one) => Object.hasOwn(requestsOfDuty[one], verb));
  if (other === undefined) {
    const known = duties.flatMap((one) => Object.keys(requestsOfDuty[one]));
    return { answer: 'unknown_verb', message: `verb: got ${JSON.stringify(verb)}; use one of ${known.join(', ')}` };
  }
  if (other !== duty) return { answer: 'wrong_duty', message: `${verb} is of the duty ${other}, and not of ${duty}` };
  const requests: Readonly<Record<string, z.ZodType<Request>>> = requestsOfDuty[duty];
  const parsed = requests[verb]?.safeParse(asked);
  if (parsed?.success) return { request: parsed.data };
  return invalid(parsed === undefined ? [] : issuesOf(parsed.error, 'request', 'request'));
}

function statusOf({ answer }: OperateResponse): number {
  const statuses: Partial<Record<OperateResponse['answer'], number>> = {
    ...{ invalid: 400, not_signed: 403, wrong_duty: 403, unknown_verb: 404, unavailable: 503 },
  };
  return statuses[answer] ?? 200;
}
