// Products: what they schedule, change and ask, in their own time and at the worst moments; as twins, and again.
import type { ReminderCommand } from '../../lambdas/core/answer-commands.ts';
import type { NewReminder } from '../../lambdas/core/ports.ts';
import type { Chance } from './chance.ts';
import { command, type Stage, tick } from './functions.ts';
import { operatorsOf } from './operators.ts';
import type { Executed } from './run.ts';

const instant = (at: number) => new Date(Math.round(at)).toISOString();

export class Products {
  readonly #stage: Stage;
  readonly #tickMs: number;

  /** Reminders of the past: finished long ago, and asked for again. */
  #past: readonly NewReminder[] = [];

  constructor(stage: Stage) {
    this.#stage = stage;
    this.#tickMs = stage.run.weather.settings.tickSeconds * 1000;
  }

  /** Plans all that products do. */
  start(): void {
    const { run } = this.#stage;
    const { world, weather } = run;
    const chance = world.chanceOf('products');
    const keys = Array.from({ length: weather.reminders }, (_, place) => `key-${place}`);
    while (keys.length > 0) {
      const together = keys.splice(0, chance.integer(1, 4));
      run.during(chance, weather.troubledMs / 3, () => this.#schedule(together));
    }
    for (const { key } of this.#past) this.#changeNowAndThen(key);
    run.listen((executed) => this.#provoke(executed));
    run.listen((executed) => this.#changeAfterEnd(executed));
    this.#stage.receivers.onArrival = (deliveryId, afterMs) => this.#changeWhileSent(deliveryId, afterMs);
  }

  /** Plans a few reminders that live and end before anything goes wrong. Answers how long until nothing is asked any more. */
  livePast(): number {
    const { run } = this.#stage;
    const { world } = run;
    const chance = world.chanceOf('past');
    const spanMs = 3 * this.#tickMs;
    run.during(chance, this.#tickMs, () => {
      const keys = Array.from({ length: chance.integer(2, 4) }, (_, place) => `past-${place}`);
      this.#past = keys.map((key) => this.#newReminder(key));
      this.#call(
        'product',
        this.#past.map((reminder) => ({ verb: 'schedule', reminder })),
      );
      if (chance.happens(0.7)) this.#call('product', [{ verb: 'cancel', name: { key: 'past-0' } }]);
    });
    return spanMs;
  }

  #schedule(keys: readonly string[]): void {
    const { run, destinations } = this.#stage;
    // A product names what it was told that there is.
    if (destinations.length === 0) {
      run.world.after(1000, () => this.#schedule(keys));
      return;
    }
    const reminders = keys.map((key) => this.#newReminder(key));
    this.#call(
      'product',
      reminders.map((reminder) => ({ verb: 'schedule', reminder })),
    );
    for (const { key } of reminders) this.#changeNowAndThen(key);
  }

  #changeNowAndThen(key: string): void {
    const { run } = this.#stage;
    const chance = run.world.chanceOf(`changes of ${key}`);
    for (let changes = 0; changes < 3 && run.troubled('productChanges', key); changes += 1) {
      const producer = chance.happens(0.1) ? 'rival' : 'product';
      run.during(chance, run.weather.troubledMs / 2, () => this.#call(producer, [this.#change({ key })]));
    }
  }

  #newReminder(key: string): NewReminder {
    const { run, named, destinations } = this.#stage;
    const { world } = run;
    const chance = world.chanceOf(`reminder ${key}`);
    const known = run.troubled('unregistered', key) ? named : destinations;
    const due = this.#due(chance);
    return {
      deliveryId: chance.uuid(world.at),
      key,
      destination: chance.shuffled(known)[0] ?? '',
      userId: `user of ${key}`,
      dueAt: instant(due),
      expiresAt: chance.happens(0.25)
        ? instant(due + chance.pick([1, 30]) * chance.between(0.2, 1) * this.#tickMs)
        : null,
      payload: JSON.stringify({ text: `reminder ${key} “ä”`, amount: chance.integer(1, 1e6) }),
    };
  }

  #due(chance: Chance): number {
    const { at } = this.#stage.run.world;
    const lookaheadMs = this.#stage.run.weather.settings.lookaheadSeconds * 1000;
    const spans = [
      chance.between(-this.#tickMs, 500),
      chance.between(0, lookaheadMs),
      chance.between(0, 3 * lookaheadMs),
    ];
    return at + chance.pick([0, ...spans]);
  }

  /** One call, and again when it was not answered, or when the product feels like it. */
  #call(producer: string, commands: readonly ReminderCommand[], triesLeft = 3): void {
    const { run } = this.#stage;
    const chance = run.world.chanceOf(`calls of ${producer}`);
    const drawn: string[] = [];
    // Each use begins with the same tokens: so it is a second run of the same call.
    const sameTokens = () => {
      let next = 0;
      return () => {
        const token = drawn[next] ?? chance.uuid(run.world.at);
        drawn[next] = token;
        next += 1;
        return token;
      };
    };
    const again = () => this.#call(producer, this.#withFreshIds(commands), triesLeft - 1);
    command(this.#stage, producer, commands, sameTokens(), (answers) => {
      const unknown = answers.some((answer) => answer.answer === 'invalid' && answer.path === 'destination');
      if ((unknown || answers.length === 0) && triesLeft > 0) run.world.after(chance.between(0, this.#tickMs), again);
    });
    if (run.troubled('productRepeats', producer)) {
      const repeat = () => command(this.#stage, producer, commands, sameTokens(), () => undefined);
      run.during(chance, chance.pick([20, this.#tickMs]), repeat);
    }
    if (triesLeft > 0 && run.troubled('productRepeats', producer))
      run.during(chance, chance.pick([20, 2 * this.#tickMs]), again);
  }

  /** A product makes an id for each call; it counts only if the key is new. */
  #withFreshIds(commands: readonly ReminderCommand[]): ReminderCommand[] {
    const { world } = this.#stage.run;
    const chance = world.chanceOf('fresh ids');
    return commands.map((one) =>
      one.verb === 'schedule' ? { ...one, reminder: { ...one.reminder, deliveryId: chance.uuid(world.at) } } : one,
    );
  }

  #change(name: { key: string } | { deliveryId: string }): ReminderCommand {
    const { world } = this.#stage.run;
    const chance = world.chanceOf(`changes of ${JSON.stringify(name)}`);
    const expiresAt = chance.happens(0.5) ? null : instant(world.at + 20 * this.#tickMs);
    const more = {
      ...(chance.happens(0.3) ? { expiresAt } : {}),
      ...(chance.happens(0.2) ? { expectedVersion: chance.integer(1, 2) } : {}),
    };
    const reschedule: ReminderCommand = {
      verb: 'reschedule',
      reschedule: { name, dueAt: instant(this.#due(chance)), ...more },
    };
    const key = 'key' in name ? name.key : 'key-0';
    const past = this.#past.find((reminder) => reminder.key === key);
    return chance.pick<ReminderCommand>([
      reschedule,
      reschedule,
      { verb: 'cancel', name },
      { verb: 'get', name },
      { verb: 'schedule', reminder: past ?? this.#newReminder(key) },
    ]);
  }

  /** Called off, or asked to be moved, while its request is under way. */
  #changeWhileSent(deliveryId: string, afterMs: number): void {
    const { run } = this.#stage;
    if (!run.troubled('changedWhileSent', 'products')) return;
    const name = { deliveryId };
    const cancel: ReminderCommand = { verb: 'cancel', name };
    const chance = run.world.chanceOf('changes while sent');
    const commands = chance.happens(0.7) ? [cancel] : [this.#change(name)];
    run.during(chance, afterMs, () => this.#call('product', commands));
  }

  /** A product that hears of an end asks for something else all the same. */
  #changeAfterEnd({ name, answers }: Executed): void {
    const { run } = this.#stage;
    if (name !== 'unannounced' || answers === null) return;
    const chance = run.world.chanceOf('changes after the end');
    for (const { delivery_id: deliveryId } of answers) {
      if (!run.troubled('changedAfterEnd', 'products')) continue;
      const change = this.#change({ deliveryId: String(deliveryId) });
      run.during(chance, chance.pick([30, this.#tickMs]), () => this.#call('product', [change]));
    }
  }

  /** Right after a row was moved: what would hurt most is done to it, while the one who moved it is still busy. */
  #provoke({ name, by, answers, parameters }: Executed): void {
    const { run } = this.#stage;
    if (!['claim', 'claim-by-id', 'open', 'enqueue', 'release', 'settle'].includes(name)) return;
    if (!run.troubled('provoked', name)) return;
    const chance = run.world.chanceOf(`provoked by ${name}`);
    const ids =
      `${JSON.stringify(answers)} ${parameters.receipts ?? ''}`.match(/(?<=delivery_id\W+)[0-9a-f-]{36}/g) ?? [];
    const [deliveryId] = chance.shuffled(ids);
    if (deliveryId === undefined) return;
    const operators = operatorsOf(this.#stage);
    const deeds: readonly [() => void | Promise<void>, ...(() => void | Promise<void>)[]] = [
      () => this.#call('product', [this.#change({ deliveryId })]),
      () => this.#call('product', [this.#change({ deliveryId })]),
      () => tick(this.#stage),
      () => run.kill(by),
      () => run.kill(by),
      chance.happens(0.5) ? () => operators.pauseForAWhile() : () => operators.offForAWhile(),
    ];
    run.during(chance, chance.pick([30, 1000, run.weather.settings.leaseSeconds * 1000]), chance.pick(deeds));
  }
}
