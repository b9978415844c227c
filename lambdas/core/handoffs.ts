// Lost handoffs: what the ledger handed over, against what the queue says that it holds.
import type { QueueCounts } from './dead-letters.ts';

/** What follows from both, and what it means. */
export const handoffFindings = {
  none: 'Nothing that was handed over is overdue.',
  waiting: 'The queue has a message for each: senders are slow, throttled or off.',
  lost: 'The queue has fewer messages than reminders that were handed to it: it was purged, or lost them.',
} as const;
export type HandoffFinding = keyof typeof handoffFindings;

/** Counts of rows that are queued. */
export interface QueuedRows {
  readonly queued: number;
  /** Of them, those whose invitation should have been opened. */
  readonly overdue: number;
}

/**
 * Every queued row had a message of its own, and what is overdue had its time. Messages of other rows and doubles only
 * make the queue fuller, so that what is missing is lost for certain, but for the queue's own lateness.
 * @returns how many are lost at least, beside the finding
 */
export function judgeHandoffs(
  { queued, overdue }: QueuedRows,
  { visible, notVisible, delayed }: QueueCounts,
): { readonly finding: HandoffFinding; readonly lostAtLeast: number } {
  if (overdue === 0) return { finding: 'none', lostAtLeast: 0 };
  const lostAtLeast = Math.max(0, queued - (visible + notVisible + delayed));
  return { finding: lostAtLeast > 0 ? 'lost' : 'waiting', lostAtLeast };
}
