// What a seed decides before anything happens: how much goes wrong, of which kinds, and the numbers of the stage.
import { type Settings, settingsOf } from '../../lambdas/core/settings.ts';
import type { Chance } from './chance.ts';

/** The kinds of trouble. Each run has some of them, so that none hides behind another. */
export const troubles = [
  'notRun',
  'answerLost',
  'runTwice',
  'late',
  'slow',
  'killed',
  'frozen',
  'zombie',
  'timeoutOff',
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
  'busRefuses',
  'productRepeats',
  'productChanges',
  'provoked',
] as const;
export type Trouble = (typeof troubles)[number];

export interface Weather {
  readonly settings: Settings;
  /** How long things go wrong, virtual milliseconds. */
  readonly troubledMs: number;
  readonly reminders: number;
  readonly destinations: number;
  readonly sendBatchSize: number;
  /** 0: never. */
  readonly odds: Readonly<Record<Trouble, number>>;
}

/** What must not happen at nearly every step, or nothing would go on. */
const rarely: readonly Trouble[] = ['killed', 'frozen', 'permanent', 'gone', 'purge', 'gatePaused', 'destinationOff'];

/** Draws the weather of a run. Batches and limits are small at times, so that few reminders reach them. */
export function drawWeather(chance: Chance, stage: 'production' | 'rehearsal'): Weather {
  const base = settingsOf(stage);
  const calm = chance.happens(0.04);
  const odds = Object.fromEntries(
    troubles.map((trouble) => {
      const odd = chance.pick(rarely.includes(trouble) ? [0.01, 0.03, 0.08] : [0.02, 0.08, 0.25, 0.5]);
      return [trouble, calm || chance.happens(0.5) ? 0 : odd];
    }),
  ) as Record<Trouble, number>;
  return {
    settings: {
      ...base,
      claimBatchSize: chance.pick([2, 4, 500]),
      senderBatchSize: chance.pick([1, 3, 10]),
      senderConcurrency: chance.pick([2, 4, 10]),
      maxFailures: chance.pick([2, 5, 12]),
      attemptHardCap: chance.pick([3, 6, 30]),
    },
    troubledMs: chance.between(3, 12) * base.allowanceSeconds * 1000,
    reminders: chance.integer(3, 12),
    destinations: chance.integer(1, 4),
    sendBatchSize: chance.pick([2, 10]),
    odds,
  };
}
