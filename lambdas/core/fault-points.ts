// Fault points: where the effects of a function begin and end, published so that a rehearsal can stop one exactly there.
import { channel } from 'node:diagnostics_channel';

/**
 * Every effect that is published, with what stands before it and after it. Before: nothing of the effect has happened.
 * After: it happened and its answer is here, and nobody has acted on it. An effect that fails has no after.
 */
export const faultPoints = {
  handler: 'The function has an event and has done nothing with it; afterwards its answer is made and not yet given.',
  schedule: 'The statement that writes new reminders into the calendar.',
  cancel: 'The statement that calls reminders off.',
  reschedule: 'The statement that moves due times.',
  get: 'The statement that reads reminders for a product.',
  unpark: 'The statement that gives the rows of active destinations back to the calendar, at the beginning of a tick.',
  claim: 'The statement that takes what the calendar must look at now.',
  'list-due': 'The statement that reads what is due, after a row has kept its whole batch from being claimed.',
  exclude: 'The statement that sets such a row aside.',
  'claim-by-id': 'The statement that takes reminders close to due as a product asks for them, ahead of the tick.',
  'send-message-batch': 'One call that hands up to ten invitations to the queue.',
  enqueue: 'The statement that marks what the queue accepted.',
  release: 'The statement that gives back what the queue refused.',
  unannounced: 'The statement that reads the outbox.',
  'put-events': 'One call that puts up to ten events on the bus.',
  announce: 'The statement that marks what the bus accepted.',
  'fetch-signing-secret': 'The call that fetches the signing roots, before any attempt is opened.',
  open: 'The statement that commits the intent of attempts and takes their leases.',
  dial: 'From the look-up of the host to the end of the TLS handshake; no byte of the request has left.',
  settle: 'The statement that records what became of attempts.',
  'observe-calendar': 'The statement that reads counts and ages of what waits.',
  'observe-destinations': 'The statement that reads how destinations do.',
  'observe-outcomes': 'The statement that reads what became of recent attempts.',
  'list-finished-producers': 'The statement that reads whose finished reminders are not archived.',
  'list-archivable': 'The statement that reads a page of what is past its retention.',
  'put-archive': 'The two calls that write a page and its manifest to the archive.',
  archive: 'The statement that takes payload and evidence of what was written there.',
  'count-states': 'The statement that counts reminders for a person who looks.',
  'list-attention': 'The statement that reads which reminders somebody should look at first.',
  'show-evidence': 'The statement that reads all that is known of one reminder, for the same.',
  decide: 'The statement that carries out what a person decides.',
  reclaim: 'The statement that brings forward what a person wants to go on.',
  readmit: 'The statement that lets claims try a reminder again.',
  'set-aside': 'The statement that keeps what an unreadable message says.',
  'list-handoffs': 'The statement that reads what was handed over and not opened.',
  'list-poison': 'The statement that reads what was set aside.',
  'receive-dead-letters': 'One call that looks at up to ten messages of the dead-letter queue.',
  'put-back-dead-letters': 'One call that shows them again.',
  'delete-dead-letters': 'One call that deletes those that have no use any more.',
  'get-queue-attributes': 'One call that counts what a queue holds.',
  control: 'The statement that pauses or resumes dispatch.',
  'count-affected': 'The statement that counts, before that, which reminders it would concern.',
  find: 'The statement that reads a page of reminders for a person who searches.',
  forecast: 'The statement that counts what comes due, for the same.',
  'list-exclusions': 'The statement that lists what claims pass over.',
  'list-destinations': 'The statement that lists the registry.',
  'list-actions': 'The statement that lists what people did.',
  forget: 'The statement that deletes what only a command run twice would ask for.',
  'add-destination': 'The statement that registers the receiver of the canary.',
  'invoke-schedule': 'The call of the schedule function that the canary makes, as a product.',
  'begin-transaction': 'The call that begins a transaction of a migration.',
  execute: 'One statement of a migration, or about a login.',
  'commit-transaction': 'The call that ends such a transaction: before it nothing of it stands.',
  'describe-secret': 'The call that reads the versions of a login secret and their labels.',
  'get-secret-value': 'The call that reads one version of a login secret.',
  'put-secret-value': 'The call that gives the version under way its login.',
  'update-secret-version-stage': 'The call that makes another version of a login secret the current one.',
} as const;

/** An effect by the name it is published under. */
export type FaultPoint = keyof typeof faultPoints;

/** The `node:diagnostics_channel` that passages are published on, synchronously: a subscriber can hold the function there. */
export const faultPointChannel = 'reminder-ledger:fault-point';

/** What a rehearsal needs to choose a passage. Nothing of a payload, a key or a URL. */
export interface Effect {
  /** A {@link FaultPoint}; a statement's own name, also that of one which no deployed function runs. */
  readonly point: string;
  /** Which try of the effect it is. @default 1 */
  readonly tried?: number;
  /** The reminders it is about, as far as they are known at that side; asked only by a subscriber. @default none */
  readonly deliveryIds?: () => readonly string[];
}

/** One side of an effect as it is published. */
export interface Passage extends Effect {
  readonly at: 'before' | 'after';
}

const passages = channel(faultPointChannel);

/**
 * Does something with its fault points around it.
 * @param idsOf what the answer tells of the reminders it is about, beside the effect itself @default nothing more
 */
export async function atFaultPoint<Answer>(
  effect: Effect,
  act: () => Promise<Answer>,
  idsOf: (answer: Answer) => readonly string[] = () => [],
): Promise<Answer> {
  passages.publish({ ...effect, at: 'before' } satisfies Passage);
  const answer = await act();
  const deliveryIds = () => [...(effect.deliveryIds?.() ?? []), ...idsOf(answer)];
  passages.publish({ ...effect, at: 'after', deliveryIds } satisfies Passage);
  return answer;
}

/** The delivery ids that a command or a row names in fields called so, however deep. */
export function deliveryIdsIn(value: unknown): string[] {
  if (Array.isArray(value)) return value.flatMap(deliveryIdsIn);
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([name, inner]) =>
    /^delivery_?ids?$/i.test(name)
      ? [inner].flat().filter((id): id is string => typeof id === 'string')
      : deliveryIdsIn(inner),
  );
}
