// Operators who make reminders go on: they reclaim, republish, and look into the dead-letter queue before they redrive it.
import type { DeadLetter, DeadLetters } from '../../lambdas/core/dead-letters.ts';
import { type Recoverable, type Recovery, recoveryVerbs } from '../../lambdas/core/recoveries.ts';
import { redrive } from '../../lambdas/core/redrive.ts';
import { invited } from '../../lambdas/operate/recover.ts';
import { postgresRecoveries } from '../../lambdas/store/recoveries.ts';
import type { StatementRunner } from '../../lambdas/store/statement.ts';
import { listHandoffs } from '../../lambdas/store/statements/list-handoffs.ts';
import type { ExecutionEnvironment } from './environment.ts';
import { operate, type Stage } from './functions.ts';

/**
 * Somebody looks at one reminder, or at what the handoffs tell is lost, thinks it over and makes it go on; without an answer
 * they ask again under the same token.
 */
export async function recoverSome(stage: Stage): Promise<void> {
  const { run } = stage;
  const chance = run.world.chanceOf('recoveries');
  const lost = chance.happens(0.5);
  const named = lost ? [] : await oneToGoOn(stage);
  if (!lost && named.length === 0) return;
  const byState = ({ state }: (typeof named)[number]) => (state === 'queued' ? 'republish' : 'reclaim');
  const [first] = named;
  const verb = first === undefined ? 'republish' : chance.happens(0.8) ? byState(first) : chance.pick(recoveryVerbs);
  const recovery: Omit<Recovery, 'reminders'> = {
    ...{ token: chance.uuid(run.world.at), verb, actor: 'operator', reason: 'looked', ticket: null },
    ...{ dryRun: chance.happens(0.1), evidence: chance.happens(0.6) ? 'the receiver was asked' : null },
  };
  // What a list told is asked for again as it was told.
  let reminders: readonly Recoverable[] | undefined = lost ? undefined : named;
  const { tickSeconds } = run.weather.settings;
  const ask = () =>
    operate(
      stage,
      async (database) => {
        reminders ??= await overdue(database);
        await postgresRecoveries(database).recover({ ...recovery, reminders });
      },
      (done) => {
        if (!done) run.during(chance, tickSeconds * 1000, ask);
      },
    );
  run.during(chance, chance.pick([100, 1000, tickSeconds * 1000]), ask);
}

/** One that is in flight, mostly. Now and then the screen is an old one. */
async function oneToGoOn({ run }: Stage): Promise<(Recoverable & { state: string })[]> {
  const chance = run.world.chanceOf('reminders to go on');
  const rows = await run.database.sql<{ delivery_id: string; version: number; attempt_no: number; state: string }>(
    'SELECT delivery_id, version, attempt_no, state FROM reminder_delivery ORDER BY delivery_id',
    [],
    'what is to go on',
  );
  const flying = rows.filter(({ state }) => ['dispatching', 'queued', 'delivering'].includes(state));
  return chance
    .shuffled(flying.length > 0 && chance.happens(0.9) ? flying : rows)
    .slice(0, 1)
    .map(({ delivery_id: deliveryId, version, attempt_no: attempts, state }) => ({
      ...{ deliveryId, state, versionSeen: Math.max(1, version - (chance.happens(0.1) ? 1 : 0)) },
      attemptsSeen: Math.max(0, attempts - (chance.happens(0.1) ? 1 : 0)),
    }));
}

async function overdue(database: StatementRunner): Promise<Recoverable[]> {
  const rows = await database.run(listHandoffs, { limit: 2000, names: 100 });
  return rows.flatMap((row) =>
    row.answer === 'overdue'
      ? [{ deliveryId: row.delivery_id, versionSeen: row.version, attemptsSeen: row.attempts }]
      : [],
  );
}

/** Somebody redrives what is in the dead-letter queue, and does it again where they got no answer: under the same id, or anew. */
export function redriveByLook(stage: Stage): void {
  const { run, queue } = stage;
  const chance = run.world.chanceOf('redrives');
  // Somebody else's, or of another release.
  if (chance.happens(0.2)) queue.bury(chance.pick(['"no invitation"', '{"v":2}']));
  const command = {
    ...{ token: chance.uuid(run.world.at), actor: 'operator', reason: 'looked', ticket: null },
    ...{ dryRun: chance.happens(0.1), evidence: chance.happens(0.6) ? 'the receiver was asked' : null },
    most: chance.pick([1, 100]),
  };
  const ask = (token: string) =>
    operate(
      stage,
      async (database, environment) => {
        const tools = { ledger: postgresRecoveries(database), deadLetters: deadLettersOf(environment, stage), invited };
        await redrive(tools, { ...command, token });
      },
      (done) => {
        const next = chance.happens(0.5) ? token : chance.uuid(run.world.at);
        if (!done) run.during(chance, run.weather.settings.tickSeconds * 1000, () => ask(next));
      },
    );
  ask(command.token);
}

/** The port to the dead-letter queue as one environment has it. */
function deadLettersOf(environment: ExecutionEnvironment, { run, queue }: Stage): DeadLetters {
  const options = {
    timeoutMs: run.weather.settings.transportTimeoutMs,
    refusals: ['InternalError', 'ECONNRESET'],
    failures: ['InternalError', 'ECONNRESET'],
  } as const;
  const quietly = (name: string, letters: readonly DeadLetter[], act: (letter: DeadLetter) => void) =>
    environment
      .call({ ...options, name }, async () => {
        for (const letter of letters) act(letter);
        return letters;
      })
      .catch(() => []);
  return {
    look: (most) => environment.call({ ...options, name: 'ReceiveMessage' }, async () => queue.lookAtDead(most)),
    putBack: async (letters) =>
      void (await quietly('ChangeMessageVisibility', letters, ({ messageId }) => queue.showDead(messageId))),
    remove: (letters) => quietly('DeleteMessage', letters, ({ messageId }) => queue.deleteDead(messageId)),
    counts: () => Promise.reject(new Error('nobody asks for it here')),
  };
}
