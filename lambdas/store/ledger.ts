// The ledger on PostgreSQL: the domain's commands as statements, their rows as the domain's answers.
import { LedgerError } from '../core/errors.ts';
import { differingFields, fingerprintOf } from '../core/fingerprint.ts';
import type {
  CancelAnswer,
  ClaimAnswer,
  Ledger,
  LifecycleEvent,
  NewReminder,
  OpenAnswer,
  ReminderView,
  RescheduleAnswer,
  ScheduleAnswer,
  SettleAnswer,
} from '../core/ports.ts';
import { answerItems, defect, roundLimit } from './answer-items.ts';
import { type ClaimRow, claimAnswer, facts, instant } from './rows.ts';
import type { Statement, StatementRunner } from './statement.ts';
import { announce } from './statements/announce.ts';
import { cancel } from './statements/cancel.ts';
import { claim } from './statements/claim.ts';
import { claimById } from './statements/claim-by-id.ts';
import { enqueue } from './statements/enqueue.ts';
import { exclude } from './statements/exclude.ts';
import { type GetRow, get } from './statements/get.ts';
import { listDue } from './statements/list-due.ts';
import { open } from './statements/open.ts';
import { release } from './statements/release.ts';
import { type RescheduleRow, reschedule } from './statements/reschedule.ts';
import { type ScheduleRow, schedule } from './statements/schedule.ts';
import { settle } from './statements/settle.ts';
import { unannounced } from './statements/unannounced.ts';
import { unpark } from './statements/unpark.ts';

/** The most bytes of payload one schedule statement carries: as base64 it stays well below the Data API's 4 MiB. */
const payloadBytesPerStatement = 2 * 1024 * 1024;

/** A found reminder can take 3 KB of the 1 MiB that one answer of the Data API may have. */
const namesPerGet = 250;

type Command<Verb extends keyof Ledger> = Parameters<Ledger[Verb]>[0];

/** Implements the port `Ledger`. Each method is one statement, or one a chunk; each may be run twice with its token. */
export class PostgresLedger implements Ledger {
  readonly #database: StatementRunner;

  constructor(database: StatementRunner) {
    this.#database = database;
  }

  async schedule({ token, producer, reminders }: Command<'schedule'>): Promise<ScheduleAnswer[]> {
    const items = reminders.map((reminder, item) => ({ ...reminder, item, fingerprint: fingerprintOf(reminder) }));
    const answers = new Map<number, ScheduleRow>();
    for (const chunk of chunksByPayload(items)) {
      const rows = await answerItems(this.#database, schedule, (open) => ({ token, producer, items: open }), chunk);
      for (const [item, row] of rows) answers.set(item, row);
    }
    return items.map((item) => scheduleAnswer(answers.get(item.item), item.fingerprint));
  }

  async cancel({ token, producer, reminders }: Command<'cancel'>): Promise<CancelAnswer[]> {
    const items = reminders.map((name, item) => ({ item, name }));
    const rows = await answerItems(this.#database, cancel, (open) => ({ token, producer, reminders: open }), items);
    return items.map(({ item }) => {
      const row = rows.get(item);
      if (row === undefined || row.answer === null || row.answer === 'not_found') return { answer: 'not_found' };
      return { answer: row.answer, ...facts(row) };
    });
  }

  async reschedule({ token, producer, reminders }: Command<'reschedule'>): Promise<RescheduleAnswer[]> {
    const items = reminders.map((reminder, item) => ({ ...reminder, item }));
    const rows = await answerItems(this.#database, reschedule, (open) => ({ token, producer, reminders: open }), items);
    return items.map(({ item }) => rescheduleAnswer(rows.get(item)));
  }

  async get({ producer, reminders }: Command<'get'>): Promise<(ReminderView | null)[]> {
    const rows: GetRow[] = [];
    for (let place = 0; place < reminders.length; place += namesPerGet) {
      const chunk = reminders.slice(place, place + namesPerGet).map((name, item) => ({ item: place + item, name }));
      rows.push(...(await this.#database.run(get, { producer, reminders: chunk })));
    }
    return rows.map((row) =>
      row.answer === 'not_found'
        ? null
        : {
            ...facts(row),
            key: row.key,
            destination: row.destination,
            userId: row.user_id,
            nextAttemptAt: instant(row.next_attempt_at),
            wakeAt: instant(row.wake_at),
            stateSince: instant(row.state_since),
            attempts: row.attempts,
            failures: row.failures,
            leaseUntil: instant(row.lease_until),
            cancelRequestedAt: instant(row.cancel_requested_at),
            holdReason: row.hold_reason,
            lastError: row.last_error,
            deliveredAt: instant(row.delivered_at),
            parked: row.parked,
          },
    );
  }

  async claim(command: Command<'claim'>): Promise<ClaimAnswer> {
    return this.#claimed(claim, command);
  }

  async claimById(command: Command<'claimById'>): Promise<ClaimAnswer> {
    return this.#claimed(claimById, command);
  }

  async listDue(query: Command<'listDue'>): Promise<string[]> {
    const rows = await this.#database.run(listDue, query);
    return rows.map((row) => row.delivery_id);
  }

  async exclude(command: Command<'exclude'>): Promise<void> {
    await this.#database.run(exclude, command);
  }

  async enqueue({ claimToken, receipts }: Command<'enqueue'>): Promise<number> {
    const items = receipts.map((receipt, item) => ({ ...receipt, item }));
    const byMessage = new Map(items.map((receipt) => [receipt.messageId, receipt.item]));
    const rows = await answerItems(
      this.#database,
      enqueue,
      (open) => ({ claimToken, receipts: open }),
      items,
      (row) => byMessage.get(row.message_id),
    );
    return [...rows.values()].filter((row) => row.answer === 'queued').length;
  }

  async release(command: Command<'release'>): Promise<number> {
    return this.#counted(release, command);
  }

  async unpark(command: Command<'unpark'>): Promise<number> {
    return this.#counted(unpark, command);
  }

  async open(command: Command<'open'>): Promise<OpenAnswer[]> {
    const rows = await this.#database.run(open, command);
    return rows.map((row) =>
      row.answer === 'opened'
        ? {
            answer: 'opened',
            deliveryId: row.delivery_id,
            attemptNo: row.attempt_no,
            key: row.key,
            payload: row.payload,
            destination: row.destination,
            url: row.url,
            deadlineMs: row.deadline_ms,
          }
        : { answer: row.answer, deliveryId: row.delivery_id, state: row.state, dueInMs: row.due_in_ms },
    );
  }

  async settle({ token, outcomes }: Command<'settle'>): Promise<SettleAnswer[]> {
    const items = outcomes.map((outcome, item) => ({ ...outcome, item }));
    const places = new Map(items.map((outcome) => [`${outcome.deliveryId} ${outcome.attemptNo}`, outcome.item]));
    const rows = await answerItems(
      this.#database,
      settle,
      (open) => ({ token, outcomes: open }),
      items,
      (row) => places.get(`${row.delivery_id} ${row.attempt_no}`),
    );
    return items.map(({ item, deliveryId, attemptNo }) => {
      const row = rows.get(item);
      if (!row?.state || !row.answer || row.answer === 'not_opened') {
        throw defect(settle.name, `attempt ${attemptNo} of ${deliveryId} was never opened under this token`);
      }
      return { deliveryId, attemptNo, answer: row.answer, state: row.state };
    });
  }

  async unannounced({ limit }: Command<'unannounced'>): Promise<LifecycleEvent[]> {
    const rows = await this.#database.run(unannounced, { limit });
    return rows.map((row) => ({
      eventNo: row.event_no,
      eventId: `${row.delivery_id}:${row.version}:${row.state}`,
      deliveryId: row.delivery_id,
      producer: row.producer,
      state: row.state,
      version: row.version,
      dueAt: instant(row.due_at),
      at: instant(row.occurred_at),
      attempts: row.attempts,
    }));
  }

  async announce(command: Command<'announce'>): Promise<void> {
    await this.#database.run(announce, command);
  }

  /** Runs a claim; when a twin holds its token, asks again and so rejoins the twin's rows. */
  async #claimed<Input>(statement: Statement<Input, ClaimRow>, input: Input): Promise<ClaimAnswer> {
    let askedAt = 0;
    const ask = () =>
      this.#database.run(statement, input, (monotonicMs) => {
        askedAt = monotonicMs;
      });
    const rows = await ask().catch((error: unknown) => {
      if (error instanceof LedgerError && error.sqlState === '23505') return ask();
      throw error;
    });
    return claimAnswer(rows, askedAt);
  }

  async #counted<Input>(statement: Statement<Input, { answer: 'counted' | null; count: number }>, input: Input) {
    for (let round = 0; round < roundLimit; round += 1) {
      const [row] = await this.#database.run(statement, input);
      if (row?.answer === 'counted') return row.count;
    }
    throw defect(statement.name, `no answer in ${roundLimit} rounds`);
  }
}

function scheduleAnswer(row: ScheduleRow | undefined, fingerprint: string): ScheduleAnswer {
  switch (row?.answer) {
    case 'scheduled':
      return { answer: 'scheduled', nearDue: row.near_due, ...facts(row) };
    case 'taken': {
      if (!row.own) return { answer: 'conflict', fields: [] };
      const fields = differingFields(fingerprint, row.fingerprint);
      if (fields.length === 0) return { answer: 'duplicate', ...facts(row) };
      return { answer: 'conflict', fields, deliveryId: row.delivery_id };
    }
    case 'unknown_destination':
      return { answer: 'invalid', path: 'destination', message: 'no such destination: register it first' };
    case 'past_expiry':
      return { answer: 'invalid', path: 'expiresAt', message: 'has passed already, by the clock of the database' };
    default:
      throw defect(schedule.name, 'an item was left without an answer');
  }
}

function rescheduleAnswer(row: RescheduleRow | undefined): RescheduleAnswer {
  if (row === undefined || row.answer === null || row.answer === 'not_found') return { answer: 'not_found' };
  if (row.answer === 'invalid_expiry') {
    const message = 'the expiry must be later than the new due time and than now; give a new one, or null for none';
    return { answer: 'invalid', path: 'expiresAt', message };
  }
  if (row.answer === 'rescheduled') return { answer: 'rescheduled', nearDue: row.near_due, ...facts(row) };
  return { answer: row.answer, ...facts(row) };
}

function chunksByPayload<Item extends NewReminder>(items: readonly Item[]): Item[][] {
  const chunks: Item[][] = [];
  let bytes = Number.POSITIVE_INFINITY;
  for (const item of items) {
    const size = Buffer.byteLength(item.payload, 'utf8');
    if (bytes + size > payloadBytesPerStatement) {
      chunks.push([]);
      bytes = 0;
    }
    chunks.at(-1)?.push(item);
    bytes += size;
  }
  return chunks;
}
