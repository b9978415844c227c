// A model of Amazon SQS: delays, visibility, receive counts, a dead-letter queue, and all that "at least once" allows.
import type { Look } from '../../lambdas/core/dead-letters.ts';
import type { Invitation, Invitations, PublishAnswer, Receipt } from '../../lambdas/core/ports.ts';
import type { Chance } from './chance.ts';
import type { ExecutionEnvironment } from './environment.ts';
import type { Run } from './run.ts';

export interface Message {
  readonly messageId: string;
  readonly body: string;
  visibleAt: number;
  receives: number;
  /** When it was received last. */
  receivedAt: number;
  /** How many senders have it now. */
  holders: number;
}

/** One way in which a message came to its end or its beginning, for the checker. */
export interface QueueEvent {
  readonly at: number;
  readonly what: 'sent' | 'lost' | 'received' | 'deleted' | 'dead' | 'purged' | 'redriven' | 'removed';
  readonly messageId: string;
  readonly body: string;
}

/** The longest delay SQS takes (Amazon SQS API Reference, SendMessageBatchRequestEntry). */
const longestDelaySeconds = 900;

export class QueueModel {
  readonly #run: Run;
  readonly #chance: Chance;
  #messages: Message[] = [];
  #dead: Message[] = [];
  readonly events: QueueEvent[] = [];
  /** Called when there may be something to receive. */
  onSend: () => void = () => undefined;

  constructor(run: Run) {
    this.#run = run;
    this.#chance = run.world.chanceOf('queue');
  }

  /** When the next message can be received; undefined: there is none. */
  nextVisible(): number | undefined {
    return this.#messages.length === 0 ? undefined : Math.min(...this.#messages.map(({ visibleAt }) => visibleAt));
  }

  send(body: string, delaySeconds: number): string {
    const { world } = this.#run;
    const messageId = this.#chance.uuid(world.at);
    const message = {
      messageId,
      body,
      visibleAt: world.at + delaySeconds * 1000,
      receives: 0,
      receivedAt: 0,
      holders: 0,
    };
    const lost = this.#run.troubled('messageLost', 'queue');
    this.#tell(lost ? 'lost' : 'sent', message);
    if (!lost) this.#messages.push(message);
    this.onSend();
    return messageId;
  }

  /** Takes up to `most` messages, in no order. Each is invisible from now, or, at times, is not. */
  receive(most: number): Message[] {
    const { world, weather } = this.#run;
    const { visibilityTimeoutSeconds, maxReceiveCount } = weather.settings;
    const visible = this.#chance.shuffled(this.#messages.filter(({ visibleAt }) => visibleAt <= world.at));
    const taken: Message[] = [];
    for (const message of visible.slice(0, most)) {
      if (message.receives >= maxReceiveCount) {
        this.#messages = this.#messages.filter((other) => other !== message);
        message.visibleAt = world.at;
        this.#dead.push(message);
        this.#tell('dead', message);
        continue;
      }
      // Invisible for as long as it promised, and one that took it is not done yet: two have it now.
      const since = world.at - message.receivedAt;
      if (message.holders > 0 && since >= visibilityTimeoutSeconds * 1000) {
        this.#run.meet('message visible again while its sender has it');
      }
      message.receives += 1;
      message.receivedAt = world.at;
      const again = this.#run.troubled('messageTwice', 'queue');
      message.visibleAt = world.at + (again ? this.#chance.between(0, 2000) : visibilityTimeoutSeconds * 1000);
      this.#tell('received', message);
      taken.push(message);
    }
    return taken;
  }

  delete(message: Message): void {
    if (this.#run.troubled('deleteLost', 'queue')) return;
    if (this.#messages.includes(message)) this.#tell('deleted', message);
    this.#messages = this.#messages.filter((other) => other !== message);
  }

  purge(): void {
    for (const message of this.#messages) this.#tell('purged', message);
    this.#messages = [];
  }

  /** Puts something into the dead-letter queue that no claim has sent. */
  bury(body: string): void {
    const { world } = this.#run;
    const message = { messageId: this.#chance.uuid(world.at), body, visibleAt: world.at, receives: 6 };
    this.#dead.push({ ...message, receivedAt: 0, holders: 0 });
  }

  /** Takes up to `most` dead messages, hidden for half a minute; at times one is shown all the same. */
  lookAtDead(most: number): Look {
    const { world } = this.#run;
    const visible = this.#chance.shuffled(this.#dead.filter(({ visibleAt }) => visibleAt <= world.at)).slice(0, most);
    for (const message of visible) {
      message.receives += 1;
      message.visibleAt = world.at + (this.#run.troubled('messageTwice', 'dead letters') ? 0 : 30_000);
    }
    const letters = visible.map(({ messageId, body, receives }) => ({
      ...{ messageId, body, receives, handle: messageId, sentAt: new Date(world.at).toISOString() },
    }));
    return { letters, all: letters.length === this.#dead.length };
  }

  showDead(messageId: string): void {
    for (const message of this.#dead) if (message.messageId === messageId) message.visibleAt = this.#run.world.at;
  }

  deleteDead(messageId: string): void {
    if (this.#run.troubled('deleteLost', 'dead letters')) return;
    for (const message of this.#dead) if (message.messageId === messageId) this.#tell('removed', message);
    this.#dead = this.#dead.filter((other) => other.messageId !== messageId);
  }

  /** Sends what is in the dead-letter queue again, as a console's redrive does: fresh ids, fresh counts. */
  redrive(): void {
    const { world } = this.#run;
    for (const { body } of this.#dead.splice(0)) {
      const message = {
        messageId: this.#chance.uuid(world.at),
        body,
        visibleAt: world.at,
        receives: 0,
        receivedAt: 0,
        holders: 0,
      };
      this.#messages.push(message);
      this.#tell('redriven', message);
    }
    this.onSend();
  }

  #tell(what: QueueEvent['what'], { messageId, body }: Message): void {
    const { world } = this.#run;
    this.events.push({ at: world.at, what, messageId, body });
    world.note('queue', `${what} ${messageId} ${body}`);
  }
}

/** The port to the queue as one environment has it: calls of a few entries each, each tried twice, stopped by a refused call. */
export function invitationsOf(environment: ExecutionEnvironment, queue: QueueModel): Invitations {
  const { run } = environment;
  const { settings, sendBatchSize } = run.weather;

  async function send(invitations: readonly Invitation[]): Promise<Receipt[]> {
    const attempt = () =>
      environment.call(
        {
          name: 'SendMessageBatch',
          timeoutMs: settings.transportTimeoutMs,
          refusals: ['InternalError', 'ECONNRESET'],
          failures: ['InternalError', 'ServiceUnavailable', 'ECONNRESET'],
        },
        async () => invitations.flatMap((invitation) => accept(invitation)),
      );
    // The SDK sends again what failed: the first try may have been accepted too.
    return attempt().catch(attempt);
  }

  function accept({ deliveryId, notBefore, delaySeconds }: Invitation): Receipt[] {
    if (environment.troubled('entryRefused')) return [];
    const delay = Math.floor(Math.min(longestDelaySeconds, Math.max(0, delaySeconds)));
    const messageId = queue.send(JSON.stringify({ v: 1, delivery_id: deliveryId, not_before: notBefore }), delay);
    return environment.troubled('entryOmitted')
      ? []
      : [{ deliveryId, messageId, queue: 'invitations', delaySeconds: delay }];
  }

  return {
    async publish(invitations): Promise<PublishAnswer> {
      const accepted: Receipt[] = [];
      let batchRefused = false;
      const calls: Invitation[][] = [];
      for (let first = 0; first < invitations.length; first += sendBatchSize) {
        calls.push(invitations.slice(first, first + sendBatchSize));
      }
      const waiting = calls.values();
      const lane = async (): Promise<void> => {
        for (const call of waiting) {
          const receipts = await send(call).catch(() => []);
          accepted.push(...receipts);
          if (receipts.length === 0) batchRefused = true;
          if (batchRefused) return;
        }
      };
      await Promise.all(Array.from({ length: Math.min(2, calls.length) }, lane));
      const taken = new Set(accepted.map(({ deliveryId }) => deliveryId));
      const refused = invitations.map(({ deliveryId }) => deliveryId).filter((id) => !taken.has(id));
      return { accepted, refused, batchRefused };
    },
  };
}
