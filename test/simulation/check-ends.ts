// Checks what came of everything: each reminder at its end, one id a key, successes kept, answers that were true.
import { type Evidence, instant } from './evidence.ts';
import type { Asked } from './functions.ts';
import type { Executed } from './run.ts';
import type { Row } from './virtual-database.ts';

const atRest = ['delivered', 'dead', 'expired', 'cancelled', 'held', 'shadow'];

/** By the tables as they are, not by their history. */
export async function checkEnds(evidence: Evidence): Promise<void> {
  const { run, announced, running } = evidence.stage;
  const rows = await run.database.sql<{ delivery_id: string; idempotency_key: string; state: string; row: object }>(
    'SELECT delivery_id, idempotency_key, state, to_jsonb(r) AS row FROM reminder_delivery r',
  );
  for (const { delivery_id: id, state, row } of rows) {
    if (!atRest.includes(state)) evidence.report('P1', `still ${state} at the end of its time`, [id], row);
  }
  if (running > 0) evidence.report('P1', `${running} invocations never ended`, []);
  const keys = new Set(rows.map(({ idempotency_key: key }) => key));
  if (keys.size < rows.length) evidence.report('P2', `${rows.length} reminders for ${keys.size} keys`, []);

  // As they were recorded: of an archived reminder they are no longer in the table.
  const proven = new Set(
    evidence
      .inserted('attempt_outcome')
      .flatMap(({ row: { status, delivery_id: id } }) =>
        Number(status) >= 200 && Number(status) < 300 ? [String(id)] : [],
      ),
  );
  const resolved = new Set(
    evidence.moves.flatMap(({ id, by, after }) => (by.name === 'decide' && after.state === 'delivered' ? [id] : [])),
  );
  for (const { delivery_id: id, state } of rows) {
    const isDelivered = state === 'delivered';
    if (isDelivered && !proven.has(id) && !resolved.has(id))
      evidence.report('P4', 'delivered without an outcome that says so', [id]);
    if (!isDelivered && proven.has(id)) evidence.report('P8', 'a recorded success did not win', [id]);
  }
  for (const id of evidence.ids) {
    const deliveredAt = instant(evidence.last(id)?.delivered_at);
    const told = evidence.stage.receivers.sendings.some(
      ({ deliveryId, arrival, status }) =>
        deliveryId === id &&
        arrival !== null &&
        arrival.at <= deliveredAt &&
        status !== null &&
        status >= 200 &&
        status < 300,
    );
    if (evidence.last(id)?.state === 'delivered' && !told && !resolved.has(id))
      evidence.report('P4', 'no receiver ever said 2xx', [id]);
  }
  const open = await run.database.sql<{ delivery_id: string; attempt_no: number }>(
    `SELECT a.delivery_id, a.attempt_no FROM delivery_attempt a WHERE NOT EXISTS (
       SELECT FROM attempt_outcome o WHERE o.delivery_id = a.delivery_id AND o.attempt_no = a.attempt_no)`,
  );
  for (const { delivery_id: id, attempt_no } of open)
    evidence.report('P9', `attempt ${attempt_no} was never closed`, [id]);

  const events = new Set(announced.map(({ eventId }) => eventId));
  for (const { id, before, after } of evidence.moves) {
    const ended = atRest.slice(0, 4).includes(String(after.state)) && before?.state !== after.state;
    if (ended && !events.has(`${id}:${after.version}:${after.state}`)) {
      evidence.report('P1', `${after.state}, and the bus never heard of it`, [id], after);
    }
  }
}

/** A command run again under its token does nothing that it did not do the first time. */
export function checkRepeats(evidence: Evidence): void {
  const writing = [
    'claim',
    'claim-by-id',
    'release',
    'enqueue',
    'unpark',
    'open',
    'settle',
    'schedule',
    'cancel',
    'reschedule',
    'decide',
    'reclaim',
    'exclude',
    'readmit',
  ];
  const changedBy = new Map<number, Set<string>>();
  for (const { table, statement, before, after } of evidence.changes) {
    const id = String((after ?? before)?.delivery_id);
    if (!['reminder_delivery', 'claim_exclusion'].includes(table)) continue;
    changedBy.set(statement, (changedBy.get(statement) ?? new Set()).add(id));
  }
  const first = new Map<string, { run: Executed; changed: Set<string> }>();
  for (const run of evidence.stage.run.executed) {
    if (!writing.includes(run.name) || run.answers === null) continue;
    const key = `${run.name} ${JSON.stringify(run.parameters)}`;
    const changed = changedBy.get(run.number) ?? new Set();
    const earlier = first.get(key);
    // Names may be found later that were not there at first; a whole command takes its rows once.
    const byRow = ['schedule', 'cancel', 'reschedule', 'decide', 'reclaim'].includes(run.name);
    const again = earlier === undefined ? [] : [...changed].filter((id) => !byRow || earlier.changed.has(id));
    // These leave a trace of every run, also of one that changed no row.
    const once = ['claim', 'claim-by-id', 'release', 'open'].includes(run.name);
    if (earlier !== undefined && (once || earlier.changed.size > 0) && again.length > 0) {
      evidence.report(
        'commands',
        `#${run.number} ${run.name} ran again as #${earlier.run.number} and changed rows`,
        again,
      );
    }
    if (earlier === undefined || earlier.changed.size === 0) first.set(key, { run, changed });
  }
}

/** What products were told must be what was. */
export function checkAnswers(evidence: Evidence): void {
  const idOf = new Map<string, string>();
  for (const asked of evidence.stage.asked) {
    const { answer } = asked;
    if ((answer.answer === 'scheduled' || answer.answer === 'duplicate') && asked.command.verb === 'schedule') {
      const { key } = asked.command.reminder;
      const known = idOf.get(key) ?? answer.deliveryId;
      if (known !== answer.deliveryId)
        evidence.report('P2', `${key} has ids ${known} and ${answer.deliveryId}`, [known]);
      idOf.set(key, known);
    }
    const about = answer.answer === 'found' ? answer.reminder : answer;
    if ('deliveryId' in about && about.deliveryId !== undefined) checkAnswer(evidence, asked, about.deliveryId);
  }
}

/** What was executed before a command began: before its first run, where it was run again under its token. */
function executedBefore(evidence: Evidence, { command, statementsBefore, statementsAfter }: Asked): number {
  const { executed } = evidence.stage.run;
  const tokens = executed
    .slice(statementsBefore, statementsAfter)
    .flatMap(({ name, parameters }) => (name === command.verb ? [parameters.token] : []));
  const first = executed.find(({ name, parameters }) => name === command.verb && tokens.includes(parameters.token));
  return Math.min(statementsBefore, (first?.number ?? statementsBefore + 1) - 1);
}

function checkAnswer(evidence: Evidence, asked: Asked, id: string): void {
  const { answer, command, statementsAfter } = asked;
  const statementsBefore = executedBefore(evidence, asked);
  const tell = (promise: string, sentence: string) =>
    evidence.report(promise, `${command.verb} was answered ${answer.answer}: ${sentence}`, [id], asked);
  const seen = [
    evidence.rowAfter(id, statementsBefore),
    ...evidence
      .movesOf(id)
      .flatMap(({ by, after }) => (by.number > statementsBefore && by.number <= statementsAfter ? [after] : [])),
  ];
  const tellOfLaterAttempt = () => {
    const later = evidence
      .inserted('delivery_attempt')
      .find(({ row, statement }) => row.delivery_id === id && statement > statementsAfter);
    if (later !== undefined) tell('P10', `attempt ${later.row.attempt_no} was opened after it`);
  };
  if (evidence.last(id) === null) {
    tell('P1', 'there is no such reminder');
    return;
  }
  switch (answer.answer) {
    case 'conflict': {
      const [made] = evidence.movesOf(id);
      if (made !== undefined && isRepeat(evidence, asked, made.after)) tell('commands', 'it is what was asked first');
      break;
    }
    case 'cancelled': {
      const end = String(evidence.last(id)?.state);
      if (!['cancelled', 'delivered'].includes(end)) tell('commands', `it is ${end}`);
      tellOfLaterAttempt();
      break;
    }
    case 'too_late':
      if (command.verb !== 'cancel') break;
      if (!seen.some((row) => row?.state === 'delivering')) tell('commands', 'it was not being sent');
      tellOfLaterAttempt();
      break;
    case 'rescheduled': {
      const made = evidence.movesOf(id).find(({ after }) => after.version === answer.version);
      if (made?.by.name !== 'reschedule' || instant(made.after.due_at) !== Date.parse(answer.dueAt)) {
        tell('commands', `version ${answer.version} was not made so`);
      }
      break;
    }
    case 'found':
      if (!seen.some((row) => row?.state === answer.reminder.state)) {
        tell('commands', `it was never ${answer.reminder.state} meanwhile`);
      }
      break;
  }
}

/** Whether a command asks for a reminder in the very words in which it was made. */
function isRepeat(evidence: Evidence, { command, producer }: Asked, made: Row): boolean {
  if (command.verb !== 'schedule') return false;
  const { dueAt, expiresAt, userId, payload, destination } = command.reminder;
  const [named] = evidence.inserted('destination').filter(({ row }) => row.destination_id === made.destination_id);
  return (
    producer === made.producer &&
    Date.parse(dueAt) === instant(made.due_at) &&
    (expiresAt === null ? made.expires_at === null : Date.parse(expiresAt) === instant(made.expires_at)) &&
    userId === made.user_id &&
    payload === made.payload &&
    destination === named?.row.name
  );
}
