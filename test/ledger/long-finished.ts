// Reminders that came to their end long ago, with the evidence of it, and how a test archives them.
import { v7 as uuid } from 'uuid';
import type { ArchivedAs } from '../../lambdas/core/archive-finished.ts';
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

/** As it was read, unless told otherwise: without outcomes. */
export const as = ({ deliveryId }: Pick<Arranged, 'deliveryId'>, more: Partial<ArchivedAs> = {}): ArchivedAs => ({
  ...{ deliveryId, version: 1, outcomes: 0 },
  ...more,
});

export const archived = async (ledger: TestLedger, ...reminders: ArchivedAs[]) =>
  (await ledger.database.run(archive, { reminders })).map(({ answer }) => answer);

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
