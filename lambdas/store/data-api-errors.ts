// What each error of the Data API and of PostgreSQL means for the command that met it.
import { LedgerError, type LedgerFault, type Ran, type Retry } from '../core/errors.ts';

type Verdict = readonly [fault: LedgerFault, ran: Ran, retry: Retry];

/**
 * By the error's name, as the service model of the RDS Data API spells it. An error that may have run is run again
 * under the same token.
 */
const byName: Readonly<Record<string, Verdict>> = {
  InternalServerErrorException: ['unavailable', 'unknown', 'again'],
  ServiceUnavailableError: ['unavailable', 'unknown', 'again'],
  DatabaseUnavailableException: ['unavailable', 'unknown', 'again'],
  StatementTimeoutException: ['unavailable', 'unknown', 'again'],
  ThrottlingException: ['busy', 'no', 'later'],
  TooManyRequestsException: ['busy', 'no', 'later'],
  DatabaseResumingException: ['unavailable', 'no', 'later'],
  // What logs in was not to be had or is refused: a rotation may be under way, and nothing ran.
  SecretsErrorException: ['misconfigured', 'no', 'later'],
  InvalidSecretException: ['misconfigured', 'no', 'later'],
  BadRequestException: ['defect', 'unknown', 'never'],
  AccessDeniedException: ['misconfigured', 'no', 'never'],
  ForbiddenException: ['misconfigured', 'no', 'never'],
  InvalidResourceStateException: ['misconfigured', 'no', 'never'],
  HttpEndpointNotEnabledException: ['misconfigured', 'no', 'never'],
  DatabaseNotFoundException: ['misconfigured', 'no', 'never'],
  NotFoundException: ['misconfigured', 'no', 'never'],
  TransactionNotFoundException: ['unavailable', 'unknown', 'never'],
  // The statement ran and was committed; only its result could not be returned.
  UnsupportedResultException: ['defect', 'yes', 'never'],
};

/** By SQLSTATE class or code, the longest that fits; see Appendix A of the PostgreSQL manual. */
const bySqlState: Readonly<Record<string, Verdict>> = {
  '40001': ['busy', 'no', 'again'],
  '40P01': ['busy', 'no', 'again'],
  '55P03': ['busy', 'no', 'again'],
  '57014': ['busy', 'no', 'again'],
  // The server ended the session or the connection was lost: the statement may have been committed before.
  '57P': ['unavailable', 'unknown', 'again'],
  '08': ['unavailable', 'unknown', 'again'],
  '53': ['unavailable', 'no', 'later'],
  // A login that fails is a fault of ours (a rotation under way, say), never of a reminder.
  '28': ['misconfigured', 'no', 'later'],
  '23505': ['refused', 'no', 'never'],
  '22': ['refused', 'no', 'never'],
  '23': ['refused', 'no', 'never'],
};

/** PostgreSQL's code, which ends an error's message: before it may stand a detail that quotes what a caller wrote. */
export function sqlStateOf(message: string): string | null {
  return /SQLState:\s*([0-9A-Z]{5})\s*$/.exec(message)?.[1] ?? null;
}

/** PostgreSQL's words for a fault of ours. Where it refused data its words quote them: then only the rule's name is kept. */
function reasonOf(message: string, sqlState: string | null): string {
  if (sqlState === null) return 'PostgreSQL refused the statement';
  if (!/^2[23]/.test(sqlState))
    return `${message.split(/\n|Detail:/)[0]?.split('; SQLState:')[0]}; SQLState: ${sqlState}`;
  const rule = /constraint "([a-z0-9_]+)"/.exec(message)?.[1];
  return `SQLState: ${sqlState}${rule === undefined ? '' : `, constraint ${rule}`}`;
}

/** Turns whatever a Data API call threw into a typed error. */
export function ledgerError(statement: string, error: unknown): LedgerError {
  if (error instanceof LedgerError) return error;
  const { name, message } = error instanceof Error ? error : new Error(String(error));
  const sqlState = sqlStateOf(message);
  if (name === 'DatabaseErrorException' || sqlState !== null) {
    const key = [sqlState, sqlState?.slice(0, 3), sqlState?.slice(0, 2)].find((part) => part && part in bySqlState);
    const [fault, ran, retry] = (key && bySqlState[key]) || (['defect', 'no', 'never'] satisfies Verdict);
    return new LedgerError({ statement, fault, ran, retry, sqlState, reason: reasonOf(message, sqlState) }, error);
  }
  // A name we do not know is a broken connection or a time-out, in many spellings: it may have run.
  const [fault, ran, retry] = byName[name] ?? (['unavailable', 'unknown', 'again'] satisfies Verdict);
  return new LedgerError({ statement, fault, ran, retry, reason: `${name}: ${message}` }, error);
}
