// The matrix: each call to the outside under each kind of fault, from lists of both; a pair that makes no sense says why.
import type { FaultPoint } from '../../lambdas/core/fault-points.ts';
import type { Drill } from './drill.ts';
import { type Call, type Kind, kinds } from './kinds.ts';
import { productCalls } from './product-calls.ts';
import { senderCalls } from './sender-calls.ts';
import { tickCalls } from './tick-calls.ts';

export const calls: readonly Call[] = [...productCalls, ...tickCalls, ...senderCalls];

/** Pairs that make no sense, with the reason. */
export const leftOut: readonly { readonly name: string; readonly reason: string }[] = calls.flatMap(
  ({ name, bounds }) =>
    (Object.keys(kinds) as Kind[]).flatMap((kind) => {
      const bound = bounds[kind];
      return typeof bound === 'string' ? [] : [{ name: `${name}: ${kind}`, reason: bound.noSense }];
    }),
);

/** Fault points at which no drill stops a process, with the reason. */
export const notDrilled: Readonly<Partial<Record<FaultPoint, string>>> = {
  get: 'it only reads, and its product asks again',
  'list-due': 'it only reads: killed there, the tick has done no more than before it',
  unannounced: 'it only reads: what is killed there is killed before put-events',
  'observe-calendar': 'it only reads; that nothing is published is an alarm',
  'observe-destinations': 'it only reads; that nothing is published is an alarm',
  'observe-outcomes': 'it only reads; that nothing is published is an alarm',
  'list-finished-producers': 'it only reads: what is killed there is killed before put-archive',
  'list-archivable': 'it only reads: what is killed there is killed before put-archive',
  'count-states': 'it only reads, for a person',
  'list-attention': 'it only reads, for a person',
  'show-evidence': 'it only reads, for a person',
  'count-affected': 'it only reads, for a person',
  find: 'it only reads, for a person',
  forecast: 'it only reads, for a person',
  'list-exclusions': 'it only reads, for a person',
  'list-destinations': 'it only reads, for a person',
  'list-actions': 'it only reads, for a person',
  control: 'it touches no reminder, and the same command again answers the same',
  decide: 'no reminder needs it: its lost answer is sent for again in test/functions/operate.test.ts',
  reclaim: 'no reminder needs it: the claim does the same by itself, in time',
  'set-aside': 'it is about messages that no reminder is known of, and run again it keeps the same once',
  'list-handoffs': 'it only reads, for a person',
  'list-poison': 'it only reads, for a person',
  'receive-dead-letters': 'it only reads: what it hid is shown again in less than a minute',
  'put-back-dead-letters': 'what it misses is shown again in less than a minute',
  'delete-dead-letters': 'no reminder needs it: test/functions/redrive.test.ts kills it there',
  'get-queue-attributes': 'it only reads',
  forget: 'it deletes what nothing needs any more, and the next run deletes the rest',
  'add-destination': 'only the canary needs it: the next one registers it again',
  'invoke-schedule': 'only the canary needs it: the next one is sent all the same',
  'describe-secret': 'it only reads: what is killed there is killed before put-secret-value',
  'begin-transaction': 'nothing of it stands before commit-transaction',
  'commit-transaction': 'no reminder needs migrate: test/functions/deployments.test.ts kills it there',
  'get-secret-value': 'no reminder needs migrate: test/functions/deployments.test.ts kills it there',
  execute: 'no reminder needs a rotation: test/functions/rotation.test.ts kills it there',
  'put-secret-value': 'no reminder needs a rotation: test/functions/rotation.test.ts kills it there',
  'update-secret-version-stage': 'no reminder needs a rotation: test/functions/rotation.test.ts kills it there',
};

export const matrix: readonly Drill[] = calls.flatMap((call) =>
  (Object.keys(kinds) as Kind[]).flatMap((kind): Drill[] => {
    const bound = call.bounds[kind];
    if (typeof bound !== 'string') return [];
    return [
      {
        name: `${call.name}: ${kind}`,
        rehearses: `The call "${call.name}" ${kinds[kind].what}.`,
        endsIn: call.endsIn ?? ['delivered'],
        bound,
        promises: call.promises,
        points: [call.points[kind] ?? []].flat(),
        fast: call.fast === kind,
        ...(call.until === undefined ? {} : { until: call.until }),
        run: (cell) => call.run(cell, kind),
      },
    ];
  }),
);
