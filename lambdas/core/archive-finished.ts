// Retention: writes what is finished and past its policy to the archive, then takes payload and evidence out of the database.
import type { Log, Meter } from './ports.ts';

/** How long what is finished stays as it was, in days from the later of a reminder's last due time and its end. */
export interface RetentionPolicy {
  readonly finishedDays: number;
  /** Instead of it, by producer. */
  readonly byProducer: Readonly<Record<string, number>>;
}

/** A reminder as it was when it was read for the archive. */
export interface ArchivedAs {
  readonly deliveryId: string;
  readonly version: number;
  /** When it came to its state, to the microsecond: any move since changes it. */
  readonly stateSince: string;
  /** How many outcomes were read with it. */
  readonly outcomes: number;
}

/** Where a page ended. */
export interface PageEnd {
  readonly nextAttemptAt: string;
  readonly deliveryId: string;
}

/** Some finished reminders of one producer, the longest due first. */
export interface ArchivePage {
  readonly producer: string;
  readonly reminders: readonly ArchivedAs[];
  /** What is kept of each: all its columns, attempts with their outcomes, and handoffs. */
  readonly records: readonly object[];
  /** The last of them. */
  readonly end: PageEnd;
}

/** What the ledger does for retention. */
export interface RetentionLedger {
  /** Whose finished reminders are not archived yet. */
  finishedProducers(): Promise<string[]>;
  /** The next page, or null when there is none. Changes nothing. */
  listArchivable(query: {
    readonly producer: string;
    readonly retentionDays: number;
    readonly after: PageEnd | null;
  }): Promise<ArchivePage | null>;
  /** Takes payload and evidence of those that are still as they were read. Answers how many it took, now or before. */
  archive(reminders: readonly ArchivedAs[]): Promise<number>;
  /** Deletes some of what is older and serves commands run twice alone. Answers how many rows; 0 when none is left. */
  forget(olderThanDays: number): Promise<number>;
}

/** What begins the name of every page, wherever they are kept. */
export const archivePrefix = 'reminders/';

/** Where pages are kept once the database no longer has them. */
export interface Archive {
  /** Resolves once the page is durable. The same page written again changes nothing. Answers its name. */
  write(page: ArchivePage): Promise<string>;
}

/** What one run did. */
export interface Retained {
  readonly archived: number;
  /** Read and written, and left for the next run: they changed meanwhile. */
  readonly changed: number;
  readonly forgotten: number;
  /** Whether nothing is left that is past its policy. */
  readonly finished: boolean;
}

/** Some pages could not be archived. They are as they were, and the next run takes them up. */
export class RetentionError extends Error {
  override readonly name = 'RetentionError';

  constructor(failures: readonly unknown[]) {
    const first = failures[0] instanceof Error ? failures[0].message : String(failures[0]);
    super(`${failures.length} pages were not archived, and stay in the database; the first: ${first}`, {
      cause: failures[0],
    });
  }
}

/** What is left of an invocation's time when no page is begun any more: the slowest takes less. */
const reserveMs = 30_000;

/** So many pages, read or written, fail in a row for one reason, which more of them would only repeat. */
const failuresInARow = 3;

/**
 * One run, page by page until nothing is left or the time is nearly up. A page that fails keeps no other waiting.
 * @throws {RetentionError} when pages failed, at the end of the run
 * @throws {LedgerError} when the producers could not be read, or what is only for commands run twice not deleted
 */
export async function archiveFinished(
  { ledger, archive, policy }: { ledger: RetentionLedger; archive: Archive; policy: RetentionPolicy },
  { log, meter, remainingMs, signal }: { log: Log; meter: Meter; remainingMs: () => number; signal: AbortSignal },
): Promise<Retained> {
  const done = { archived: 0, changed: 0, forgotten: 0 };
  const failures: unknown[] = [];
  let inARow = 0;
  const timeIsUp = () => signal.aborted || remainingMs() < reserveMs;
  const goesOn = () => !timeIsUp() && inARow < failuresInARow;
  const failed = (producer: string, error: unknown) => {
    inARow += 1;
    failures.push(error);
    log.warn('archive_failed', { producer, error });
  };

  async function take(page: ArchivePage): Promise<void> {
    const { producer, reminders } = page;
    const name = await archive.write(page);
    const archived = await ledger.archive(reminders);
    done.archived += archived;
    done.changed += reminders.length - archived;
    log.info('archive', { producer, name, archived, changed: reminders.length - archived });
  }

  async function takeAll(producer: string): Promise<void> {
    const retentionDays = policy.byProducer[producer] ?? policy.finishedDays;
    for (let after: PageEnd | null = null; goesOn(); ) {
      const page: ArchivePage | null = await ledger.listArchivable({ producer, retentionDays, after });
      if (page === null) return;
      after = page.end;
      try {
        await take(page);
        inARow = 0;
      } catch (error) {
        failed(producer, error);
      }
    }
  }

  for (const producer of await ledger.finishedProducers()) {
    await takeAll(producer).catch((error: unknown) => failed(producer, error));
  }
  for (let rows = 1; rows > 0 && !timeIsUp(); done.forgotten += rows) rows = await ledger.forget(policy.finishedDays);

  const finished = !timeIsUp() && failures.length === 0;
  for (const [name, count] of Object.entries(done)) meter.count(name, count);
  meter.count('unfinished', finished ? 0 : 1);
  if (failures.length > 0) throw new RetentionError(failures);
  return { ...done, finished };
}
