// The failure rules as the pure functions they are: the pause before a retry, and the state that a failure leads to.
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { settingsOf } from '../../lambdas/core/settings.ts';
import { startTestLedger, type TestLedger } from './test-ledger.ts';

let ledger: TestLedger;
beforeAll(async () => {
  ledger = await startTestLedger();
});
afterAll(() => ledger.stop());

const { retryBaseSeconds: base, retryCapSeconds: cap, attemptHardCap, maxFailures } = settingsOf('production');

describe('retry_delay', () => {
  /** Seconds of pause for each set of arguments, in one call. */
  async function delays(cases: readonly (readonly [failures: number, fraction: number, asked: number | null])[]) {
    const rows = await ledger.sql<{ seconds: number }>(
      `SELECT extract(epoch FROM retry_delay(CAST(x ->> 0 AS integer), $2, $3, CAST(x ->> 1 AS float8),
                                             CAST(x ->> 2 AS float8)))::float8 AS seconds
       FROM jsonb_array_elements($1) WITH ORDINALITY AS t (x, place) ORDER BY place`,
      [JSON.stringify(cases), base, cap],
    );
    return rows.map(({ seconds }) => seconds);
  }

  test('doubles from the base to the cap, and stays there', async () => {
    const counts = Array.from({ length: 16 }, (_, failures) => failures);
    const doubled = counts.map((failures) => Math.min(base * 2 ** failures, cap));
    expect(doubled.slice(0, 8)).toEqual([30, 60, 120, 240, 480, 960, 1920, 3600]);
    expect(await delays(counts.map((failures) => [failures, 1, null]))).toEqual(doubled);
  });

  test('full jitter: from nothing to the whole pause, by the fraction alone', async () => {
    const fractions = [0, 0.25, 0.5, 0.75, 1];
    expect(await delays(fractions.map((fraction) => [3, fraction, null]))).toEqual(
      fractions.map((share) => 240 * share),
    );
  });

  test('any count of failures, and any pause asked for: within the bounds, and nothing overflows', async () => {
    const count = fc.oneof(fc.nat(40), fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 }));
    const asked = fc.option(fc.double({ min: -1e6, max: 1e6, noNaN: true }));
    const argument = fc.tuple(count, fc.double({ min: 0, max: 1, noNaN: true }), asked);
    const cases = fc.sample(argument, 2000);
    const extremes = [2 ** 31 - 1, -(2 ** 31), 1024, 11, 10].map((failures) => [failures, 1, null] as const);
    const seconds = await delays([...cases, ...extremes]);
    for (const [place, [failures, fraction, pause]] of [...cases, ...extremes].entries()) {
      const whole = Math.min(base * 2 ** Math.min(Math.max(failures, 0), 10), cap);
      expect(seconds[place], JSON.stringify([failures, fraction, pause])).toBeCloseTo(
        Math.max(fraction * whole, pause ?? 0),
        4,
      );
    }
  });

  test('a pause the receiver asks for is a lower bound: the longer of the two counts', async () => {
    expect(
      await delays([
        [0, 0.5, 3600],
        [7, 1, 10],
        [7, 1, 86_400],
        [0, 0, 0],
        [0, 1, -5],
      ]),
    ).toEqual([3600, 3600, 86_400, 0, 30]);
  });
});

describe('state_after_failure', () => {
  /** Minutes from now; null: none. */
  interface Facts {
    readonly outcome: string;
    readonly contract: string;
    readonly cancelAsked: boolean;
    readonly expiresIn: number | null;
    readonly attempts: number;
    readonly failures: number;
    readonly nextIn: number;
  }
  const plain: Facts = {
    outcome: 'retry',
    contract: 'honours-key',
    cancelAsked: false,
    expiresIn: null,
    attempts: 1,
    failures: 1,
    nextIn: 5,
  };

  async function states(cases: readonly Facts[]): Promise<string[]> {
    const rows = await ledger.sql<{ state: string }>(
      `SELECT state_after_failure(x.outcome, x.contract, CASE WHEN x."cancelAsked" THEN now() END,
                                  now() + x."expiresIn" * interval '1 min', x.attempts, x.failures, $2, $3, now(),
                                  now() + x."nextIn" * interval '1 min') AS state
       FROM jsonb_array_elements($1) WITH ORDINALITY AS t (item, place),
            jsonb_to_record(item) AS x (outcome text, contract text, "cancelAsked" boolean, "expiresIn" integer,
                                        attempts integer, failures integer, "nextIn" integer)
       ORDER BY place`,
      [JSON.stringify(cases), attemptHardCap, maxFailures],
    );
    return rows.map(({ state }) => state);
  }

  /** The rules in their order: the first that applies decides. Each holds whatever the rules below it would say. */
  const rules: readonly { state: string; why: string; applies: (facts: Facts) => boolean }[] = [
    { state: 'cancelled', why: 'a cancel was asked', applies: ({ cancelAsked }) => cancelAsked },
    { state: 'dead', why: 'it never will succeed', applies: ({ outcome }) => ['permanent', 'gone'].includes(outcome) },
    { state: 'expired', why: 'its time is over', applies: ({ expiresIn }) => expiresIn !== null && expiresIn <= 0 },
    {
      state: 'held',
      why: 'nobody knows, and nothing is promised',
      applies: ({ outcome, contract }) => outcome === 'unknown' && contract !== 'honours-key',
    },
    {
      state: 'dead',
      why: 'enough was tried',
      applies: ({ attempts, failures }) => attempts >= attemptHardCap || failures >= maxFailures,
    },
    {
      state: 'expired',
      why: 'no attempt can land in time',
      applies: ({ expiresIn, nextIn }) => expiresIn !== null && expiresIn <= nextIn,
    },
    { state: 'scheduled', why: 'another try', applies: () => true },
  ];

  const spread: { readonly [Fact in keyof Facts]: readonly Facts[Fact][] } = {
    outcome: ['retry', 'permanent', 'gone', 'unknown', 'not_sent'],
    contract: ['honours-key', 'status-lookup', 'none'],
    cancelAsked: [false, true],
    expiresIn: [null, -1, 0, 4, 5, 6],
    attempts: [1, attemptHardCap - 1, attemptHardCap, attemptHardCap + 1],
    failures: [0, maxFailures - 1, maxFailures, maxFailures + 1],
    nextIn: [0, 5],
  };

  test('every combination goes by the first rule that applies', async () => {
    let all: Facts[] = [plain];
    for (const [fact, values] of Object.entries(spread)) {
      all = all.flatMap((facts) => values.map((value) => ({ ...facts, [fact]: value })));
    }
    expect(all.length).toBe(5760);
    const expected = all.map((facts) => rules.find(({ applies }) => applies(facts)));
    const got = await states(all);
    const wrong = all.flatMap((facts, place) =>
      got[place] === expected[place]?.state ? [] : [{ ...facts, got: got[place], expected: expected[place] }],
    );
    expect(wrong).toEqual([]);
    // Each rule decided some of them.
    expect([...new Set(expected)].length).toBe(rules.length);
  });

  test('a fault of ours, again and again, still ends at the hard cap', async () => {
    const ours = { ...plain, outcome: 'not_sent', failures: 0 };
    expect(await states([ours, { ...ours, attempts: attemptHardCap }])).toEqual(['scheduled', 'dead']);
  });
});
