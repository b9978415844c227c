// Hours in seconds: the real core and the real SQL under a virtual clock, one step after another, with levers to turn off.
import { v7 as uuid } from 'uuid';
import { claimDue } from '../../lambdas/core/claim-due.ts';
import { deliverInvitations } from '../../lambdas/core/deliver-invitations.ts';
import { LedgerError } from '../../lambdas/core/errors.ts';
import type { AttemptResult, Invitations, Webhook } from '../../lambdas/core/ports.ts';
import { settingsOf } from '../../lambdas/core/settings.ts';
import { PostgresLedger } from '../../lambdas/store/ledger.ts';
import { postgresObservations } from '../../lambdas/store/observations.ts';
import type { Statement } from '../../lambdas/store/statement.ts';
import { startVirtualDatabase } from '../simulation/virtual-database.ts';

interface Message {
  readonly deliveryId: string;
  readonly notBefore: number;
  visibleAt: number;
  receives: number;
}

/** A request as the receiver saw it. */
export interface Sent {
  readonly deliveryId: string;
  readonly key: string;
  readonly payload: string;
  /** Virtual milliseconds. */
  readonly at: number;
}

const second = 1000;
const minute = 60 * second;
const worker = { functionVersion: '1', requestId: 'request', logStream: 'stream' };
const log = { info: () => undefined, warn: () => undefined, error: () => undefined };
const accepted: Omit<AttemptResult, never> = {
  ...{ outcome: 'delivered', phase: 'body', status: 200, errorClass: null, detail: null },
  ...{ latencyMs: 100, retryAfterSeconds: null },
};

export type SlowMotion = Awaited<ReturnType<typeof startSlowMotion>>;

/** Starts a ledger whose time the caller moves, at the numbers of production. */
export async function startSlowMotion() {
  const database = await startVirtualDatabase();
  const settings = settingsOf('production');
  /** What works at the moment. */
  const works = { ticks: true, eventSource: true, database: true, queue: true };
  let at = Date.UTC(2030, 0, 1);
  let statements = 0;
  let messages: Message[] = [];
  const deadLetters: Message[] = [];
  let published = 0;
  const sent: Sent[] = [];
  /** The sums of the counts that functions published. */
  const counts = new Map<string, number>();
  const meter = {
    count: (name: string, value = 1) => void counts.set(name, (counts.get(name) ?? 0) + value),
    milliseconds: () => undefined,
    percent: () => undefined,
  };
  /** Called as the receiver gets a request, before it answers. */
  let onRequest: () => void = () => undefined;

  const moment = () => {
    statements += 1;
    return { at, statement: statements, chance: Math.random() };
  };
  const runner = {
    async run<Input, Row>(statement: Statement<Input, Row>, input: Input, onTry?: (at: number) => void) {
      onTry?.(at);
      if (!works.database) {
        const facts = { fault: 'unavailable', ran: 'no', retry: 'later', reason: 'no connection' } as const;
        throw new LedgerError({ statement: statement.name, ...facts });
      }
      const rows = await database.run(moment(), statement.text, statement.parameters(input, settings));
      return rows.map(([answer, payload]) => {
        const row = JSON.parse(answer ?? 'null');
        return payload == null ? row : { ...row, payload: Buffer.from(payload, 'base64').toString('utf8') };
      });
    },
  };
  const ledger = new PostgresLedger(runner);
  const invitations: Invitations = {
    async publish(all) {
      if (!works.queue) return { accepted: [], refused: all.map(({ deliveryId }) => deliveryId), batchRefused: true };
      published += all.length;
      const receipts = all.map(({ deliveryId, notBefore, delaySeconds }) => {
        const wait = Math.floor(Math.min(900, Math.max(0, delaySeconds)));
        messages.push({ deliveryId, notBefore, visibleAt: at + wait * second, receives: 0 });
        return { deliveryId, messageId: uuid(), queue: 'invitations', delaySeconds: wait };
      });
      return { accepted: receipts, refused: [], batchRefused: false };
    },
  };
  const webhook: Webhook = {
    prepare: async () => ({
      post: async ({ deliveryId, key, payload }) => {
        sent.push({ deliveryId, key, payload, at });
        onRequest();
        return { ...accepted };
      },
      close: async () => undefined,
    }),
  };
  const clock = {
    monotonic: () => at,
    wall: () => at,
    sleep: async (ms: number) => {
      at += ms;
    },
  };
  const tools = { ledger, invitations, webhook, clock, settings, newToken: () => uuid() };
  const announcements = { publish: async (events: readonly { eventNo: string }[]) => events.map((one) => one.eventNo) };

  /** As the event source hands it out: a receive counts whatever becomes of it. */
  function receive(): Message[] {
    const batch: Message[] = [];
    for (const message of messages) {
      if (message.visibleAt > at || batch.length === settings.senderBatchSize) continue;
      if (message.receives >= settings.maxReceiveCount) {
        deadLetters.push(message);
        continue;
      }
      message.receives += 1;
      message.visibleAt = at + settings.visibilityTimeoutSeconds * second;
      batch.push(message);
    }
    messages = messages.filter((message) => !deadLetters.includes(message));
    return batch;
  }

  async function send(batch: readonly Message[]): Promise<void> {
    const begun = at;
    const remainingMs = () => settings.senderTimeoutSeconds * second - (at - begun);
    const run = { worker, signal: new AbortController().signal, remainingMs, log, meter };
    const failed = await deliverInvitations(tools, run, batch).catch(() => undefined);
    const done = batch.filter(({ deliveryId }) => failed !== undefined && !failed.has(deliveryId));
    messages = messages.filter((message) => !done.includes(message));
  }

  return {
    works,
    settings,
    ledger,
    sql: database.sql,
    sent: sent as readonly Sent[],
    deadLetters: deadLetters as readonly Message[],
    now: () => at,
    published: () => published,
    counted: (name: string) => counts.get(name) ?? 0,
    waiting: () => messages.length,
    purge: () => {
      messages = [];
    },
    onRequest: (hook: () => void) => {
      onRequest = hook;
    },
    look: () => postgresObservations(runner).look(),

    /** Registers a destination. @param contract @default honours-key */
    async destination(name: string, contract = 'honours-key'): Promise<void> {
      await database.runAt(
        moment(),
        `INSERT INTO destination (destination_id, name, url, owner, contract, state, state_since, created_at)
         VALUES ($1, $2, 'https://receiver.example/', 'test', $3, 'active', now(), now())`,
        [uuid(), name, contract],
      );
    },

    /** Schedules reminders, each due after so many seconds, and expired after so many, if at all. Answers their ids. */
    async schedule(destination: string, wishes: readonly { due: number; expires?: number }[]): Promise<string[]> {
      const instant = (seconds: number) => new Date(at + seconds * second).toISOString();
      const reminders = wishes.map(({ due, expires }) => {
        const deliveryId = uuid();
        return {
          ...{
            deliveryId,
            key: `key of ${deliveryId}`,
            destination,
            userId: 'user',
            payload: `{"of":"${deliveryId}"}`,
          },
          ...{ dueAt: instant(due), expiresAt: expires === undefined ? null : instant(expires) },
        };
      });
      await ledger.schedule({ token: uuid(), producer: 'product', reminders });
      return reminders.map(({ deliveryId }) => deliveryId);
    },

    /** Lets so many minutes pass: a tick in each, senders every second. @param each called at the end of each minute */
    async pass(minutes: number, each: () => Promise<void> = async () => undefined): Promise<void> {
      for (let passed = 0; passed < minutes; passed += 1) {
        const end = at + minute;
        if (works.ticks) {
          await claimDue({ ...tools, announcements }, { worker, log, meter }).catch(() => undefined);
        }
        while (at < end) {
          const next = Math.min(...messages.map(({ visibleAt }) => visibleAt));
          if (!works.eventSource || next > end) break;
          at = Math.max(at, next);
          await send(receive());
        }
        at = Math.max(at, end);
        await each();
      }
    },

    /** How many reminders are in each state. */
    async states(): Promise<Record<string, number>> {
      const rows = await database.sql<{ state: string; count: number }>(
        'SELECT state, count(*)::integer FROM reminder_delivery GROUP BY state',
      );
      return Object.fromEntries(rows.map(({ state, count }) => [state, count]));
    },

    /** Begins anew: an empty ledger, an empty queue, everything works. */
    async reset(): Promise<void> {
      await database.reset();
      messages = [];
      deadLetters.length = 0;
      sent.length = 0;
      counts.clear();
      published = 0;
      onRequest = () => undefined;
      Object.assign(works, { ticks: true, eventSource: true, database: true, queue: true });
    },

    stop: () => database.stop(),
  };
}
