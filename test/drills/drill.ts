// What a drill is: a fault at one boundary, the states it must end in, and the time it may take, added up from settings.
import { type Settings, settingsOf } from '../../lambdas/core/settings.ts';
import type { Cell } from './cell.ts';

/** One rehearsal. */
export interface Drill {
  readonly name: string;
  /** What it rehearses, in a sentence for somebody who did not write it. */
  readonly rehearses: string;
  readonly endsIn: readonly string[];
  readonly bound: BoundName;
  /** What the bound is measured to. @default state: when the reminder reached its last state */
  readonly until?: 'state' | 'announced' | 'archived';
  /** The fault points at which it stops a process: one that stops another, or not each of these, fails. @default none */
  readonly points?: readonly string[];
  /** The promises that the fault puts at stake; all are checked in every drill. */
  readonly promises: readonly string[];
  /** It belongs to the fast subset. @default false */
  readonly fast?: boolean;
  /** How wrong the wall clock of every function is. It then runs on a local AWS of its own. @default 0 */
  readonly clockSkewMs?: number;
  /** Lives the reminder's life and plans the fault. What follows (end, bound, promises) is the same for all. */
  readonly run: (cell: Cell) => Promise<unknown>;
}

/** Part of a bound. */
export interface Term {
  readonly what: string;
  readonly seconds: number;
}

/** How a fault is overcome, with the parts that its time is made of. Counted from the due time or the last fault, the later. */
const bounds = {
  'at once': ({ sender }: Terms) => [sender],
  'the product asks again': ({ asks, tick, claim, sender }: Terms) => [asks, tick, claim, sender],
  'next tick': ({ pause, tick, claim, sender }: Terms) => [pause, tick, claim, sender],
  'invited again': ({ allowance, tick, claim, sender }: Terms) => [allowance, tick, claim, sender],
  'sent again': ({ retry, tick, claim, sender }: Terms) => [sender, retry, tick, claim, sender],
  'attempt recovered': ({ allowance, tick, claim, retry, sender }: Terms) => [
    ...[allowance, tick, claim],
    ...[retry, tick, claim, sender],
  ],
  announced: ({ sender, tick, claim }: Terms) => [sender, tick, claim, tick, claim],
  'a person asks again': ({ person, tick, claim, sender }: Terms) => [person, tick, claim, sender],
  'a person mends it': ({ person, tick, claim, sender }: Terms) => [tick, claim, person, tick, claim, sender],
  'archived by the next run': ({ archive }: Terms) => [archive],
} as const;
export type BoundName = keyof typeof bounds;

const personal = settingsOf('production');

type Terms = ReturnType<typeof termsOf>;

function termsOf(s: Settings) {
  return {
    sender: { what: "a sender's run", seconds: s.senderTimeoutSeconds },
    // A tick falls anywhere in its period: two neighbours are at most two periods apart.
    tick: { what: 'to the next tick', seconds: s.tickSeconds + s.tickPrecisionSeconds },
    claim: { what: "a claim's run", seconds: s.claimTimeoutSeconds },
    allowance: { what: 'allowance', seconds: s.allowanceSeconds },
    pause: { what: 'pause after a refusal', seconds: s.releaseBaseSeconds },
    retry: { what: 'retry', seconds: Math.min(2 * s.retryBaseSeconds, s.retryCapSeconds) },
    asks: { what: "a product's call", seconds: s.scheduleTimeoutSeconds },
    // The command line has the patience of production.
    person: { what: 'a command by hand', seconds: (personal.dataApiTries * personal.dataApiTimeoutMs) / 1000 },
    archive: { what: "retention's next run", seconds: (4 * s.dataApiTries * s.dataApiTimeoutMs) / 1000 },
  } satisfies Record<string, Term>;
}

/** What cold starts, polls and other drills on the same machine may add, in seconds. */
const machineSeconds = 5;

/** The parts of a bound, in order. */
export function boundTerms(name: BoundName, settings: Settings): readonly Term[] {
  return [...bounds[name](termsOf(settings)), { what: 'this machine', seconds: machineSeconds }];
}

/** A bound in seconds. */
export const boundSeconds = (name: BoundName, settings: Settings): number =>
  boundTerms(name, settings).reduce((sum, { seconds }) => sum + seconds, 0);

/** The sum as a person reads it: `13 allowance + 6 to the next tick = 19 s`. */
export const boundText = (name: BoundName, settings: Settings): string =>
  `${boundTerms(name, settings)
    .map(({ what, seconds }) => `${seconds} ${what}`)
    .join(' + ')} = ${boundSeconds(name, settings)} s`;
