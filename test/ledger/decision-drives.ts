// How to run what people decide on one reminder: when it applies, and every reason why it does not.
import type { DecisionVerb } from '../../lambdas/core/decisions.ts';
import { type Cell, type Situation, situations } from '../../lambdas/core/delivery-states.ts';
import { decide } from '../../lambdas/store/statements/decide.ts';
import type { Conditions } from './failure-forks.ts';
import { inSeconds } from './situations.ts';
import type { Drive, Otherwise } from './statement-drives.ts';

const stays = (answer: string): Cell => ({ to: [], answer });
const at = (cell: Cell, ...where: Situation[]) => Object.fromEntries(where.map((situation) => [situation, cell]));
const sending: Situation[] = ['delivering, lease live', 'delivering, lease past'];
const finished: Situation[] = ['delivered', 'dead', 'expired', 'cancelled'];
const archived: Conditions = { columns: { payload: null, archived_at: inSeconds(-1) } };

/** The situations in which the verb does something: where a stale screen is refused. */
function stale(...where: Situation[]): Otherwise[] {
  const cells = at(stays('stale'), ...where);
  return [
    { because: 'it was changed since it was seen', under: { decision: { versionSeen: 2 } }, cells },
    { because: 'it was tried since it was seen', under: { decision: { attemptsSeen: 7 } }, cells },
  ];
}

const expiryPassed = (...where: Situation[]): Otherwise => ({
  because: 'its time is over',
  under: { dueIn: -60, expiresIn: -1 },
  cells: at(stays('expiry_passed'), ...where),
});

const isArchived = (answer: string, ...where: Situation[]): Otherwise => ({
  because: 'it is archived',
  under: (situation) => (finished.includes(situation) ? archived : {}),
  cells: at(stays(answer), ...where),
});

function drive(verb: DecisionVerb, rest: Pick<Drive, 'otherwise' | 'marks'>, due: Conditions = {}): Drive {
  return {
    statement: decide,
    due,
    ...rest,
    async run({ database, token, row, under }) {
      const { versionSeen = 1, attemptsSeen = row.attempts, ...decision } = { ...due.decision, ...under.decision };
      const rows = await database.run(decide, {
        ...{ token, verb, actor: 'arn:aws:iam::111122223333:role/duty', reason: 'a person looked', ticket: 'T-1' },
        ...{ evidence: null, dryRun: false, ...decision },
        reminders: [{ item: 0, deliveryId: row.deliveryId, versionSeen, attemptsSeen }],
      });
      return { answer: String(rows[0]?.answer), rows };
    },
  };
}

/** For verbs that send nothing: the cells hold as they are. */
const over: Otherwise = { because: 'its time is over', under: { dueIn: -60, expiresIn: -1 }, cells: {} };

const dry = (cells: Otherwise['cells']): Otherwise => ({
  because: 'it is a dry run',
  under: { decision: { dryRun: true } },
  cells,
});

const holdable: Situation[] = ['scheduled', 'dispatching', 'queued', 'dead'];
const open: Situation[] = ['shadow', 'held', 'scheduled', 'dispatching', 'queued', 'dead'];
const undelivered = situations.filter((one) => one !== 'delivered' && !sending.includes(one));
const wish = ['cancel_requested_at'];
const answered = { decision: { evidence: 'the receiver answered: not seen' } };

/** Why a reminder does not go back to the calendar, and what does not keep it from that. */
const back = (done: string, where: Situation): Otherwise[] => [
  ...stale(where),
  expiryPassed(where),
  dry(at(stays(done), where)),
  { because: 'it is due later', under: { dueIn: 600 }, cells: {} },
  {
    because: 'its time is over and it is given more',
    under: { dueIn: -60, expiresIn: -1, decision: { expiresAt: inSeconds(3600).toISOString() } },
    cells: {},
  },
  {
    because: 'its time is over and it is given none that ends it',
    under: { dueIn: -60, expiresIn: -1, decision: { expiresAt: null } },
    cells: {},
  },
  {
    because: 'the expiry that it is given has passed',
    under: { decision: { expiresAt: inSeconds(-1).toISOString() } },
    cells: at(stays('expiry_passed'), where),
  },
  {
    because: 'an attempt may have been received',
    under: { attempts: 1 },
    cells: at(stays('evidence_needed'), where),
  },
  {
    because: 'an attempt may have been received, and there is evidence',
    under: { attempts: 1, ...answered },
    cells: {},
  },
];

export const decisionDrives = {
  hold: drive('hold', {
    otherwise: [
      ...stale(...holdable),
      expiryPassed(...holdable),
      {
        because: 'its time is over, whatever expiry is named: a hold gives none',
        under: { dueIn: -60, expiresIn: -1, decision: { expiresAt: null } },
        cells: at(stays('expiry_passed'), ...holdable),
      },
      isArchived('archived', 'dead'),
      dry(at(stays('held'), ...holdable)),
    ],
  }),
  requeue: drive('requeue', { otherwise: [isArchived('archived', 'dead'), ...back('requeued', 'dead')] }),
  releaseHeld: drive('release', { otherwise: back('released', 'held') }),
  resolve: drive(
    'resolve',
    {
      otherwise: [
        ...stale(...undelivered),
        dry(at(stays('resolved'), ...undelivered)),
        isArchived('finished', 'delivered'),
        over,
        {
          because: 'no evidence is given',
          under: { decision: { evidence: null } },
          cells: at(stays('evidence_needed'), ...undelivered),
        },
      ],
    },
    answered,
  ),
  review: drive('review', {
    otherwise: [over, ...stale('held', 'dead'), dry(at(stays('reviewed'), 'held', 'dead'))],
    marks: { held: ['reviewed_at', 'unreviewed_since'], dead: ['reviewed_at', 'unreviewed_since'] },
  }),
  cancelByOperator: drive('cancel', {
    otherwise: [
      ...stale(...open, ...sending),
      isArchived('archived', 'dead'),
      over,
      dry(at(stays('cancelled'), ...open)),
    ],
    marks: Object.fromEntries(sending.map((situation) => [situation, wish])),
  }),
} as const;
