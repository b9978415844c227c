// How to run what makes a reminder go on, on one reminder: when it applies, and every reason why it does not.
import type { Cell, Situation } from '../../lambdas/core/delivery-states.ts';
import type { Recovery } from '../../lambdas/core/recoveries.ts';
import { reclaim } from '../../lambdas/store/statements/reclaim.ts';
import { decisionDrives } from './decision-drives.ts';
import type { Conditions } from './failure-forks.ts';
import { inSeconds } from './situations.ts';
import type { Drive, Otherwise } from './statement-drives.ts';

const stays = (answer: string): Cell => ({ to: [], answer });
const at = (cell: Cell, ...where: Situation[]) => Object.fromEntries(where.map((situation) => [situation, cell]));
const silent: Situation = 'delivering, lease past';

/** The columns of a row whose invitation, and whose claim's lease, have had their time; the calendar looks at it later. */
const longAgo = (situation: Situation, columns: Conditions['columns'] = {}): Conditions => ({
  ...{ dueIn: -600, wakeIn: 60 },
  columns: {
    state_since: inSeconds(-400),
    ...(situation === 'dispatching' ? { lease_until: inSeconds(-1) } : {}),
    ...(situation === 'queued' ? { first_invited_at: inSeconds(-500) } : {}),
    ...columns,
  },
});

/** The same with more beside it. */
const withal =
  (more: Conditions) =>
  (situation: Situation): Conditions => {
    const { columns = {}, ...rest } = longAgo(situation, more.columns);
    return { ...rest, ...more, columns };
  };

const over = { dueIn: -600, expiresIn: -1 };
const answered = { decision: { evidence: 'the receiver answered: not seen' } };

function drive(verb: Recovery['verb'], rest: Pick<Drive, 'otherwise' | 'marks'>): Drive {
  return {
    statement: reclaim,
    due: (situation) => longAgo(situation),
    ...rest,
    async run({ database, token, row, under }) {
      const { versionSeen = 1, attemptsSeen = row.attempts, evidence = null, dryRun = false } = under.decision ?? {};
      const rows = await database.run(reclaim, {
        ...{ token, verb, actor: 'arn:aws:iam::111122223333:role/duty', reason: 'a person looked', ticket: 'T-1' },
        ...{ evidence, dryRun },
        reminders: [
          verb === 'redrive'
            ? { item: 0, deliveryId: row.deliveryId, versionSeen: null, attemptsSeen: null, messages: ['m'] }
            : { item: 0, deliveryId: row.deliveryId, versionSeen, attemptsSeen },
        ],
      });
      return { answer: String(rows[0]?.answer), rows };
    },
  };
}

const stale = (...where: Situation[]): Otherwise[] => [
  {
    because: 'it was changed since it was seen',
    under: withal({ decision: { versionSeen: 2 } }),
    cells: at(stays('stale'), ...where),
  },
  {
    because: 'it was tried since it was seen',
    under: withal({ decision: { attemptsSeen: 7 } }),
    cells: at(stays('stale'), ...where),
  },
];

/** What keeps a reminder from being invited again, in the order in which it is told. */
const uninvitable = (later: Situation[], ...where: Situation[]): Otherwise[] => [
  { because: 'its time is over', under: withal(over), cells: at(stays('expiry_passed'), ...where, ...later) },
  { because: 'dispatch is paused', under: withal({ paused: true }), cells: at(stays('paused'), ...where, ...later) },
  ...['paused', 'disabled', 'broken'].map((state) => ({
    because: `its destination is ${state}`,
    under: withal({ destination: { state } }),
    cells: at(stays('destination_off'), ...where, ...later),
  })),
  {
    because: 'it was invited a moment ago',
    under: withal({ columns: { state_since: inSeconds(-60) } }),
    cells: at(stays('invited'), ...where),
  },
  {
    because: 'it is due in a moment',
    under: withal({ dueIn: -60 }),
    cells: at(stays('invited'), ...where),
  },
  {
    because: 'an attempt may have been received',
    under: withal({ attempts: 1 }),
    cells: at(stays('evidence_needed'), ...where),
  },
  {
    because: 'an attempt may have been received, and there is evidence',
    under: withal({ attempts: 1, ...answered }),
    cells: {},
  },
  {
    because: 'too many were republished within the minute',
    under: withal({ settings: { republishedPerMinute: 0 } }),
    cells: at(stays('rate_capped'), ...where),
  },
  {
    because: 'too many were republished, and the next claim looks at it anyway',
    under: withal({ wakeIn: -1, settings: { republishedPerMinute: 0 } }),
    cells: {},
  },
];

const dry: Otherwise = { because: 'it is a dry run', under: withal({ decision: { dryRun: true } }), cells: {} };
const looked: Otherwise = { because: 'the calendar looks at it already', under: withal({ wakeIn: -1 }), cells: {} };
const leased: Otherwise = {
  because: 'its lease lives',
  under: (situation) =>
    longAgo(situation, ['dispatching', silent].includes(situation) ? { lease_until: inSeconds(30) } : {}),
  cells: at(stays('leased'), 'dispatching', silent),
};

/** With what people decide: all that they do to one reminder. */
export const operatorDrives = {
  ...decisionDrives,
  reclaim: drive('reclaim', {
    otherwise: [
      ...[dry, looked, leased, ...stale('dispatching', silent)],
      { because: 'its time is over', under: withal(over), cells: {} },
      { because: 'dispatch is paused', under: withal({ paused: true }), cells: at(stays('paused'), 'dispatching') },
      { because: 'its time is over, under a pause', under: withal({ ...over, paused: true }), cells: {} },
      { because: 'its destination is paused', under: withal({ destination: { state: 'paused' } }), cells: {} },
    ],
    marks: { dispatching: ['wake_at'], [silent]: ['wake_at'] },
  }),
  republish: drive('republish', {
    otherwise: [...[dry, looked, leased, ...stale('queued')], ...uninvitable(['scheduled', 'dispatching'], 'queued')],
    marks: { queued: ['wake_at'] },
  }),
  redrive: drive('redrive', {
    otherwise: [...[dry, looked, leased], ...uninvitable([], 'queued', 'dispatching')],
    marks: { queued: ['wake_at'], dispatching: ['wake_at'] },
  }),
} as const;
