// The drills that the essay names: paused before the claim, stopped after it, interrupted after publishing, and so on.
import type { Drill } from './drill.ts';
import { bodyOf, nearLife } from './kinds.ts';

const delivered = { endsIn: ['delivered'], fast: true } as const;

/** A clock that is wrong at the application's edge: the database decides, whatever the functions believe. */
const skewed = (minutes: number): Drill => ({
  ...delivered,
  name: `clock skew of ${minutes > 0 ? '+' : ''}${minutes} minutes`,
  rehearses: `Every function's wall clock is ${Math.abs(minutes)} minutes ${minutes > 0 ? 'ahead' : 'behind'}: nothing is early, late or lost.`,
  bound: 'at once',
  promises: ['P1', 'P6', 'P10'],
  clockSkewMs: minutes * 60_000,
  async run(cell) {
    cell.met();
    // One that the product's call hands over, one that waits for a tick.
    await cell.schedule(cell.newReminder(2500));
    await cell.schedule(cell.newReminder(cell.settings.lookaheadSeconds * 1000 + 2000));
  },
});

export const essayDrills: readonly Drill[] = [
  {
    ...delivered,
    name: 'pause before claim',
    rehearses:
      'A claim stands still right before it takes anything: the next tick takes it, and the paused one wakes to nothing.',
    bound: 'next tick',
    promises: ['P1', 'P6', 'P10'],
    points: ['claim'],
    run: (cell) =>
      cell.atTick(() => {
        const ms = (cell.settings.leaseSeconds + 1) * 1000;
        cell.plan({ functionName: 'claim', point: 'claim', at: 'before', action: { kind: 'freeze', ms } });
      }),
  },
  {
    ...delivered,
    name: 'stop after claim',
    rehearses: 'A claim dies between its commit and the queue: the reminder is leased to nobody, and invited again.',
    bound: 'invited again',
    promises: ['P1', 'P2', 'P11'],
    points: ['claim'],
    run: (cell) =>
      cell.atTick(({ deliveryId }) =>
        cell.plan({ functionName: 'claim', point: 'claim', at: 'after', deliveryId, action: { kind: 'kill' } }),
      ),
  },
  {
    ...delivered,
    name: 'interrupt after publish',
    rehearses:
      'A claim dies after the queue accepted its message and before that is recorded: the message does its work.',
    bound: 'at once',
    promises: ['P1', 'P2', 'P6'],
    points: ['send-message-batch'],
    run: (cell) =>
      cell.atTick(({ deliveryId }) =>
        cell.plan({
          ...{ functionName: 'claim', point: 'send-message-batch', at: 'after', deliveryId },
          action: { kind: 'kill' },
        }),
      ),
  },
  {
    ...delivered,
    name: 'the same message twice',
    rehearses: 'The queue delivers a message twice, and holds a copy of it besides: it is sent once.',
    bound: 'at once',
    promises: ['P2', 'P3', 'P6'],
    async run(cell) {
      const { faults } = cell.stage.aws.queue;
      await nearLife(cell, ({ deliveryId }) => {
        cell.fault(faults, { kind: 'duplicate', match: new RegExp(deliveryId) });
        cell.fault(faults, { kind: 'redeliver', match: new RegExp(deliveryId) });
      });
      await cell.untilExercised();
      cell.lastsUntil(Date.now() + 3000);
    },
  },
  {
    ...delivered,
    name: 'replay after terminal',
    rehearses: 'A message comes again after its reminder was delivered: it is acknowledged, and nothing is sent.',
    bound: 'at once',
    promises: ['P3', 'P12'],
    async run(cell) {
      const reminder = await nearLife(cell, () => undefined);
      await cell.untilState(reminder, 'delivered');
      const body = bodyOf(reminder.deliveryId, reminder.dueAt);
      await cell.stage.sendMessages([body, body]);
      cell.met();
      await cell.untilRefused(reminder, 2);
    },
  },
  skewed(10),
  skewed(-10),
];
