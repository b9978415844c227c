// Runs many seeds one after the other, and sums up what they showed and what they can exclude.
import type { Broken } from './evidence.ts';
import { addMet, type Met } from './met.ts';
import type { Plant } from './run.ts';
import { type Simulated, type SimulatedStage, simulate } from './simulate.ts';
import { startVirtualDatabase, type VirtualDatabase } from './virtual-database.ts';

/** A seed that broke a promise. */
export interface FailedSeed {
  readonly seed: number;
  readonly stage: SimulatedStage;
  readonly broken: readonly Broken[];
}

/** What a series of seeds came to. */
export interface SeedsReport {
  readonly schedules: number;
  readonly firstSeed: number;
  readonly stages: readonly SimulatedStage[];
  readonly failed: readonly FailedSeed[];
  readonly statements: number;
  readonly reminders: number;
  /** Reminders by their last state. */
  readonly ends: Readonly<Record<string, number>>;
  readonly requests: number;
  readonly sendsAfterDelivered: number;
  readonly sendsFrozenBetween: number;
  /** From the due time to the first 2xx, of delivered reminders, by stage. */
  readonly latenessSeconds: Readonly<Record<string, { p50: number; p99: number; max: number }>>;
  /** How often each statement gave each answer, and each situation was met. */
  readonly met: Met;
  readonly virtualHours: number;
  readonly seconds: number;
  readonly schedulesPerSecond: number;
  /** The failure rate of a schedule that this excludes at 95 %; null when one failed. */
  readonly excludedRate: number | null;
}

/** Runs `schedules` seeds of each stage, from `firstSeed` up. */
export async function runSeeds(options: {
  readonly schedules: number;
  readonly firstSeed: number;
  readonly stages: readonly SimulatedStage[];
  readonly plant?: Plant;
  /** @default one of its own, which is stopped after */
  readonly database?: VirtualDatabase;
  /** Ends the series. @default never */
  readonly enough?: (failed: readonly FailedSeed[]) => boolean;
  readonly onSchedule?: (simulated: Simulated) => void;
}): Promise<SeedsReport> {
  const database = options.database ?? (await startVirtualDatabase());
  const began = performance.now();
  const failed: FailedSeed[] = [];
  const ends: Record<string, number> = {};
  const lateness: Record<string, number[]> = {};
  const met: Record<string, number> = {};
  const sums = { schedules: 0, statements: 0, requests: 0, sendsAfterDelivered: 0, sendsFrozenBetween: 0, virtual: 0 };
  try {
    for (let place = 0; place < options.schedules && !options.enough?.(failed); place += 1) {
      for (const stage of options.stages) {
        const simulated = await simulate(database, options.firstSeed + place, stage, options.plant);
        const { seed, broken, sends } = simulated;
        if (broken.length > 0) failed.push({ seed, stage, broken });
        for (const [state, count] of Object.entries(simulated.ends)) ends[state] = (ends[state] ?? 0) + count;
        lateness[stage] = [...(lateness[stage] ?? []), ...simulated.lateness];
        addMet(met, simulated.met);
        sums.schedules += 1;
        sums.statements += simulated.statements;
        sums.requests += sends.requests;
        sums.sendsAfterDelivered += sends.afterDelivered;
        sums.sendsFrozenBetween += sends.frozenBetween;
        sums.virtual += simulated.virtualSeconds;
        options.onSchedule?.(simulated);
      }
    }
  } finally {
    if (options.database === undefined) await database.stop();
  }
  const seconds = (performance.now() - began) / 1000;
  const { virtual, ...counted } = sums;
  return {
    ...counted,
    firstSeed: options.firstSeed,
    stages: options.stages,
    failed,
    reminders: Object.values(ends).reduce((sum, count) => sum + count, 0),
    ends,
    latenessSeconds: Object.fromEntries(Object.entries(lateness).map(([stage, all]) => [stage, spread(all)])),
    met,
    virtualHours: Math.round(virtual / 3600),
    seconds: Math.round(seconds),
    schedulesPerSecond: Math.round((10 * sums.schedules) / seconds) / 10,
    // The rule of three: 0 of n leaves at most 3/n at 95 % (Hanley and Lippman-Hand, "If nothing goes wrong, is everything
    // all right?", JAMA 1983; 249: 1743-1745). Of schedules drawn as these are, that is; not of every possible one.
    excludedRate: failed.length === 0 && sums.schedules > 0 ? 3 / sums.schedules : null,
  };
}

function spread(milliseconds: readonly number[]): { p50: number; p99: number; max: number } {
  const sorted = [...milliseconds].sort((one, other) => one - other);
  const at = (share: number) => Math.round((sorted[Math.floor((sorted.length - 1) * share)] ?? 0) / 100) / 10;
  return { p50: at(0.5), p99: at(0.99), max: at(1) };
}

/** The seed, what it broke, the rows that show it, and the last events about the reminders concerned. */
export function failureText({ seed, stage, broken, trace }: Simulated, lines = 60): string {
  const [first] = broken;
  if (first === undefined) return '';
  const begin = trace[0]?.at ?? 0;
  const about = trace.filter(({ text }) => first.ids.length === 0 || first.ids.some((id) => text.includes(id)));
  const last = about
    .slice(-lines)
    .map(({ at, who, text }) => `${((at - begin) / 1000).toFixed(3).padStart(10)} ${who} ${text}`);
  return [
    `seed ${seed}, stage ${stage}: npm run simulate -- --replay ${seed} --stage ${stage}`,
    ...broken.map(({ promise, sentence }) => `  ${promise}: ${sentence}`),
    ...first.rows.map((row) => `  row ${JSON.stringify(row)}`),
    ...last.map((line) => `  ${line}`),
  ].join('\n');
}
