// What the command line prints for people: answers and tables, and a reminder's verdict from its lines.
import { ageText } from '../lambdas/core/age-text.ts';
import type { LogPlace } from '../lambdas/core/log-link.ts';
import type { Settings } from '../lambdas/core/settings.ts';
import { verdict } from '../lambdas/core/verdict.ts';
import { type Explanation, explain } from '../lambdas/core/verdict-text.ts';
import type { CommandAnswer } from '../lambdas/schedule/contract.ts';
import { evidenceOf } from '../lambdas/store/evidence.ts';
import type { StateCountRow } from '../lambdas/store/statements/count-states.ts';
import type { DestinationRow } from '../lambdas/store/statements/list-destinations.ts';
import type { ExclusionRow } from '../lambdas/store/statements/list-exclusions.ts';
import type { EvidenceRow } from '../lambdas/store/statements/show-evidence.ts';

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
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = head.map((title, column) => Math.max(title.length, ...rows.map((row) => row[column]?.length ?? 0)));
  const line = (row: readonly string[]) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd();
  return [head, ...rows].map(line).join('\n');
}

/** How long ago, in a unit that fits. */
export function ago(instant: string | null): string {
  if (instant === null) return '-';
  return ageText(Date.now() - Date.parse(instant));
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
