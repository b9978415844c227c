// Runs drills, several at once on one stage, and judges each when its reminders have ended or its time is over.
import { setTimeout as sleep } from 'node:timers/promises';
import { boundaryDrills } from './boundaries.ts';
import { Cell } from './cell.ts';
import { type Evidence, judgeDrill, type RowEvidence, type Tables, type Verdict } from './checker.ts';
import { boundSeconds, boundText, type Drill } from './drill.ts';
import { essayDrills } from './essay.ts';
import { kinds } from './kinds.ts';
import { matrix } from './matrix.ts';
import { retentionDrills } from './retention.ts';
import { type Stage, startStage } from './stage.ts';

export const drills: readonly Drill[] = [...essayDrills, ...boundaryDrills, ...retentionDrills, ...matrix];

/** What a drill came to. */
export interface DrillResult extends Verdict {
  readonly drill: string;
  readonly passed: boolean;
  /** Every reminder reached an end that was expected, within the bound. */
  readonly converged: boolean;
  /** From the due time or the last fault, the later, to the last end; null: no end. */
  readonly seconds: number | null;
  readonly boundSeconds: number;
  readonly bound: string;
  readonly states: readonly string[];
  /** False: its fault was never met, so that it has rehearsed nothing. */
  readonly exercised: boolean;
  /** What the first run came to, when this is a second one, by itself: beside others it missed its bound or its fault. */
  readonly first: Pick<DrillResult, 'seconds' | 'exercised' | 'error'> | null;
  /** What kept it from being carried out. */
  readonly error: string | null;
}

export interface RunOptions {
  /** How many run at once. @default 10 */
  readonly atOnce?: number;
  readonly onStart?: (drill: string) => void;
  /** Told of a first run that does not count, because the drill will run again alone. */
  readonly onPutOff?: (drill: string) => void;
  readonly onResult?: (result: DrillResult) => void;
}

/** How long the announcement of an end is waited for, which only a drill about it counts. */
const announceLimitMs = 60_000;

/** Time beyond the bound in which an end is still waited for, so that a late one is told from none. */
const graceMs = 60_000;

/** @throws {Error} when local AWS does not start */
export async function runDrills(chosen: readonly Drill[], options: RunOptions = {}): Promise<DrillResult[]> {
  const { atOnce = 10, onStart, onPutOff, onResult } = options;
  const results: DrillResult[] = [];
  let place = 0;
  const run = (stage: Stage, drill: Drill, first: DrillResult['first'] = null) => {
    onStart?.(drill.name);
    place += 1;
    return runDrill(stage, drill, new Cell(stage, place), first);
  };
  const tell = (result: DrillResult) => {
    results.push(result);
    onResult?.(result);
  };
  const onStage = async (some: readonly Drill[], clockSkewMs?: number) => {
    if (some.length === 0) return;
    const stage = await startStage(clockSkewMs);
    const waiting = spread(some).values();
    /** Ticks and machine are shared: what was late or missed its fault beside others gets the stage to itself. */
    const again: { readonly drill: Drill; readonly first: DrillResult }[] = [];
    const lane = async () => {
      for (const drill of waiting) {
        const result = await run(stage, drill);
        if (result.passed || result.broken.length > 0) {
          tell(result);
          continue;
        }
        again.push({ drill, first: result });
        onPutOff?.(drill.name);
      }
    };
    try {
      await Promise.all(Array.from({ length: Math.min(atOnce, some.length) }, lane));
      for (const { drill, first } of again) {
        const { seconds, exercised, error } = first;
        tell(await run(stage, drill, { seconds, exercised, error }));
      }
    } finally {
      await stage.stop();
    }
  };
  const skewed = async () => {
    for (const skew of new Set(chosen.flatMap(({ clockSkewMs }) => clockSkewMs ?? []))) {
      await onStage(
        chosen.filter(({ clockSkewMs }) => clockSkewMs === skew),
        skew,
      );
    }
  };
  await Promise.all([onStage(chosen.filter(({ clockSkewMs }) => clockSkewMs === undefined)), skewed()]);
  const order = new Map(chosen.map(({ name }, no) => [name, no]));
  return results.toSorted((a, b) => (order.get(a.drill) ?? 0) - (order.get(b.drill) ?? 0));
}

/** Neighbours in the list run into the same call: they take turns, so that one's fault does not put off another's. */
function spread(some: readonly Drill[]): readonly Drill[] {
  const kindCount = Object.keys(kinds).length;
  return Array.from({ length: kindCount }, (_, kind) => some.filter((_drill, no) => no % kindCount === kind)).flat();
}

async function runDrill(stage: Stage, drill: Drill, cell: Cell, first: DrillResult['first']): Promise<DrillResult> {
  const limit = boundSeconds(drill.bound, cell.settings);
  let error: string | null = null;
  try {
    await drill.run(cell);
    const stopped = [...cell.points].sort().join(', ');
    const told = [...(drill.points ?? [])].sort().join(', ');
    if (stopped !== told)
      throw new Error(`it stops processes at ${stopped || 'no point'}, and says: ${told || 'none'}`);
  } catch (caught) {
    error = caught instanceof Error ? caught.message : String(caught);
  }
  const until = async (holds: (tables: Tables) => boolean, limitMs: number) => {
    for (const end = Math.max(Date.now(), from(cell)) + limitMs; Date.now() < end; await sleep(300)) {
      if (holds(await cell.tables())) return;
    }
  };
  if (error === null) {
    await until((tables) => ended(drill, tables, cell), limit * 1000 + graceMs);
    await cell.effectsOver();
    await until(({ events }) => events.every(({ announcedAt }) => announcedAt !== null), announceLimitMs);
  } else await cell.effectsOver();
  const tables = await cell.tables();
  const verdict = judgeDrill(evidenceOf(stage, drill, cell, tables));
  // A drill that was not carried out to its end has no end to judge; everything else holds at any time.
  const broken = verdict.broken.filter((sentence) => error === null || !/^(P1|announced)\b/.test(sentence));
  const ends = tables.rows.map((row) => endOf(row, drill, tables) ?? Number.NaN);
  const over = ended(drill, tables, cell);
  const seconds = over ? Math.max(0, Math.max(...ends) - from(cell)) / 1000 : null;
  const converged = seconds !== null && seconds <= limit;
  const { exercised } = cell;
  return {
    drill: drill.name,
    passed: error === null && converged && exercised && broken.length === 0,
    converged,
    seconds,
    boundSeconds: limit,
    bound: boundText(drill.bound, cell.settings),
    states: tables.rows.map(({ state }) => state),
    exercised,
    first,
    error,
    ...verdict,
    broken,
  };
}

function evidenceOf(stage: Stage, drill: Drill, cell: Cell, tables: Tables): Evidence {
  return {
    ...tables,
    asked: cell.asked,
    destination: cell.destination,
    requests: stage.receiver.requests.filter(({ path }) => path === cell.path),
    announced: stage.aws.bus.events.flatMap(({ Detail }) => {
      const { eventId, deliveryId }: { eventId: string; deliveryId: string } = JSON.parse(Detail ?? '{}');
      return tables.rows.some((row) => row.deliveryId === deliveryId) ? [eventId] : [];
    }),
    endsIn: drill.endsIn,
    deadlineMs: cell.settings.webhookDeadlineMs,
    attemptHardCap: cell.settings.attemptHardCap,
  };
}

/** From when on a bound counts. What was called off has no due time. */
function from(cell: Cell): number {
  const due = cell.reminders.filter(({ cancelled }) => !cancelled).map(({ dueAt }) => dueAt);
  return Math.max(cell.lastFaultAt, ...due);
}

/** When what a drill is measured to was reached, epoch milliseconds; null: not yet. */
function endOf({ deliveryId, stateSince, archivedAt }: RowEvidence, { until }: Drill, { events }: Tables) {
  if (until === 'archived') return archivedAt;
  if (until !== 'announced') return stateSince;
  return events.find((event) => event.deliveryId === deliveryId)?.announcedAt ?? null;
}

/** Every reminder of the cell is where it shall end, and announced or archived where that is what is measured. */
function ended(drill: Drill, tables: Tables, cell: Cell): boolean {
  const { rows } = tables;
  const there = rows.filter((row) => drill.endsIn.includes(row.state) && endOf(row, drill, tables) !== null);
  return rows.length >= cell.reminders.length && there.length === rows.length;
}
