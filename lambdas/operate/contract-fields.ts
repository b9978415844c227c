// The fields that requests of several duties have: names of reminders, reasons, the id of a command.
import * as z from 'zod';

/** The most reminders that one request may name. */
export const reminderLimit = 100;

const storable = (text: string): boolean => !text.includes('\u0000') && text.isWellFormed();

/** Text that people wrote, of so many characters at most. */
export const sentence = (limit: number) =>
  z
    .string()
    .trim()
    .min(1, 'must not be empty')
    .max(limit, `must have at most ${limit} characters`)
    .refine(storable, 'must not contain NUL or a lone surrogate');

/** An RFC 3339 date and time. */
export const instant = z.iso.datetime({ offset: true, error: 'must be an RFC 3339 date and time with an offset' });

/** The id of a reminder. */
export const reminderId = z.uuid('must be the id of a reminder');

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
