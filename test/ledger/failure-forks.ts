// Every way on from a failed or silent attempt: under which conditions, and to which state.
import type { Decision } from '../../lambdas/core/decisions.ts';
import type { DeliveryState } from '../../lambdas/core/delivery-states.ts';
import type { Outcome, Reschedule } from '../../lambdas/core/ports.ts';
import type { Settings } from '../../lambdas/core/settings.ts';
import { type Circumstances, inSeconds } from './situations.ts';

/** The circumstances of the row and what the command says beyond naming it. */
export interface Conditions extends Circumstances {
  readonly outcome?: Partial<Outcome>;
  readonly reschedule?: Partial<Omit<Reschedule, 'dueAt'>> & { readonly newDueIn?: number };
  readonly decision?: Partial<Pick<Decision, 'evidence' | 'dryRun' | 'expiresAt'>> & {
    readonly versionSeen?: number;
    readonly attemptsSeen?: number;
  };
  readonly claimToken?: string;
  readonly producer?: string;
  /** The stage's numbers, where a choice needs others. */
  readonly settings?: Partial<Settings>;
}

/** One way a cell with several states can go. */
export interface Fork {
  readonly because: string;
  readonly to: DeliveryState;
  readonly under: Conditions;
}

const cancelAsked = { columns: { cancel_requested_at: inSeconds(-5) } };
/** Pauses so long that no attempt can land before an expiry half a minute away. */
const longPauses = { retryBaseSeconds: 1e9, retryCapSeconds: 1e9 };
const exhausted = { attempts: 12, columns: { failures: 11 } };

/** Every way on from an attempt whose sender fell silent, in the order of the rules. */
export const afterUnknown: readonly Fork[] = [
  { because: 'the contract honours the key', to: 'scheduled', under: {} },
  {
    because: 'the contract is a status look-up, which a person does',
    to: 'held',
    under: { destination: { contract: 'status-lookup' } },
  },
  { because: 'the contract promises nothing', to: 'held', under: { destination: { contract: 'none' } } },
  { because: 'a cancel was asked', to: 'cancelled', under: { ...cancelAsked, destination: { contract: 'none' } } },
  { because: 'the hard cap of attempts is reached', to: 'dead', under: { attempts: 30 } },
  {
    because: 'attempts before a requeue do not count',
    to: 'scheduled',
    under: { attempts: 30, columns: { attempts_at_requeue: 1 } },
  },
  { because: 'it was the last failure the policy bears', to: 'dead', under: exhausted },
  {
    because: "the destination's own policy bears no failure",
    to: 'dead',
    under: { destination: { policy: { maxFailures: 1 } } },
  },
];
/** The same, once its expiry has passed. */
export const afterTimeIsOver: readonly Fork[] = [
  {
    because: 'its time is over',
    to: 'expired',
    under: { dueIn: -60, expiresIn: -1, destination: { contract: 'none' } },
  },
  { because: 'a cancel was asked before that', to: 'cancelled', under: { ...cancelAsked, dueIn: -60, expiresIn: -1 } },
];
/** The same, when its expiry is near. */
export const beforeItsTimeIsOver: readonly Fork[] = [
  { because: 'no attempt can land before its expiry', to: 'expired', under: { expiresIn: 30, settings: longPauses } },
];

/** What a sender settles after a failure. */
export const failed = (outcome: Partial<Outcome>): Conditions => ({
  outcome: { outcome: 'retry', phase: 'headers', status: 503, errorClass: 'http_503', ...outcome },
});

/** Every way on from a failure that is known. */
export const afterFailure: readonly Fork[] = [
  { because: 'a failure worth another try', to: 'scheduled', under: {} },
  { because: 'a fault of ours', to: 'scheduled', under: { ...failed({ outcome: 'not_sent' }), ...exhausted } },
  { because: 'a permanent failure', to: 'dead', under: failed({ outcome: 'permanent' }) },
  { because: 'the destination is gone', to: 'dead', under: failed({ outcome: 'gone' }) },
  {
    because: 'a permanent failure past its expiry',
    to: 'dead',
    under: { ...failed({ outcome: 'permanent' }), dueIn: -60, expiresIn: -1 },
  },
  {
    because: 'a permanent failure of what was called off',
    to: 'cancelled',
    under: { ...failed({ outcome: 'permanent' }), ...cancelAsked },
  },
  {
    because: 'a definite failure where nothing is promised',
    to: 'scheduled',
    under: { destination: { contract: 'none' } },
  },
  {
    because: 'no attempt within the pause asked can land',
    to: 'expired',
    under: { ...failed({ retryAfterSeconds: 3600 }), expiresIn: 600 },
  },
  ...[...afterUnknown, ...afterTimeIsOver].map((fork) => ({
    ...fork,
    because: `unknown: ${fork.because}`,
    under: { ...failed({ outcome: 'unknown', errorClass: 'deadline' }), ...fork.under },
  })),
  ...[...afterUnknown, ...afterTimeIsOver]
    .filter(({ to }) => to !== 'held')
    .map((fork) => ({ ...fork, because: `known: ${fork.because}` })),
];
