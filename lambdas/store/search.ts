// What people search the calendar for, on PostgreSQL.
import type { FoundReminder, SearchLedger } from '../core/find-reminders.ts';
import { defect } from './answer-items.ts';
import { instant } from './rows.ts';
import type { StatementRunner } from './statement.ts';
import { type FoundRow, find } from './statements/find.ts';
import { forecast } from './statements/forecast.ts';

/** Implements the port `SearchLedger`. */
export function postgresSearch(database: StatementRunner): SearchLedger {
  return {
    async find(query) {
      const rows = await database.run(find, query);
      const page = rows.at(-1);
      if (page?.answer !== 'page') throw defect(find.name, 'it answered no last line');
      if (!page.known) return null;
      const { at, id } = page;
      const reminders = rows.flatMap((row) => (row.answer === 'reminder' ? [found(row)] : []));
      // As it stands there: an instant of JavaScript has milliseconds, and the place lies between them.
      return { reminders, next: at === null || id === null ? null : { at, id } };
    },

    async forecast(seconds, count, destination) {
      const rows = await database.run(forecast, { seconds, count, destination });
      const span = rows.at(-1);
      if (span?.answer !== 'span') throw defect(forecast.name, 'it answered no last line');
      if (!span.known) return null;
      const due = rows.flatMap((row) => (row.answer === 'due' ? [{ at: instant(row.at), count: row.count }] : []));
      return { from: instant(span.from), to: instant(span.to), due, stoppedAt: instant(span.stopped_at) };
    },
  };
}

function found(row: FoundRow): FoundReminder {
  const { key, producer, destination, state, version, attempts, failures, parked, reason } = row;
  return {
    ...{ deliveryId: row.delivery_id, key, producer, userId: row.user_id, destination, state },
    ...{ stateSince: instant(row.state_since), version, attempts, failures, parked, dueAt: instant(row.due_at) },
    ...{ nextAttemptAt: instant(row.next_attempt_at), unreviewedSince: instant(row.unreviewed_since), reason },
  };
}
