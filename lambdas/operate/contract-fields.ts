// The fields that requests of several duties have: names of reminders, reasons, the id of a command.
import * as z from 'zod';
import type { ListPosition } from '../core/find-reminders.ts';

/** The most reminders that one request may name. */
export const reminderLimit = 100;

const storable = (text: string): boolean => !text.includes('\u0000') && text.isWellFormed();

/** Text as a product gave it, of so many characters at most. */
export const exact = (limit: number) =>
  z
    .string()
    .min(1, 'must not be empty')
    .max(limit, `must have at most ${limit} characters`)
    .refine(storable, 'must not contain NUL or a lone surrogate');

/** Text that people wrote, of so many characters at most. */
export const sentence = (limit: number) =>
  z
    .string()
    .trim()
    .min(1, 'must not be empty')
    .max(limit, `must have at most ${limit} characters`)
    .refine(storable, 'must not contain NUL or a lone surrogate');

/** An RFC 3339 date and time that the ledger can keep. */
export const instant = z.iso
  .datetime({ offset: true, error: 'must be an RFC 3339 date and time with an offset', abort: true })
  .refine((text) => {
    const year = new Date(text).getUTCFullYear();
    return year >= 2000 && year <= 9999;
  }, 'must lie in the years 2000 to 9999');

/** The id of a reminder. */
export const reminderId = z.uuid('must be the id of a reminder');

/** The name of a destination. */
export const destinationName = z
  .string()
  .regex(/^[a-z0-9][a-z0-9._-]{0,62}$/, 'must be the name of a registered destination');

/** The most that a page of a list holds. */
export const pageLimit = 100;

const unreadable = 'must be the `next` of the page before';

/** A page of a list that is sorted by an instant and an id. */
export const page = {
  limit: z.int().min(1).max(pageLimit, `must be at most ${pageLimit}`).default(50),
  /** `next` of the page before. @default the first page */
  cursor: z
    .string()
    .transform((text, context): ListPosition => {
      const [at = '', id = '', ...more] = text.split('/');
      const known = at === 'infinity' || instant.safeParse(at).success;
      if (known && reminderId.safeParse(id).success && more.length === 0) return { at, id };
      context.addIssue(unreadable);
      return z.NEVER;
    })
    .optional(),
};

/** A page of a list that is sorted by a number, as `page` otherwise. */
export const numberedPage = {
  limit: page.limit,
  cursor: z
    .string()
    .regex(/^\d{1,18}$/, unreadable)
    .optional(),
};

/** What every writing request carries. */
export const writing = {
  /** Names the command: the same one again has the same answer and does nothing more. A UUID, fresh for each command. */
  commandId: z.uuid('must be a UUID, fresh for each command'),
  /** Why. Kept for good. */
  reason: sentence(500),
  /** Where the work on it is recorded. */
  ticket: sentence(100).optional(),
  /** Do it. Otherwise the answers say what would be done, and nothing is. */
  apply: z.boolean().default(false),
};

const seenReminder = z.strictObject({
  deliveryId: reminderId,
  /** The version as it was shown: a reminder that was changed or tried since is left alone. */
  versionSeen: z.int32().positive(),
  /** As many attempts as were shown. */
  attemptsSeen: z.int32().nonnegative(),
});

/** Reminders as the person who asks last saw them, each once. */
export const seenReminders = z
  .array(seenReminder)
  .min(1, 'must name a reminder')
  .max(reminderLimit, `must name at most ${reminderLimit} reminders a request`)
  .refine((seen) => new Set(seen.map(({ deliveryId }) => deliveryId)).size === seen.length, 'must name each once');
