// The verdict on one reminder: where it stands, who acts next, and what an operator may do about it.

import type { DeliveryState } from './delivery-states.ts';
import {
  at,
  attemptStanding,
  isTerminal,
  mayHaveArrived,
  type RecordedAttempt,
  type ReminderEvidence,
} from './reminder-evidence.ts';
import type { Settings } from './settings.ts';
import { type NextStep, type Standing, stand, standings } from './verdict-standing.ts';
import { type OperatorVerb, type Ruling, rule } from './verdict-verbs.ts';

/** One answer for one state of the evidence. Times are ISO 8601 in UTC. */
export interface Verdict {
  readonly deliveryId: string;
  readonly state: DeliveryState;
  /** What a command names as the version it has seen: a stale screen is refused. */
  readonly version: number;
  /** The instant that it holds for. */
  readonly asOf: string;
  readonly standing: Standing;
  readonly meaning: string;
  /** Whole seconds past its due time: until now, or until it was delivered; null: it ended otherwise. */
  readonly lateSeconds: number | null;
  readonly next: NextStep;
  /** What else to know before acting, a sentence each. */
  readonly cautions: readonly string[];
  /** Every verb once: allowed or refused. */
  readonly verbs: Readonly<Record<OperatorVerb, Ruling>>;
}

/**
 * Judges what the ledger holds, and reads nothing else: the same evidence at the same instant has the same verdict.
 * @param now the database's time, epoch milliseconds; that of the reading is `evidence.readAt`
 * @param settings the numbers of the stage that the ledger runs with
 */
export function verdict(evidence: ReminderEvidence, now: number, settings: Settings): Verdict {
  const { standing, next } = stand(evidence, now, settings);
  return {
    deliveryId: evidence.deliveryId,
    state: evidence.state,
    version: evidence.version,
    asOf: new Date(now).toISOString(),
    standing,
    meaning: standings[standing],
    lateSeconds: lateSeconds(evidence, now),
    next,
    cautions: cautions(evidence, now),
    verbs: rule(evidence, now, settings),
  };
}

function lateSeconds(evidence: ReminderEvidence, now: number): number | null {
  const until = isTerminal(evidence) ? at(evidence.deliveredAt) : now;
  return until === null ? null : Math.max(0, Math.floor((until - at(evidence.dueAt)) / 1000));
}

function cautions(evidence: ReminderEvidence, now: number): string[] {
  const { pause, destination, cancelRequestedAt, archivedAt, deadLetter, attemptNo, attempts } = evidence;
  const live = !isTerminal(evidence);
  const arrived = mayHaveArrived(evidence, now);
  const succeeded = arrived.filter((attempt) => attemptStanding(attempt) === 'delivered');
  const unknown = arrived.filter((attempt) => !succeeded.includes(attempt));
  const said: [boolean, string][] = [
    [succeeded.length > 0, `${numbered(succeeded)}: a 2xx is recorded, and the reminder is not delivered`],
    [unknown.length > 0, `${numbered(unknown)}: may have been processed, nobody knows`],
    [live && cancelRequestedAt !== null, `its cancellation was asked for at ${cancelRequestedAt}: no attempt follows`],
    [live && pause !== null, `all dispatch is paused since ${pause?.since}`],
    [
      live && destination.state !== 'active',
      `destination ${destination.name} is ${destination.state} since ${destination.stateSince}`,
    ],
    [deadLetter === 'seen', 'a message of it is in the dead-letter queue; the reminder goes on by its own clock'],
    [archivedAt !== null, `payload and evidence went to the archive at ${archivedAt}`],
    [
      archivedAt === null && attempts.length < attemptNo,
      `${attemptNo} attempts were opened, and ${attempts.length} are on record`,
    ],
  ];
  return said.filter(([holds]) => holds).map(([, sentence]) => sentence);
}

function numbered(attempts: readonly RecordedAttempt[]): string {
  return `attempt${attempts.length === 1 ? '' : 's'} ${attempts.map(({ attemptNo }) => attemptNo).join(', ')}`;
}
