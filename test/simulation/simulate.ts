// Runs one seed from its first command until everything has come to its end, and has it checked.
import { startPoller, startTicks, whatWaits } from './actors.ts';
import { type Checked, check } from './checker.ts';
import { type Stage, tick } from './functions.ts';
import { register, startDamages, startOperators } from './operators.ts';
import { Products } from './products.ts';
import { QueueModel } from './queue-model.ts';
import { Receivers } from './receivers.ts';
import { type Plant, Run } from './run.ts';
import type { VirtualDatabase } from './virtual-database.ts';
import { drawWeather } from './weather.ts';
import { type TraceLine, World } from './world.ts';

export type SimulatedStage = 'production' | 'rehearsal';

/** What became of one seed. */
export interface Simulated extends Checked {
  readonly seed: number;
  readonly stage: SimulatedStage;
  /** The same for each run of the seed, and different for every other. */
  readonly hash: string;
  readonly trace: readonly TraceLine[];
  readonly statements: number;
  readonly virtualSeconds: number;
}

/** Runs one seed. The database is emptied first. */
export async function simulate(
  database: VirtualDatabase,
  seed: number,
  stageName: SimulatedStage,
  plant: Plant = (_name, text) => text,
): Promise<Simulated> {
  await database.reset();
  const world = new World(`${stageName} ${seed}`);
  const weather = drawWeather((concern) => world.chanceOf(`weather, ${concern}`), stageName);
  const run = new Run(world, weather, database, plant);
  const stage: Stage = {
    run,
    queue: new QueueModel(run),
    receivers: new Receivers(run),
    asked: [],
    named: [],
    destinations: [],
    registered: [],
    archived: [],
    announced: [],
    running: 0,
  };
  world.note('weather', JSON.stringify(weather));
  const products = new Products(stage);
  startPoller(stage);
  if (weather.pastDays > 0) {
    register(stage, 1);
    await world.run(startCalmTicks(stage, products.livePast()));
    world.leap(weather.pastDays * 86_400_000);
  }
  run.beginTroubles();
  register(stage, weather.destinations);
  startTicks(stage);
  startOperators(stage);
  startDamages(stage);
  products.start();
  await world.run(startCalmTicks(stage, weather.troubledMs));
  const checked = await check(stage);
  return {
    ...checked,
    seed,
    stage: stageName,
    hash: world.hash(),
    trace: world.trace,
    statements: run.executed.length,
    virtualSeconds: (world.at - world.beginning - world.leaptMs) / 1000,
  };
}

/**
 * The latest moment at which the last reminder may come to its end once nothing goes wrong any more. A row wakes at the
 * latest after the longest of: its due time, the pause that a receiver asked for, the capped retry pause, an invitation's
 * allowance doubled five times; and once more after an attempt that was left open. Each time it may wait for a tick that
 * comes late in its period, for the queue and for a sender.
 */
function latestEnd({ weather, calmAt }: Run, lastDue: number): number {
  const { settings: s } = weather;
  const round = 2 * (s.tickSeconds + s.tickPrecisionSeconds) + s.claimTimeoutSeconds + s.senderTimeoutSeconds;
  const seconds = s.allowanceSeconds * 2 ** 5 + s.retryCapSeconds + s.allowanceSeconds + s.leaseSeconds + 3 * round;
  return Math.max(calmAt, lastDue) + seconds * 1000;
}

/**
 * When `ms` are over: ticks whenever there is something for one. Answers whether the run is at its end: every
 * reminder at rest, no message left, no invocation under way; or out of time.
 */
function startCalmTicks(stage: Stage, ms: number): () => boolean {
  const { run, queue } = stage;
  const { world, weather } = run;
  const tickMs = weather.settings.tickSeconds * 1000;
  let finished = false;
  const look = async (): Promise<void> => {
    const { due, wakes, lastDue } = await whatWaits(stage);
    const atRest = !due && wakes === null && stage.running === 0 && queue.nextVisible() === undefined;
    finished = atRest || world.at > latestEnd(run, lastDue);
    if (due) tick(stage);
    const next = due ? world.at : Math.min(wakes ?? Number.POSITIVE_INFINITY, queue.nextVisible() ?? world.at);
    if (!finished)
      world.after(Math.max(next - world.at, 0) + tickMs * world.chanceOf('calm ticks').between(0.5, 1.5), look);
  };
  world.after(ms + 1, look);
  return () => finished;
}
