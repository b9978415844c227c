// What each move writes beside the state: when the calendar looks again, leases, counters, words.
import { v7 as uuid } from 'uuid';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import type { Situation } from '../../lambdas/core/delivery-states.ts';
import { type Conditions, failed } from './failure-forks.ts';
import { empty, ledgerTables } from './ledger-rows.ts';
import { arrange, inSeconds, producer } from './situations.ts';
import { type DrivenVerb, drives } from './statement-drives.ts';
import { newReminder, startTestLedger, type TestLedger } from './test-ledger.ts';

let ledger: TestLedger;
let tables: string[];
beforeAll(async () => {
  ledger = await startTestLedger();
  tables = await ledgerTables(ledger);
});
beforeEach(() => empty(ledger, tables));
afterAll(() => ledger.stop());

const token = uuid();
/** The row's times were written one after the other. */
const near = (seconds: number) => expect.closeTo(seconds, 0);
/** Numbers of stage production, in seconds. */
const refused = { last_error: 'queue_refused: its invitation was not accepted' };
const [lease, allowance, lookahead, releaseBase] = [60, 120, 180, 30];

/** A row with its times as seconds since the move: `state_since` is the statement's now(). */
async function moved() {
  const [row] = await ledger.sql(
    `SELECT state, version, invitations, failures, attempt_no, attempts_at_requeue, parked, lease_owner AS owner, last_error,
            extract(epoch FROM lease_until - state_since)::float8 AS lease,
            extract(epoch FROM wake_at - state_since)::float8 AS wake,
            extract(epoch FROM next_attempt_at - wake_at)::float8 AS "wakeBeforeNext",
            extract(epoch FROM next_attempt_at - state_since)::float8 AS next,
            wake_at = expires_at AS "wakesToExpire", next_attempt_at = due_at AS "nextIsDue",
            first_invited_at IS NOT NULL AS invited, delivered_at = state_since AS "deliveredNow",
            cancel_requested_at = state_since AS "cancelledNow", hold_reason AS reason
     FROM reminder_delivery`,
  );
  return row ?? {};
}

async function run(verb: DrivenVerb, situation: Situation, under: Conditions = {}) {
  const row = await arrange(ledger, situation, under);
  await drives[verb].run({ database: ledger.database, token, row, under });
  return row;
}

const invited = (times: number): Conditions => ({ columns: { invitations: times } });
const free = { owner: null, lease: null };
const back = { ...free, invitations: 0, invited: false };

interface Move {
  readonly verb: DrivenVerb;
  readonly in: Situation;
  readonly why: string;
  readonly under?: Conditions;
  readonly writes: Readonly<Record<string, unknown>>;
}
const own = { owner: token, lease };

const moves: readonly Move[] = [
  { verb: 'claim', in: 'scheduled', why: 'overdue: from now', writes: { ...own, wake: allowance, invitations: 1 } },
  {
    verb: 'claim',
    in: 'queued',
    why: 'doubled for each invitation in vain',
    under: invited(3),
    writes: { ...own, wake: 8 * allowance, invitations: 4, invited: true },
  },
  { verb: 'claim', in: 'queued', why: 'at most five times', under: invited(9), writes: { wake: 32 * allowance } },
  {
    verb: 'claim',
    in: 'scheduled',
    why: 'due ahead: from then',
    under: { dueIn: 100 },
    writes: { ...own, wakeBeforeNext: -allowance },
  },
  { verb: 'claimById', in: 'scheduled', why: 'as claim', writes: { ...own, wake: allowance, invitations: 1 } },
  {
    verb: 'claimById',
    in: 'scheduled',
    why: 'doubled as well',
    under: invited(2),
    writes: { wake: 4 * allowance, invitations: 3 },
  },
  {
    verb: 'claimById',
    in: 'scheduled',
    why: 'due ahead: from then',
    under: { dueIn: 100 },
    writes: { wakeBeforeNext: -allowance },
  },
  {
    verb: 'enqueue',
    in: 'dispatching',
    why: 'wake_at stays',
    under: { dueIn: -10, wakeIn: 90 },
    writes: { ...free, wakeBeforeNext: near(-100), invitations: 1, invited: true },
  },
  {
    verb: 'release',
    in: 'dispatching',
    why: 'first refusal',
    writes: { ...free, ...refused, wake: releaseBase, invitations: 1 },
  },
  {
    verb: 'release',
    in: 'dispatching',
    why: 'doubled each time',
    under: invited(3),
    writes: { ...free, ...refused, wake: 4 * releaseBase },
  },
  {
    verb: 'release',
    in: 'dispatching',
    why: 'at most five times',
    under: invited(9),
    writes: { ...refused, wake: 32 * releaseBase },
  },
  { verb: 'open', in: 'queued', why: 'at least the lease', writes: { ...own, wake: lease, attempt_no: 1 } },
  {
    verb: 'open',
    in: 'queued',
    why: 'a later wake_at stays',
    under: { dueIn: -10, wakeIn: 90 },
    writes: { ...own, wakeBeforeNext: near(-100) },
  },
  {
    verb: 'recover',
    in: 'delivering, lease past',
    why: 'to the calendar',
    under: { columns: { failures: 1 }, attempts: 3, paused: true },
    writes: {
      ...back,
      wakeBeforeNext: lookahead,
      failures: 2,
      attempt_no: 3,
      last_error: 'lease_expired: may have been processed',
    },
  },
  {
    verb: 'recover',
    in: 'delivering, lease past',
    why: 'held until it expires',
    under: { expiresIn: 500, destination: { contract: 'none' } },
    writes: { ...back, state: 'held', wakesToExpire: true, reason: expect.stringContaining('unknown') },
  },
  {
    verb: 'park',
    in: 'queued',
    why: 'for ever',
    under: { destination: { state: 'paused' } },
    writes: { ...back, wake: Number.POSITIVE_INFINITY, parked: true },
  },
  {
    verb: 'park',
    in: 'dispatching',
    why: 'until it expires',
    under: { destination: { state: 'paused' }, expiresIn: 500 },
    writes: { ...back, wakesToExpire: true, parked: true },
  },
  {
    verb: 'unpark',
    in: 'scheduled',
    why: 'to the calendar',
    under: { columns: { parked: true, wake_at: 'infinity' } },
    writes: { wakeBeforeNext: lookahead, parked: false },
  },
  {
    verb: 'expireByClaim',
    in: 'dispatching',
    why: 'and says that nothing was tried',
    under: { dueIn: -60, expiresIn: -1 },
    writes: { ...free, wake: null, last_error: 'expired before any attempt' },
  },
  {
    verb: 'expireByClaim',
    in: 'scheduled',
    why: 'keeps the last error',
    under: { dueIn: -60, expiresIn: -1, columns: { last_error: 'http_503' } },
    writes: { wake: null, last_error: 'http_503' },
  },
  {
    verb: 'expireByClaim',
    in: 'held',
    why: 'is held no more',
    under: { dueIn: -60, expiresIn: -1 },
    writes: { reason: null },
  },
  {
    verb: 'expireByOpen',
    in: 'queued',
    why: 'as by claim',
    under: { dueIn: -60, expiresIn: -1 },
    writes: { ...free, wake: null, last_error: 'expired before any attempt' },
  },
  {
    verb: 'settleSuccess',
    in: 'delivering, lease live',
    why: 'the time stands',
    writes: { ...free, wake: null, deliveredNow: true, invitations: 0, failures: 0 },
  },
  {
    verb: 'settleSuccess',
    in: 'held',
    why: 'is held no more',
    under: { attempts: 1 },
    writes: { reason: null, deliveredNow: true },
  },
  {
    verb: 'settleSuccess',
    in: 'scheduled',
    why: 'is parked no more',
    under: { attempts: 1, columns: { parked: true } },
    writes: { parked: false, deliveredNow: true },
  },
  {
    verb: 'settleFailure',
    in: 'delivering, lease live',
    why: 'to the calendar',
    under: failed({}),
    writes: { ...back, wakeBeforeNext: lookahead, failures: 1, last_error: 'http_503' },
  },
  {
    verb: 'settleFailure',
    in: 'delivering, lease live',
    why: 'not before the pause asked for',
    under: failed({ retryAfterSeconds: 3600 }),
    writes: { next: 3600, wake: 3600 - lookahead },
  },
  {
    verb: 'settleFailure',
    in: 'delivering, lease live',
    why: 'a fault of ours counts as no failure',
    under: failed({ outcome: 'not_sent', errorClass: 'lease_too_short' }),
    writes: { failures: 0, last_error: 'lease_too_short' },
  },
  {
    verb: 'settleFailure',
    in: 'delivering, lease live',
    why: 'held until it expires',
    under: {
      ...failed({ outcome: 'unknown', errorClass: 'deadline' }),
      expiresIn: 500,
      destination: { contract: 'none' },
    },
    writes: { ...free, state: 'held', wakesToExpire: true, last_error: 'deadline: may have been processed' },
  },
  { verb: 'cancel', in: 'dispatching', why: 'the lease ends', writes: { ...free, wake: null, cancelledNow: true } },
  {
    verb: 'cancel',
    in: 'scheduled',
    why: 'is parked no more',
    under: { columns: { parked: true } },
    writes: { parked: false, wake: null },
  },
  {
    verb: 'reschedule',
    in: 'dispatching',
    why: 'begins anew',
    under: { columns: { failures: 0, first_invited_at: inSeconds(-1) } },
    writes: { ...back, wakeBeforeNext: lookahead, nextIsDue: true, version: 2 },
  },
  {
    verb: 'reschedule',
    in: 'scheduled',
    why: 'is parked no more',
    under: { columns: { parked: true } },
    writes: { parked: false, wakeBeforeNext: lookahead },
  },
  {
    verb: 'reschedule',
    in: 'shadow',
    why: 'wakes to expire',
    under: { expiresIn: 9000 },
    writes: { wakesToExpire: true, version: 2, nextIsDue: true },
  },
];

test.each(moves)('$verb, $in: $why', async ({ verb, in: situation, under, writes }) => {
  await run(verb, situation, under);
  expect(await moved()).toMatchObject(writes);
});

test('schedule: the calendar looks a lookahead before it is due', async () => {
  await ledger.destination('to');
  await ledger.ledger.schedule({ token, producer, reminders: [newReminder('to', 600)] });
  expect(await moved()).toMatchObject({ state: 'scheduled', wakeBeforeNext: lookahead, nextIsDue: true, version: 1 });
});

test('reschedule: attempts that are known to have failed are forgotten by the retry policy, not by the ledger', async () => {
  const row = await arrange(ledger, 'delivering, lease live', { attempts: 1 });
  const under = failed({});
  await drives.settleFailure.run({ database: ledger.database, token, row, under });
  await drives.reschedule.run({ database: ledger.database, token: uuid(), row, under: {} });
  expect(await moved()).toMatchObject({ failures: 0, attempt_no: 1, attempts_at_requeue: 1, version: 2 });
});
