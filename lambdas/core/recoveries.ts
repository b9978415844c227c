// What a person may do so that a reminder goes on, and what the ledger answers. Nothing of it sends: the next claim does.
import type { CommandToken, ReminderFacts } from './ports.ts';

/**
 * - `reclaim`: an expired lease ends now. The claim closes the attempt as unknown, or invites, parks or expires it.
 * - `republish`: a reminder whose invitation is lost is invited again, under its own id.
 */
export const recoveryVerbs = ['reclaim', 'republish'] as const;
export type RecoveryVerb = (typeof recoveryVerbs)[number];

/** A reminder that is to go on. */
export interface Recoverable {
  readonly deliveryId: string;
  /** As the person who asks last saw it: another version or number of attempts by now is `stale`. Null: nobody saw it. */
  readonly versionSeen: number | null;
  readonly attemptsSeen: number | null;
  /** The ids of its messages in the dead-letter queue. @default none */
  readonly messages?: readonly string[];
}

/** One command about one reminder or several, each answered on its own. */
export interface Recovery {
  /** The same token again gets the same answers and does nothing more. */
  readonly token: CommandToken;
  /** `redrive`: as `republish`, for what has a message in the dead-letter queue. */
  readonly verb: RecoveryVerb | 'redrive';
  /** Who, as IAM knows them. */
  readonly actor: string;
  readonly reason: string;
  readonly ticket: string | null;
  /** What the receiver said, wherever an attempt may have reached it; `reclaim` needs none. */
  readonly evidence: string | null;
  /** Answer what would be done, and do nothing. */
  readonly dryRun: boolean;
  readonly reminders: readonly Recoverable[];
}

/**
 * What became of it.
 * `reclaimed`, `republished`: the next claim looks at it, or would have anyway. `not_leased`: there is no lease to take away.
 * `leased`: somebody works on it. `abandoned`: its lease has passed, reclaim it. `invited`: its latest invitation may
 * still arrive. `scheduled`: the calendar has it, and invites it. `finished`, `held`, `shadow`: its state does not allow it.
 * `excluded`: claims pass over it, readmit it. `expiry_passed`: the next claim ends it. `paused`, `destination_off`:
 * nothing is sent now. `stale`: changed or tried since it was seen. `evidence_needed`: the receiver may have it, or may have
 * forgotten the key. `rate_capped`: too many were republished within this minute. `token_used`: another command has its
 * id. `unusable`: its row cannot be updated.
 */
export type RecoveryAnswer =
  | 'reclaimed'
  | 'republished'
  | 'not_leased'
  | 'leased'
  | 'abandoned'
  | 'invited'
  | 'scheduled'
  | 'finished'
  | 'held'
  | 'shadow'
  | 'excluded'
  | 'expiry_passed'
  | 'paused'
  | 'destination_off'
  | 'stale'
  | 'evidence_needed'
  | 'rate_capped'
  | 'token_used'
  | 'unusable'
  | 'not_found';

/** The answer about one reminder, with what is true of it; in a dry run, what would be. */
export type Recovered =
  | ({ readonly answer: Exclude<RecoveryAnswer, 'not_found' | 'token_used' | 'unusable'> } & ReminderFacts)
  | { readonly answer: 'not_found' | 'token_used' | 'unusable'; readonly deliveryId: string };

/** What becomes of a reminder that claims pass over. */
export interface Readmitted {
  readonly deliveryId: string;
  /** `not_excluded`: claims do not pass over it. */
  readonly answer: 'readmitted' | 'not_excluded';
}

/** A message that no sender can read, with as much of it as is kept. */
export interface Poison {
  readonly messageId: string;
  readonly receives: number;
  readonly because: PoisonReason;
  /** What it says, as it says it: show it through `printable` alone. */
  readonly body: string;
}

/** `no_invitation`: it is no invitation of this version. `not_found`: the ledger has no such reminder. */
export type PoisonReason = 'no_invitation' | 'not_found';

/** Who does something, and why. */
export type Accounted = Pick<Recovery, 'token' | 'actor' | 'reason' | 'ticket' | 'dryRun'>;

/** The part of the ledger that makes reminders go on. Each command again, with its token, is safe. */
export interface RecoveryLedger {
  /** @throws {LedgerError} when the ledger did not answer */
  recover(recovery: Recovery): Promise<Recovered[]>;
  /** @throws {LedgerError} when the ledger did not answer */
  readmit(command: Accounted & { readonly deliveryIds: readonly string[] }): Promise<Readmitted[]>;
  /** Keeps what messages say for good, each once. @throws {LedgerError} when the ledger did not answer */
  setAside(command: Accounted & { readonly messages: readonly Poison[] }): Promise<void>;
}
