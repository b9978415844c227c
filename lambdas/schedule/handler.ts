// The schedule function: reads a product's commands, has them answered, and speaks its contract's words.
import { v7 as newToken } from 'uuid';
import { answerCommands, type ReminderAnswer, type ReminderCommand } from '../core/answer-commands.ts';
import type { NewReminder, ReminderName } from '../core/ports.ts';
import { sqsInvitations } from '../queue/invitations.ts';
import { functionHandler } from '../runtime/handler-stack.ts';
import { issuesOf } from '../runtime/issues.ts';
import { openDatabase } from '../store/data-api.ts';
import { PostgresLedger } from '../store/ledger.ts';
import {
  batchRequest,
  type Command,
  type CommandAnswer,
  callPayloadLimitBytes,
  command,
  type Issue,
  type ScheduleCommand,
  type ScheduleResponse,
  scheduleFunction,
} from './contract.ts';

/** Who calls without an alias. Products have one each; its name cannot be forged by the caller. */
const noProduct = 'default';

/** Lambda's entry point. */
export const handler = functionHandler<unknown, ScheduleResponse>(scheduleFunction, (environment, { log, clock }) => {
  const requestTimeoutMs = environment.settings.transportTimeoutMs;
  const tools = {
    ledger: new PostgresLedger(openDatabase(environment)),
    invitations: sqsInvitations({ queueUrl: environment.read('INVITATION_QUEUE_URL'), log, requestTimeoutMs }),
    clock,
    newToken: () => newToken(),
  };
  return async (event, run) => {
    const batch = typeof event === 'object' && event !== null && 'commands' in event;
    const call = batch ? batchRequest.safeParse(event) : { success: true as const, data: { commands: [event] } };
    if (!call.success) return { answer: 'invalid', issues: issuesOf(call.error, 'command', 'command') };

    const read = call.data.commands.map(readCommand);
    const valid = read.flatMap((item) => ('command' in item ? [item.command] : []));
    const bytes = valid.reduce((sum, item) => sum + (item.verb === 'schedule' ? payloadBytes(item.reminder) : 0), 0);
    if (bytes > callPayloadLimitBytes) {
      const message = `all payloads together have ${bytes} bytes; send at most ${callPayloadLimitBytes} a call`;
      return { answer: 'invalid', issues: [{ path: 'commands', message }] };
    }
    const answers = await answerCommands(tools, run, producerOf(run.context.invokedFunctionArn), valid);
    const next = answers.values();
    const all = read.map(
      (item): CommandAnswer =>
        'command' in item ? inContractWords(next.next().value) : { answer: 'invalid', issues: item.issues },
    );
    return batch ? { answers: all } : (all[0] ?? inContractWords(undefined));
  };
});

/** `arn:aws:lambda:region:account:function:name:alias`; a version number or `$LATEST` is nobody's alias. */
function producerOf(functionArn: string): string {
  const qualifier = functionArn.split(':')[7];
  return qualifier === undefined || /^(\d+|\$LATEST)$/.test(qualifier) ? noProduct : qualifier;
}

function readCommand(input: unknown): { command: ReminderCommand } | { issues: Issue[] } {
  try {
    const parsed = command.safeParse(input);
    return parsed.success
      ? { command: inDomainWords(parsed.data) }
      : { issues: issuesOf(parsed.error, 'command', 'command') };
  } catch (error) {
    // JSON nested thousands deep: the one input that validation and JSON.stringify throw on.
    if (!(error instanceof RangeError)) throw error;
    return { issues: [{ path: 'payload', message: 'is nested too deeply; send it as payloadText' }] };
  }
}

function inDomainWords(input: Command): ReminderCommand {
  switch (input.verb) {
    case 'schedule':
      return { verb: 'schedule', reminder: newReminder(input) };
    case 'reschedule': {
      const { dueAt, expiresAt, expectedVersion } = input;
      return {
        verb: 'reschedule',
        reschedule: {
          name: nameOf(input),
          dueAt: utc(dueAt),
          ...(expiresAt === undefined ? {} : { expiresAt: expiresAt === null ? null : utc(expiresAt) }),
          ...(expectedVersion === undefined ? {} : { expectedVersion }),
        },
      };
    }
    default:
      return { verb: input.verb, name: nameOf(input) };
  }
}

function newReminder(input: ScheduleCommand): NewReminder {
  return {
    deliveryId: newToken(),
    key: input.key,
    destination: input.destination,
    userId: input.userId,
    dueAt: utc(input.dueAt),
    expiresAt: input.expiresAt === undefined ? null : utc(input.expiresAt),
    payload: input.payloadText ?? JSON.stringify(input.payload),
  };
}

function nameOf(input: { key?: string | undefined; deliveryId?: string | undefined }): ReminderName {
  return input.key === undefined ? { deliveryId: input.deliveryId ?? '' } : { key: input.key };
}

function utc(instant: string): string {
  return new Date(instant).toISOString();
}

function payloadBytes({ payload }: NewReminder): number {
  return Buffer.byteLength(payload, 'utf8');
}

function inContractWords(answer: ReminderAnswer | undefined): CommandAnswer {
  if (answer === undefined) throw new Error('a command was left without an answer');
  switch (answer.answer) {
    case 'invalid':
      return { answer: 'invalid', issues: [{ path: answer.path, message: answer.message }] };
    case 'found': {
      const { deliveryId, state, dueAt, expiresAt, version } = answer.reminder;
      return { answer: 'found', deliveryId, state, dueAt, expiresAt, version, reminder: { ...answer.reminder } };
    }
    case 'scheduled':
    case 'rescheduled': {
      const { nearDue: _ours, ...told } = answer;
      return told;
    }
    default:
      return answer;
  }
}
