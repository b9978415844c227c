// Who makes reminders go on, in tests: commands about reminders as they were arranged, and what is true of them before.
import { v7 as uuid } from 'uuid';
import type { Recovery } from '../../lambdas/core/recoveries.ts';
import { postgresRecoveries } from '../../lambdas/store/recoveries.ts';
import { type Arranged, arrange, type Circumstances, inSeconds } from './situations.ts';
import type { TestLedger } from './test-ledger.ts';

export const actor = 'arn:aws:sts::111122223333:assumed-role/ledger-recover/ann';

/** A command about reminders as they were when they were arranged. */
export function recovery(verb: Recovery['verb'], rows: readonly Arranged[], more: Partial<Recovery> = {}): Recovery {
  return {
    ...{ token: uuid(), verb, actor, reason: 'the queue was purged', ticket: 'OPS-8', evidence: null, dryRun: false },
    reminders: rows.map(({ deliveryId, attempts }) => ({ deliveryId, versionSeen: 1, attemptsSeen: attempts })),
    ...more,
  };
}

/** A reminder whose invitation had its time; the calendar looks at it in ten minutes. */
export function lost(ledger: TestLedger, more: Circumstances = {}): Promise<Arranged> {
  const columns = { state_since: inSeconds(-400), first_invited_at: inSeconds(-400), ...more.columns };
  return arrange(ledger, 'queued', { dueIn: -600, wakeIn: 600, ...more, columns });
}

/** A reminder whose sender fell silent; the calendar looks at it in ten minutes. */
export const silent = (ledger: TestLedger, more: Circumstances = {}): Promise<Arranged> =>
  arrange(ledger, 'delivering, lease past', { dueIn: -600, wakeIn: 600, ...more });

/** @param ledger asked at each call: a test file starts it late */
export function recoverer(ledger: () => TestLedger) {
  return {
    recover: (command: Recovery) => postgresRecoveries(ledger().database).recover(command),
    async rowOf({ deliveryId }: Arranged) {
      const sql = 'SELECT * FROM reminder_delivery WHERE delivery_id = $1';
      return (await ledger().sql(sql, [deliveryId]))[0] as Record<string, unknown> & { wake_at: Date };
    },
    actions: () => ledger().sql('SELECT * FROM operator_action ORDER BY action_no'),
  };
}
