// A case of the contract with AWS: one fact that the product relies on, and how it is looked at on either target.
import { existsSync } from 'node:fs';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { failureOf, openTarget, type Target } from './target.ts';

/** One fact, and where it matters. */
export interface ContractCase {
  /** Such as `data-api/sqlstate-in-message`: what a difference is called. */
  readonly id: `${string}/${string}`;
  /** The fact in one sentence. */
  readonly fact: string;
  /** The product's file that relies on it, as a path in the repository. */
  readonly reliedOnBy: string;
  /** The AWS document that says so; `unverified` when none does. */
  readonly source: string;
  /** Why local AWS cannot carry the case out. @default it can */
  readonly awsOnly?: string;
  /**
   * How local AWS is known to differ, and what the check's failure then says. The check must fail there so and not
   * otherwise: the field goes when local AWS is put right.
   * @default it does not differ
   */
  readonly differsLocally?: { readonly how: string; readonly seen: RegExp };
  /** It takes minutes in an account: run there with `--slow` alone. Locally the limits are short. @default false */
  readonly slow?: boolean;
  /** It schedules one reminder, far ahead, and cancels it; not run in an account without `--destination` and `--product`. @default false */
  readonly needsDestination?: boolean;
  /** Rejects when the target differs. */
  readonly check: (target: Target) => Promise<void>;
}

/** What became of a case that did not fail. */
export type CaseStatus = 'held' | 'aws only' | 'differs locally' | 'not run';

declare module 'vitest' {
  interface TaskMeta {
    contract?: { readonly id: string; readonly fact: string; status: CaseStatus; note: string };
  }
}

const slowAsked = process.env.REMINDER_LEDGER_SLOW === '1';
const { REMINDER_LEDGER_DESTINATION: destination, REMINDER_LEDGER_PRODUCT: product } = process.env;

/** Registers the cases as tests of one target, which they share. No case is skipped: what is not run says why. */
export function contract(cases: readonly ContractCase[]): void {
  let target: Target;
  beforeAll(async () => {
    target = await openTarget();
  });
  afterAll(() => target?.close());

  test('suite/cases: each case has an id of its own and names a file that exists', () => {
    expect(new Set(cases.map(({ id }) => id)).size).toBe(cases.length);
    expect(cases.filter(({ reliedOnBy }) => !existsSync(reliedOnBy)).map(({ id }) => id)).toEqual([]);
    expect(cases.filter(({ source }) => source === '').map(({ id }) => id)).toEqual([]);
  });

  for (const one of cases) {
    test(`${one.id}: ${one.fact}`, { timeout: 600_000 }, async ({ task }) => {
      const report = (status: CaseStatus, note: string) => {
        task.meta.contract = { id: one.id, fact: one.fact, status, note };
        // An account's run ends with a table instead.
        if (target.kind === 'local' && status !== 'held') console.log(`${status}: ${one.id}: ${note}`);
      };
      const reason = notRun(one, target.kind);
      if (reason !== undefined) {
        report(one.awsOnly !== undefined && target.kind === 'local' ? 'aws only' : 'not run', reason);
        expect(reason.length, 'the reason').toBeGreaterThan(20);
        return;
      }
      if (target.kind === 'local' && one.differsLocally !== undefined) {
        report('differs locally', one.differsLocally.how);
        const { message } = await failureOf(one.check(target));
        expect(message, 'how local AWS is known to differ').toMatch(one.differsLocally.seen);
        return;
      }
      report('held', one.source);
      await one.check(target);
    });
  }
}

function notRun(one: ContractCase, kind: Target['kind']): string | undefined {
  if (kind === 'local') return one.awsOnly;
  if (one.slow && !slowAsked) return 'takes minutes in an account; ask for it with --slow';
  if (one.needsDestination && (destination === undefined || product === undefined)) {
    return 'schedules one reminder and cancels it; name where with --destination, and who with --product';
  }
  return undefined;
}
