// Reminders that came to their end long ago, with the evidence of it, and how a test archives them.
import { v7 as uuid } from 'uuid';
import type { ArchivedAs } from '../../lambdas/core/archive-finished.ts';
import type { Statement, StatementRunner } from '../../lambdas/store/statement.ts';
import { archive } from '../../lambdas/store/statements/archive.ts';
import { type Arranged, type Circumstances, inSeconds, insert } from './situations.ts';
import type { TestLedger } from './test-ledger.ts';

export const day = 86_400;

/** Came to its end so many days ago. */
export const ended = (days: number, more: Circumstances = {}): Circumstances => ({
  dueIn: -days * day,
  ...more,
  columns: { state_since: inSeconds(-days * day), ...more.columns },
});

/** What a test tells of a reminder that it archives; when it came to its state is read. */
export type Told = Omit<ArchivedAs, 'stateSince'>;

/** As it was read, unless told otherwise: without outcomes. */
export const as = ({ deliveryId }: Pick<Arranged, 'deliveryId'>, more: Partial<Told> = {}): Told => ({
  ...{ deliveryId, version: 1, outcomes: 0 },
  ...more,
});

const readStateSince: Statement<Record<string, never>, { delivery_id: string; state_since: string }> = {
  name: 'read-state-since',
  text: `SELECT CAST(json_build_object('delivery_id', r.delivery_id, 'state_since', r.state_since) AS text) AS answer
    FROM reminder_delivery r`,
  parameters: () => ({}),
};

/** Reads of each when it came to its state. */
export async function asRead(database: StatementRunner, ...reminders: Told[]): Promise<ArchivedAs[]> {
  const rows = await database.run(readStateSince, {});
  const since = new Map(rows.map((row) => [row.delivery_id, row.state_since]));
  return reminders.map((told) => ({ ...told, stateSince: since.get(told.deliveryId) ?? 'infinity' }));
}

export const archived = async (ledger: TestLedger, ...reminders: Told[]) =>
  (await ledger.database.run(archive, { reminders: await asRead(ledger.database, ...reminders) })).map(
    ({ answer }) => answer,
  );

/** Its one attempt ended. */
export function settled(ledger: TestLedger, { deliveryId }: Arranged, more: object = {}): Promise<void> {
  return insert(ledger, 'attempt_outcome', {
    ...{ delivery_id: deliveryId, attempt_no: 1, token: uuid(), recorded_by: 'sender', recorded_at: new Date() },
    ...{ outcome: 'delivered', status: 200, detail: 'thanks' },
    ...more,
  });
}

/** Its end stands in the outbox. */
export function happened(ledger: TestLedger, { deliveryId }: Arranged, announcedAt: Date | null): Promise<void> {
  return insert(ledger, 'lifecycle_event', {
    ...{ delivery_id: deliveryId, version: 1, state: 'delivered' },
    ...{ occurred_at: new Date(), announced_at: announcedAt },
  });
}

export const allAnnounced = (ledger: TestLedger) => ledger.sql('UPDATE lifecycle_event SET announced_at = now()');

export function handedOver(ledger: TestLedger, { deliveryId }: Arranged): Promise<void> {
  return insert(ledger, 'handoff', {
    ...{ delivery_id: deliveryId, message_id: 'm1', queue: 'q', token: uuid() },
    ...{ visible_from: new Date(), moved: true, recorded_at: new Date() },
  });
}
