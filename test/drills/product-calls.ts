// The calls of the matrix that a product's command makes: its statements, and the near-due path to the queue.
import { cancel } from '../../lambdas/store/statements/cancel.ts';
import { claimById } from '../../lambdas/store/statements/claim-by-id.ts';
import { enqueue } from '../../lambdas/store/statements/enqueue.ts';
import { release } from '../../lambdas/store/statements/release.ts';
import { reschedule } from '../../lambdas/store/statements/reschedule.ts';
import { schedule } from '../../lambdas/store/statements/schedule.ts';
import { all, atSending, atStatement, type Call, killedAt, named, nearLife, refuse, strike } from './kinds.ts';

export const productCalls: readonly Call[] = [
  {
    name: 'schedule',
    points: killedAt('schedule'),
    promises: ['P1', 'P2'],
    bounds: all('the product asks again'),
    fast: 'error after',
    async run(cell, kind) {
      await cell.register();
      const reminder = cell.newReminder(1500);
      const { key } = reminder;
      // Its id is not known before it is answered: a process to be killed must be this cell's own.
      const own = kind.startsWith('kill') ? await cell.stage.ownHost('schedule') : undefined;
      if (own === undefined) atStatement(cell, kind, schedule, { functionName: 'schedule', naming: key });
      else strike(cell, kind, { front: () => undefined, point: { point: 'schedule' }, plans: own.plans });
      await cell.schedule(reminder, own?.host);
    },
  },
  {
    name: 'reschedule',
    points: killedAt('reschedule'),
    promises: ['P1', 'P2', 'P10'],
    bounds: all('the product asks again'),
    fast: 'slow past the lease',
    run: (cell, kind) =>
      nearLife(cell, (one) => atStatement(cell, kind, reschedule, { functionName: 'schedule', ...named(one) })),
  },
  {
    name: 'cancel',
    points: killedAt('cancel'),
    promises: ['P3', 'P10'],
    endsIn: ['cancelled'],
    bounds: all('the product asks again'),
    fast: 'kill after',
    async run(cell, kind) {
      const reminder = await cell.schedule(cell.newReminder(6000));
      atStatement(cell, kind, cancel, { functionName: 'schedule', ...named(reminder) });
      const answer = await cell.product({ verb: 'cancel', deliveryId: reminder.deliveryId });
      reminder.cancelled = 'state' in answer && answer.state === 'cancelled';
      // Its message is in the queue, and comes to nothing.
      cell.lastsUntil(reminder.dueAt + 3000);
    },
  },
  {
    name: 'near-due claim',
    points: killedAt('claim-by-id'),
    promises: ['P1', 'P11'],
    bounds: all('invited again', {
      'error before': 'next tick',
      'reset before': 'next tick',
      'time-out without effect': 'next tick',
      'run twice': 'at once',
      'kill before': 'the product asks again',
    }),
    fast: 'error before',
    run: (cell, kind) =>
      nearLife(cell, (one) => atStatement(cell, kind, claimById, { functionName: 'schedule', ...named(one) })),
  },
  {
    name: 'SendMessageBatch',
    points: killedAt('send-message-batch'),
    promises: ['P1', 'P2', 'P7'],
    bounds: all('next tick', {
      'run twice': 'at once',
      'kill before': 'invited again',
      'kill after': 'at once',
    }),
    fast: 'time-out with effect',
    run: (cell, kind) => nearLife(cell, (one) => atSending(cell, kind, 'schedule', one)),
  },
  {
    name: 'enqueue',
    points: killedAt('enqueue'),
    promises: ['P1', 'P6'],
    bounds: all('at once'),
    fast: 'kill after',
    run: (cell, kind) =>
      nearLife(cell, (one) => atStatement(cell, kind, enqueue, { functionName: 'schedule', ...named(one) })),
  },
  {
    name: 'release',
    points: killedAt('release'),
    promises: ['P1', 'P11'],
    bounds: all('invited again', {
      'error after': 'next tick',
      'reset after': 'next tick',
      'run twice': 'next tick',
      'kill after': 'next tick',
    }),
    fast: 'error after',
    run: (cell, kind) =>
      nearLife(cell, (one) => {
        refuse(cell, one);
        atStatement(cell, kind, release, { functionName: 'schedule', ...named(one) });
      }),
  },
];
