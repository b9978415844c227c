// An execution environment of Lambda: its clocks, its one invocation, and how it freezes, thaws and is killed.
import type { Clock, Log, Meter } from '../../lambdas/core/ports.ts';
import type { Chance } from './chance.ts';
import type { Rival, Run } from './run.ts';
import type { Trouble } from './weather.ts';

/** Transport's errors, by the names that callers classify them by. */
export class TransportError extends Error {
  constructor(name: string) {
    super(`simulated ${name}`);
    this.name = name;
  }
}

/** What an invocation came to. */
export type Ending<Answer> = { answer: Answer } | { failed: unknown } | 'killed';

/** What one call to the outside may meet. */
export interface CallOptions {
  readonly name: string;
  /** How long the caller waits for one try, milliseconds. */
  readonly timeoutMs: number;
  /** Names of errors that say, or leave open, that nothing was done. */
  readonly refusals: readonly [string, ...string[]];
  /** Names of errors that come at once although all was done: the connection is reset, or the service fails, after it. */
  readonly failures: readonly [string, ...string[]];
}

export class ExecutionEnvironment {
  readonly name: string;
  readonly run: Run;
  readonly chance: Chance;
  dead = false;
  /** Lambda forgets to kill it when its time is up. */
  outlivesItsTime = false;
  /** The times in which nothing ran here. */
  readonly freezes: { from: number; to: number }[] = [];
  readonly #skewMs: number;
  readonly #begun: number;
  #thawsAt = 0;
  #monotonicLost = 0;
  #wallLost = 0;
  #onDeath: () => void = () => undefined;

  constructor(run: Run, kind: string) {
    this.name = run.newName(kind);
    this.run = run;
    this.chance = run.world.chanceOf(this.name);
    run.environments.set(this.name, this);
    this.#begun = run.world.at;
    this.#skewMs = this.troubled('skew') ? this.chance.between(-600_000, 600_000) : 0;
  }

  /** Application time: it stops in part while frozen, and may be wrong. */
  readonly clock: Clock = {
    monotonic: () => this.run.world.at - this.#begun - this.#monotonicLost,
    wall: () => this.run.world.at + this.#skewMs - this.#wallLost,
    sleep: (ms, signal) =>
      new Promise((resolve, reject) => {
        const stop = this.timer(ms, resolve);
        signal?.addEventListener('abort', () => {
          stop();
          reject(signal.reason);
        });
      }),
  };

  readonly log: Log = {
    info: (event, fields) => this.#line(event, fields),
    warn: (event, fields) => this.#line(event, fields),
    error: (event, fields) => this.#line(event, fields),
  };

  readonly meter: Meter = { count: () => undefined, milliseconds: () => undefined, percent: () => undefined };

  /** Whether this trouble strikes here now. */
  troubled(trouble: Trouble): boolean {
    return this.run.troubled(trouble, this.name);
  }

  /** Does `work` here after some time, if it is alive then; while frozen, once it thaws. */
  after(ms: number, work: () => void): void {
    this.run.world.after(ms, () => this.#resume(work));
  }

  /** As `after`, by the monotonic clock, and can be called off. */
  timer(ms: number, work: () => void): () => void {
    const due = this.clock.monotonic() + ms;
    let off = false;
    const wait = (left: number) =>
      this.after(left, () => {
        if (off) return;
        const still = due - this.clock.monotonic();
        if (still > 0.01) wait(still);
        else work();
      });
    wait(ms);
    return () => {
      off = true;
    };
  }

  /** Nothing runs here for a while. */
  freeze(ms: number): void {
    const stopped = this.#drawStopped();
    this.#freeze(ms, stopped);
    this.run.world.note(this.name, `frozen for ${ms.toFixed(0)} ms, clock that stops: ${stopped}`);
  }

  /** Freezes, with its invocation's end forgotten, until one of these reminders is opened anew. */
  freezeUntilOpened(ids: readonly string[]): void {
    const { run } = this;
    let opened = false;
    run.onceTaken({ answer: 'opened', ids }, () => {
      opened = true;
    });
    this.outlivesItsTime = true;
    const stopped = this.#drawStopped();
    run.world.note(this.name, `frozen until the next attempt, clock that stops: ${stopped}`);
    const step = (run.weather.settings.leaseSeconds * 1000) / 60;
    const more = (): void => {
      if (opened || this.dead) return;
      this.#freeze(step, stopped);
      run.world.after(step, more);
    };
    more();
  }

  kill(why: string): void {
    if (this.dead) return;
    this.dead = true;
    this.run.world.note(this.name, `killed: ${why}`);
    this.#onDeath();
  }

  /**
   * A call to the outside: the request takes its time, has its effect, and the answer comes back, or one of these does not.
   * `effect` runs at one instant of virtual time; what it throws is the answer.
   * @param rival it may be held back until that one comes first
   */
  call<Answer>(options: CallOptions, effect: () => Promise<Answer>, rival: Rival | null = null): Promise<Answer> {
    const { run, chance } = this;
    const { world } = run;
    if (this.troubled('killed')) {
      this.kill(`before ${options.name}`);
      return new Promise(() => undefined);
    }
    const there = this.troubled('slow') ? chance.between(0.1, 0.6) * options.timeoutMs : chance.between(1, 15);
    const back = this.troubled('slow') ? chance.between(0.1, 0.5) * options.timeoutMs : chance.between(1, 15);
    if (this.troubled('frozen'))
      run.during(chance, there + back, () => this.freeze(run.untilCalm(run.longWait(chance))));
    if (this.troubled('killed')) run.during(chance, there + back, () => this.kill(`during ${options.name}`));

    return new Promise<Answer>((resolve, reject) => {
      const stop = this.timer(options.timeoutMs, () => reject(new TransportError('TimeoutError')));
      const answer = (give: () => void) =>
        this.after(back, () => {
          stop();
          give();
        });
      const carryOut = (answered: boolean) => async () => {
        const end = await effect().then(
          (value) => (failsAfter ? failure : () => resolve(value)),
          (error: unknown) => () => reject(error),
        );
        if (answered) answer(end);
      };
      const failsAfter = this.troubled('failedAfter');
      const failure = () => {
        const name = chance.pick(options.failures);
        run.meet(`${options.name} failed after its effect`);
        world.note(this.name, `${options.name} done, and answered ${name}`);
        reject(new TransportError(name));
      };
      if (this.troubled('notRun')) {
        const name = chance.pick(options.refusals);
        world.note(this.name, `${options.name} not run: ${name}`);
        return answer(() => reject(new TransportError(name)));
      }
      if (rival !== null && this.troubled('heldBack')) {
        world.note(this.name, `${options.name} under way until a rival comes first`);
        run.onceTaken(rival, carryOut(false));
        run.during(chance, options.timeoutMs, () => this.kill(`with ${options.name} under way`));
        return;
      }
      if (this.troubled('late')) {
        const late = run.untilCalm(run.longWait(chance));
        world.note(this.name, `${options.name} under way for ${late.toFixed(0)} ms`);
        world.after(late, carryOut(false));
        // The request outlives who sent it.
        if (chance.happens(0.5))
          run.during(chance, options.timeoutMs, () => this.kill(`with ${options.name} under way`));
        return;
      }
      const lost = this.troubled('answerLost');
      if (lost) world.note(this.name, `${options.name} will lose its answer`);
      world.after(there, carryOut(!lost));
      if (this.troubled('runTwice')) world.after(run.untilCalm(there + run.longWait(chance)), carryOut(false));
    });
  }

  /**
   * Runs one invocation: an early signal, what comes of it, and the end that Lambda makes when the time is up.
   * `inner` goes on after its end is answered: the environment may be thawed again.
   */
  invoke<Answer>(
    timeoutMs: number,
    inner: (invocation: { signal: AbortSignal; remainingMs: () => number }) => Promise<Answer>,
    ended: (ending: Ending<Answer>) => void,
  ): void {
    const { run, clock } = this;
    const { world } = run;
    const early = new AbortController();
    const reserveMs = Math.floor(Math.min(2000, timeoutMs / 5));
    const deadline = clock.wall() + timeoutMs;
    let over = false;
    const end = (ending: Ending<Answer>) => {
      if (over) return;
      over = true;
      world.note(this.name, `ends: ${ending === 'killed' ? ending : Object.keys(ending)[0]}`);
      ended(ending);
    };
    this.#onDeath = () => end('killed');
    this.timer(timeoutMs - reserveMs, () => {
      if (over) return;
      early.abort();
      this.timer((reserveMs * 3) / 4, () => {
        if (over) return;
        end({ failed: new Error('time is up') });
        // What still runs here freezes with the environment, and goes on if another invocation thaws it.
        if (this.troubled('zombie')) this.freeze(run.untilCalm(run.longWait(this.chance)));
        else this.dead = true;
      });
    });
    if (!this.troubled('timeoutOff')) {
      world.after(timeoutMs, () => (over || this.outlivesItsTime ? undefined : this.kill('its time is up')));
    }
    inner({ signal: early.signal, remainingMs: () => deadline - clock.wall() }).then(
      (answer) => end({ answer }),
      (failed: unknown) => end({ failed }),
    );
  }

  /** As on Lambda one of the clocks stands still while nothing runs. */
  #drawStopped(): 'monotonic' | 'wall' | 'none' {
    return this.chance.pick(['monotonic', 'wall', 'none']);
  }

  #freeze(ms: number, stopped: 'monotonic' | 'wall' | 'none'): void {
    const from = Math.max(this.run.world.at, this.#thawsAt);
    this.#thawsAt = from + ms;
    const last = this.freezes.at(-1);
    if (last?.to === from) last.to = this.#thawsAt;
    else this.freezes.push({ from, to: this.#thawsAt });
    if (stopped === 'monotonic') this.#monotonicLost += ms;
    if (stopped === 'wall') this.#wallLost += ms;
  }

  #resume(work: () => void): void {
    if (this.dead) return;
    const left = this.#thawsAt - this.run.world.at;
    if (left > 0) this.after(left + this.chance.between(0, 5), work);
    else work();
  }

  #line(event: string, fields: Record<string, unknown> = {}): void {
    const { error, ...rest } = fields;
    const why = error instanceof Error ? ` ${error.message}` : '';
    this.run.world.note(this.name, `log ${event} ${JSON.stringify(rest)}${why}`);
  }
}
