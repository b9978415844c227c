// What a seed decides before anything happens: how much goes wrong, of which kinds, and the numbers of the stage.
import { type Settings, settingsOf } from '../../lambdas/core/settings.ts';
import type { Chance } from './chance.ts';

/** The kinds of trouble. Each run has some of them, so that none hides behind another. */
export const troubles = [
  'notRun',
  'answerLost',
  'runTwice',
  'failedAfter',
  'late',
  'slow',
  'killed',
  'frozen',
  'zombie',
  'timeoutOff',
  'outlived',
  'heldBack',
  'pastVisibility',
  'skew',
  'tickLost',
  'tickTwice',
  'entryRefused',
  'entryOmitted',
  'messageLost',
  'messageTwice',
  'deleteLost',
  'throttled',
  'purge',
  'redrive',
  'pollerOff',
  'retry',
  'retryAfter',
  'permanent',
  'gone',
  'refusedDial',
  'noAnswer',
  'slowAnswer',
  'keysMissing',
  'gatePaused',
  'destinationOff',
  'registeredTwice',
  'unregistered',
  'damaged',
  'busRefuses',
  'productRepeats',
  'productChanges',
  'changedWhileSent',
  'changedAfterEnd',
  'provoked',
  'decided',
  'recovered',
  'lookedAtDead',
] as const;
export type Trouble = (typeof troubles)[number];

export interface Weather {
  readonly settings: Settings;
  /** How long things go wrong, virtual milliseconds. */
  readonly troubledMs: number;
  readonly reminders: number;
  readonly destinations: number;
  /** Before the troubles some reminders lived and ended, and so many days passed; 0: they did not. */
  readonly pastDays: number;
  /** How long what is finished stays, days. */
  readonly retentionDays: number;
  readonly sendBatchSize: number;
  /** 0: never. */
  readonly odds: Readonly<Record<Trouble, number>>;
}

/** How often a trouble strikes where it does: most by chance of all, these so that life goes on, or that a row lives long. */
const strength: Partial<Record<Trouble, readonly [number, ...number[]]>> = {
  ...{ frozen: [0.02, 0.06, 0.15], killed: [0.02, 0.06, 0.15], late: [0.05, 0.15, 0.4] },
  ...{ permanent: [0.01, 0.05], gone: [0.01, 0.05], purge: [0.02, 0.1] },
  ...{ gatePaused: [0.02, 0.06], destinationOff: [0.02, 0.06], pollerOff: [0.01, 0.04], throttled: [0.05, 0.2] },
  ...{ provoked: [0.05, 0.15, 0.3], keysMissing: [0.05, 0.2] },
  ...{ changedWhileSent: [0.1, 0.3], changedAfterEnd: [0.05, 0.15], outlived: [0.1, 0.3], heldBack: [0.1, 0.3] },
  ...{ pastVisibility: [0.05, 0.15], damaged: [0.1, 0.3], decided: [0.1, 0.3] },
  ...{ recovered: [0.2, 0.6], lookedAtDead: [0.1, 0.3] },
  ...{ retry: [0.3, 0.6, 0.9], noAnswer: [0.1, 0.3, 0.6], slowAnswer: [0.1, 0.3, 0.6] },
};
const often: readonly Trouble[] = [
  ...(['frozen', 'killed', 'late', 'retry', 'noAnswer', 'slowAnswer', 'provoked'] as const),
  ...(['changedWhileSent', 'outlived', 'heldBack'] as const),
];

/** Draws the weather of a run. Each part from a stream of its own, by its name. Batches and limits are small at times, so that few reminders reach them. */
export function drawWeather(of: (concern: string) => Chance, stage: 'production' | 'rehearsal'): Weather {
  const base = settingsOf(stage);
  const calm = of('calm').happens(0.04);
  const odds = Object.fromEntries(
    troubles.map((trouble) => {
      const chance = of(trouble);
      const on = !calm && chance.happens(often.includes(trouble) ? 0.65 : 0.35);
      return [trouble, on ? chance.pick(strength[trouble] ?? [0.05, 0.2, 0.5]) : 0];
    }),
  ) as Record<Trouble, number>;
  return {
    settings: {
      ...base,
      claimBatchSize: of('claim batch').pick([2, 4, 500]),
      senderBatchSize: of('sender batch').pick([1, 3, 10]),
      senderConcurrency: of('senders').pick([2, 4, 10]),
      maxFailures: of('failures').pick([2, 5, 12]),
      attemptHardCap: of('hard cap').pick([3, 6, 30]),
    },
    troubledMs: of('span').between(6, 20) * base.allowanceSeconds * 1000,
    reminders: of('reminders').integer(3, 12),
    destinations: of('destinations').integer(1, 4),
    pastDays: of('past').happens(0.35) ? of('past').between(31, 90) : 0,
    retentionDays: of('retention').pick([30, 60]),
    sendBatchSize: of('send batch').pick([2, 10]),
    odds,
  };
}
