// The matrix: each call to the outside under each kind of fault, from two lists; a pair that makes no sense says why.
import { calls } from './calls.ts';
import type { Drill } from './drill.ts';
import { type Kind, kinds } from './kinds.ts';

/** Pairs that make no sense, with the reason. */
export const leftOut: readonly { readonly name: string; readonly reason: string }[] = calls.flatMap(
  ({ name, bounds }) =>
    (Object.keys(kinds) as Kind[]).flatMap((kind) => {
      const bound = bounds[kind];
      return typeof bound === 'string' ? [] : [{ name: `${name}: ${kind}`, reason: bound.noSense }];
    }),
);

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
        fast: call.fast === kind,
        ...(call.until === undefined ? {} : { until: call.until }),
        run: (cell) => call.run(cell, kind),
      },
    ];
  }),
);
