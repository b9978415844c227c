// What schedules met: how often each statement gave each answer, and the situations that a promise is about.
import { type Evidence, instant } from './evidence.ts';
import type { Executed } from './run.ts';

/** How often what was met, such as `cancel too_late`. */
export type Met = Readonly<Record<string, number>>;

/** Counts what a run met. */
export function metIn(evidence: Evidence): Met {
  const met: Record<string, number> = Object.fromEntries(evidence.stage.run.met);
  const count = (what: string) => {
    met[what] = (met[what] ?? 0) + 1;
  };
  const wrote = new Set(evidence.changes.map(({ statement }) => statement));
  const seen = new Set<string>();
  for (const executed of evidence.stage.run.executed) {
    const { name, number, parameters, answers, by } = executed;
    if (by === 'operator' && Object.keys(parameters).length === 0) count(name);
    for (const answer of answers ?? []) if (typeof answer.answer === 'string') count(`${name} ${answer.answer}`);
    if (answers === null) count(`${name} refused`);
    if (wrote.has(number)) count(`${name} wrote`);
    const again = `${name} ${JSON.stringify(parameters)}`;
    if (again.includes('token') && seen.has(again)) count(`${name} run again`);
    seen.add(again);
  }
  for (const { row, statement } of evidence.inserted('attempt_outcome')) {
    const by = evidence.stage.run.executed[statement - 1];
    if (by?.name === 'settle' && row.outcome !== 'overtaken') countSettled(evidence, by, row, count);
  }
  return met;
}

/** What an attempt's own sender met when it settled: another attempt begun meanwhile, or an end. */
function countSettled(
  evidence: Evidence,
  by: Executed,
  row: Readonly<Record<string, unknown>>,
  count: (what: string) => void,
): void {
  const before = evidence.rowAfter(String(row.delivery_id), by.number - 1);
  const what = row.outcome === 'delivered' ? 'late success' : 'stale failure';
  if (before?.state !== 'delivering') count(`${what} of a ${before?.state}`);
  else if (before.attempt_no !== row.attempt_no) count(`${what} while a later attempt is under way`);
  else if (instant(before.lease_until) <= by.at) count(`${what} after its lease`);
}

/** Sums what several runs met. */
export function addMet(sum: Record<string, number>, met: Met): void {
  for (const [what, times] of Object.entries(met)) sum[what] = (sum[what] ?? 0) + times;
}
