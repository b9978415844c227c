// What a person may switch: all dispatch, or what goes to one destination, off and on again.
import type { CommandToken } from './ports.ts';

/**
 * - `pause`: no attempt begins any more whose `open` starts after this was answered. What is being sent goes on.
 * - `resume`: attempts begin again, also at a destination that its receiver or the ledger has switched off.
 */
export const controlVerbs = ['pause', 'resume'] as const;
export type ControlVerb = (typeof controlVerbs)[number];

/** `disabled`: its receiver said that it is gone. `broken`: an operator did. Neither is ever true of all dispatch. */
export const dispatchStates = ['active', 'paused', 'disabled', 'broken'] as const;
export type DispatchState = (typeof dispatchStates)[number];

/** Whether it is dispatched, since when (ISO 8601; null: all dispatch is active) and why. */
export interface DispatchStanding {
  readonly state: DispatchState;
  readonly since: string | null;
  readonly reason: string | null;
}

/** One switch thrown by a person. */
export interface ControlCommand {
  /** The same token again gets the same answer and does nothing more. */
  readonly token: CommandToken;
  readonly verb: ControlVerb;
  /** The name of a destination; null: all dispatch. */
  readonly destination: string | null;
  /** Who, as IAM knows them. */
  readonly actor: string;
  readonly reason: string;
  readonly ticket: string | null;
  /** What was seen: switched since, the answer is `stale`. Null: nothing was, and it must be a dry run. */
  readonly seen: Pick<DispatchStanding, 'state' | 'since'> | null;
  /** Answer what would be done, and do nothing. */
  readonly dryRun: boolean;
}

/**
 * What became of it, with what was true before.
 * `paused`, `resumed`: as commanded. `already_paused`: nothing is sent there, whatever the reason. `already_active`. `stale`: it
 * was switched since it was seen.
 */
export type Controlled =
  | (DispatchStanding & {
      readonly answer: 'paused' | 'resumed' | 'already_paused' | 'already_active' | 'stale';
      readonly destination: string | null;
    })
  /** No destination has that name; or another command has this id. */
  | { readonly answer: 'not_found' | 'token_used'; readonly destination: string | null };

/** How many reminders a switch concerns now; no more than a limit of each kind is looked at. */
export interface Affected {
  /** A sender has an attempt open: a pause does not call it back. */
  readonly sending: number;
  /** Handed to the queue, or about to be: under a pause no sender opens them. */
  readonly inFlight: number;
  /** The next claim would take them. */
  readonly due: number;
  /** They wait for their destination. */
  readonly parked: number;
  /** Nothing was left out: otherwise there may be more of each. */
  readonly complete: boolean;
}

/** The part of the ledger that people switch. */
export interface ControlLedger {
  /** @throws {LedgerError} when the ledger did not answer; the same command again, with its token, is safe */
  control(command: ControlCommand): Promise<Controlled>;
  /** @param destination null: all dispatch */
  affected(destination: string | null): Promise<Affected>;
}
