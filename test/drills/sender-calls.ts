// The calls of the matrix between the queue and the settled outcome: the poller's, and those of a sender.
import { setTimeout as sleep } from 'node:timers/promises';
import { open } from '../../lambdas/store/statements/open.ts';
import { settle } from '../../lambdas/store/statements/settle.ts';
import { startEventSourceMapping } from '../../lib/local/event-source-mapping.ts';
import { type Queue, startQueue } from '../../lib/local/queue.ts';
import type { Cell, Reminder } from './cell.ts';
import { startGate } from './gate.ts';
import {
  about,
  all,
  atStatement,
  bodyOf,
  type Call,
  invitationOf,
  type Kind,
  killedAt,
  named,
  nearLife,
  type PlannedKind,
  strike,
  untilDue,
} from './kinds.ts';

export const senderCalls: readonly Call[] = [
  {
    name: 'ReceiveMessage',
    points: {},
    promises: ['P1', 'P2', 'P12'],
    bounds: all('invited again', {
      'error before': 'at once',
      'reset before': 'at once',
      'kill before': { noSense: 'the poller is AWS’s: its death before a receive is a receive that comes later' },
      'kill after': { noSense: 'the poller is AWS’s: its death after a receive is an answer that is lost' },
    }),
    fast: 'reset after',
    run: (cell, kind) =>
      inOwnQueue(cell, cell.settings.visibilityTimeoutSeconds, ({ faults }, { deliveryId }) =>
        strike(cell, kind, {
          front: (fault) =>
            cell.fault(faults, {
              ...{ ...fault, ...pollerTries(fault), operation: 'ReceiveMessage' },
              // Before its effect a receive names nothing, and the message is there already.
              ...(fault.kind.endsWith('after') ? { naming: deliveryId } : {}),
            }),
          point: { point: 'handler' },
        }),
      ),
  },
  {
    name: 'signing secret',
    points: killedAt('fetch-signing-secret'),
    promises: ['P1', 'P5'],
    bounds: all('invited again', {
      'error after': { noSense: 'it only reads: an answer that is lost is an error without effect' },
      'reset after': { noSense: 'it only reads: an answer that is lost is a reset without effect' },
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
    points: killedAt('open'),
    promises: ['P5', 'P6', 'P9'],
    // Tries that time out may use up the run's time; the message then waits, and the calendar does not.
    bounds: all('invited again', {
      'error before': 'at once',
      'error after': 'at once',
      'reset before': 'at once',
      'reset after': 'at once',
      'run twice': 'at once',
      'time-out with effect': 'attempt recovered',
      'kill after': 'attempt recovered',
    }),
    fast: 'slow past the lease',
    run: (cell, kind) =>
      nearLife(cell, (one) => atStatement(cell, kind, open, { functionName: 'webhook-sender', ...named(one) })),
  },
  {
    name: 'POST',
    points: { 'slow past the lease': 'write', 'kill before': 'dial', 'kill after': 'headers' },
    promises: ['P5', 'P6', 'P7', 'P8', 'P12'],
    bounds: all('sent again', {
      'reset before': { noSense: 'a network tells its errors by resets: the error before is one' },
      'reset after': { noSense: 'a network tells its errors by resets: the error after is one' },
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
    points: killedAt('settle'),
    promises: ['P3', 'P4', 'P8'],
    bounds: all('at once', { 'kill before': 'attempt recovered' }),
    fast: 'time-out without effect',
    run: (cell, kind) =>
      nearLife(cell, (one) => atStatement(cell, kind, settle, { functionName: 'webhook-sender', ...named(one) })),
  },
  {
    name: 'delete',
    points: {},
    promises: ['P3', 'P12'],
    bounds: all('at once', {
      'kill before': { noSense: 'the poller is AWS’s: its death is a delete that does not happen, the error before' },
      'kill after': { noSense: 'the poller is AWS’s, and has nothing more to do afterwards' },
    }),
    fast: 'error after',
    async run(cell, kind) {
      // No longer than a sender may take: what is not deleted comes again soon.
      const visibleAfter = cell.settings.senderTimeoutSeconds + 3;
      const reminder = await inOwnQueue(cell, visibleAfter, ({ faults }) =>
        strike(cell, kind, {
          front: (fault) => cell.fault(faults, { ...fault, ...pollerTries(fault), operation: 'DeleteMessageBatch' }),
          point: { point: 'handler' },
        }),
      );
      await cell.untilExercised();
      // And must be taken for what it is.
      if (/^(error before|reset before|time-out without effect)$/.test(kind)) await cell.untilRefused(reminder, 1);
    },
  },
];

/**
 * A reminder whose message is in a queue of its own, with a poller of its own: of those that all share nobody knows whose
 * message a call brings, and another drill may purge it. Answers when it is polled.
 */
async function inOwnQueue(
  cell: Cell,
  visibilityTimeoutSeconds: number,
  planFault: (queue: Queue, reminder: Reminder) => void,
): Promise<Reminder> {
  const { aws } = cell.stage;
  const reminder = await nearLife(cell, (one) => cell.fault(aws.queue.faults, { kind: 'lose', match: about(one) }));
  await cell.untilState(reminder, 'queued');
  await untilDue(reminder);
  const queue = await startQueue({ ...cell.settings, visibilityTimeoutSeconds });
  await cell.stage.sendMessages([bodyOf(reminder.deliveryId)], queue);
  planFault(queue, reminder);
  const sender = { host: aws.host, functionName: 'webhook-sender', qualifier: 'invitations' };
  const poller = startEventSourceMapping({ ...sender, queue, batchSize: 1, maximumConcurrency: 1 });
  cell.atEnd(async () => {
    await poller.stop();
    await queue.stop();
  });
  return reminder;
}

/** The poller's client tries a call three times. */
const pollerTries = ({ kind }: PlannedKind) => (kind === 'twice' ? {} : { times: 3 });

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
