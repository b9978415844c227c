// What a person may decide about a reminder, and what the ledger answers.
import type { CommandToken, ReminderFacts } from './ports.ts';

/**
 * - `hold`: nobody sends it until a person decides again.
 * - `release`: a held reminder goes back to the calendar, under its own id and key, with its attempts counted on.
 * - `requeue`: a dead one does.
 * - `resolve`: the receiver has it, by evidence from outside.
 * - `review`: a person has seen that it is held or dead, and leaves it so.
 * - `cancel`: it is not sent; while it is being sent the wish is kept and prevents its retries.
 */
export const decisionVerbs = ['hold', 'release', 'requeue', 'resolve', 'review', 'cancel'] as const;
export type DecisionVerb = (typeof decisionVerbs)[number];

/** A reminder as the person who decides last saw it. */
export interface SeenReminder {
  readonly deliveryId: string;
  /** Another version by now: nothing is done, and the answer is `stale`. */
  readonly versionSeen: number;
  /** How many attempts it had had. Another number by now is `stale` too: what they came to was not seen. */
  readonly attemptsSeen: number;
}

/** One decision about one reminder or several, each answered on its own. */
export interface Decision {
  /** The same token again gets the same answers and does nothing more. */
  readonly token: CommandToken;
  readonly verb: DecisionVerb;
  /** Who, as IAM knows them. */
  readonly actor: string;
  readonly reason: string;
  readonly ticket: string | null;
  /** What the receiver said, wherever an attempt may have reached it; for `resolve` always. */
  readonly evidence: string | null;
  /** Answer what would be done, and do nothing. */
  readonly dryRun: boolean;
  /** For `release` and `requeue`: ISO 8601, or null for none. Absent: as it is, and a reminder whose time is over is refused. */
  readonly expiresAt?: string | null;
  readonly reminders: readonly SeenReminder[];
}

/**
 * What became of a decision about one reminder.
 * `held`, `released`, `requeued`, `resolved`, `reviewed`, `cancelled`: as decided, or so already. `too_late`: it is being sent, the wish to
 * call it off is kept. `wait`: it is being sent, decide again when it is not. `stale`: changed since it was seen.
 * `evidence_needed`: an attempt may have reached the receiver,
 * or it may have forgotten the key. `expiry_passed`: give a later expiry. `refused`: only a
 * held one can be released, and only a dead one requeued. `token_used`: another
 * command has its id. `unusable`: its row cannot be updated, see the exclusions. `finished`, `archived`, `shadow`, `nothing_to_review`: its state does not allow it.
 */
export type DecisionAnswer =
  | 'held'
  | 'released'
  | 'requeued'
  | 'resolved'
  | 'reviewed'
  | 'cancelled'
  | 'too_late'
  | 'wait'
  | 'stale'
  | 'evidence_needed'
  | 'expiry_passed'
  | 'refused'
  | 'finished'
  | 'archived'
  | 'shadow'
  | 'nothing_to_review'
  | 'token_used'
  | 'unusable'
  | 'not_found';

/** The answer about one reminder, with what is true of it now; in a dry run, what would be. */
export type Decided =
  | ({ readonly answer: Exclude<DecisionAnswer, 'not_found' | 'token_used' | 'unusable'> } & ReminderFacts)
  | { readonly answer: 'not_found' | 'token_used' | 'unusable'; readonly deliveryId: string };

/** The part of the ledger that people decide through. */
export interface DecisionLedger {
  /** @throws {LedgerError} when the ledger did not answer; the same decision again, with its token, is safe */
  decide(decision: Decision): Promise<Decided[]>;
}
