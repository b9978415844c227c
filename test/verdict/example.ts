// The reminder that docs/operators.md explains: a sender fell silent, and the second invitation was lost.

import { verdict } from '../../lambdas/core/verdict.ts';
import { type Explanation, explain } from '../../lambdas/core/verdict-text.ts';
import { attemptOf, evidenceOf, later, now, settings } from './cells.ts';

const first = attemptOf(1, 'unknown');
const receipt = (messageId: string, at: number) => ({
  at: later(at),
  messageId,
  queue: 'invitations',
  visibleFrom: later(at + 60),
});

const evidence = evidenceOf(
  { state: 'queued', lease: 'none', attempt: 'unknown', trace: 'queue', dispatch: 'open', time: 'late', cancel: 'no' },
  {
    ...{
      dueAt: later(-1801),
      nextAttemptAt: later(-900),
      wakeAt: later(-45),
      deadLetter: 'not_looked',
      stateSince: later(-960),
      createdAt: later(-90_000),
    },
    ...{ firstInvitedAt: later(-960), invitations: 2, lastError: 'lease_expired: may have been processed' },
    handoffs: [
      receipt('5e0b9c1c-8f0e-4a5d-9d0a-3f6a2c1b7e44', -1861),
      receipt('c0a1f7f2-3f86-4be1-8a52-6a9e0d6f1b20', -960),
    ],
    attempts: [
      {
        ...first,
        worker: {
          functionVersion: '7',
          requestId: '8f507cfc-xmpl-4697-b07a-ac58fc914c95',
          logStream: '2026/12/03/[7]4b2f9d6c1e0a',
        },
        outcomes: first.outcomes.map((outcome) => ({
          ...outcome,
          at: later(-1700),
          phase: null,
          latencyMs: null,
          movedTo: 'scheduled',
        })),
      },
    ],
  },
);

export const example: Explanation = explain(evidence, verdict(evidence, now, settings), {
  region: 'eu-central-1',
  logGroup: '/aws/lambda/sender',
});
