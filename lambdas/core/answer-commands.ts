// A product's commands: each answered on its own, in order; what is close to due goes to the queue at once.
import { type DispatchTools, dispatch } from './dispatch.ts';
import type {
  CancelAnswer,
  CommandToken,
  Ledger,
  Log,
  Meter,
  NewReminder,
  ReminderName,
  ReminderView,
  Reschedule,
  RescheduleAnswer,
  ScheduleAnswer,
  Worker,
} from './ports.ts';

/** How many reminders one call to the ledger claims ahead of the tick. */
const nearDueBatchSize = 50;

/** A valid command in the domain's words. */
export type ReminderCommand =
  | { readonly verb: 'schedule'; readonly reminder: NewReminder }
  | { readonly verb: 'cancel'; readonly name: ReminderName }
  | { readonly verb: 'reschedule'; readonly reschedule: Reschedule }
  | { readonly verb: 'get'; readonly name: ReminderName };

export type ReminderAnswer =
  | ScheduleAnswer
  | CancelAnswer
  | RescheduleAnswer
  | { readonly answer: 'found'; readonly reminder: ReminderView };

export interface CommandTools extends DispatchTools {
  readonly ledger: Ledger;
}

export interface CommandRun {
  readonly worker: Worker;
  readonly signal: AbortSignal;
  readonly log: Log;
  readonly meter: Meter;
}

/**
 * Answers commands in their order. Neighbours with the same verb share a statement.
 * @throws {LedgerError} when the ledger did not answer; the same call again is safe, each command then tells what it finds
 */
export async function answerCommands(
  tools: CommandTools,
  run: CommandRun,
  producer: string,
  commands: readonly ReminderCommand[],
): Promise<ReminderAnswer[]> {
  const answers: ReminderAnswer[] = [];
  for (const neighbours of byVerb(commands)) {
    answers.push(...(await answerNeighbours(tools.ledger, tools.newToken(), producer, neighbours)));
  }
  for (const { answer } of answers) run.meter.count(answer);
  const near = answers.flatMap((answer) => ('nearDue' in answer && answer.nearDue ? [answer.deliveryId] : []));
  // When time is up the answers go out: they are true whether or not all of these were invited.
  if (near.length > 0) await Promise.race([invite(tools, run, near), aborted(run.signal)]);
  return answers;
}

async function answerNeighbours(
  ledger: Ledger,
  token: CommandToken,
  producer: string,
  commands: readonly ReminderCommand[],
): Promise<ReminderAnswer[]> {
  const names = commands.flatMap((command) => ('name' in command ? [command.name] : []));
  switch (commands[0]?.verb) {
    case 'schedule': {
      const reminders = commands.flatMap((command) => (command.verb === 'schedule' ? [command.reminder] : []));
      return ledger.schedule({ token, producer, reminders });
    }
    case 'cancel':
      return ledger.cancel({ token, producer, reminders: names });
    case 'reschedule': {
      const reminders = commands.flatMap((command) => (command.verb === 'reschedule' ? [command.reschedule] : []));
      return ledger.reschedule({ token, producer, reminders });
    }
    case 'get': {
      const found = await ledger.get({ producer, reminders: names });
      return found.map((reminder) => (reminder === null ? { answer: 'not_found' } : { answer: 'found', reminder }));
    }
    default:
      return [];
  }
}

function byVerb(commands: readonly ReminderCommand[]): ReminderCommand[][] {
  const groups: ReminderCommand[][] = [];
  for (const command of commands) {
    const last = groups.at(-1);
    if (last?.[0]?.verb === command.verb) last.push(command);
    else groups.push([command]);
  }
  return groups;
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}

/** Never fails the call: the rows are durable, and the tick finds whatever is not invited here. */
async function invite(tools: CommandTools, run: CommandRun, deliveryIds: readonly string[]): Promise<void> {
  for (let place = 0; place < deliveryIds.length && !run.signal.aborted; place += nearDueBatchSize) {
    const token = tools.newToken();
    try {
      const ids = deliveryIds.slice(place, place + nearDueBatchSize);
      const claimed = await tools.ledger.claimById({ token, worker: run.worker, deliveryIds: ids });
      const { queueRefused, ...handed } = await dispatch(tools, token, claimed);
      run.log.info('claim', { token, claimed: claimed.claimed.length, ...handed });
      if (queueRefused) return;
    } catch (error) {
      run.log.warn('invite_failed', { token, error });
      run.meter.count('invite_failed');
      return;
    }
  }
}
