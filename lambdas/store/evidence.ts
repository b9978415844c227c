// The evidence of one reminder on PostgreSQL: one statement's lines as one record in the domain's words.
import type {
  EvidenceLedger,
  RecordedAttempt,
  RecordedExclusion,
  RecordedHandoff,
  RecordedOutcome,
  ReminderEvidence,
} from '../core/reminder-evidence.ts';
import { instant } from './rows.ts';
import type { StatementRunner } from './statement.ts';
import { type EvidenceRow, showEvidence } from './statements/show-evidence.ts';

type Line<Answer extends EvidenceRow['answer']> = Extract<EvidenceRow, { answer: Answer }>;

/** Implements the port `EvidenceLedger`. */
export function postgresEvidence(database: StatementRunner): EvidenceLedger {
  return { evidence: async (name) => evidenceOf(await database.run(showEvidence, name)) };
}

/** What the lines of one reminder say together; null: there are none. Whoever looked for dead letters says so in the record. */
export function evidenceOf(rows: readonly EvidenceRow[]): ReminderEvidence | null {
  const lines = <Answer extends EvidenceRow['answer']>(answer: Answer) =>
    rows.filter((row): row is Line<Answer> => row.answer === answer);
  const [row] = lines('reminder');
  if (row === undefined) return null;
  const outcomes = lines('outcome');
  return {
    ...reminder(row),
    handoffs: lines('handoff').map(handoff),
    attempts: lines('attempt')
      .toSorted((one, other) => one.attempt_no - other.attempt_no)
      .map((line) => attempt(line, outcomes)),
    exclusions: lines('exclusion').map(exclusion),
    deadLetter: 'not_looked',
  };
}

function reminder(
  row: Line<'reminder'>,
): Omit<ReminderEvidence, 'handoffs' | 'attempts' | 'exclusions' | 'deadLetter'> {
  return {
    readAt: instant(row.now),
    deliveryId: row.delivery_id,
    key: row.key,
    producer: row.producer,
    destination: {
      name: row.destination,
      owner: row.destination_owner,
      contract: row.contract,
      state: row.destination_state,
      stateSince: instant(row.destination_state_since),
      stateReason: row.destination_state_reason,
      dedupWindowSeconds: row.dedup_window_seconds,
    },
    pause: row.paused_since === null ? null : { since: instant(row.paused_since), reason: row.pause_reason },
    state: row.state,
    stateSince: instant(row.state_since),
    version: row.version,
    createdAt: instant(row.at),
    dueAt: instant(row.due_at),
    nextAttemptAt: instant(row.next_attempt_at),
    expiresAt: instant(row.expires_at),
    wakeAt: instant(row.wake_at),
    parked: row.parked,
    failures: row.failures,
    invitations: row.invitations,
    firstInvitedAt: instant(row.first_invited_at),
    lease:
      row.lease_owner === null || row.lease_until === null
        ? null
        : { owner: row.lease_owner, until: instant(row.lease_until) },
    holdReason: row.hold_reason,
    cancelRequestedAt: instant(row.cancel_requested_at),
    reviewedAt: instant(row.reviewed_at),
    unreviewedSince: instant(row.unreviewed_since),
    lastError: row.last_error,
    deliveredAt: instant(row.delivered_at),
    archivedAt: instant(row.archived_at),
    attemptNo: row.attempts,
  };
}

function handoff(row: Line<'handoff'>): RecordedHandoff {
  return { at: instant(row.at), messageId: row.message_id, queue: row.queue, visibleFrom: instant(row.visible_from) };
}

function attempt(row: Line<'attempt'>, outcomes: readonly Line<'outcome'>[]): RecordedAttempt {
  return {
    attemptNo: row.attempt_no,
    version: row.version,
    startedAt: instant(row.at),
    leaseUntil: instant(row.lease_until),
    host: row.host,
    worker: { functionVersion: row.function_version, requestId: row.request_id, logStream: row.log_stream },
    outcomes: outcomes.filter(({ attempt_no }) => attempt_no === row.attempt_no).map(outcome),
  };
}

function outcome(row: Line<'outcome'>): RecordedOutcome {
  return {
    at: instant(row.at),
    recordedBy: row.recorded_by,
    outcome: row.outcome,
    phase: row.phase,
    status: row.status,
    errorClass: row.error_class,
    detail: row.detail,
    latencyMs: row.latency_ms,
    movedTo: row.moved_to,
  };
}

function exclusion(row: Line<'exclusion'>): RecordedExclusion {
  return {
    at: instant(row.at),
    sqlState: row.sql_state,
    reason: row.reason,
    readmittedAt: instant(row.readmitted_at),
  };
}
