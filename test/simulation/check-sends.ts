// Checks every request by the receivers' own log: intent, lease, key and bytes; and counts what is told apart.
import { type Evidence, instant } from './evidence.ts';
import type { Sending } from './receivers.ts';

/** Sends that a promise does not forbid and a person wants to know of. */
export interface SendCounts {
  requests: number;
  /** A late success of an earlier attempt came first; at-least-once permits it. */
  afterDelivered: number;
  /** The environment froze between its check of the lease and the first byte, and thawed past the lease. */
  frozenBetween: number;
}

/** What was sent must have been opened before, by the same sender, and under a lease that still lives. */
export function checkSends(evidence: Evidence): SendCounts {
  const counts: SendCounts = { requests: 0, afterDelivered: 0, frozenBetween: 0 };
  const sentUnder = new Set<string>();
  for (const sending of evidence.stage.receivers.sendings) checkSend(evidence, sending, sentUnder, counts);
  return counts;
}

function checkSend(evidence: Evidence, sending: Sending, sentUnder: Set<string>, counts: SendCounts): void {
  const { run } = evidence.stage;
  const { deliveryId: id, arrival, startedAt, statementsBefore, deadlineMs } = sending;
  const tell = (promise: string, sentence: string, ...rows: unknown[]) =>
    evidence.report(promise, `${sending.environment.name}: ${sentence}`, [id], ...rows);

  const tokens = run.executed
    .filter(({ by, name, number }) => by === sending.environment.name && name === 'open' && number <= statementsBefore)
    .map(({ parameters }) => parameters.token);
  const intent = evidence
    .inserted('delivery_attempt')
    .find(
      ({ row, statement }) =>
        row.delivery_id === id && statement <= statementsBefore && tokens.includes(String(row.lease_owner)),
    );
  if (intent === undefined) {
    tell('P5', 'sent without an intent of its own');
    return;
  }
  const attempt = `${id} ${intent.row.attempt_no}`;
  if (sentUnder.has(attempt)) tell('P5', `sent twice under attempt ${intent.row.attempt_no}`, intent.row);
  sentUnder.add(attempt);

  const owned = (statements: number, until: number) => {
    const row = evidence.rowAfter(id, statements);
    return (
      row?.state === 'delivering' && row.lease_owner === intent.row.lease_owner && instant(row.lease_until) >= until
    );
  };
  const delivered = (statements: number) => evidence.rowAfter(id, statements)?.state === 'delivered';
  const needed = startedAt + deadlineMs + run.weather.settings.leaseMarginMs;
  if (!owned(statementsBefore, needed) && !delivered(statementsBefore)) {
    tell(
      'P6',
      'began to send without a lease that outlasts deadline and margin',
      evidence.rowAfter(id, statementsBefore),
    );
  }
  if (arrival === null) return;
  counts.requests += 1;
  if (delivered(arrival.statementsBefore)) counts.afterDelivered += 1;
  else if (!owned(arrival.statementsBefore, arrival.at)) {
    const frozen = sending.environment.freezes.some(({ from, to }) => from < arrival.at && to > startedAt);
    if (frozen) counts.frozenBetween += 1;
    else tell('P6', 'sent a byte without the lease', evidence.rowAfter(id, arrival.statementsBefore));
  }
  const row = evidence.last(id);
  if (arrival.key !== row?.idempotency_key) tell('P7', `sent key ${arrival.key}`, row);
  const [first] = evidence.movesOf(id);
  if (arrival.payload !== first?.after.payload) tell('P7', 'sent other bytes than those of the reminder', arrival, row);
  const destination = evidence
    .inserted('destination')
    .find(({ row: { destination_id } }) => destination_id === row?.destination_id);
  if (arrival.to !== destination?.row.url) tell('P2', `sent to ${arrival.to}`, destination?.row);
}
