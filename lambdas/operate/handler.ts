// The operate function: reads what a person asks, lets the duty answer, and says who asked.
import type { LambdaFunctionURLEventWithIAMAuthorizer, LambdaFunctionURLResult } from 'aws-lambda';
import type { z } from 'zod';
import { QueueError } from '../core/dead-letters.ts';
import { LedgerError } from '../core/errors.ts';
import { sqsDeadLetters } from '../queue/dead-letters.ts';
import { functionHandler, type Invocation } from '../runtime/handler-stack.ts';
import { issuesOf } from '../runtime/issues.ts';
import { openDatabase } from '../store/data-api.ts';
import { duties, type OperateDuty, type OperateResponse, operateFunction, requestsOfDuty } from './contract.ts';
import { controlVerbsOf } from './control.ts';
import { decideVerbs } from './decide.ts';
import { inspectVerbs } from './inspect.ts';
import { recoverVerbs } from './recover.ts';

/** Carries out a request that was read. */
type Verb<Request> = (request: Request, actor: string) => Promise<OperateResponse>;

/** A duty's verbs, each of which takes what its schema lets through. */
type VerbsOf<Requests> = { readonly [Name in keyof Requests]: Verb<z.output<Requests[Name]>> };

type Duties = { readonly [Duty in OperateDuty]: VerbsOf<(typeof requestsOfDuty)[Duty]> };

/** A request that was read, and what carries it out. */
interface Asked {
  readonly verb: string;
  readonly run: (actor: string) => Promise<OperateResponse>;
}

/** Lambda's entry point: the URL of one duty's alias. */
export const handler = functionHandler<LambdaFunctionURLEventWithIAMAuthorizer, LambdaFunctionURLResult>(
  operateFunction,
  (environment, { log }) => {
    const database = openDatabase(environment);
    const { settings } = environment;
    const runMs = operateFunction.timeoutSeconds(settings) * 1000;
    const deadLetters = sqsDeadLetters({
      ...{ log, queueUrl: environment.read('INVITATION_QUEUE_URL') },
      deadLetterUrl: environment.read('DEAD_LETTER_QUEUE_URL'),
      ...{ hiddenSeconds: Math.ceil(runMs / 1000) + 1, lookMs: runMs / 3 },
      requestTimeoutMs: settings.transportTimeoutMs,
    });
    const verbs: Duties = {
      inspect: inspectVerbs(database, deadLetters, settings),
      decide: decideVerbs(database),
      recover: recoverVerbs(database, deadLetters),
      control: controlVerbsOf(database),
    };
    return async (event, run) => {
      const response = await respond(verbs, event, run);
      run.meter.count(response.answer);
      return {
        statusCode: statusOf(response),
        headers: { 'content-type': 'application/json', 'cache-control': 'no-store' },
        body: JSON.stringify(response),
      };
    };
  },
);

async function respond(
  verbs: Duties,
  event: LambdaFunctionURLEventWithIAMAuthorizer,
  run: Invocation,
): Promise<OperateResponse> {
  // IAM lets nobody in but by the URL, which writes this part of the event itself: grantInvokeUrl is the only grant.
  const actor = event?.requestContext?.authorizer?.iam?.userArn;
  const duty = duties.find((one) => one === run.context.invokedFunctionArn.split(':')[7]);
  if (typeof actor !== 'string' || actor === '' || duty === undefined) {
    return { answer: 'not_signed', message: 'call the URL of a duty, with a request that is signed for IAM' };
  }
  const asked = readRequest(verbs, duty, event);
  if ('answer' in asked) return asked;
  try {
    const response = await asked.run(actor);
    run.log.info(asked.verb, { actor, duty, answer: response.answer });
    return response;
  } catch (error) {
    const why = passing(error);
    if (why === undefined) throw error;
    run.log.error('failed', { error });
    return { answer: 'unavailable', message: `${why}: send the same request again, as it is` };
  }
}

/** What time mends. */
function passing(error: unknown): string | undefined {
  if (error instanceof QueueError) return `the queue did not answer (${error.call})`;
  if (!(error instanceof LedgerError) || error.retry === 'never') return undefined;
  return `the ledger did not answer (${error.statement}, ran: ${error.ran})`;
}

function readRequest(
  verbs: Duties,
  duty: OperateDuty,
  { body = '', isBase64Encoded }: LambdaFunctionURLEventWithIAMAuthorizer,
): Asked | OperateResponse {
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
  const schemas: Readonly<Record<string, z.ZodType>> = requestsOfDuty[duty];
  const parsed = schemas[verb]?.safeParse(asked);
  // The schema of a verb and what carries it out have the same type: see VerbsOf.
  const carryOut = (verbs[duty] as Readonly<Record<string, Verb<unknown>>>)[verb];
  if (parsed?.success && carryOut) return { verb, run: (actor) => carryOut(parsed.data, actor) };
  return invalid(parsed?.error === undefined ? [] : issuesOf(parsed.error, 'request', 'request'));
}

function statusOf({ answer }: OperateResponse): number {
  const statuses: Partial<Record<OperateResponse['answer'], number>> = {
    ...{ invalid: 400, not_signed: 403, wrong_duty: 403, unknown_verb: 404, unavailable: 503 },
  };
  return statuses[answer] ?? 200;
}
