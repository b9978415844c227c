// EventBridge Scheduler on this machine: ticks that fall anywhere in their period, and may be lost.

/** A rate schedule. */
export interface ScheduleOptions {
  readonly periodSeconds: number;
  /** What a tick does. It is asynchronous and never tried again: the next tick is the retry. */
  readonly invoke: () => void;
  /** The same seed draws the same instants. @default 1 */
  readonly seed?: number;
  /** One tick in so many is lost, drawn by the seed. @default 0, none */
  readonly lossOneIn?: number;
}

/** A schedule that runs. */
export interface Scheduler {
  /** How many ticks ran, those asked for included. */
  readonly ticks: number;
  /** How many were lost. */
  readonly dropped: number;
  /** Runs a tick now, whatever the plan says. */
  tickNow(): void;
  /** Loses the next ticks of the plan. @param count default: 1 */
  dropNext(count?: number): void;
  /** Lets the ticks of the plan pass until {@link Scheduler.resume}. */
  pause(): void;
  resume(): void;
  stop(): void;
}

/**
 * Ticks once in each period, at an instant drawn anew each time: EventBridge Scheduler promises 60 s precision
 * (EventBridge Scheduler User Guide, "Schedule types in EventBridge Scheduler").
 */
export function startScheduler({ periodSeconds, invoke, seed = 1, lossOneIn = 0 }: ScheduleOptions): Scheduler {
  const draw = seededRandom(seed);
  const begun = performance.now();
  let period = 0;
  let toDrop = 0;
  let dropped = 0;
  let ticks = 0;
  let paused = false;
  let timer: NodeJS.Timeout | undefined;

  function tick(): void {
    ticks += 1;
    invoke();
  }

  function plan(): void {
    const at = begun + (period + draw()) * periodSeconds * 1000;
    const lost = draw() < (lossOneIn && 1 / lossOneIn);
    period += 1;
    timer = setTimeout(() => {
      plan();
      if (paused) return;
      if (toDrop === 0 && !lost) return tick();
      toDrop = Math.max(0, toDrop - 1);
      dropped += 1;
    }, at - performance.now());
  }

  plan();
  return {
    get ticks() {
      return ticks;
    },
    get dropped() {
      return dropped;
    },
    tickNow: tick,
    dropNext: (count = 1) => {
      toDrop += count;
    },
    pause: () => {
      paused = true;
    },
    resume: () => {
      paused = false;
    },
    stop: () => clearTimeout(timer),
  };
}

/** Numbers from 0 to 1 from a linear congruential generator (ISO C's example constants, 31 bits): plenty for jitter. */
function seededRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff;
    return state / 0x80000000;
  };
}
