// Retention on PostgreSQL: pages of finished reminders as records for the archive, and what leaves the database.
import type { ArchivedAs, ArchivePage, PageEnd, RetentionLedger } from '../core/archive-finished.ts';
import type { StatementRunner } from './statement.ts';
import { archive } from './statements/archive.ts';
import { forget } from './statements/forget.ts';
import { type ArchivableRow, listArchivable } from './statements/list-archivable.ts';
import { listFinishedProducers } from './statements/list-finished-producers.ts';

const day = 86_400;
/** A statement of so many stays well below its time limit, and holds the locks of finished rows for a moment only. */
const remindersPerPage = 500;
const rowsPerForget = 5000;

/** Implements the port `RetentionLedger`. */
export function postgresRetention(database: StatementRunner): RetentionLedger {
  return {
    async finishedProducers() {
      return (await database.run(listFinishedProducers, {})).map(({ producer }) => producer);
    },
    async listArchivable({ producer, retentionDays, after }) {
      const retentionSeconds = retentionDays * day;
      const rows = await database.run(listArchivable, { producer, retentionSeconds, limit: remindersPerPage, after });
      return pageOf(producer, rows);
    },
    async archive(reminders) {
      const rows = await database.run(archive, { reminders });
      return rows.filter(({ answer }) => answer === 'archived').length;
    },
    async forget(olderThanDays) {
      const [row] = await database.run(forget, { olderThanSeconds: olderThanDays * day, limit: rowsPerForget });
      return (row?.claims ?? 0) + (row?.receipts ?? 0);
    },
  };
}

/** One record a reminder, with its attempts and handoffs in it. */
function pageOf(producer: string, rows: readonly ArchivableRow[]): ArchivePage | null {
  const reminders: ArchivedAs[] = [];
  const records: object[] = [];
  let end: PageEnd | null = null;
  for (const [{ answer: _, ...reminder }, ...evidence] of byReminder(rows)) {
    const attempts = evidence.filter((row) => row.answer === 'attempt');
    const outcomes = attempts.reduce((sum, attempt) => sum + (attempt.outcomes?.length ?? 0), 0);
    const { delivery_id: deliveryId, version, state_since: stateSince } = reminder;
    reminders.push({ deliveryId, version, stateSince, outcomes });
    records.push({
      ...reminder,
      attempts: attempts.map(withoutAnswer),
      handoffs: evidence.filter((row) => row.answer === 'handoff').map(withoutAnswer),
    });
    end = { nextAttemptAt: reminder.next_attempt_at, deliveryId: reminder.delivery_id };
  }
  return end && { producer, reminders, records, end };
}

type Reminder = Extract<ArchivableRow, { answer: 'reminder' }>;
type Evidence = Exclude<ArchivableRow, Reminder>;

/** A reminder's own row stands before those of its evidence. */
function byReminder(rows: readonly ArchivableRow[]): [Reminder, ...Evidence[]][] {
  const groups: [Reminder, ...Evidence[]][] = [];
  for (const row of rows) {
    if (row.answer === 'reminder') groups.push([row]);
    else groups.at(-1)?.push(row);
  }
  return groups;
}

function withoutAnswer({ answer: _, delivery_id: __, ...columns }: Evidence): object {
  return columns;
}
