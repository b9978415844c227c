// The schedule function: the commands a product sends, the answer each gets, its environment.
import * as z from 'zod';
import type { FunctionContract } from '../core/function-contract.ts';

/** The function as deployed. Products invoke an alias named after them: the alias is the producer. */
export const scheduleFunction: FunctionContract = {
  name: 'schedule',
  purpose: 'Schedules, cancels, reschedules and shows reminders for product functions, one command or a batch',
  databaseRole: 'ledger_schedule',
  environment: ['STAGE', 'DATABASE_ARN', 'DATABASE_SECRET_ARN', 'DATABASE_NAME', 'INVITATION_QUEUE_URL'],
  localEnvironment: [],
  memoryMegabytes: 512,
  timeoutSeconds: (settings) => settings.scheduleTimeoutSeconds,
};

/** The most commands one call may carry. */
export const commandLimit = 500;
/** The most bytes of payload one call may carry, all commands together. */
export const callPayloadLimitBytes = 5 * 1024 * 1024;
/** The most bytes one payload may have, as UTF-8. */
export const payloadLimitBytes = 32_768;

const storable = (text: string): boolean => !text.includes('\u0000') && text.isWellFormed();
const notStorable = 'must not contain NUL or a lone surrogate: PostgreSQL and UTF-8 cannot hold them';
const payloadTooLong = `must be at most ${payloadLimitBytes} bytes as UTF-8`;

/** RFC 3339 with a time zone offset, years 2000 to 9999: without an offset the instant would be a guess. */
const instant = z.iso
  .datetime({
    offset: true,
    error: 'must be an RFC 3339 date and time with an offset, such as 2026-12-24T18:00:00+01:00',
  })
  .refine((text) => {
    const year = new Date(text).getUTCFullYear();
    return year >= 2000 && year <= 9999;
  }, 'must lie in the years 2000 to 9999');

/** The receiver sees the key in a header: visible ASCII. */
const key = z
  .string()
  .regex(/^[\x21-\x7e]{1,255}$/, 'must be 1 to 255 visible ASCII characters without spaces: it is sent as a header');
const destination = z.string().regex(/^[a-z0-9][a-z0-9._-]{0,62}$/, 'must be the name of a registered destination');
const userId = z.string().min(1).max(128).refine(storable, notStorable);

const payloadText = z
  .string()
  .refine(storable, notStorable)
  .refine((text) => Buffer.byteLength(text, 'utf8') <= payloadLimitBytes, payloadTooLong);
/**
 * The text that is sent for a value. A number beyond a double's range has been read as infinite by then and would be sent
 * as null: no text for it.
 */
function jsonText(value: unknown): string | null {
  let finite = true;
  const text = JSON.stringify(value, (_name, item) => {
    finite &&= typeof item !== 'number' || Number.isFinite(item);
    return item;
  });
  return finite ? text : null;
}

/** Taken as it is: z.json() would copy it, and leave out what is named `__proto__`. */
const payload = z
  .custom<z.infer<z.ZodJSONSchema>>()
  .refine((value) => jsonText(value) !== null, {
    error: 'must not hold numbers beyond the range of a double: send it as payloadText',
    abort: true,
  })
  .refine((value) => payloadText.safeParse(jsonText(value)).success, {
    error: `as JSON text ${payloadTooLong}`,
  });

const named = {
  key: key.optional(),
  deliveryId: z.uuid().optional(),
};
const oneName = (command: { key?: string | undefined; deliveryId?: string | undefined }): boolean =>
  (command.key === undefined) !== (command.deliveryId === undefined);
const oneNameError = { path: ['key'], error: 'give either key or deliveryId' };

/** `schedule`: write a reminder into the calendar. The same key again with the same content answers `duplicate`. */
export const scheduleCommand = z
  .strictObject({
    verb: z.literal('schedule'),
    key,
    destination,
    dueAt: instant,
    userId,
    /** Any JSON value; sent as its `JSON.stringify` text. */
    payload: payload.optional(),
    /** Instead of `payload`: the exact text to send. For key order, long numbers, or anything but JSON. */
    payloadText: payloadText.optional(),
    /** From when on it must not be sent any more. Default: never expires. */
    expiresAt: instant.optional(),
  })
  .refine((command) => (command.payload === undefined) !== (command.payloadText === undefined), {
    path: ['payload'],
    error: 'give either payload or payloadText',
  })
  .refine((command) => command.expiresAt === undefined || Date.parse(command.expiresAt) > Date.parse(command.dueAt), {
    path: ['expiresAt'],
    error: 'must be later than dueAt',
  });

/** `cancel`: call a reminder off. Answers `too_late` while it is being sent. */
export const cancelCommand = z.strictObject({ verb: z.literal('cancel'), ...named }).refine(oneName, oneNameError);

/** `reschedule`: move its due time, and its expiry when given (`null` removes it). */
export const rescheduleCommand = z
  .strictObject({
    verb: z.literal('reschedule'),
    ...named,
    dueAt: instant,
    expiresAt: instant.nullable().optional(),
    /** Refused as `stale` when the reminder has another version. */
    expectedVersion: z.int32().positive().optional(),
  })
  .refine(oneName, oneNameError)
  .refine((command) => command.expiresAt == null || Date.parse(command.expiresAt) > Date.parse(command.dueAt), {
    path: ['expiresAt'],
    error: 'must be later than dueAt',
  });

/** `get`: what the ledger says of a reminder. */
export const getCommand = z.strictObject({ verb: z.literal('get'), ...named }).refine(oneName, oneNameError);

/** One command; which one is told by `verb`. */
export const command = z.discriminatedUnion('verb', [scheduleCommand, cancelCommand, rescheduleCommand, getCommand]);
export type Command = z.infer<typeof command>;
export type ScheduleCommand = z.infer<typeof scheduleCommand>;

/** A batch: each command is answered on its own, in order. */
export const batchRequest = z.strictObject({ commands: z.array(z.unknown()).min(1).max(commandLimit) });

/** One command, or `{ commands: [...] }`. */
export type ScheduleRequest = Command | { commands: Command[] };

/** What is wrong with a command or a call: where, and what to do. */
export interface Issue {
  /** The field, such as `dueAt`; `command` for a command as a whole, `commands` for the call as a whole. */
  readonly path: string;
  readonly message: string;
}

interface Facts {
  readonly deliveryId: string;
  readonly state: string;
  /** The present due time, ISO 8601 in UTC. */
  readonly dueAt: string;
  readonly expiresAt: string | null;
  readonly version: number;
}

/**
 * The answer to one command.
 * - `scheduled`: it is in the calendar. `duplicate`: it already was, with the same content.
 * - `conflict`: the key is taken by a reminder with other content; `fields` names what differs (empty when the key is
 *   another product's).
 * - `cancelled`: it will not be sent. `rescheduled`: it has the new due time. `unchanged`: it had it already.
 * - `too_late`: it is being sent, or an earlier attempt's result is not known yet; a cancel asked now still prevents retries.
 * - `finished`: delivered, dead, expired or cancelled, see `state`. `held`: waits for a person.
 * - `stale`: another version than expected. `not_found`: no such reminder of this product.
 * - `found`: the answer to `get`.
 * - `invalid`: nothing was done; `issues` says where and why.
 */
export type CommandAnswer =
  | ({ readonly answer: 'scheduled' | 'duplicate' } & Facts)
  | { readonly answer: 'conflict'; readonly fields: readonly string[]; readonly deliveryId?: string }
  | ({
      readonly answer: 'cancelled' | 'rescheduled' | 'unchanged' | 'too_late' | 'finished' | 'held' | 'stale';
    } & Facts)
  | { readonly answer: 'not_found' }
  | ({ readonly answer: 'found'; readonly reminder: Readonly<Record<string, unknown>> } & Facts)
  | { readonly answer: 'invalid'; readonly issues: readonly Issue[] };

/** One command gets one answer; a batch gets one a command, in order; a call that is invalid as a whole gets `invalid`. */
export type ScheduleResponse = CommandAnswer | { readonly answers: readonly CommandAnswer[] };
