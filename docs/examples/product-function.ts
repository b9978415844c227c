// A product's Lambda function: one reminder for each open bill, moved when the bill moves, called off when it is paid.
import { InvokeCommand, LambdaClient } from '@aws-sdk/client-lambda';
import type { Command, CommandAnswer, ScheduleResponse } from '../../lambdas/schedule/contract.ts';

/** What happened to a bill. `dueAt` is RFC 3339 with an offset. */
export type BillEvent =
  | { readonly what: 'opened'; readonly bill: string; readonly customer: string; readonly dueAt: string }
  | { readonly what: 'moved'; readonly bill: string; readonly dueAt: string }
  | { readonly what: 'paid'; readonly bill: string };

/** What is left to do after an answer: nothing, the same again in a few minutes, or a person has to look. */
export type Next = 'done' | 'again' | 'person';

const lambda = new LambdaClient({});

/** Lambda's entry point. Fails when it is to be invoked again with the same event. */
export async function handler(event: BillEvent): Promise<CommandAnswer['answer']> {
  const answer = await ask(commandFor(event));
  const next = nextAfter(event, answer);
  if (next === 'again') throw new Error(`bill ${event.bill}: the ledger answered ${answer.answer}`);
  if (next === 'person') console.error(JSON.stringify({ bill: event.bill, answer }));
  return answer.answer;
}

/** The same event always makes the same command: what is asked for twice is found, not done twice. */
function commandFor(event: BillEvent): Command {
  // Made from what the reminder is about. A key drawn at random would make a second reminder at each retry.
  const key = `bill-${event.bill}`;
  switch (event.what) {
    case 'opened': {
      const { bill, customer, dueAt } = event;
      const payload = { type: 'bill.due', bill };
      return {
        verb: 'schedule',
        key,
        destination: 'partner',
        userId: customer,
        dueAt,
        expiresAt: weekAfter(dueAt),
        payload,
      };
    }
    case 'moved':
      return { verb: 'reschedule', key, dueAt: event.dueAt, expiresAt: weekAfter(event.dueAt) };
    case 'paid':
      return { verb: 'cancel', key };
  }
}

/** A reminder that is a week late is worth nothing: it is not sent any more. */
function weekAfter(dueAt: string): string {
  return new Date(Date.parse(dueAt) + 7 * 86_400_000).toISOString();
}

/** Asks the ledger one thing. When this fails it may have been done all the same; asking again is safe. */
async function ask(command: Command): Promise<CommandAnswer> {
  const { FunctionError: failed, Payload: payload } = await lambda.send(
    new InvokeCommand({
      FunctionName: process.env.REMINDER_SCHEDULE_FUNCTION_BILLING,
      Payload: JSON.stringify(command),
    }),
  );
  const text = payload?.transformToString() ?? '';
  if (failed !== undefined) throw new Error(`the schedule function failed: ${text}`);
  const response: ScheduleResponse = JSON.parse(text);
  if ('answers' in response) throw new Error('one command got the answer of a batch');
  return response;
}

/** Every answer there is. A new one in the contract stops this from compiling. */
export function nextAfter(event: BillEvent, answer: CommandAnswer): Next {
  switch (answer.answer) {
    case 'scheduled':
    case 'duplicate':
    case 'rescheduled':
    case 'unchanged':
    case 'cancelled':
      return 'done';
    case 'too_late':
      // It is being sent, or what became of an earlier attempt is not known. Paid: there will be no further attempt if
      // this one fails; a receiver that gets it all the same asks for the bill. Moved: it will soon have ended, or failed.
      return event.what === 'paid' ? 'done' : 'again';
    case 'finished':
      // Delivered, dead, expired or cancelled. There is nothing left to call off; but a moved bill goes unreminded.
      return event.what === 'paid' ? 'done' : 'person';
    case 'not_found':
      return event.what === 'paid' ? 'done' : 'person';
    case 'held':
      // An operator has to decide about it before it can move.
      return 'person';
    case 'conflict':
      // The key names a reminder with other content, see `fields`, or one of another product.
      return 'person';
    case 'invalid':
      // A defect here: `issues` names the fields.
      return 'person';
    case 'stale':
    case 'found':
      // Only for commands with `expectedVersion`, and for `get`: none is sent from here.
      return 'person';
    default:
      return answer satisfies never;
  }
}
