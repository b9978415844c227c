// What the command line prints for people: answers, tables and a reminder's story.
import type { CommandAnswer } from '../lambdas/schedule/contract.ts';
import type { StateCountRow } from '../lambdas/store/statements/count-states.ts';
import type { DestinationRow } from '../lambdas/store/statements/list-destinations.ts';
import type { ExclusionRow } from '../lambdas/store/statements/list-exclusions.ts';
import type { EvidenceRow } from '../lambdas/store/statements/show-evidence.ts';

type Reminder = Extract<EvidenceRow, { answer: 'reminder' }>;

/** One line an answer, and what to do about a refusal. */
export function answerText(answer: CommandAnswer): string {
  switch (answer.answer) {
    case 'invalid':
      return answer.issues.map(({ path, message }) => `invalid: ${path}: ${message}`).join('\n');
    case 'conflict':
      return answer.fields.length === 0
        ? 'conflict: the key belongs to another product; use another key'
        : `conflict: ${answer.deliveryId} has this key with another ${answer.fields.join(', ')}; use another key`;
    case 'not_found':
      return 'not found: no such reminder of this product';
    default:
      return `${answer.answer}: ${answer.deliveryId} is ${answer.state}, due ${answer.dueAt}, version ${answer.version}`;
  }
}

/** Columns padded to their widest cell. */
function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = head.map((title, column) => Math.max(title.length, ...rows.map((row) => row[column]?.length ?? 0)));
  const line = (row: readonly string[]) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd();
  return [head, ...rows].map(line).join('\n');
}

function ago(instant: string | null): string {
  if (instant === null) return '-';
  const seconds = Math.round((Date.now() - Date.parse(instant)) / 1000);
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return seconds < 172_800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86_400)} d`;
}

/** Counts by state with the age of the oldest. */
export function statesTable(states: readonly StateCountRow[]): string {
  if (states.length === 0) return 'no reminders yet';
  return table(
    ['state', 'reminders', 'oldest in it for', 'longest overdue'],
    states.map((row) => [row.state, String(row.count), ago(row.oldest_since), ago(row.oldest_due)]),
  );
}

/** What claims pass over. */
export function exclusionsTable(exclusions: readonly ExclusionRow[]): string {
  if (exclusions.length === 0) return 'no reminder is set aside';
  return table(
    ['reminder', 'set aside for', 'because'],
    exclusions.map((row) => [row.delivery_id, ago(row.excluded_at), row.reason]),
  );
}

/** The registry. */
export function destinationsTable(destinations: readonly DestinationRow[]): string {
  if (destinations.length === 0) return 'no destinations yet; add one with `reminders destination add`';
  return table(
    ['name', 'state', 'contract', 'owner', 'url'],
    destinations.map((row) => [row.name, row.state, row.contract, row.owner, row.url]),
  );
}

/** A reminder's story, line by line, ending with what happens next. */
export function evidenceText(evidence: readonly EvidenceRow[]): string {
  const reminder = evidence.find((row) => row.answer === 'reminder');
  if (reminder === undefined) return 'not found: no reminder has that id or key';
  const iso = (instant: string) => new Date(instant).toISOString();
  const head = [
    `${reminder.delivery_id}  ${reminder.state} since ${iso(reminder.state_since)}`,
    `key ${reminder.key}  producer ${reminder.producer}  destination ${reminder.destination} (${reminder.destination_state})`,
    `due ${iso(reminder.due_at)}  version ${reminder.version}  attempts ${reminder.attempts}, failures ${reminder.failures}`,
  ];
  const story = evidence.map((row) => `${iso(row.at)}  ${happened(row)}`);
  const excluded = evidence.some((row) => row.answer === 'exclusion' && row.readmitted_at === null);
  const next = excluded
    ? 'claims pass over it until a person mends what its update fails for and readmits it'
    : nextStep(reminder);
  return [...head, '', ...story, '', `next: ${next}`].join('\n');
}

function happened(row: EvidenceRow): string {
  switch (row.answer) {
    case 'reminder':
      return `scheduled by ${row.producer}`;
    case 'handoff':
      return `queue accepted message ${row.message_id}, visible from ${new Date(row.visible_from).toISOString()}`;
    case 'attempt':
      return `attempt ${row.attempt_no} opened by request ${row.request_id}, log stream ${row.log_stream}`;
    case 'exclusion': {
      const since = row.readmitted_at === null ? '' : `; readmitted ${new Date(row.readmitted_at).toISOString()}`;
      return `set aside, because updating it fails: ${row.reason}${since}`;
    }
    case 'outcome': {
      const detail = [row.status, row.error_class, row.phase && `in phase ${row.phase}`].filter(Boolean).join(', ');
      const moved = row.moved_to === null ? 'moved nothing' : `moved it to ${row.moved_to}`;
      return `attempt ${row.attempt_no}: ${row.outcome}${detail && ` (${detail})`}, said ${row.recorded_by}; ${moved}`;
    }
  }
}

/** Who acts next, and when. */
function nextStep(row: Reminder): string {
  const at = (instant: string | null) => (instant === null ? 'never' : new Date(instant).toISOString());
  switch (row.state) {
    case 'scheduled':
      return row.parked
        ? `it waits until destination ${row.destination}, now ${row.destination_state}, is active again`
        : `a claim takes it from ${at(row.wake_at)} on and it is sent at ${at(row.next_attempt_at)}`;
    case 'dispatching':
    case 'queued':
      return `a sender takes it at ${at(row.next_attempt_at)}; if none does, a claim invites it again at ${at(row.wake_at)}`;
    case 'delivering':
      return `the sender reports until ${at(row.lease_until)}; if it does not, a claim closes the attempt as unknown then`;
    case 'held':
      return `a person decides: ${row.hold_reason}`;
    case 'shadow':
      return 'nothing from here: the path that is authoritative sends it';
    case 'dead':
      return `a person reviews it: ${row.last_error}`;
    default:
      return 'nothing: this is final';
  }
}
