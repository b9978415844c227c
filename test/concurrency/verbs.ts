// Every writing verb as one command on all reminders of the cast, so that any two of them can be played against each other.

import type { DecisionVerb } from '../../lambdas/core/decisions.ts';
import type { OutcomeKind } from '../../lambdas/core/ports.ts';
import type { Recovery } from '../../lambdas/core/recoveries.ts';
import { postgresControl } from '../../lambdas/store/control.ts';
import { postgresDecisions } from '../../lambdas/store/decisions.ts';
import { postgresRecoveries } from '../../lambdas/store/recoveries.ts';
import { archive } from '../../lambdas/store/statements/archive.ts';
import { readmit } from '../../lambdas/store/statements/readmit.ts';
import { as, asRead } from '../ledger/long-finished.ts';
import { worker } from '../ledger/test-ledger.ts';
import {
  attemptsOf,
  type Contender,
  claimToken,
  idOf,
  ids,
  inSeconds,
  names,
  openToken,
  producer,
  sent,
} from './contenders.ts';

/** Runs a verb under a token. Answers what the ledger answered. */
export type Play = (contender: Contender, token: string) => Promise<unknown>;

/** Who has the status of the first attempt of each, and settles it. */
const settle =
  (outcome: OutcomeKind): Play =>
  ({ ledger }, token) =>
    ledger.settle({
      token,
      outcomes: sent.map((deliveryId) => ({
        ...{ deliveryId, attemptNo: 1, openToken: openToken(1), outcome, phase: 'headers', status: null },
        ...{ errorClass: outcome, detail: null, latencyMs: 1, retryAfterSeconds: null },
      })),
    });

/** A person decides about all that was seen before anything happened to it. */
const decision =
  (verb: DecisionVerb, evidence: string | null = 'the receiver says'): Play =>
  ({ runner }, token) =>
    postgresDecisions(runner).decide({
      ...{ token, verb, actor: 'me', reason: 'looked', ticket: null, evidence, dryRun: false },
      reminders: names.map((name) => ({ deliveryId: idOf(name), versionSeen: 1, attemptsSeen: attemptsOf(name) })),
    });

/** A person makes go on what was seen before anything happened to it. A redrive has seen nothing. */
const recovery =
  (verb: Recovery['verb']): Play =>
  ({ runner }, token) =>
    postgresRecoveries(runner).recover({
      ...{ token, verb, actor: 'me', reason: 'looked', ticket: null, evidence: 'the receiver says', dryRun: false },
      reminders: names.map((name) => ({
        deliveryId: idOf(name),
        versionSeen: verb === 'redrive' ? null : 1,
        attemptsSeen: verb === 'redrive' ? null : attemptsOf(name),
      })),
    });

/** By the statement's name; a statement with several ways to go has one name a way. */
export const plays: Readonly<Record<string, Play>> = {
  schedule: ({ ledger }, token) =>
    ledger.schedule({
      ...{ token, producer },
      reminders: [...names, 'a new one'].map((key, place) => ({
        ...{ deliveryId: `${token.slice(0, -4)}${String(place).padStart(4, '0')}`, key, destination: 'to' },
        ...{ userId: 'user-1', dueAt: '2040-01-01T00:00:00.000Z', expiresAt: null, payload: '{}' },
      })),
    }),
  cancel: ({ ledger }, token) =>
    ledger.cancel({ token, producer, reminders: ids.map((deliveryId) => ({ deliveryId })) }),
  reschedule: ({ ledger }, token) =>
    ledger.reschedule({
      ...{ token, producer },
      reminders: names.map((key) => ({ name: { key }, dueAt: inSeconds(100).toISOString() })),
    }),
  claim: ({ ledger }, token) => ledger.claim({ token, worker, limit: 50, lowWater: null }),
  'claim-by-id': ({ ledger }, token) => ledger.claimById({ token, worker, deliveryIds: ids }),
  enqueue: ({ ledger }, token) =>
    ledger.enqueue({
      claimToken,
      receipts: ids.map((deliveryId) => ({
        ...{ deliveryId, messageId: `${token} ${deliveryId}`, queue: 'invitations', delaySeconds: 0 },
      })),
    }),
  release: ({ ledger }, token) => ledger.release({ token, claimToken, deliveryIds: ids }),
  unpark: ({ ledger }, token) => ledger.unpark({ token, limit: 50 }),
  open: ({ ledger }, token) => ledger.open({ token, worker, deliveryIds: ids, alone: true }),
  'settle delivered': settle('delivered'),
  'settle retry': settle('retry'),
  'settle permanent': settle('permanent'),
  'settle unknown': settle('unknown'),
  'decide hold': decision('hold'),
  'decide release': decision('release'),
  'decide requeue': decision('requeue'),
  'decide requeue unproven': decision('requeue', null),
  'decide resolve': decision('resolve'),
  'decide review': decision('review'),
  'decide cancel': decision('cancel'),
  'reclaim silent': recovery('reclaim'),
  'reclaim lost': recovery('republish'),
  'reclaim dead letters': recovery('redrive'),
  archive: async ({ runner }) =>
    runner.run(archive, { reminders: await asRead(runner, ...ids.map((deliveryId) => as({ deliveryId }))) }),
  'control pause': ({ runner }, token) =>
    postgresControl(runner).control({
      ...{ token, verb: 'pause', destination: null, actor: 'me', reason: 'trouble', ticket: null, dryRun: false },
      seen: { state: 'active', since: null },
    }),
  exclude: ({ ledger }, token) =>
    ledger.exclude({ token, deliveryId: idOf('queued'), sqlState: '23514', reason: 'it fails' }),
  readmit: ({ runner }, token) =>
    runner.run(readmit, { token, deliveryId: idOf('queued'), actor: 'me', reason: 'mended', ticket: null }),
};

/** Statements that write and touch no reminder, nor what decides about one. */
export const apart = ['add-destination', 'announce', 'set-aside'];

/** What operators do by hand. */
export const byHand: Readonly<Record<string, Play>> = {
  'pause destination': ({ sql }) => sql(`UPDATE destination SET state = 'paused'`).then(() => undefined),
};
