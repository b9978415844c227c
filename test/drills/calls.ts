// The calls of the matrix: every effect between a product's command and the announced end, and how a drill reaches it.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Statement } from '../../lambdas/store/statement.ts';
import { announce } from '../../lambdas/store/statements/announce.ts';
import { cancel } from '../../lambdas/store/statements/cancel.ts';
import { claim } from '../../lambdas/store/statements/claim.ts';
import { claimById } from '../../lambdas/store/statements/claim-by-id.ts';
import { enqueue } from '../../lambdas/store/statements/enqueue.ts';
import { open } from '../../lambdas/store/statements/open.ts';
import { release } from '../../lambdas/store/statements/release.ts';
import { reschedule } from '../../lambdas/store/statements/reschedule.ts';
import { schedule } from '../../lambdas/store/statements/schedule.ts';
import { settle } from '../../lambdas/store/statements/settle.ts';
import { unpark } from '../../lambdas/store/statements/unpark.ts';
import type { FaultPlan } from '../../lib/local/fault-plans.ts';
import type { Cell, Reminder } from './cell.ts';
import type { BoundName } from './drill.ts';
import { startGate } from './gate.ts';
import { type Call, type Kind, nearLife, strike, untilDue } from './kinds.ts';

/** Faults of a statement. @param naming what its parameters, or later its answer, must hold @default any */
function atStatement(
  cell: Cell,
  kind: Kind,
  { name, text }: Statement<never, unknown>,
  functionName: string,
  chosen: { readonly naming?: string; readonly deliveryId?: string } = {},
): void {
  const match = new RegExp(RegExp.escape(text));
  const { naming, ...point } = chosen;
  strike(cell, kind, {
    front: (fault) =>
      cell.fault(cell.stage.aws.dataApi.faults, { ...fault, match, ...(naming === undefined ? {} : { naming }) }),
    point: { point: name as FaultPlan['point'], functionName, ...point },
  });
}

const named = ({ deliveryId }: Reminder) => ({ naming: deliveryId, deliveryId });
const about = ({ deliveryId }: Reminder) => new RegExp(deliveryId);

/** The queue refuses a reminder's message until its call is given up. */
function refuse(cell: Cell, reminder: Reminder): void {
  cell.fault(cell.stage.aws.queue.faults, { kind: 'error-before', match: about(reminder), times: 2 });
}

/** The same for every kind but those that are named. */
const all = (bound: BoundName, others: Partial<Call['bounds']> = {}): Call['bounds'] => ({
  'error before': bound,
  'error after': bound,
  'time-out with effect': bound,
  'time-out without effect': bound,
  'run twice': bound,
  'slow past the lease': bound,
  'kill before': bound,
  'kill after': bound,
  ...others,
});

export const calls: readonly Call[] = [
  {
    name: 'schedule',
    promises: ['P1', 'P2'],
    bounds: all('the product asks again'),
    fast: 'error after',
    async run(cell, kind) {
      await cell.register();
      const reminder = cell.newReminder(1500);
      const { key } = reminder;
      // Its id is not known before it is answered: a process to be killed must be this cell's own.
      const own = kind.startsWith('kill') ? await cell.stage.ownHost('schedule') : undefined;
      if (own === undefined) atStatement(cell, kind, schedule, 'schedule', { naming: key });
      else strike(cell, kind, { front: () => undefined, point: { point: 'schedule' }, plans: own.plans });
      await cell.schedule(reminder, own?.host);
    },
  },
  {
    name: 'reschedule',
    promises: ['P1', 'P2', 'P10'],
    bounds: all('the product asks again'),
    fast: 'slow past the lease',
    run: (cell, kind) => nearLife(cell, (one) => atStatement(cell, kind, reschedule, 'schedule', named(one))),
  },
  {
    name: 'cancel',
    promises: ['P3', 'P10'],
    endsIn: ['cancelled'],
    bounds: all('the product asks again'),
    fast: 'kill after',
    async run(cell, kind) {
      const reminder = await cell.schedule(cell.newReminder(6000));
      atStatement(cell, kind, cancel, 'schedule', named(reminder));
      const answer = await cell.product({ verb: 'cancel', deliveryId: reminder.deliveryId });
      reminder.cancelled = 'state' in answer && answer.state === 'cancelled';
      // Its message is in the queue, and comes to nothing.
      cell.lastsUntil(reminder.dueAt + 3000);
    },
  },
  {
    name: 'near-due claim',
    promises: ['P1', 'P11'],
    bounds: all('invited again', {
      'error before': 'next tick',
      'time-out without effect': 'next tick',
      'run twice': 'at once',
      'kill before': 'the product asks again',
    }),
    fast: 'error before',
    run: (cell, kind) => nearLife(cell, (one) => atStatement(cell, kind, claimById, 'schedule', named(one))),
  },
  {
    name: 'claim',
    promises: ['P1', 'P6', 'P11'],
    bounds: all('invited again', {
      'error before': 'next tick',
      'time-out without effect': 'next tick',
      'run twice': 'at once',
      'kill before': 'next tick',
    }),
    fast: 'run twice',
    run: (cell, kind) =>
      // Before a claim nobody knows what it will take: then it is the tick's one claim.
      cell.atTick((one) => {
        const afterwards = ['error after', 'time-out with effect', 'kill after'].includes(kind);
        atStatement(cell, kind, claim, 'claim', afterwards ? named(one) : {});
      }),
  },
  {
    name: 'SendMessageBatch',
    promises: ['P1', 'P2', 'P7'],
    bounds: all('next tick', {
      'run twice': 'at once',
      'kill before': 'invited again',
      'kill after': 'at once',
    }),
    fast: 'time-out with effect',
    run: (cell, kind) =>
      nearLife(cell, (one) =>
        strike(cell, kind, {
          front: (fault) => cell.fault(cell.stage.aws.queue.faults, { ...fault, match: about(one) }),
          point: { point: 'send-message-batch', functionName: 'schedule', deliveryId: one.deliveryId },
        }),
      ),
  },
  {
    name: 'enqueue',
    promises: ['P1', 'P6'],
    bounds: all('at once'),
    fast: 'kill after',
    run: (cell, kind) => nearLife(cell, (one) => atStatement(cell, kind, enqueue, 'schedule', named(one))),
  },
  {
    name: 'release',
    promises: ['P1', 'P11'],
    bounds: all('invited again', { 'error after': 'next tick', 'run twice': 'next tick', 'kill after': 'next tick' }),
    fast: 'error after',
    run: (cell, kind) =>
      nearLife(cell, (one) => {
        refuse(cell, one);
        atStatement(cell, kind, release, 'schedule', named(one));
      }),
  },
  {
    name: 'signing secret',
    promises: ['P1', 'P5'],
    bounds: all('invited again', {
      'error after': { noSense: 'it only reads: an answer that is lost is an error without effect' },
      'time-out with effect': { noSense: 'it only reads: an answer that never comes is a time-out without effect' },
      'run twice': { noSense: 'it only reads: two environments read it twice every day' },
      'slow past the lease': { noSense: 'it only reads, before any lease is taken: a late answer is a time-out' },
    }),
    fast: 'error before',
    async run(cell, kind) {
      const { aws } = cell.stage;
      const reminder = await nearLife(cell, (one) => cell.fault(aws.queue.faults, { kind: 'lose', match: about(one) }));
      await cell.untilState(reminder, 'queued');
      await untilDue(reminder);
      // A sender of its own, which has not fetched the secret yet.
      const own = await cell.stage.ownHost('webhook-sender');
      strike(cell, kind, {
        front: (fault) => cell.fault(aws.secrets.faults, { ...fault, match: /^GetSecretValue .*signing/ }),
        point: { point: 'fetch-signing-secret' },
        plans: own.plans,
      });
      await own.host.invoke('webhook-sender', JSON.stringify(invitationOf(reminder)));
    },
  },
  {
    name: 'open',
    promises: ['P5', 'P6', 'P9'],
    // Tries that time out may use up the run's time; the message then waits, and the calendar does not.
    bounds: all('invited again', {
      'error before': 'at once',
      'error after': 'at once',
      'run twice': 'at once',
      'time-out with effect': 'attempt recovered',
      'kill after': 'attempt recovered',
    }),
    fast: 'slow past the lease',
    run: (cell, kind) => nearLife(cell, (one) => atStatement(cell, kind, open, 'webhook-sender', named(one))),
  },
  {
    name: 'POST',
    promises: ['P5', 'P6', 'P7', 'P8', 'P12'],
    bounds: all('sent again', {
      'run twice': {
        noSense: 'TLS: a network cannot send the bytes again, and a second attempt is what an error after leads to',
      },
      'slow past the lease': 'attempt recovered',
      'kill before': 'attempt recovered',
      'kill after': 'attempt recovered',
    }),
    fast: 'kill after',
    run: post,
  },
  {
    name: 'settle',
    promises: ['P3', 'P4', 'P8'],
    bounds: all('at once', { 'kill before': 'attempt recovered' }),
    fast: 'time-out without effect',
    run: (cell, kind) => nearLife(cell, (one) => atStatement(cell, kind, settle, 'webhook-sender', named(one))),
  },
  {
    name: 'delete',
    promises: ['P3', 'P12'],
    bounds: all('at once', {
      'kill before': { noSense: 'the poller is AWS’s: its death is a delete that does not happen, the error before' },
      'kill after': { noSense: 'the poller is AWS’s, and has nothing more to do afterwards' },
    }),
    fast: 'error after',
    async run(cell, kind) {
      await nearLife(cell, (one) =>
        strike(cell, kind, {
          front: (fault) =>
            cell.fault(cell.stage.aws.queue.faults, {
              ...{ ...fault, times: 1 },
              operation: 'DeleteMessageBatch',
              match: about(one),
            }),
          point: { point: 'handler' },
        }),
      );
      await cell.untilExercised();
      // What was not deleted comes again, and must be taken for what it is.
      const comesAgain = kind === 'error before' || kind === 'time-out without effect';
      if (comesAgain) cell.lastsUntil(Date.now() + (cell.settings.visibilityTimeoutSeconds + 3) * 1000);
    },
  },
  {
    name: 'PutEvents',
    promises: ['announced'],
    until: 'announced',
    bounds: all('announced'),
    fast: 'kill before',
    run: (cell, kind) =>
      nearLife(cell, (one) =>
        strike(cell, kind, {
          front: (fault) => cell.fault(cell.stage.aws.bus.faults, { ...fault, match: about(one) }),
          point: { point: 'put-events', functionName: 'claim', deliveryId: one.deliveryId },
        }),
      ),
  },
  {
    name: 'announce',
    promises: ['announced'],
    until: 'announced',
    bounds: all('announced'),
    fast: 'error before',
    run: (cell, kind) =>
      cell.stage.inTurn([], async () => {
        // Its parameters are the outbox's numbers: while the ticks stand still, the next one announces this end.
        const reminder = await nearLife(cell, () => undefined);
        await cell.untilState(reminder, 'delivered');
        atStatement(cell, kind, announce, 'claim');
        cell.stage.aws.scheduler.tickNow();
        await cell.untilExercised();
      }),
  },
  {
    name: 'unpark',
    promises: ['P1', 'P10'],
    bounds: all('next tick'),
    fast: 'run twice',
    run: (cell, kind) =>
      cell.stage.inTurn([], async () => {
        const { scheduler } = cell.stage.aws;
        const switchTo = (state: string) =>
          cell.sql('UPDATE destination SET state = $1 WHERE name = $2', [state, cell.destination]);
        await cell.register();
        await switchTo('paused');
        const reminder = await cell.schedule(cell.newReminder(0));
        scheduler.tickNow();
        await cell.untilSql('SELECT FROM reminder_delivery WHERE delivery_id = $1 AND parked', reminder);
        await switchTo('active');
        atStatement(cell, kind, unpark, 'claim');
        scheduler.tickNow();
        await cell.untilExercised();
      }),
  },
];

/** The POST meets a network of the cell's own, or its sender dies or freezes. */
async function post(cell: Cell, kind: Kind): Promise<void> {
  const { receiver } = cell.stage;
  const first = { 'error before': 'refuse', 'time-out without effect': 'swallow' } as const;
  const gate = await startGate(receiver.port, first[kind as keyof typeof first] ?? 'through');
  cell.atEnd(() => gate.close());
  await cell.register('/ok', gate.port);
  await nearLife(cell, ({ deliveryId }) => {
    if (kind in first) return cell.expect(gate.metAt);
    if (kind === 'slow past the lease') {
      const ms = (cell.settings.leaseSeconds + 3) * 1000;
      return cell.plan({ point: 'write', at: 'after', deliveryId, action: { kind: 'freeze', ms } });
    }
    if (kind === 'kill before') return cell.plan({ point: 'dial', at: 'before', deliveryId, action: { kind: 'kill' } });
    if (kind === 'kill after')
      return cell.plan({ point: 'headers', at: 'after', deliveryId, action: { kind: 'kill' } });
    let metAt: number | undefined;
    cell.expect(() => metAt);
    receiver.onArrival(deliveryId, async () => {
      metAt = Date.now();
      if (kind === 'error after') gate.cut();
      // Beyond the deadline: the sender has given up when the answer comes.
      else await sleep(cell.settings.webhookDeadlineMs + 1000);
    });
  });
}

/** A reminder's message as the event source hands it to a sender. */
export const invitationOf = ({ deliveryId }: Reminder) => ({
  Records: [{ messageId: '0', body: JSON.stringify({ v: 1, delivery_id: deliveryId, not_before: 0 }) }],
});
