// The outcome policy: every row of its table, what the table must say, and Retry-After.
import { describe, expect, test } from 'vitest';
import {
  errorPolicy,
  judgeAttempt,
  otherErrors,
  type ResponseHead,
  retryAfterLimitSeconds,
  retryAfterSeconds,
  statusPolicy,
} from '../../lambdas/core/outcome-policy.ts';
import type { AttemptPhase } from '../../lambdas/core/ports.ts';

const beforeBytes = ['none', 'dns', 'connect', 'tls'] as const;
const afterBytes = ['written', 'headers', 'body'] as const;
const head = { retryAfter: null, date: null, receivedAt: 0 };
const answered = (status: number, more: Partial<ResponseHead> = {}) =>
  judgeAttempt({ phase: 'body', response: { ...head, status, ...more }, errorCode: null });
const failed = (phase: AttemptPhase, errorCode: string | null) => judgeAttempt({ phase, response: null, errorCode });

describe('answers', () => {
  const judgedBy = new Map<number, string>();
  for (const { statuses, outcome } of statusPolicy) {
    const own: number[] = [];
    for (const [from, to] of statuses) {
      for (let status = from; status <= to; status += 1) if (!judgedBy.has(status)) own.push(status);
    }
    for (const status of own) judgedBy.set(status, outcome);
    test(`${JSON.stringify(statuses)}: ${outcome}`, () => {
      expect(own.length).toBeGreaterThan(0);
      for (const status of own) {
        expect(answered(status)).toEqual({
          outcome,
          status,
          errorClass: outcome === 'delivered' ? null : `http_${status}`,
          retryAfterSeconds: null,
        });
      }
    });
  }

  test('the table holds every status', () => {
    expect(judgedBy.size).toBe(1000);
  });

  test.each([
    ['delivered', [200, 201, 202, 204, 299]],
    ['retry', [302, 303, 307, 408, 425, 429, 500, 501, 502, 503, 504, 599, 600, 999, 0, 199]],
    ['permanent', [300, 301, 304, 305, 306, 308, 399, 400, 401, 403, 404, 409, 413, 422, 451, 499]],
    ['gone', [410]],
  ])('are %s', (outcome, statuses) => {
    expect(statuses.map((status) => answered(status).outcome)).toEqual(statuses.map(() => outcome));
  });

  test('decide by the status alone, whatever became of the body', () => {
    for (const errorCode of ['ECONNRESET', 'DEADLINE', 'ABORTED', null]) {
      const end = { phase: 'headers', response: { ...head, status: 204 }, errorCode } as const;
      expect(judgeAttempt(end)).toMatchObject({ outcome: 'delivered', errorClass: null });
    }
  });
});

describe('errors', () => {
  for (const { errorClass, codes, outcome } of errorPolicy) {
    for (const known of codes) {
      const code = known.replace('*', 'SOMETHING');
      test(`${code}: ${errorClass}, ${outcome} before bytes leave and unknown after`, () => {
        for (const phase of beforeBytes) expect(failed(phase, code)).toMatchObject({ outcome, errorClass });
        for (const phase of afterBytes) expect(failed(phase, code)).toMatchObject({ outcome: 'unknown', errorClass });
      });
    }
  }

  test.each([
    ['none', 'not_sent', 'internal'],
    ['dns', 'retry', 'dns_failed'],
    ['connect', 'retry', 'connect_failed'],
    ['tls', 'retry', 'tls_failed'],
    ['written', 'unknown', 'no_response'],
    ['headers', 'unknown', 'no_response'],
    ['body', 'unknown', 'no_response'],
  ] as const)('without a known code, at %s: %s as %s', (phase, outcome, errorClass) => {
    expect(Object.keys(otherErrors)).toContain(phase);
    for (const code of ['SOMETHING_ELSE', null]) expect(failed(phase, code)).toMatchObject({ outcome, errorClass });
  });

  test('of ours are not failures of the destination', () => {
    for (const code of ['ABORTED', 'EMFILE', 'UND_ERR_INVALID_ARG'])
      expect(failed('connect', code).outcome).toBe('not_sent');
    for (const code of ['DEADLINE', 'ADDRESS_BLOCKED', 'URL_REFUSED', 'ECONNREFUSED', 'CERT_HAS_EXPIRED']) {
      expect(failed('connect', code).outcome).toBe('retry');
    }
  });

  test('have short stable words', () => {
    const words = [...errorPolicy, ...Object.values(otherErrors)].map(({ errorClass }) => errorClass);
    for (const word of words) expect(word).toMatch(/^[a-z_]{4,32}$/);
  });
});

describe('Retry-After', () => {
  const date = 'Sun, 06 Nov 1994 08:49:37 GMT';
  const asked = (retryAfter: string | null, own: string | null = date) =>
    retryAfterSeconds({ retryAfter, date: own, receivedAt: Date.parse('1994-11-06T08:49:00Z') });

  test.each([
    ['120', 120],
    [' 7 ', 7],
    ['0', 0],
    ['1.2', 2],
    ['86401', retryAfterLimitSeconds],
    ['9'.repeat(400), retryAfterLimitSeconds],
    [null, null],
    ['', null],
    ['-5', null],
    ['1e9', null],
    ['Infinity', null],
    ['0x10', null],
    ['soon', null],
    ['1994', 1994],
    ['1994-11-06T08:50:37Z', null],
    ['Sun, 99 Foo 1994 08:49:37 GMT', null],
    ['Sun, 06 Nov 1994 08:50:37 GMT', 60],
    ['Sunday, 06-Nov-94 08:50:37 GMT', 60],
    ['Sun Nov  6 08:50:37 1994', 60],
    ['Sun, 06 Nov 1994 08:49:36 GMT', 0],
    ['Mon, 06 Nov 2094 08:49:37 GMT', retryAfterLimitSeconds],
  ])('%j asks for %j s', (header, seconds) => {
    expect(asked(header)).toBe(seconds);
  });

  test("counts a date from the answer's own clock, and from ours when it shows none", () => {
    expect(asked('Sun, 06 Nov 1994 08:50:37 GMT', null)).toBe(97);
    expect(asked('Sun, 06 Nov 1994 08:50:37 GMT', 'garbage')).toBe(97);
  });

  test('is heard only with an answer that means to be asked again', () => {
    expect(answered(429, { retryAfter: '30' }).retryAfterSeconds).toBe(30);
    expect(answered(503, { retryAfter: '30' }).retryAfterSeconds).toBe(30);
    for (const status of [200, 301, 400, 410])
      expect(answered(status, { retryAfter: '30' }).retryAfterSeconds).toBeNull();
  });
});
