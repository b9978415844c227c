// Checks what leaves the database: only what ended long ago, is told on the bus, and lies whole in the archive before.
import { type Evidence, instant, type Move } from './evidence.ts';
import type { Change, Row } from './virtual-database.ts';

const day = 86_400_000;
/** Younger answers may still be asked for by a run of their command. */
const answersStayMs = 30 * day;
const evidenceTables = ['delivery_attempt', 'attempt_outcome', 'handoff'];

/** Evidence never changes; it is deleted by the archive of its own reminder, and answers of commands once they are old. */
export function checkRetention(evidence: Evidence): void {
  const { run } = evidence.stage;
  const nameOf = ({ statement }: Change) => run.executed[statement - 1]?.name ?? `statement ${statement}`;
  const archived = new Map(
    evidence.moves.flatMap((move) =>
      move.by.name === 'archive' && move.after.archived_at !== null ? [[move.id, move]] : [],
    ),
  );
  for (const change of evidence.changes) {
    const { table, before, after, at, statement } = change;
    if (before === null) continue;
    const tell = (promise: string, what: string) =>
      evidence.report(promise, `#${statement} ${nameOf(change)} ${what} in ${table}`, [], before, after);
    if (evidenceTables.includes(table)) {
      const gone = after === null && archived.get(String(before.delivery_id))?.by.number === statement;
      if (!gone) tell('P5', 'changed or deleted evidence');
    }
    const since = { command_receipt: before.answered_at, claim_batch: before.claimed_at }[table];
    if (since === undefined) continue;
    if (after !== null) tell('P5', 'changed what answers a command that is run again');
    else if (nameOf(change) !== 'forget' || instant(since) > at - answersStayMs) tell('P5', 'deleted what is young');
  }
  for (const move of archived.values()) checkArchived(evidence, move);
  if (run.weather.pastDays > 0) checkNothingLeft(evidence);
}

/** One archived reminder: old, its end announced, and a page with all of it written before. */
function checkArchived(evidence: Evidence, { id, by, at, before, after }: Move): void {
  const { run, archived, announced } = evidence.stage;
  const tell = (sentence: string, ...rows: unknown[]) =>
    evidence.report('retention', `#${by.number} archived it, and ${sentence}`, [id], ...rows);
  const changed = Object.keys(after).filter((column) => before?.[column] !== after[column]);
  const other = changed.filter((column) => !['payload', 'last_error', 'archived_at'].includes(column));
  if (other.length > 0) tell(`changed ${other.join(', ')}`, before, after);
  const old = at - run.weather.retentionDays * day;
  if (!(instant(before?.state_since) <= old && instant(before?.next_attempt_at) <= old)) tell('it is young', before);
  if (!announced.some(({ eventId }) => eventId === `${id}:${after.version}:${after.state}`)) {
    tell('the bus never heard of its end', before);
  }
  const deleted = (table: string) =>
    evidence.changes.filter(
      (change) => change.statement === by.number && change.table === table && change.before?.delivery_id === id,
    ).length;
  const written = archived
    .filter(({ statementsBefore }) => statementsBefore < by.number)
    .flatMap(({ page }) => page.records as readonly ArchivedRecord[])
    .filter((record) => record.delivery_id === id);
  const whole = written.some(
    ({ payload, state, version, attempts, handoffs }) =>
      payload === before?.payload &&
      state === before?.state &&
      version === before?.version &&
      attempts.length === deleted('delivery_attempt') &&
      handoffs.length === deleted('handoff') &&
      attempts.flatMap(({ outcomes }) => outcomes ?? []).length === deleted('attempt_outcome'),
  );
  if (!whole) tell('the archive had not all of it before', before, ...written);
}

interface ArchivedRecord extends Row {
  readonly attempts: readonly { readonly outcomes: readonly object[] | null }[];
  readonly handoffs: readonly object[];
}

/** The last run comes when nothing goes wrong any more. */
function checkNothingLeft(evidence: Evidence): void {
  const { calmAt, weather } = evidence.stage.run;
  const old = calmAt - weather.retentionDays * day;
  for (const id of evidence.ids) {
    const row = evidence.last(id);
    const ended = ['delivered', 'expired', 'cancelled'].includes(String(row?.state));
    const past = instant(row?.state_since) <= old && instant(row?.next_attempt_at) <= old;
    if (ended && past && row?.archived_at === null) evidence.report('retention', 'never archived', [id], row);
  }
}
