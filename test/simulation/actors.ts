// The machinery around the functions: the scheduler's ticks and the queue's poller.
import { type Stage, send, tick } from './functions.ts';

/** EventBridge Scheduler: one tick a period, anywhere in it; at times none, or two. */
export function startTicks(stage: Stage): void {
  const { run } = stage;
  const { world } = run;
  const chance = world.chanceOf('ticks');
  const { tickSeconds, tickPrecisionSeconds } = run.weather.settings;
  const perhaps = async () => {
    const { due } = await whatWaits(stage);
    if (due) tick(stage);
  };
  const period = (): void => {
    if (!run.troubled('tickLost', 'ticks')) {
      run.during(chance, tickPrecisionSeconds * 1000, perhaps);
      if (run.troubled('tickTwice', 'ticks')) run.during(chance, tickPrecisionSeconds * 1000, perhaps);
    }
    if (world.at + tickSeconds * 1000 < run.calmAt) world.after(tickSeconds * 1000, period);
  };
  period();
}

/**
 * Whether a tick would find anything now, and when the next row wakes. One that would not is left out: it changes nothing
 * and takes the simulation's time.
 */
export async function whatWaits({ run }: Stage): Promise<{ due: boolean; wakes: number | null; lastDue: number }> {
  const [row] = await run.database.sql<{ wakes: number | null; waiting: boolean; last_due: number | null }>(
    `SELECT (SELECT CAST(extract(epoch FROM min(wake_at)) * 1000 AS double precision) FROM reminder_delivery
             WHERE isfinite(wake_at)) AS wakes,
            EXISTS (SELECT FROM reminder_delivery WHERE parked)
              OR EXISTS (SELECT FROM lifecycle_event WHERE announced_at IS NULL) AS waiting,
            (SELECT CAST(extract(epoch FROM max(GREATEST(due_at, next_attempt_at))) * 1000 AS double precision)
             FROM reminder_delivery) AS last_due`,
    [],
    'what waits',
  );
  const wakes = row?.wakes ?? null;
  const due = row?.waiting === true || (wakes !== null && wakes <= run.world.at);
  return { due, wakes, lastDue: row?.last_due ?? 0 };
}

/** The event source mapping: polls while there are messages, runs senders side by side. */
export function startPoller(stage: Stage): void {
  const { run, queue } = stage;
  const { world } = run;
  const chance = world.chanceOf('poller');
  let planned = false;
  let senders = 0;
  let offUntil = 0;
  const plan = (): void => {
    const visible = queue.nextVisible();
    if (planned || visible === undefined) return;
    planned = true;
    world.after(Math.max(visible - world.at, 0) + chance.between(5, 400), poll);
  };
  const poll = (): void => {
    planned = false;
    if (run.troubled('pollerOff', 'poller')) offUntil = world.at + run.untilCalm(run.longWait(chance));
    const busy = senders >= run.weather.settings.senderConcurrency;
    if (!busy && world.at >= offUntil) {
      const messages = queue.receive(run.weather.settings.senderBatchSize);
      // A receive counts for a throttled invocation too: its messages come back when they are visible again.
      if (messages.length > 0 && !run.troubled('throttled', 'poller')) {
        senders += 1;
        send(stage, messages, () => {
          senders -= 1;
          plan();
        });
      }
    }
    plan();
  };
  queue.onSend = plan;
}
