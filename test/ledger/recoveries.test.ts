// What people make go on, and what the ledger keeps of it: nothing is sent, nothing is forced, and the next claim does the rest.
import { v7 as uuid } from 'uuid';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { situations } from '../../lambdas/core/delivery-states.ts';
import type { Recovery, RecoveryAnswer } from '../../lambdas/core/recoveries.ts';
import { verdict } from '../../lambdas/core/verdict.ts';
import { postgresEvidence } from '../../lambdas/store/evidence.ts';
import { postgresRecoveries } from '../../lambdas/store/recoveries.ts';
import { enqueue } from '../../lambdas/store/statements/enqueue.ts';
import { open } from '../../lambdas/store/statements/open.ts';
import { decider } from './decider.ts';
import { empty, ledgerTables } from './ledger-rows.ts';
import { actor, lost, recoverer, recovery, silent } from './recoverer.ts';
import { operatorDrives } from './recovery-drives.ts';
import { type Arranged, arrange, inSeconds, openToken } from './situations.ts';
import { outcome, startTestLedger, type TestLedger, worker } from './test-ledger.ts';

let ledger: TestLedger;
let tables: string[];
beforeAll(async () => {
  ledger = await startTestLedger();
  tables = await ledgerTables(ledger);
});
beforeEach(() => empty(ledger, tables));
afterAll(() => ledger.stop());

const { recover, rowOf, actions } = recoverer(() => ledger);
const { known } = decider(() => ledger);
const claim = () => ledger.ledger.claim({ token: uuid(), worker, limit: 10, lowWater: null });
const soon = (row: { wake_at: Date }) => Math.abs(row.wake_at.getTime() - Date.now()) < 30_000;

describe('reclaim', () => {
  test('ends a lease that has passed: the next claim closes the attempt as unknown, and the ledger says who, why and what was seen', async () => {
    const row = await silent(ledger);
    expect((await claim()).recovered).toEqual([]);
    const before = await rowOf(row);
    const [answer] = await recover(recovery('reclaim', [row]));
    expect(answer).toMatchObject({ answer: 'reclaimed', state: 'delivering', version: 1, deliveryId: row.deliveryId });
    const after = await rowOf(row);
    expect(soon(after)).toBe(true);
    expect({ ...after, wake_at: null }).toEqual({ ...before, wake_at: null });
    expect(await actions()).toMatchObject([
      {
        ...{ verb: 'reclaim', actor, reason: 'the queue was purged', ticket: 'OPS-8', version_seen: 1 },
        delivery_id: row.deliveryId,
        evidence: { given: null, answer: 'reclaimed', state: 'delivering', attempts: 1, messages: [] },
      },
    ]);
    expect((await claim()).recovered).toEqual([row.deliveryId]);
    expect(await rowOf(row)).toMatchObject({ state: 'scheduled', attempt_no: 1, idempotency_key: row.key });
  });

  test('ends the lease of a claim that died: the next one invites it under the same id', async () => {
    const columns = { lease_until: inSeconds(-1) };
    const row = await arrange(ledger, 'dispatching', { dueIn: -60, wakeIn: 600, columns });
    await recover(recovery('reclaim', [row]));
    expect((await claim()).claimed).toMatchObject([{ deliveryId: row.deliveryId }]);
  });

  test('has no force on a lease that a sender takes while the command waits', async () => {
    const row = await lost(ledger);
    const token = uuid();
    const answers = await ledger.behind(
      (session) => session.run(open, { token, worker, deliveryIds: [row.deliveryId] }),
      () => recover(recovery('reclaim', [row])),
    );
    expect(answers).toMatchObject([{ answer: 'leased', state: 'delivering' }]);
    expect(await actions()).toEqual([]);
    const settled = { token: uuid(), outcomes: [outcome(row.deliveryId, token)] };
    await ledger.ledger.settle(settled);
    expect(await rowOf(row)).toMatchObject({ state: 'delivered' });
  });

  test('a success that comes late still wins, before the claim and after it', async () => {
    const row = await silent(ledger);
    await recover(recovery('reclaim', [row]));
    await claim();
    await ledger.ledger.settle({ token: uuid(), outcomes: [outcome(row.deliveryId, openToken(1))] });
    expect(await rowOf(row)).toMatchObject({ state: 'delivered' });
  });

  test('what the calendar looks at anyway is left as it is, and nothing is written of it', async () => {
    const row = await silent(ledger, { wakeIn: -50 });
    const before = await rowOf(row);
    expect(await recover(recovery('reclaim', [row]))).toMatchObject([{ answer: 'reclaimed' }]);
    expect(await rowOf(row)).toEqual(before);
    expect(await actions()).toEqual([]);
  });
});

describe('republish', () => {
  test('the next claim invites it again under its own id and key, and once in an allowance only', async () => {
    const row = await lost(ledger);
    expect((await claim()).claimed).toEqual([]);
    const republished = recovery('republish', [row]);
    expect(await recover(republished)).toMatchObject([{ answer: 'republished', state: 'queued' }]);
    // By somebody else, a moment later: it is so already.
    expect(await recover(recovery('republish', [row]))).toMatchObject([{ answer: 'republished' }]);
    expect(await actions()).toHaveLength(1);

    const token = uuid();
    const { claimed } = await ledger.ledger.claim({ token, worker, limit: 10, lowWater: null });
    expect(claimed).toMatchObject([{ deliveryId: row.deliveryId }]);
    expect(await recover(recovery('republish', [row]))).toMatchObject([{ answer: 'leased' }]);
    const receipts = [{ deliveryId: row.deliveryId, messageId: 'm-2', queue: 'invitations', delaySeconds: 0 }];
    await ledger.ledger.enqueue({ claimToken: token, receipts });
    expect(await recover(recovery('republish', [row]))).toMatchObject([{ answer: 'invited', state: 'queued' }]);
    expect(await actions()).toHaveLength(1);
    const opened = await ledger.ledger.open({ token: uuid(), worker, deliveryIds: [row.deliveryId] });
    expect(opened).toMatchObject([{ answer: 'opened', attemptNo: 1, key: row.key }]);
  });

  test('an invitation that a claim hands over while the command waits is the latest', async () => {
    const row = await lost(ledger, { wakeIn: -1 });
    const token = uuid();
    await ledger.ledger.claim({ token, worker, limit: 10, lowWater: null });
    const receipts = [{ deliveryId: row.deliveryId, messageId: 'm-2', queue: 'invitations', delaySeconds: 0 }];
    const answers = await ledger.behind(
      (session) => session.run(enqueue, { claimToken: token, receipts }),
      () => recover(recovery('republish', [row])),
    );
    expect(answers).toMatchObject([{ answer: 'invited', state: 'queued' }]);
  });

  test('a receipt that came late, of a message not visible for long, counts as an invitation', async () => {
    const row = await lost(ledger);
    await ledger.sql(
      `INSERT INTO handoff (delivery_id, message_id, queue, token, visible_from, moved, recorded_at)
       VALUES ($1, 'm', 'invitations', $2, now() - interval '60 s', false, now())`,
      [row.deliveryId, uuid()],
    );
    expect(await recover(recovery('republish', [row]))).toMatchObject([{ answer: 'invited' }]);
  });

  test.each(['unknown', 'overtaken', 'delivered'])('asks for evidence when an attempt is %s', async (result) => {
    const row = await lost(ledger, { attempts: 2 });
    await known(row, 1, 'retry');
    await known(row, 2, result);
    expect(await recover(recovery('republish', [row]))).toMatchObject([{ answer: 'evidence_needed' }]);
    expect(await actions()).toEqual([]);
    const told = recovery('republish', [row], { evidence: 'asked ben: never arrived' });
    expect(await recover(told)).toMatchObject([{ answer: 'republished' }]);
    expect(await actions()).toMatchObject([{ evidence: { given: 'asked ben: never arrived', doubtfulAttempts: 1 } }]);
  });

  test('asks for none when every attempt is known to have failed, unless the receiver may have forgotten the key', async () => {
    const row = await lost(ledger, { attempts: 1 });
    await known(row, 1, 'unknown');
    await known(row, 1, 'retry');
    await ledger.sql('UPDATE destination SET dedup_window_seconds = 30');
    const look = recovery('republish', [row], { dryRun: true });
    expect(await recover(look)).toMatchObject([{ answer: 'evidence_needed' }]);
    await ledger.sql('UPDATE destination SET dedup_window_seconds = 3600');
    expect(await recover(look)).toMatchObject([{ answer: 'republished' }]);
  });
});

describe('the cap on what is republished within a minute', () => {
  const capped = (command: Recovery, republishedPerMinute = 2) =>
    postgresRecoveries(ledger.openDatabase('ledger', { ...ledger.settings, republishedPerMinute })).recover(command);
  const answers = async (command: Recovery) => (await capped(command)).map(({ answer }) => answer);
  const several = async (count: number) => {
    const rows: Arranged[] = [];
    while (rows.length < count) rows.push(await lost(ledger));
    return rows;
  };

  test('holds within a command and across commands, by whomever, until the minute is over', async () => {
    const [one, two, three, four] = (await several(4)) as [Arranged, Arranged, Arranged, Arranged];
    expect(await answers(recovery('republish', [one, two, three], { dryRun: true }))).toEqual([
      ...['republished', 'republished', 'rate_capped'],
    ]);
    expect(await answers(recovery('republish', [three]))).toEqual(['republished']);
    expect(await answers(recovery('redrive', [two, one], { actor: 'ben' }))).toEqual(['republished', 'rate_capped']);
    expect(await answers(recovery('republish', [four]))).toEqual(['rate_capped']);
    expect(soon(await rowOf(four))).toBe(false);
    // What the calendar looks at already costs nothing, nor does what is reclaimed.
    expect(await answers(recovery('republish', [three]))).toEqual(['republished']);
    const beyond = async (command: Recovery) => (await capped(command, 1)).map(({ answer }) => answer);
    expect(await beyond(recovery('republish', [three]))).toEqual(['republished']);
    expect(await beyond(recovery('reclaim', [await silent(ledger)]))).toEqual(['reclaimed']);
    expect(await actions()).toHaveLength(3);
    const session = await ledger.session();
    await session.sql('SET session_replication_role = replica');
    await session.sql("UPDATE operator_action SET acted_at = now() - interval '61 s'");
    await session.close();
    expect(await answers(recovery('republish', [four, one]))).toEqual(['republished', 'republished']);
  });

  test('counts within a command only what is brought forward', async () => {
    const [invited, awake, asleep] = [
      await lost(ledger, { columns: { state_since: inSeconds(-60) } }),
      await lost(ledger, { wakeIn: -1 }),
      await lost(ledger),
    ];
    const command = recovery('republish', [invited, awake, asleep]);
    expect((await capped(command, 1)).map(({ answer }) => answer)).toEqual(['invited', 'republished', 'republished']);
  });

  test('does not count what only left the dead-letter queue, nor what was reclaimed', async () => {
    const finished = [await arrange(ledger, 'delivered'), await arrange(ledger, 'scheduled')];
    expect(await answers(recovery('redrive', finished))).toEqual(['finished', 'scheduled']);
    expect(await answers(recovery('reclaim', [await silent(ledger), await silent(ledger)]))).toEqual([
      ...['reclaimed', 'reclaimed'],
    ]);
    expect(await answers(recovery('republish', await several(2)))).toEqual(['republished', 'republished']);
  });
});

describe('redrive', () => {
  test('sees no version: it judges what is there, and keeps which messages left and why', async () => {
    const [queued, done, held] = [
      await lost(ledger),
      await arrange(ledger, 'delivered'),
      await arrange(ledger, 'held'),
    ];
    const reminders = [queued, done, held].map(({ deliveryId }, place) => ({
      ...{ deliveryId, versionSeen: null, attemptsSeen: null, messages: [`m-${place}`] },
    }));
    const command = recovery('redrive', [], { reminders });
    const answers = await recover(command);
    expect(answers.map(({ answer }) => answer)).toEqual(['republished', 'finished', 'held']);
    expect(soon(await rowOf(queued))).toBe(true);
    const kept = (await actions()).sort((one, other) => (String(one.evidence) < String(other.evidence) ? -1 : 1));
    expect(kept).toHaveLength(2);
    expect(kept).toMatchObject(
      expect.arrayContaining([
        expect.objectContaining({ verb: 'redrive', delivery_id: queued.deliveryId, version_seen: null }),
        expect.objectContaining({ evidence: expect.objectContaining({ answer: 'finished', messages: ['m-1'] }) }),
      ]),
    );
    // Messages have no order: run again, the command finds each answer by its reminder.
    expect(await recover({ ...command, reminders: reminders.toReversed() })).toEqual(answers.toReversed());
    expect(await actions()).toHaveLength(2);
  });
});

test('every message that leaves the dead-letter queue has its action, also where there is nothing to bring forward', async () => {
  const rows = [
    await arrange(ledger, 'scheduled'),
    await lost(ledger, { columns: { state_since: inSeconds(-60) } }),
    await lost(ledger, { wakeIn: -1 }),
    await arrange(ledger, 'expired'),
  ];
  const answers = await recover(recovery('redrive', rows));
  expect(answers.map(({ answer }) => answer)).toEqual(['scheduled', 'invited', 'republished', 'finished']);
  const kept = (await actions()).map((row) => (row as { evidence: { answer: string } }).evidence.answer);
  expect(kept.sort()).toEqual(['finished', 'invited', 'republished', 'scheduled']);
});

describe('the verdict says the same', () => {
  const doing: Readonly<Record<string, readonly RecoveryAnswer[]>> = {
    reclaim: ['reclaimed'],
    republish: ['republished'],
    redrive: ['republished', 'finished', 'scheduled', 'invited'],
  };

  test.each(['reclaim', 'republish', 'redrive'] as const)(
    'of %s, in every situation and beside every evidence',
    async (verb) => {
      const drive = operatorDrives[verb];
      const conditions = [drive.due, ...drive.otherwise.map(({ under }) => under)].flatMap((under) =>
        situations.map((situation) => [situation, typeof under === 'function' ? under(situation) : under] as const),
      );
      const differing: string[] = [];
      const met = new Set<string>();
      for (const [situation, under] of conditions) {
        // Of a stale screen and of the minute's cap a verdict knows nothing.
        if (under.settings !== undefined || under.decision?.versionSeen || under.decision?.attemptsSeen) continue;
        const row = await arrange(ledger, situation, under);
        const evidence = await postgresEvidence(ledger.database).evidence({ deliveryId: row.deliveryId });
        if (evidence === null) throw new Error('it is not there');
        const ruling = verdict({ ...evidence, deadLetter: 'seen' }, Date.parse(evidence.readAt), ledger.settings).verbs[
          verb
        ];
        const said = ruling.allowed ? (ruling.needs.length > 0 ? 'evidence_needed' : 'allowed') : 'refused';
        const [answer] = await recover(recovery(verb, [row], { dryRun: true }));
        const name = answer?.answer ?? 'not_found';
        const does = doing[verb]?.includes(name) ? 'allowed' : name === 'evidence_needed' ? name : 'refused';
        met.add(does);
        if (said !== does)
          differing.push(`${situation}, ${JSON.stringify(under)}: the verdict ${said}, the ledger ${name}`);
        await ledger.sql('UPDATE dispatch_gate SET paused = false, paused_since = NULL');
      }
      expect(differing).toEqual([]);
      expect([...met].sort()).toEqual(
        verb === 'reclaim' ? ['allowed', 'refused'] : ['allowed', 'evidence_needed', 'refused'],
      );
    },
  );
});
