// The deployed functions as the simulation runs them: the real use cases, with every port on the virtual world.
import { answerCommands, type ReminderAnswer, type ReminderCommand } from '../../lambdas/core/answer-commands.ts';
import { type Archive, type ArchivePage, archiveFinished } from '../../lambdas/core/archive-finished.ts';
import { claimDue } from '../../lambdas/core/claim-due.ts';
import { deliverInvitations } from '../../lambdas/core/deliver-invitations.ts';
import type { Announcements, LifecycleEvent, Worker } from '../../lambdas/core/ports.ts';
import { retainFunction } from '../../lambdas/retain/contract.ts';
import { PostgresLedger } from '../../lambdas/store/ledger.ts';
import { postgresRetention } from '../../lambdas/store/retention.ts';
import type { StatementRunner } from '../../lambdas/store/statement.ts';
import type { AddDestinationRow, NewDestination } from '../../lambdas/store/statements/add-destination.ts';
import { invitationMessage } from '../../lambdas/webhook-sender/contract.ts';
import { type Ending, ExecutionEnvironment } from './environment.ts';
import { invitationsOf, type Message, type QueueModel } from './queue-model.ts';
import type { Receivers } from './receivers.ts';
import { type Run, runnerFor } from './run.ts';

/** What a product asked, and what it was told. */
export interface Asked {
  readonly producer: string;
  readonly command: ReminderCommand;
  readonly at: number;
  /** How many statements had run when it asked, and when it was told. */
  readonly statementsBefore: number;
  readonly answer: ReminderAnswer;
  readonly statementsAfter: number;
}

/** A destination as an operator asked for it, and the answer. */
export interface Registered {
  readonly asked: NewDestination;
  readonly answer: AddDestinationRow;
}

/** All there is in one run. */
export interface Stage {
  readonly run: Run;
  readonly queue: QueueModel;
  readonly receivers: Receivers;
  readonly asked: Asked[];
  /** Events that the bus has, as often as it got them. */
  readonly announced: LifecycleEvent[];
  /** The names that operators mean to register, and those of which they know that they are. */
  readonly named: string[];
  readonly destinations: string[];
  /** What operators asked to be registered, and what they were told. */
  readonly registered: Registered[];
  /** Pages that the archive has, as often as it got them. */
  readonly archived: { readonly statementsBefore: number; readonly page: ArchivePage }[];
  /** Invocations that are under way. */
  running: number;
}

function worker(environment: ExecutionEnvironment): Worker {
  return { functionVersion: '1', requestId: environment.name, logStream: environment.name };
}

function toolsOf({ run, queue }: Stage, environment: ExecutionEnvironment) {
  return {
    ledger: new PostgresLedger(runnerFor(environment)),
    invitations: invitationsOf(environment, queue),
    clock: environment.clock,
    settings: run.weather.settings,
    newToken: () => environment.chance.uuid(run.world.at),
  };
}

function busOf({ run, announced }: Stage, environment: ExecutionEnvironment): Announcements {
  const options = {
    name: 'PutEvents',
    timeoutMs: run.weather.settings.transportTimeoutMs,
    refusals: ['InternalException'],
    failures: ['InternalException', 'ECONNRESET'],
  } as const;
  return {
    publish: (events) =>
      environment
        .call(options, async () => {
          const accepted = events.filter(() => !environment.troubled('busRefuses'));
          announced.push(...accepted);
          return accepted.map(({ eventNo }) => eventNo);
        })
        .catch(() => []),
  };
}

/** One invocation of the claim function. */
export function tick(stage: Stage): void {
  const { run } = stage;
  const environment = new ExecutionEnvironment(run, 'claim');
  const tools = { ...toolsOf(stage, environment), announcements: busOf(stage, environment) };
  const { log, meter } = environment;
  invoke(stage, environment, run.weather.settings.claimTimeoutSeconds, () =>
    claimDue(tools, { worker: worker(environment), log, meter }),
  );
}

/** One invocation of the webhook sender with the messages of one poll. */
export function send(stage: Stage, messages: readonly Message[], ended: () => void): void {
  const { run, queue, receivers } = stage;
  const environment = new ExecutionEnvironment(run, 'sender');
  const tools = { ...toolsOf(stage, environment), webhook: receivers.webhookOf(environment) };
  const { log, meter } = environment;
  if (environment.troubled('pastVisibility')) overstay(environment);
  for (const message of messages) message.holders += 1;
  // What a sender cannot read it gives back.
  const readable = messages.flatMap((message) => {
    const { success, data } = invitationMessage.safeParse(JSON.parse(message.body));
    return success ? [{ message, deliveryId: data.delivery_id, notBefore: data.not_before }] : [];
  });
  invoke(
    stage,
    environment,
    run.weather.settings.senderTimeoutSeconds,
    (invocation) => deliverInvitations(tools, { ...invocation, worker: worker(environment), log, meter }, readable),
    (ending) => {
      for (const message of messages) message.holders -= 1;
      // What failed, and everything of a batch that failed as a whole, becomes visible again by itself.
      if (ending !== 'killed' && 'answer' in ending) {
        for (const { message, deliveryId } of readable) if (!ending.answer.has(deliveryId)) queue.delete(message);
      }
      ended();
    },
  );
}

/** Freezes it, with its end forgotten, until the queue has given its messages to another one. */
function overstay(environment: ExecutionEnvironment): void {
  const { run, chance } = environment;
  const { visibilityTimeoutSeconds, webhookDeadlineMs } = run.weather.settings;
  const ms = visibilityTimeoutSeconds * 1000 * chance.between(1, 1.5);
  run.during(chance, chance.pick([30, webhookDeadlineMs]), () => {
    if (run.world.at + ms > run.calmAt) return;
    environment.outlivesItsTime = true;
    environment.freeze(ms);
  });
}

/** One run of retention. */
export function retain(stage: Stage): void {
  const { run } = stage;
  const environment = new ExecutionEnvironment(run, 'retain');
  const { log, meter } = environment;
  const tools = {
    ledger: postgresRetention(runnerFor(environment)),
    archive: archiveOf(stage, environment),
    policy: { finishedDays: run.weather.retentionDays, byProducer: {} },
  };
  invoke(stage, environment, retainFunction.timeoutSeconds(run.weather.settings), (invocation) =>
    archiveFinished(tools, { ...invocation, log, meter }),
  );
}

function archiveOf({ run, archived }: Stage, environment: ExecutionEnvironment): Archive {
  const options = {
    name: 'PutObject',
    timeoutMs: 10_000,
    refusals: ['SlowDown', 'ECONNRESET'],
    failures: ['InternalError', 'ECONNRESET'],
  } as const;
  return {
    async write(page) {
      const put = () =>
        environment.call(options, async () => {
          archived.push({ statementsBefore: run.executed.length, page });
          return `page-${archived.length}`;
        });
      return put().catch(put);
    },
  };
}

/** One command of an operator's command line. `ended` hears whether it came to its end. */
export function operate(
  stage: Stage,
  work: (database: StatementRunner, environment: ExecutionEnvironment) => Promise<void>,
  ended: (done: boolean) => void,
): void {
  const environment = new ExecutionEnvironment(stage.run, 'operator');
  invoke(
    stage,
    environment,
    // A person waits no longer.
    60,
    () => work(runnerFor(environment), environment),
    (ending) => ended(ending !== 'killed' && 'answer' in ending),
  );
}

/**
 * One call of a product. `ended` hears the answers; there are none when it failed.
 * @param tokens gives the tokens of the call: the same ones again make it a second run of the same call
 */
export function command(
  stage: Stage,
  producer: string,
  commands: readonly ReminderCommand[],
  tokens: () => string,
  ended: (answers: readonly ReminderAnswer[]) => void,
): void {
  const { run, asked } = stage;
  const environment = new ExecutionEnvironment(run, producer);
  const { log, meter } = environment;
  const at = run.world.at;
  const statementsBefore = run.executed.length;
  for (const one of commands) run.world.note(environment.name, `asks ${JSON.stringify(one)}`);
  const tools = { ...toolsOf(stage, environment), newToken: tokens };
  invoke(
    stage,
    environment,
    run.weather.settings.scheduleTimeoutSeconds,
    ({ signal }) => answerCommands(tools, { worker: worker(environment), signal, log, meter }, producer, commands),
    (ending) => {
      const answers = ending !== 'killed' && 'answer' in ending ? ending.answer : [];
      answers.forEach((answer, place) => {
        const one = commands[place];
        const told = { at, statementsBefore, answer, statementsAfter: run.executed.length };
        if (one !== undefined) asked.push({ producer, command: one, ...told });
      });
      ended(answers);
    },
  );
}

function invoke<Answer>(
  stage: Stage,
  environment: ExecutionEnvironment,
  timeoutSeconds: number,
  inner: (invocation: { signal: AbortSignal; remainingMs: () => number }) => Promise<Answer>,
  ended: (ending: Ending<Answer>) => void = () => undefined,
): void {
  stage.running += 1;
  environment.invoke(timeoutSeconds * 1000, inner, (ending) => {
    stage.running -= 1;
    ended(ending);
  });
}
