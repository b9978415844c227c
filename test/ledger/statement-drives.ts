// How to run each verb's statement on one reminder: when it applies, when it does not, and every way a choice can go.
import { v7 as uuid } from 'uuid';
import {
  type Cell,
  type Situation,
  situations,
  terminalStates,
  type VerbName,
  type verbs,
} from '../../lambdas/core/delivery-states.ts';
import type { DataApi } from '../../lambdas/store/data-api.ts';
import { archive } from '../../lambdas/store/statements/archive.ts';
import { cancel } from '../../lambdas/store/statements/cancel.ts';
import { claim } from '../../lambdas/store/statements/claim.ts';
import { claimById } from '../../lambdas/store/statements/claim-by-id.ts';
import { enqueue } from '../../lambdas/store/statements/enqueue.ts';
import { open } from '../../lambdas/store/statements/open.ts';
import { release } from '../../lambdas/store/statements/release.ts';
import { reschedule } from '../../lambdas/store/statements/reschedule.ts';
import { settle } from '../../lambdas/store/statements/settle.ts';
import { unpark } from '../../lambdas/store/statements/unpark.ts';
import {
  afterFailure,
  afterTimeIsOver,
  afterUnknown,
  beforeItsTimeIsOver,
  type Conditions,
  type Fork,
  failed,
} from './failure-forks.ts';
import { as, asRead } from './long-finished.ts';
import { operatorDrives } from './recovery-drives.ts';
import { type Arranged, claimToken, inSeconds, openToken, producer } from './situations.ts';
import { outcome, worker } from './test-ledger.ts';

/** A way in which a verb's condition does not hold, and the cells that are then other than the verb's own. */
export interface Otherwise {
  readonly because: string;
  readonly under: Conditions | ((situation: Situation) => Conditions);
  readonly cells: Partial<Readonly<Record<Situation, Cell>>>;
}

export interface Drive {
  readonly statement: { readonly name: string };
  /** Makes the verb's condition true. */
  readonly due: Conditions | ((situation: Situation) => Conditions);
  readonly otherwise: readonly Otherwise[];
  /** @default none: each cell leads to one state at most */
  readonly forks?: readonly Fork[];
  /** The columns that a cell writes though nothing moves. @default none */
  readonly marks?: Partial<Readonly<Record<Situation, readonly string[]>>>;
  run(target: {
    database: DataApi;
    token: string;
    row: Arranged;
    under: Conditions;
  }): Promise<{ answer: string; rows: readonly object[] }>;
}

/** The verbs whose statement exists: one that gets a statement and no drive does not compile. */
export type DrivenVerb = {
  [Name in VerbName]: (typeof verbs)[Name]['statement'] extends string ? Name : never;
}[VerbName];

const stays = (answer: string): Cell => ({ to: [], answer });
/** For verbs that ask for no due time: the cells hold as they are. */
const dueLater = { because: 'it is due later', under: { dueIn: 600, wakeIn: 60 }, cells: {} };
const everywhere = (cell: Cell) =>
  Object.fromEntries(situations.map((situation) => [situation, cell])) as Record<Situation, Cell>;
const only = (cell: Cell, ...where: Situation[]) => Object.fromEntries(where.map((situation) => [situation, cell]));

/** The answer of the line that names the reminder. */
function answerFor(rows: readonly object[], { deliveryId }: Arranged): string {
  const line = rows.find((row) => 'delivery_id' in row && row.delivery_id === deliveryId);
  return line !== undefined && 'answer' in line ? String(line.answer) : 'absent';
}

const runClaim: Drive['run'] = async ({ database, token, row }) => {
  const rows = await database.run(claim, { token, worker, limit: 10, lowWater: null });
  return { answer: answerFor(rows, row), rows };
};
const runOpen: Drive['run'] = async ({ database, token, row }) => {
  const rows = await database.run(open, { token, worker, deliveryIds: [row.deliveryId] });
  return { answer: answerFor(rows, row), rows };
};
const runSettle: Drive['run'] = async ({ database, token, row, under }) => {
  const attemptNo = under.outcome?.attemptNo ?? row.attempts;
  const settled = outcome(row.deliveryId, openToken(attemptNo), { attemptNo, ...under.outcome });
  const rows = await database.run(settle, { token, outcomes: [settled] });
  return { answer: String(rows[0]?.answer), rows };
};

const notYet = { because: 'its wake_at lies ahead', under: { wakeIn: 60 }, cells: everywhere(stays('absent')) };
/** Somebody looked at it after it came to its end, whenever that is. */
const reviewed: Conditions = { columns: { reviewed_at: 'infinity' } };
const openAndReviewed: Conditions = { ...reviewed, attempts: 1 };
const underPause = { because: 'dispatch is paused', under: { paused: true } };

export const drives: Readonly<Record<DrivenVerb, Drive>> = {
  ...operatorDrives,
  claim: {
    statement: claim,
    due: {},
    otherwise: [notYet, { ...underPause, cells: only(stays('absent'), 'scheduled', 'dispatching', 'queued') }],
    forks: [...afterUnknown, ...beforeItsTimeIsOver],
    run: runClaim,
  },
  claimById: {
    statement: claimById,
    due: {},
    otherwise: [
      notYet,
      { ...underPause, cells: only(stays('absent'), 'scheduled') },
      {
        because: 'the destination is paused',
        under: { destination: { state: 'paused' } },
        cells: only(stays('absent'), 'scheduled'),
      },
      { because: 'its time is over', under: { dueIn: -60, expiresIn: -1 }, cells: only(stays('absent'), 'scheduled') },
    ],
    async run({ database, token, row }) {
      const rows = await database.run(claimById, { token, worker, deliveryIds: [row.deliveryId] });
      return { answer: answerFor(rows, row), rows };
    },
  },
  recover: {
    statement: claim,
    // Under a pause the statement closes what was begun and claims nothing: so recover stands alone.
    due: { paused: true },
    otherwise: [{ ...notYet, under: { wakeIn: 60, paused: true } }],
    forks: [...afterUnknown, ...afterTimeIsOver, ...beforeItsTimeIsOver],
    run: runClaim,
  },
  expireByClaim: {
    statement: claim,
    due: { dueIn: -60, expiresIn: -1 },
    otherwise: [
      {
        because: 'its expiry and its wake_at lie ahead',
        under: { wakeIn: 60, expiresIn: 60 },
        cells: everywhere(stays('absent')),
      },
    ],
    forks: afterTimeIsOver,
    run: runClaim,
  },
  park: {
    statement: claim,
    due: { destination: { state: 'paused' } },
    otherwise: [
      { ...notYet, under: { wakeIn: 60, destination: { state: 'disabled' } } },
      {
        ...underPause,
        under: { paused: true, destination: { state: 'broken' } },
        cells: only(stays('absent'), 'scheduled', 'dispatching', 'queued'),
      },
    ],
    forks: [...afterUnknown, ...beforeItsTimeIsOver].map(({ under, ...fork }) => ({
      ...fork,
      under: { ...under, destination: { ...under.destination, state: 'broken' } },
    })),
    run: runClaim,
  },
  unpark: {
    statement: unpark,
    due: parkedWhere({}),
    otherwise: [
      { ...dueLater, under: parkedWhere(dueLater.under) },
      { because: 'it is not parked', under: {}, cells: only(stays('0'), 'scheduled') },
      {
        because: 'the destination is still disabled',
        under: parkedWhere({ destination: { state: 'disabled' } }),
        cells: only(stays('0'), 'scheduled'),
      },
    ],
    async run({ database, token }) {
      const rows = await database.run(unpark, { token, limit: 10 });
      return { answer: String(rows[0]?.count), rows };
    },
  },
  enqueue: {
    statement: enqueue,
    due: {},
    otherwise: [
      dueLater,
      {
        because: "it is another claim's",
        under: { claimToken: uuid() },
        cells: only(stays('receipt_kept'), 'dispatching'),
      },
    ],
    async run({ database, row, under }) {
      const receipt = {
        deliveryId: row.deliveryId,
        messageId: `message-${row.key}`,
        queue: 'invitations',
        delaySeconds: 3,
      };
      const rows = await database.run(enqueue, { claimToken: under.claimToken ?? claimToken, receipts: [receipt] });
      return { answer: String(rows[0]?.answer), rows };
    },
  },
  release: {
    statement: release,
    due: {},
    otherwise: [
      dueLater,
      { because: "it is another claim's", under: { claimToken: uuid() }, cells: only(stays('0'), 'dispatching') },
    ],
    async run({ database, token, row, under }) {
      const deliveryIds = [row.deliveryId];
      const rows = await database.run(release, { token, claimToken: under.claimToken ?? claimToken, deliveryIds });
      return { answer: String(rows[0]?.count), rows };
    },
  },
  open: {
    statement: open,
    due: { expiresIn: 60 },
    otherwise: [
      {
        because: 'it is due later',
        under: { dueIn: 30, expiresIn: 60 },
        cells: only(stays('not_due'), 'dispatching', 'queued'),
      },
      { ...underPause, cells: only(stays('paused'), 'dispatching', 'queued') },
      ...['paused', 'disabled', 'broken'].map((state) => ({
        because: `the destination is ${state}`,
        under: { destination: { state } },
        cells: only(stays('paused'), 'dispatching', 'queued'),
      })),
    ],
    run: runOpen,
  },
  expireByOpen: {
    statement: open,
    due: { dueIn: -60, expiresIn: -1 },
    otherwise: [
      {
        because: 'its expiry lies ahead',
        under: { dueIn: 30, expiresIn: 60 },
        cells: only(stays('not_due'), 'dispatching', 'queued'),
      },
    ],
    run: runOpen,
  },
  settleSuccess: {
    statement: settle,
    due: { attempts: 1 },
    otherwise: [
      { ...dueLater, under: { ...dueLater.under, attempts: 1 } },
      {
        because: 'the attempt was opened under another token',
        under: { attempts: 1, outcome: { openToken: uuid() } },
        cells: everywhere(stays('not_opened')),
      },
    ],
    run: runSettle,
  },
  settleFailure: {
    statement: settle,
    due: { attempts: 1, ...failed({}) },
    otherwise: [
      { ...dueLater, under: { ...dueLater.under, attempts: 1, ...failed({}) } },
      {
        because: 'another attempt holds the lease',
        under: { attempts: 2, ...failed({ attemptNo: 1 }) },
        cells: everywhere(stays('recorded')),
      },
      {
        because: 'the attempt was opened under another token',
        under: { attempts: 1, ...failed({ openToken: uuid() }) },
        cells: everywhere(stays('not_opened')),
      },
    ],
    forks: afterFailure,
    run: runSettle,
  },
  cancel: {
    statement: cancel,
    due: {},
    otherwise: [
      dueLater,
      { because: "it is another producer's", under: { producer: 'rival' }, cells: everywhere(stays('not_found')) },
    ],
    marks: {
      'delivering, lease live': ['cancel_requested_at'],
      'delivering, lease past': ['cancel_requested_at'],
    },
    async run({ database, token, row, under }) {
      const reminders = [{ item: 0, name: { deliveryId: row.deliveryId } }];
      const rows = await database.run(cancel, { token, producer: under.producer ?? producer, reminders });
      return { answer: String(rows[0]?.answer), rows };
    },
  },
  reschedule: {
    statement: reschedule,
    due: { reschedule: { expectedVersion: 1 } },
    otherwise: [
      dueLater,
      {
        because: 'it is due then already',
        under: { reschedule: { newDueIn: 0 } },
        cells: only(stays('unchanged'), 'shadow', 'scheduled', 'dispatching', 'queued'),
      },
      {
        because: 'another version was expected',
        under: { reschedule: { expectedVersion: 2 } },
        cells: only(stays('stale'), ...situations.slice(0, 7)),
      },
      {
        because: 'the result of an attempt is not known',
        under: { attempts: 1 },
        cells: only(stays('too_late'), ...situations.slice(0, 7)),
      },
      {
        because: 'it would expire before it is due',
        under: { reschedule: { newDueIn: 600, expiresAt: inSeconds(500).toISOString() } },
        cells: only(stays('invalid_expiry'), 'shadow', 'scheduled', 'dispatching', 'queued'),
      },
      { because: "it is another producer's", under: { producer: 'rival' }, cells: everywhere(stays('not_found')) },
    ],
    async run({ database, token, row, under }) {
      const { newDueIn = 3600, ...command } = under.reschedule ?? {};
      const dueAt = new Date(Date.parse(row.dueAt) + newDueIn * 1000).toISOString();
      const reminders = [{ item: 0, name: { key: row.key }, dueAt, ...command }];
      const rows = await database.run(reschedule, { token, producer: under.producer ?? producer, reminders });
      return { answer: String(rows[0]?.answer), rows };
    },
  },
  archive: {
    statement: archive,
    due: reviewed,
    otherwise: [
      { ...dueLater, under: { ...dueLater.under, ...reviewed } },
      { because: 'a person must still decide', under: {}, cells: only(stays('unreviewed'), 'dead') },
      { because: 'an attempt is open', under: openAndReviewed, cells: only(stays('changed'), ...terminalStates) },
    ],
    marks: Object.fromEntries(terminalStates.map((state) => [state, ['payload', 'last_error', 'archived_at']])),
    async run({ database, row }) {
      const rows = await database.run(archive, { reminders: await asRead(database, as(row)) });
      return { answer: answerFor(rows, row), rows };
    },
  },
};

/** Only a scheduled row can be parked. */
function parkedWhere(under: Conditions) {
  return (situation: Situation): Conditions =>
    situation === 'scheduled' ? { ...under, columns: { parked: true, wake_at: 'infinity' } } : under;
}
