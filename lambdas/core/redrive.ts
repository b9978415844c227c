// Redrive looks first: each message of the dead-letter queue is judged by its reminder, and only then leaves, or stays.
import type { DeadLetter, DeadLetters } from './dead-letters.ts';
import type { DeliveryState } from './delivery-states.ts';
import type { Accounted, PoisonReason, Recovered, RecoveryAnswer, RecoveryLedger } from './recoveries.ts';

/** What becomes of a message, and what that means. */
export const letterVerdicts = {
  drop: 'Its reminder goes on without it, or has ended: it is deleted.',
  're-invite': 'The next claim invites its reminder again, under the same id: it is deleted.',
  hold: 'Its reminder cannot be invited now: it stays.',
  poison: 'Nobody can read it, or knows its reminder: it is kept in the ledger, and deleted.',
} as const;
export type LetterVerdict = keyof typeof letterVerdicts;

/** One message and what becomes of it; in a dry run, what would. */
export interface JudgedLetter extends Pick<DeadLetter, 'messageId' | 'receives' | 'sentAt'> {
  readonly verdict: LetterVerdict;
  readonly because: RecoveryAnswer | PoisonReason;
  /** Null: it names none that the ledger has. */
  readonly deliveryId: string | null;
  readonly state: DeliveryState | null;
  /** It left the queue. What was to leave and is still there leaves by the same command again. */
  readonly gone: boolean;
}

/** What a redrive came to. */
export interface Redriven {
  readonly counts: Readonly<Record<LetterVerdict, number>>;
  /** Whether the queue held no others. */
  readonly all: boolean;
  readonly letters: readonly JudgedLetter[];
}

/** What {@link redrive} needs. */
export interface RedriveTools {
  readonly ledger: RecoveryLedger;
  readonly deadLetters: DeadLetters;
  /** The reminder that a message invites to; undefined: it is no invitation that this release knows. */
  readonly invited: (body: string) => string | undefined;
}

const dropped: readonly RecoveryAnswer[] = ['finished', 'scheduled', 'invited'];

/**
 * Judges messages in one statement, carries that out there, and only then deletes what has no use any more. Killed in
 * between, the messages are shown again, and a redrive finds their reminders as it left them. No message is sent, so that
 * nothing gets a new id.
 * @throws {QueueError} when the queue did not answer: nothing was done
 * @throws {LedgerError} when the ledger did not answer: the messages are shown again, and the same command is safe
 */
export async function redrive(
  { ledger, deadLetters, invited }: RedriveTools,
  command: Accounted & { readonly evidence: string | null; readonly most: number },
): Promise<Redriven> {
  const { most, ...account } = command;
  const { letters, all } = await deadLetters.look(most);
  const messages = new Map<string, string[]>();
  for (const { body, messageId } of letters) {
    const id = invited(body);
    if (id !== undefined) messages.set(id, [...(messages.get(id) ?? []), messageId]);
  }
  try {
    const reminders = [...messages].map(([deliveryId, its]) => ({
      ...{ deliveryId, versionSeen: null, attemptsSeen: null, messages: its },
    }));
    const recovered = reminders.length === 0 ? [] : await ledger.recover({ ...account, verb: 'redrive', reminders });
    const byId = new Map(recovered.map((one) => [one.deliveryId, one]));
    const judged = letters.map((letter) => ({ letter, ...judge(invited(letter.body), byId) }));
    await ledger.setAside({
      ...account,
      messages: judged.flatMap(({ letter, poison }) => (poison === undefined ? [] : [{ ...letter, because: poison }])),
    });
    const leaving = command.dryRun
      ? []
      : judged.filter(({ verdict }) => verdict !== 'hold').map(({ letter }) => letter);
    const gone = new Set((await deadLetters.remove(leaving)).map(({ messageId }) => messageId));
    await deadLetters.putBack(letters.filter(({ messageId }) => !gone.has(messageId)));
    const counts = { drop: 0, 're-invite': 0, hold: 0, poison: 0 };
    for (const { verdict } of judged) counts[verdict] += 1;
    return {
      counts,
      all,
      letters: judged.map(({ letter: { messageId, receives, sentAt }, poison: _, ...rest }) => ({
        ...{ messageId, receives, sentAt, ...rest, gone: gone.has(messageId) },
      })),
    };
  } catch (error) {
    await deadLetters.putBack(letters);
    throw error;
  }
}

function judge(
  deliveryId: string | undefined,
  recovered: ReadonlyMap<string, Recovered>,
): Pick<JudgedLetter, 'verdict' | 'because' | 'deliveryId' | 'state'> & { readonly poison?: PoisonReason } {
  const found = deliveryId === undefined ? undefined : recovered.get(deliveryId);
  if (found === undefined || found.answer === 'not_found') {
    const poison = found === undefined ? 'no_invitation' : 'not_found';
    return { verdict: 'poison', because: poison, poison, deliveryId: null, state: null };
  }
  const { answer } = found;
  const verdict = answer === 'republished' ? 're-invite' : dropped.includes(answer) ? 'drop' : 'hold';
  return { verdict, because: answer, deliveryId: found.deliveryId, state: 'state' in found ? found.state : null };
}
