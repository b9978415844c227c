// Boundaries inside a call and between calls, and what a queue and a schedule may do by themselves.
import { setTimeout as sleep } from 'node:timers/promises';
import type { FaultPlan } from '../../lib/local/fault-plans.ts';
import type { MessageFault } from '../../lib/local/queue.ts';
import type { Reminder } from './cell.ts';
import type { BoundName, Drill } from './drill.ts';
import { invitationOf, nearLife, untilDue } from './kinds.ts';

const delivered = { endsIn: ['delivered'] } as const;

/** A sender dies at a passage of its own run. */
const killedSender = (
  name: string,
  rehearses: string,
  at: Pick<FaultPlan, 'point' | 'at'>,
  bound: BoundName,
): Drill => ({
  ...delivered,
  name,
  rehearses,
  bound,
  promises: ['P5', 'P6', 'P7', 'P9', 'P12'],
  points: [at.point],
  run: (cell) =>
    nearLife(cell, ({ deliveryId }) =>
      cell.plan({ ...at, functionName: 'webhook-sender', deliveryId, action: { kind: 'kill' } }),
    ),
});

/** The queue does to one message what queues do. */
const queueDoes = (kind: MessageFault['kind'], rehearses: string, bound: BoundName): Drill => ({
  ...delivered,
  name: `the queue: ${kind}`,
  rehearses,
  bound,
  promises: ['P1', 'P2', 'P3'],
  async run(cell) {
    await nearLife(cell, ({ deliveryId }) =>
      cell.fault(cell.stage.aws.queue.faults, { kind, match: new RegExp(deliveryId) }),
    );
    cell.lastsUntil(Date.now() + 4000);
  },
});

export const boundaryDrills: readonly Drill[] = [
  killedSender(
    'killed with the connection open',
    'A sender dies after TLS and before the first byte: nobody can know that, so the attempt is unknown.',
    { point: 'dial', at: 'after' },
    'attempt recovered',
  ),
  killedSender(
    'killed before the first byte',
    'A sender dies in the moment in which it hands the request to its socket.',
    { point: 'write', at: 'before' },
    'attempt recovered',
  ),
  killedSender(
    'killed after the last byte',
    'A sender dies after the kernel took the request, before any answer: the receiver may have it.',
    { point: 'write', at: 'after' },
    'attempt recovered',
  ),
  killedSender(
    'killed after the body',
    'A sender dies with the whole answer in its hands: the receiver has it, and the ledger does not know.',
    { point: 'body', at: 'after' },
    'attempt recovered',
  ),
  killedSender(
    'killed before it returns',
    'A sender dies when all is settled: its message comes again later, for nothing.',
    { point: 'handler', at: 'after' },
    'at once',
  ),
  {
    ...delivered,
    name: 'killed as it receives',
    rehearses: 'A sender dies with its messages in hand, before it has done anything: the reminder is invited again.',
    bound: 'invited again',
    promises: ['P1', 'P5'],
    points: ['handler'],
    async run(cell) {
      const reminder = await nearLife(cell, ({ deliveryId }) =>
        cell.fault(cell.stage.aws.queue.faults, { kind: 'lose', match: new RegExp(deliveryId) }),
      );
      await untilDue(reminder);
      const own = await cell.stage.ownHost('webhook-sender');
      cell.plan({ point: 'handler', at: 'before', action: { kind: 'kill' } }, own.plans);
      await own.host.invoke('webhook-sender', JSON.stringify(invitationOf(reminder)));
    },
  },
  {
    ...delivered,
    name: 'frozen before it dials',
    rehearses:
      'A sender freezes with its lease in hand until the lease is over; another sends, and the thawed one sends nothing.',
    bound: 'attempt recovered',
    promises: ['P6', 'P8'],
    points: ['open'],
    run: (cell) =>
      nearLife(cell, ({ deliveryId }) => {
        const ms = (cell.settings.leaseSeconds + 3) * 1000;
        cell.plan({ point: 'open', at: 'after', deliveryId, action: { kind: 'freeze', ms } });
      }),
  },
  {
    ...delivered,
    name: 'frozen between two answers',
    rehearses:
      'A sender stands still between two runs for longer than a lease, as Lambda lets it: the next run is like any other.',
    bound: 'at once',
    promises: ['P6', 'P10'],
    async run(cell) {
      const own = await cell.stage.ownHost('webhook-sender');
      const { faults } = cell.stage.aws.queue;
      const one = async () => {
        const reminder = await nearLife(cell, ({ deliveryId }) =>
          cell.fault(faults, { kind: 'lose', match: new RegExp(deliveryId) }),
        );
        await cell.untilState(reminder, 'queued');
        await untilDue(reminder);
        const { functionError, payload } = await own.host.invoke(
          'webhook-sender',
          JSON.stringify(invitationOf(reminder)),
        );
        if (functionError) throw new Error(payload);
      };
      await one();
      await sleep((cell.settings.leaseSeconds + 1) * 1000);
      await one();
    },
  },
  queueDoes(
    'lose',
    'A message is accepted and lost: the reminder is invited again when its allowance has passed.',
    'invited again',
  ),
  queueDoes('reorder', 'A message is overtaken by those behind it.', 'at once'),
  queueDoes('redeliver', 'A message is delivered to two senders at once: one of them sends.', 'at once'),
  queueDoes('duplicate', 'The queue holds a message twice.', 'at once'),
  queueDoes('refuse', 'The queue refuses an entry of a batch: it goes back to the calendar.', 'next tick'),
  queueDoes(
    'omit',
    'The queue takes an entry and leaves it out of its answer: it goes back, and is sent once.',
    'next tick',
  ),
  {
    ...delivered,
    name: 'the queue: throttle',
    rehearses: 'The queue throttles every try of a call: what was in it goes back to the calendar.',
    bound: 'next tick',
    promises: ['P1', 'P11'],
    run: (cell) =>
      nearLife(cell, ({ deliveryId }) =>
        cell.fault(cell.stage.aws.queue.faults, {
          ...{ kind: 'error-before', error: 'RequestThrottled', times: 2 },
          match: new RegExp(deliveryId),
        }),
      ),
  },
  {
    ...delivered,
    name: 'the third call of a claim fails',
    rehearses:
      'A claim hands 25 over in three calls, and the third one fails: what was in it alone goes back and is sent.',
    bound: 'next tick',
    promises: ['P1', 'P2', 'P11'],
    run: (cell) =>
      cell.stage.inTurn([], async () => {
        const all: Reminder[] = [];
        const dueInMs = cell.settings.lookaheadSeconds * 1000 + 6000;
        while (all.length < 25) all.push(await cell.schedule(cell.newReminder(dueInMs)));
        for (const one of all)
          await cell.untilSql('SELECT FROM reminder_delivery WHERE delivery_id = $1 AND wake_at <= now()', one);
        const ofThese = new RegExp(all.map(({ deliveryId }) => deliveryId).join('|'));
        cell.fault(cell.stage.aws.queue.faults, { kind: 'error-before', match: ofThese, skip: 2, times: 2 });
        cell.stage.aws.scheduler.tickNow();
        await cell.untilExercised();
      }),
  },
  {
    ...delivered,
    name: 'the queue: purge',
    rehearses: 'Somebody purges the queue: what was in it is invited again when its allowance has passed.',
    bound: 'invited again',
    promises: ['P1', 'P2', 'P11'],
    run: (cell) =>
      cell.stage.inTurn([], async () => {
        const reminder = await nearLife(cell, () => undefined);
        await cell.untilState(reminder, 'queued');
        await cell.stage.aws.queue.purge();
        cell.met();
      }),
  },
  {
    ...delivered,
    name: 'a tick is lost',
    rehearses: 'The schedule loses a tick: the next one finds what was due.',
    bound: 'next tick',
    promises: ['P1'],
    async run(cell) {
      const { scheduler } = cell.stage.aws;
      const before = scheduler.dropped;
      await cell.schedule(cell.newReminder(cell.settings.lookaheadSeconds * 1000 + 900));
      scheduler.dropNext();
      let metAt: number | undefined;
      cell.expect(() => (metAt ??= scheduler.dropped > before ? Date.now() : undefined));
      await cell.untilExercised();
    },
  },
  {
    ...delivered,
    name: 'two ticks at once',
    rehearses: 'Two claims run at the same instant: one of them takes the reminder.',
    bound: 'at once',
    promises: ['P2', 'P6'],
    run: (cell) =>
      cell.atTick(() => {
        cell.stage.aws.scheduler.tickNow();
        cell.met();
      }),
  },
];
