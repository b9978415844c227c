// What the command line prints for people: answers and tables, and a reminder's verdict from its lines.
import { ageText } from '../lambdas/core/age-text.ts';
import type { FoundReminder } from '../lambdas/core/find-reminders.ts';
import type { LogPlace } from '../lambdas/core/log-link.ts';
import type { Settings } from '../lambdas/core/settings.ts';
import { verdict } from '../lambdas/core/verdict.ts';
import { type Explanation, explain, textColumns } from '../lambdas/core/verdict-text.ts';
import type { Action, Destination, Exclusion, ForecastResponse, StatusResponse } from '../lambdas/operate/contract.ts';
import type { CommandAnswer } from '../lambdas/schedule/contract.ts';
import { evidenceOf } from '../lambdas/store/evidence.ts';
import type { EvidenceRow } from '../lambdas/store/statements/show-evidence.ts';
import { coloured, table, wrap } from './terminal-table.ts';

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

/** How long ago, in a unit that fits. */
export function ago(instant: string | null): string {
  if (instant === null) return '-';
  return ageText(Date.now() - Date.parse(instant));
}

/** Whether dispatch is paused, and counts by state with the age of the oldest. */
export function statusText({ dispatch, states }: StatusResponse): string {
  const { state, since, reason } = dispatch;
  const facts = `${since === null ? '' : ` since ${since}`}${reason === null ? '' : `: ${reason}`}`;
  // In colour only once it is broken into lines, which measure it.
  const [first = '', ...more] = wrap(`dispatch is ${state}${facts}`);
  const counts =
    states.length === 0
      ? 'no reminders yet'
      : table(
          ['state', 'reminders', 'oldest in it for', 'longest overdue'],
          states.map((row) => [row.state, String(row.count), ago(row.oldestSince), ago(row.oldestDue)]),
        );
  return [first.replace(state, coloured(state)), ...more, '', counts].join('\n');
}

/** The list, and how to see the next page of it. */
export function withNext(list: string, next: string | null): string {
  return next === null ? list : `${list}\n\nmore: the same command with --cursor ${next}`;
}

/** Without fractions of a second: as people say it. */
const brief = (instant: string) => instant.replace(/\.\d+Z$/, 'Z');

/** Reminders, named as `decide` takes them. */
export function foundTable(reminders: readonly FoundReminder[]): string {
  if (reminders.length === 0) return 'none found';
  return table(
    ['reminder', 'state', 'due', 'destination', 'user'],
    reminders.map((one) => [seenName(one), standing(one), brief(one.dueAt), one.destination, one.userId]),
  );
}

/** What waits for a person, and why. */
export function unreviewedTable(reminders: readonly FoundReminder[]): string {
  if (reminders.length === 0) return 'nothing waits for a person';
  return table(
    ['reminder', 'state', 'for', 'destination', 'because'],
    reminders.map((one) => [
      ...[seenName(one), standing(one), ago(one.unreviewedSince), one.destination, one.reason ?? ''],
    ]),
  );
}

const seenName = ({ deliveryId, version, attempts }: FoundReminder) => `${deliveryId}@${version}.${attempts}`;
const standing = ({ parked, state }: FoundReminder) => (parked ? 'parked' : state);

const barColumns = 50;

/** How many come due when. */
export function forecastText({ from, to, due, stoppedAt }: ForecastResponse): string {
  const most = Math.max(1, ...due.map(({ count }) => count));
  const rows = due.map(({ at, count }) => [
    ...[brief(at), String(count), '#'.repeat(Math.ceil((count / most) * barColumns))],
  ]);
  const total = due.reduce((sum, { count }) => sum + count, 0);
  return [
    rows.length === 0 ? 'nothing comes due' : table(['from', 'due', ''], rows),
    '',
    `${total} from ${brief(from)} to ${brief(to)}`,
    ...(stoppedAt === null ? [] : [`the count stopped: from ${brief(stoppedAt)} on there may be more`]),
  ].join('\n');
}

/** What people did: two lines or more each. */
export function actionsText(actions: readonly Action[]): string {
  if (actions.length === 0) return 'nobody did anything';
  return actions
    .flatMap(({ at, verb, actor, reason, ticket, deliveryId, destination }) => [
      ...wrap(`${brief(at)}  ${verb}  ${deliveryId ?? destination ?? 'all dispatch'}`),
      ...wrap(`${actor}: ${reason}${ticket === null ? '' : ` (${ticket})`}`, textColumns - 4).map(
        (line) => `    ${line}`,
      ),
    ])
    .join('\n');
}

/** What claims pass over. */
export function exclusionsTable(exclusions: readonly Exclusion[]): string {
  if (exclusions.length === 0) return 'no reminder is set aside';
  return table(
    ['reminder', 'set aside for', 'because'],
    exclusions.map((row) => [row.deliveryId, ago(row.excludedAt), row.reason]),
  );
}

/** The registry. */
export function destinationsTable(destinations: readonly Destination[]): string {
  if (destinations.length === 0) return 'no destinations yet; add one with `reminders destination add`';
  return table(
    ['name', 'state', 'for', 'parked', 'failing', 'contract', 'owner', 'url', 'because'],
    destinations.map((row) => [
      ...[row.name, row.state, ago(row.since), String(row.parked), String(row.failing)],
      ...[row.contract, row.owner, row.url, row.reason ?? ''],
    ]),
  );
}

/** A reminder's verdict at the instant that its lines were read; null when there are none. */
export function explanationOf(
  rows: readonly EvidenceRow[],
  settings: Settings,
  logs: LogPlace | null = null,
): Explanation | null {
  const evidence = evidenceOf(rows);
  return evidence && explain(evidence, verdict(evidence, Date.parse(evidence.readAt), settings), logs);
}

/** What stands where a reminder would, were there one. */
export const notFoundText = 'not found: no reminder has that id or key';
