// Operators: they register destinations, pause, purge and redrive, run retention, and readmit what a claim set aside.
import { type Decision, decisionVerbs } from '../../lambdas/core/decisions.ts';
import type { ControlCommand, ControlVerb } from '../../lambdas/core/dispatch-control.ts';
import { postgresControl } from '../../lambdas/store/control.ts';
import { postgresDecisions } from '../../lambdas/store/decisions.ts';
import {
  addDestination,
  type DestinationContract,
  type NewDestination,
} from '../../lambdas/store/statements/add-destination.ts';
import { listExclusions } from '../../lambdas/store/statements/list-exclusions.ts';
import { readmit } from '../../lambdas/store/statements/readmit.ts';
import { operate, retain, type Stage } from './functions.ts';
import { recoverSome, redriveByLook } from './recoverers.ts';

/** What receivers promise: most of them to honour a repeated key. */
const contracts = ['honours-key', 'honours-key', 'honours-key', 'status-lookup', 'none'] as const;

/** What an operator can do to the whole; each has its way back when the troubles end. */
export function operatorsOf(stage: Stage) {
  const { run, destinations } = stage;
  const { world } = run;
  const chance = world.chanceOf('operators');
  const gate = (paused: boolean) =>
    run.operate(
      paused ? 'pause' : 'resume',
      'UPDATE dispatch_gate SET paused = $1, paused_since = CASE WHEN $1 THEN now() END',
      [paused],
    );
  const destinationState = (name: string, state: string) =>
    run.operate('destination', 'UPDATE destination SET state = $2, state_since = now() WHERE name = $1', [name, state]);
  /** Mostly short: while nothing may be sent, nothing much can go wrong. */
  const aWhile = () => run.untilCalm(chance.happens(0.3) ? run.longWait(chance) : chance.between(10, 20_000));
  /** As people switch, by the statement that they have for it; what they leave off is switched on when the troubles end. */
  const switchForAWhile = (destination: string | null): void => {
    control(stage, 'pause', destination);
    world.after(aWhile(), () => control(stage, 'resume', destination));
  };
  return {
    gate,
    destinationState,
    async pauseForAWhile(): Promise<void> {
      if (chance.happens(0.5)) return switchForAWhile(null);
      await gate(true);
      world.after(aWhile(), () => gate(false));
    },
    /** Any of them. */
    async offForAWhile(): Promise<void> {
      const [name] = chance.shuffled(destinations);
      if (name === undefined) return;
      if (chance.happens(0.5)) return switchForAWhile(name);
      await destinationState(name, chance.pick(['paused', 'disabled', 'broken']));
      world.after(aWhile(), () => destinationState(name, 'active'));
    },
  };
}

/** Operators at work while the troubles last. All is back to normal when they end. */
export function startOperators(stage: Stage): void {
  const { run, queue, destinations } = stage;
  const { world, weather } = run;
  const chance = world.chanceOf('rounds of operators');
  const tickMs = weather.settings.tickSeconds * 1000;
  const operators = operatorsOf(stage);
  const round = async (): Promise<void> => {
    if (run.troubled('gatePaused', 'operators')) await operators.pauseForAWhile();
    if (run.troubled('destinationOff', 'operators')) await operators.offForAWhile();
    if (run.troubled('purge', 'operators')) queue.purge();
    if (run.troubled('redrive', 'operators')) queue.redrive();
    if (run.troubled('decided', 'operators')) await decideOne(stage);
    if (run.troubled('recovered', 'operators')) await recoverSome(stage);
    if (run.troubled('lookedAtDead', 'operators')) redriveByLook(stage);
    if (world.at < run.calmAt) world.after(chance.between(0.3, 2) * tickMs, round);
  };
  world.after(0, round);
  startWishes(stage);
  const activateAll = async () => {
    for (const name of destinations) await operators.destinationState(name, 'active');
  };
  world.after(weather.troubledMs, async () => {
    await operators.gate(false);
    await activateAll();
    queue.redrive();
  });
  // What was answered before may disable one after, and what was commanded before may come after.
  run.listen(({ name, parameters }) => {
    if (name === 'control' && world.at >= run.calmAt && parameters.verb === 'pause') {
      world.after(0, () => operators.gate(false));
      world.after(0, activateAll);
    }
    if (name === 'settle' && world.at >= run.calmAt && /"gone"/.test(String(parameters.outcomes))) {
      world.after(0, activateAll);
    }
  });
  // Without a past nothing is old enough for retention.
  if (weather.pastDays > 0) {
    for (let times = chance.integer(2, 4); times > 0; times -= 1) {
      run.during(chance, weather.troubledMs / 2, () => retain(stage));
    }
    world.after(weather.troubledMs, () => retain(stage));
  }
}

/** Somebody looks, and switches with what they saw; without an answer they ask again under the same token. */
function control(stage: Stage, verb: ControlVerb, destination: string | null): void {
  const { run } = stage;
  const chance = run.world.chanceOf('switches');
  const command = {
    ...{ token: chance.uuid(run.world.at), verb, destination, actor: 'operator', reason: 'trouble', ticket: null },
  };
  let seen: ControlCommand['seen'] = null;
  const ask = () =>
    operate(
      stage,
      async (database) => {
        const ledger = postgresControl(database);
        const look = await ledger.control({ ...command, token: chance.uuid(run.world.at), seen: null, dryRun: true });
        if ('state' in look) seen ??= look;
        await ledger.control({ ...command, seen, dryRun: false });
      },
      (done) => {
        if (!done && run.world.at < run.calmAt) run.during(chance, 1000, ask);
      },
    );
  ask();
}

/** Somebody calls off what is being sent, at times: the wish must outlive what they cannot stop. */
function startWishes(stage: Stage): void {
  const { run } = stage;
  const chance = run.world.chanceOf('wishes');
  run.listen(({ name, answers }) => {
    if (name !== 'open' || answers === null) return;
    for (const { answer, delivery_id: id } of answers) {
      if (answer !== 'opened' || !run.troubled('decided', 'wishes')) continue;
      run.during(chance, 2000, () => decideOne(stage, { id: String(id), verb: 'cancel' }));
    }
  });
}

/** What leads out of where only a person does. */
const wayBack: Readonly<Record<string, Decision['verb']>> = { held: 'release', dead: 'requeue' };

/** Somebody looks at one reminder, thinks it over and decides; without an answer they ask again under the same token. */
async function decideOne(stage: Stage, wish?: { id: string; verb: Decision['verb'] }): Promise<void> {
  const { run } = stage;
  const chance = run.world.chanceOf('decisions');
  const rows = await run.database.sql<{ delivery_id: string; version: number; attempt_no: number; state: string }>(
    'SELECT delivery_id, version, attempt_no, state FROM reminder_delivery ORDER BY delivery_id',
    [],
    'what is to be decided',
  );
  const waiting = rows.filter(({ state }) => state === 'held' || state === 'dead');
  const some = wish === undefined && waiting.length > 0 && chance.happens(0.7) ? waiting : rows;
  const [row] = chance.shuffled(some.filter(({ delivery_id: id }) => wish === undefined || id === wish.id));
  if (row === undefined) return;
  const decision: Decision = {
    token: chance.uuid(run.world.at),
    verb: wish?.verb ?? (chance.happens(0.4) ? wayBack[row.state] : undefined) ?? chance.pick(decisionVerbs),
    ...{ actor: 'operator', reason: 'looked', ticket: null, dryRun: chance.happens(0.1) },
    evidence: chance.happens(0.6) ? 'the receiver was asked' : null,
    ...(chance.happens(0.2) ? { expiresAt: null } : {}),
    // Now and then the screen is an old one.
    reminders: [
      {
        deliveryId: row.delivery_id,
        versionSeen: Math.max(1, row.version - chance.integer(0, 1)),
        attemptsSeen: row.attempt_no,
      },
    ],
  };
  const ask = () =>
    operate(
      stage,
      async (database) => void (await postgresDecisions(database).decide(decision)),
      (done) => {
        if (!done) run.during(chance, run.weather.settings.tickSeconds * 1000, ask);
      },
    );
  if (wish === undefined) run.during(chance, chance.pick([1000, run.weather.settings.tickSeconds * 2000]), ask);
  else ask();
}

/** Registers destinations, one command each, until an operator is told that it is there; products may then name it. */
export function register(stage: Stage, count: number): void {
  const { run } = stage;
  const chance = run.world.chanceOf('destinations');
  const { webhookDeadlineMs, tickSeconds } = run.weather.settings;
  for (let place = 0; place < count; place += 1) {
    const name = `destination-${stage.named.length}`;
    stage.named.push(name);
    const wish = {
      name,
      url: `https://${name}.example/hook`,
      owner: 'simulation',
      contract: chance.pick<DestinationContract>(contracts),
      deadlineMs: chance.happens(0.3) ? chance.integer(100, webhookDeadlineMs) : null,
    } as const;
    const policy = chance.happens(0.2) ? { maxFailures: chance.integer(1, 4) } : {};
    const ask = () => add(stage, wish, policy, ask);
    run.during(chance, place * tickSeconds * 1000, ask);
    if (run.troubled('registeredTwice', name)) {
      const other = chance.happens(0.5) ? wish : { ...wish, url: `https://other-${name}.example/hook` };
      run.during(chance, (place + 1) * 1000, () => add(stage, other, policy, () => undefined));
    }
  }
}

const statement = { name: 'policy', timeoutMs: 4000, refusals: ['ECONNRESET'], failures: ['ECONNRESET'] } as const;

function add(stage: Stage, wish: Omit<NewDestination, 'destinationId'>, policy: object, again: () => void): void {
  const { run, destinations } = stage;
  operate(
    stage,
    async (database, environment) => {
      const asked = { ...wish, destinationId: environment.chance.uuid(run.world.at) };
      const [answer] = await database.run(addDestination, asked);
      if (answer === undefined || answer.answer === null) throw new Error('run it again');
      stage.registered.push({ asked, answer });
      if (destinations.includes(wish.name)) return;
      // There is no command for a policy.
      const byHand = () =>
        environment.call(statement, () =>
          run.operate('policy', 'UPDATE destination SET policy = $2 WHERE name = $1', [wish.name, policy]),
        );
      await byHand().catch(byHand);
      if (!destinations.includes(wish.name)) destinations.push(wish.name);
    },
    (done) => {
      const { tickSeconds } = run.weather.settings;
      if (!done) run.during(run.world.chanceOf('destinations'), tickSeconds * 1000, again);
    },
  );
}

/** Rows get damaged, claims set them aside, and operators mend and readmit them. */
export function startDamages(stage: Stage): void {
  const { run } = stage;
  const { world, weather } = run;
  const chance = world.chanceOf('damages');
  const tickMs = weather.settings.tickSeconds * 1000;
  const look = () => void world.after(chance.between(0.2, 3) * tickMs, () => readmitAll(stage, look));
  run.listen(async ({ name, answers }) => {
    if (name === 'exclude') look();
    if (name !== 'schedule' || answers === null) return;
    for (const { answer, delivery_id: id } of answers) {
      if (answer !== 'scheduled' || !run.troubled('damaged', String(id)) || run.everDamaged.has(String(id))) continue;
      await run.damage(String(id), true);
      // Also what no claim could set aside is mended one day.
      world.after(run.untilCalm(run.longWait(chance)), () => run.damage(String(id), false));
    }
  });
  world.after(weather.troubledMs, async () => {
    for (const id of run.everDamaged) await run.damage(id, false);
  });
}

/** Mends what is set aside, or forgets to, and readmits it. */
function readmitAll(stage: Stage, again: () => void): void {
  const { run } = stage;
  operate(
    stage,
    async (database, { chance }) => {
      const rows = await database.run(listExclusions, { after: null, limit: 500 });
      for (const { delivery_id: deliveryId } of rows) {
        if (chance.happens(0.7)) run.world.after(0, () => run.damage(deliveryId, false));
        const token = chance.uuid(run.world.at);
        await database.run(readmit, { token, deliveryId, actor: 'operator', reason: 'mended', ticket: null });
      }
    },
    (done) => {
      if (!done) again();
    },
  );
}
