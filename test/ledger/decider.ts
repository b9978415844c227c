// Who decides, in tests: commands about reminders as they were arranged, and what the ledger keeps of them.
import { v7 as uuid } from 'uuid';
import type { Decision, DecisionVerb } from '../../lambdas/core/decisions.ts';
import { postgresDecisions } from '../../lambdas/store/decisions.ts';
import { type Arranged, insert } from './situations.ts';
import type { TestLedger } from './test-ledger.ts';

export const actor = 'arn:aws:sts::111122223333:assumed-role/ledger-decide/ann';

/** A decision about reminders as they were when they were arranged. */
export function command(verb: DecisionVerb, rows: readonly Arranged[], more: Partial<Decision> = {}): Decision {
  return {
    ...{ token: uuid(), verb, actor, reason: 'the partner was down', ticket: 'OPS-7', evidence: null, dryRun: false },
    reminders: rows.map(({ deliveryId, attempts }) => ({ deliveryId, versionSeen: 1, attemptsSeen: attempts })),
    ...more,
  };
}

/** @param ledger asked at each call: a test file starts it late */
export function decider(ledger: () => TestLedger) {
  return {
    decide: (decision: Decision) => postgresDecisions(ledger().database).decide(decision),
    async rowOf({ deliveryId }: Arranged) {
      const sql = 'SELECT * FROM reminder_delivery WHERE delivery_id = $1';
      return (await ledger().sql(sql, [deliveryId]))[0] as Record<string, unknown>;
    },
    actions: () => ledger().sql('SELECT * FROM operator_action ORDER BY action_no'),
    /** What became of an attempt, for certain or not. */
    known: (row: Arranged, attemptNo: number, outcome: string) =>
      insert(ledger(), 'attempt_outcome', {
        ...{ delivery_id: row.deliveryId, attempt_no: attemptNo, token: uuid(), recorded_by: 'sender' },
        ...{ recorded_at: new Date(), outcome },
      }),
  };
}
