// The outcome policy: from how an attempt ended to what became of it, in one table that the tests iterate.
import type { AttemptPhase, AttemptResult, OutcomeKind } from './ports.ts';

/** What an answer's headers said, as far as the policy reads them. */
export interface ResponseHead {
  readonly status: number;
  /** The header `Retry-After`, as it came. */
  readonly retryAfter: string | null;
  /** The header `Date`, as it came. */
  readonly date: string | null;
  /** When the headers arrived by this machine's clock, epoch milliseconds. Read only when the answer has no `Date`. */
  readonly receivedAt: number;
}

/** How an attempt ended: with an answer, or with an error at some phase. */
export interface AttemptEnd {
  readonly phase: AttemptPhase;
  /** Null: no final (not 1xx) headers came. */
  readonly response: ResponseHead | null;
  /** The error's `code`, such as `ECONNREFUSED`, or its name when it has none; null: no error. */
  readonly errorCode: string | null;
}

/** The longest pause that a receiver may ask for, in seconds. */
export const retryAfterLimitSeconds = 24 * 3600;

/** What an answer with one of these statuses means. The first rule that holds the status applies. */
export interface StatusRule {
  readonly statuses: readonly (readonly [from: number, to: number])[];
  readonly outcome: OutcomeKind;
  readonly why: string;
}

export const statusPolicy: readonly StatusRule[] = [
  { statuses: [[200, 299]], outcome: 'delivered', why: 'The receiver has it, whatever the rest of its answer does.' },
  {
    statuses: [
      [302, 303],
      [307, 307],
    ],
    outcome: 'retry',
    why: 'Elsewhere for now, as during maintenance. Never followed: the address there was not registered.',
  },
  {
    statuses: [[300, 399]],
    outcome: 'permanent',
    why: 'Moved for good: only a new URL mends it, so an operator should hear of it now and not after the last retry.',
  },
  {
    statuses: [
      [408, 408],
      [425, 425],
      [429, 429],
    ],
    outcome: 'retry',
    why: 'The receiver asks to be called again.',
  },
  { statuses: [[410, 410]], outcome: 'gone', why: 'The receiver asks never to be called again.' },
  { statuses: [[400, 499]], outcome: 'permanent', why: 'The receiver refuses these bytes, and they never change.' },
  {
    statuses: [[0, 999]],
    outcome: 'retry',
    why: 'The receiver failed (5xx), or answered a status that HTTP does not know, which RFC 9110 (15) reads as a 5xx.',
  },
];

/** What an error means while no byte has left. Once bytes may have left, every error without an answer is `unknown`. */
export interface ErrorRule {
  readonly errorClass: string;
  /** Codes or names of errors of Node.js, undici and this product; `*` at the end stands for any ending. */
  readonly codes: readonly string[];
  /** `retry`: a failure of the destination. `not_sent`: a fault of ours. */
  readonly outcome: 'retry' | 'not_sent';
}

export const errorPolicy: readonly ErrorRule[] = [
  { errorClass: 'deadline', codes: ['DEADLINE'], outcome: 'retry' },
  { errorClass: 'aborted', codes: ['ABORTED'], outcome: 'not_sent' },
  { errorClass: 'url_refused', codes: ['URL_REFUSED'], outcome: 'retry' },
  { errorClass: 'address_blocked', codes: ['ADDRESS_BLOCKED'], outcome: 'retry' },
  { errorClass: 'request_invalid', codes: ['UND_ERR_INVALID_ARG'], outcome: 'not_sent' },
  {
    errorClass: 'local_resources',
    codes: ['EMFILE', 'ENFILE', 'ENOBUFS', 'ENOMEM', 'EADDRNOTAVAIL'],
    outcome: 'not_sent',
  },
  { errorClass: 'dns_not_found', codes: ['ENOTFOUND', 'ENODATA'], outcome: 'retry' },
  { errorClass: 'connect_refused', codes: ['ECONNREFUSED'], outcome: 'retry' },
  { errorClass: 'connect_unreachable', codes: ['EHOSTUNREACH', 'ENETUNREACH'], outcome: 'retry' },
  { errorClass: 'connect_timeout', codes: ['ETIMEDOUT'], outcome: 'retry' },
  {
    errorClass: 'tls_certificate',
    codes: [
      'ERR_TLS_CERT_ALTNAME_*',
      'CERT_*',
      'DEPTH_ZERO_SELF_SIGNED_CERT',
      'SELF_SIGNED_CERT_IN_CHAIN',
      'UNABLE_TO_*',
      'INVALID_CA',
      'INVALID_PURPOSE',
      'HOSTNAME_MISMATCH',
    ],
    outcome: 'retry',
  },
  { errorClass: 'connection_closed', codes: ['ECONNRESET', 'EPIPE', 'UND_ERR_SOCKET'], outcome: 'retry' },
  { errorClass: 'response_headers_too_large', codes: ['UND_ERR_HEADERS_OVERFLOW'], outcome: 'retry' },
  { errorClass: 'response_malformed', codes: ['HPE_*', 'HTTPParserError'], outcome: 'retry' },
];

/** The rule for a code that no rule names, by where it happened. An error before anything was dialled is our own. */
export const otherErrors: Readonly<Record<AttemptPhase, Omit<ErrorRule, 'codes'>>> = {
  none: { errorClass: 'internal', outcome: 'not_sent' },
  dns: { errorClass: 'dns_failed', outcome: 'retry' },
  connect: { errorClass: 'connect_failed', outcome: 'retry' },
  tls: { errorClass: 'tls_failed', outcome: 'retry' },
  written: { errorClass: 'no_response', outcome: 'retry' },
  headers: { errorClass: 'no_response', outcome: 'retry' },
  body: { errorClass: 'no_response', outcome: 'retry' },
};

/** Phases in which bytes of the request may have left. */
const bytesMayHaveLeft: readonly AttemptPhase[] = ['written', 'headers', 'body'];

/**
 * What became of an attempt. An answer decides by its status alone, also when its body broke off or the deadline passed
 * while it was read.
 */
export function judgeAttempt(
  end: AttemptEnd,
): Pick<AttemptResult, 'outcome' | 'status' | 'errorClass' | 'retryAfterSeconds'> {
  if (end.response !== null) {
    const { status } = end.response;
    const outcome =
      statusPolicy.find((rule) => rule.statuses.some(([from, to]) => status >= from && status <= to))?.outcome ??
      'retry';
    return {
      outcome,
      status,
      errorClass: outcome === 'delivered' ? null : `http_${status}`,
      retryAfterSeconds: outcome === 'retry' ? retryAfterSeconds(end.response) : null,
    };
  }
  const code = end.errorCode ?? '';
  const rule = errorPolicy.find(({ codes }) => codes.some((known) => matches(known, code))) ?? otherErrors[end.phase];
  return {
    outcome: bytesMayHaveLeft.includes(end.phase) ? 'unknown' : rule.outcome,
    status: null,
    errorClass: rule.errorClass,
    retryAfterSeconds: null,
  };
}

function matches(known: string, code: string): boolean {
  return known.endsWith('*') ? code.startsWith(known.slice(0, -1)) : code === known;
}

/** RFC 9110 (5.6.7) knows three forms of a date, all of which begin with a day's name. */
const httpDate = /^(Mon|Tue|Wed|Thu|Fri|Sat|Sun)/i;

/**
 * The pause that `Retry-After` asks for, in whole seconds from 0 to {@link retryAfterLimitSeconds}. Null when it is absent
 * or says nothing usable (negative, garbage). A fraction is rounded up. A date counts from the answer's own `Date`:
 * both come from one clock, so that neither clock needs to be right.
 */
export function retryAfterSeconds(head: Omit<ResponseHead, 'status'>): number | null {
  const asked = head.retryAfter?.trim() ?? '';
  const seconds = /^\d+(\.\d+)?$/.test(asked)
    ? Number(asked)
    : (instant(asked) - (head.date === null ? head.receivedAt : instant(head.date) || head.receivedAt)) / 1000;
  return Number.isNaN(seconds) ? null : Math.ceil(Math.min(Math.max(seconds, 0), retryAfterLimitSeconds));
}

/** Epoch milliseconds of an HTTP-date, NaN when it is none. The oldest of its forms leaves the zone out: it is GMT. */
function instant(text: string): number {
  const date = text.trim();
  if (!httpDate.test(date)) return Number.NaN;
  return Date.parse(/GMT$/i.test(date) ? date : `${date} GMT`);
}
