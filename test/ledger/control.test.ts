// Pauses and resumes: what they write, what is answered to twins, rivals and old screens, and that no attempt begins after one.
import { v7 as uuid } from 'uuid';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { ControlCommand, ControlVerb } from '../../lambdas/core/dispatch-control.ts';
import { postgresControl } from '../../lambdas/store/control.ts';
import { control as controlStatement } from '../../lambdas/store/statements/control.ts';
import { dump, empty, ledgerTables } from './ledger-rows.ts';
import { type Arranged, arrange } from './situations.ts';
import { startTestLedger, type TestLedger, worker } from './test-ledger.ts';

let ledger: TestLedger;
let tables: string[];
beforeAll(async () => {
  ledger = await startTestLedger();
  tables = await ledgerTables(ledger);
});
beforeEach(async () => {
  await empty(ledger, tables);
  await ledger.destination('to');
});
afterAll(() => ledger.stop());

const actor = 'arn:aws:iam::111122223333:role/on-call';
const command = (verb: ControlVerb, more: Partial<ControlCommand> = {}): ControlCommand => ({
  ...{ token: uuid(), verb, destination: null, actor, reason: `to ${verb}`, ticket: 'OPS-7', dryRun: false },
  seen: null,
  ...more,
});
const control = (asked: ControlCommand) => postgresControl(ledger.database).control(asked);

/** Looks, and does it with what was seen: as a person does. */
async function asSeen(verb: ControlVerb, more: Partial<ControlCommand> = {}) {
  const looked = await control(command(verb, { ...more, dryRun: true }));
  if (!('state' in looked)) throw new Error(`the look was answered ${looked.answer}`);
  return command(verb, { ...more, seen: { state: looked.state, since: looked.since } });
}
const act = async (verb: ControlVerb, more: Partial<ControlCommand> = {}) => control(await asSeen(verb, more));
const gate = async () => (await ledger.sql('SELECT paused, paused_since, reason FROM dispatch_gate'))[0];
const destination = async () =>
  (await ledger.sql('SELECT state, state_since, state_reason FROM destination WHERE name = $1', ['to']))[0];
const actions = () => ledger.sql('SELECT * FROM operator_action ORDER BY action_no');

test('a pause of all stands in the gate with its reason, and ends with a resume; both name who and why', async () => {
  expect(await act('pause')).toEqual({
    ...{ answer: 'paused', destination: null, state: 'active', since: null, reason: null },
  });
  expect(await gate()).toEqual({ paused: true, paused_since: expect.any(Date), reason: 'to pause' });
  expect(await destination()).toMatchObject({ state: 'active', state_reason: null });
  expect(await act('resume')).toMatchObject({ answer: 'resumed', state: 'paused', reason: 'to pause' });
  expect(await gate()).toEqual({ paused: false, paused_since: null, reason: null });
  expect(await actions()).toMatchObject([
    {
      ...{ verb: 'pause', actor, reason: 'to pause', ticket: 'OPS-7', destination_id: null, delivery_id: null },
      evidence: { answer: 'paused', state: 'active', since: null },
    },
    { verb: 'resume', evidence: { answer: 'resumed', state: 'paused', reason: 'to pause' } },
  ]);
});

test('a pause of one destination leaves the others and the gate', async () => {
  await ledger.destination('other');
  const [before] = await ledger.sql("SELECT * FROM destination WHERE name = 'other'");
  expect(await act('pause', { destination: 'to' })).toMatchObject({ answer: 'paused', destination: 'to' });
  expect(await destination()).toMatchObject({ state: 'paused', state_reason: 'to pause' });
  expect(await gate()).toMatchObject({ paused: false });
  expect(await ledger.sql("SELECT * FROM destination WHERE name = 'other'")).toEqual([before]);
  const [{ destination_id: id } = {}] = await ledger.sql("SELECT destination_id FROM destination WHERE name = 'to'");
  expect(await actions()).toMatchObject([{ verb: 'pause', destination_id: id }]);
  // While all is paused too.
  await act('pause');
  expect(await act('resume', { destination: 'to' })).toMatchObject({ answer: 'resumed', state: 'paused' });
  expect(await destination()).toMatchObject({ state: 'active', state_reason: 'to resume' });
  expect(await gate()).toMatchObject({ paused: true });
});

test.each(['disabled', 'broken'])('what is %s is resumed too, and its look says so and why', async (state) => {
  await ledger.sql(`UPDATE destination SET state = $1, state_reason = 'its receiver answered 410'`, [state]);
  expect(await control(command('resume', { destination: 'to', dryRun: true }))).toMatchObject({
    ...{ answer: 'resumed', state, reason: 'its receiver answered 410' },
  });
  expect(await act('pause', { destination: 'to', seen: null }).catch(() => 'looked')).toMatchObject({
    ...{ answer: 'already_paused', state },
  });
  expect(await act('resume', { destination: 'to' })).toMatchObject({ answer: 'resumed', state });
  expect(await destination()).toMatchObject({ state: 'active' });
});

describe('nothing is written', () => {
  const unchanged = async (work: () => Promise<unknown>) => {
    const rows = async () => {
      const { command_receipt: _, ...others } = await dump(ledger, tables);
      return others;
    };
    const before = await rows();
    await work();
    expect(await rows()).toEqual(before);
  };

  test('by what is so already', () =>
    unchanged(async () => {
      expect(await act('resume')).toMatchObject({ answer: 'already_active', state: 'active' });
      expect(await act('resume', { destination: 'to' })).toMatchObject({ answer: 'already_active' });
    }));

  test('about a destination that nobody has registered', () =>
    unchanged(async () => {
      const seen = { state: 'active', since: null } as const;
      const asked = command('pause', { destination: 'nowhere', seen });
      for (const _ of [1, 2]) expect(await control(asked)).toEqual({ answer: 'not_found', destination: 'nowhere' });
    }));

  test('by a dry run, not even a receipt', async () => {
    const before = await dump(ledger, tables);
    const asked = command('pause', { dryRun: true });
    expect(await control(asked)).toMatchObject({ answer: 'paused', state: 'active' });
    expect(await dump(ledger, tables)).toEqual(before);
    expect(await control({ ...asked, dryRun: false, seen: { state: 'active', since: null } })).toMatchObject({
      answer: 'paused',
    });
  });

  test('from a screen that is older than the last switch, or without one', async () => {
    const old = await asSeen('resume', { destination: 'to', dryRun: false }).catch(() => null);
    await act('pause', { destination: 'to' });
    const first = await asSeen('resume', { destination: 'to' });
    await act('resume', { destination: 'to' });
    await act('pause', { destination: 'to' });
    await unchanged(async () => {
      expect(await control(first)).toMatchObject({ answer: 'stale', state: 'paused' });
      expect(await control({ ...first, token: uuid(), seen: null })).toMatchObject({ answer: 'stale' });
      const wrong = { state: 'disabled', since: first.seen?.since ?? null } as const;
      expect(await control({ ...first, token: uuid(), seen: wrong })).toMatchObject({ answer: 'stale' });
      expect(old).toMatchObject({ seen: { state: 'active' } });
    });
  });

  test('by another command under a token that was used', async () => {
    const done = await asSeen('pause');
    await control(done);
    await unchanged(async () => {
      const seen = { state: 'paused', since: null } as const;
      for (const other of [{ ...done, verb: 'resume', seen } as const, { ...done, destination: 'to', seen }]) {
        expect(await control(other)).toEqual({ answer: 'token_used', destination: other.destination });
      }
    });
  });
});

test('under its token a command answers the same for ever, also after another has switched it back', async () => {
  const first = await asSeen('pause');
  const answer = await control(first);
  await act('resume');
  const before = await dump(ledger, tables);
  expect(await control(first)).toEqual(answer);
  expect(await dump(ledger, tables)).toEqual(before);
});

test.each([null, 'to'])(
  'two at once, of %s: a twin answers as the first, a rival that it is so; one action',
  async (name) => {
    const first = await asSeen('pause', { destination: name });
    const rival = { ...first, token: uuid() };
    const [twin, other] = await ledger.behind(
      (session) => session.run(controlStatement, first),
      () => Promise.all([control(first), control(rival)]),
      'COMMIT',
      2,
    );
    expect(twin).toMatchObject({ answer: 'paused', state: 'active' });
    expect(other).toMatchObject({ answer: 'already_paused', state: 'paused', reason: 'to pause' });
    expect(await actions()).toHaveLength(1);
  },
);

test('a lost answer: the command is sent again and answers as if it had come', async () => {
  const asked = await asSeen('pause');
  ledger.api.faults.next({ kind: 'reset-after' });
  expect(await control(asked)).toMatchObject({ answer: 'paused' });
  expect(await actions()).toHaveLength(1);
});

test.each([null, 'all'])('no attempt is opened by what starts after a pause, of %s, was answered', async (all) => {
  const rows: Arranged[] = [];
  const to = (await ledger.sql("SELECT destination_id FROM destination WHERE name = 'to'"))[0];
  for (let count = 0; count < 60; count += 1) rows.push(await arrange(ledger, 'queued', { columns: { ...to } }));
  const asked = await asSeen('pause', { destination: all === null ? 'to' : null });
  const opened: { startedAt: number; answer: string }[] = [];
  const left = rows.values();
  let pausedAt = Number.POSITIVE_INFINITY;
  const sender = async () => {
    for (const { deliveryId } of left) {
      const startedAt = performance.now();
      const [row] = await ledger.ledger.open({ token: uuid(), worker, deliveryIds: [deliveryId] });
      opened.push({ startedAt, answer: String(row?.answer) });
    }
  };
  const pause = async () => {
    while (opened.length < 15) await new Promise(setImmediate);
    await control(asked);
    pausedAt = performance.now();
  };
  await Promise.all([sender(), sender(), sender(), pause()]);
  expect(opened.filter(({ answer }) => answer === 'opened').length).toBeGreaterThanOrEqual(15);
  const after = opened.filter(({ startedAt }) => startedAt > pausedAt);
  expect(after.length).toBeGreaterThan(5);
  expect(new Set(after.map(({ answer }) => answer))).toEqual(new Set(['paused']));
  const claimed = await ledger.ledger.claim({ token: uuid(), worker, limit: 100, lowWater: null });
  expect(claimed.claimed).toEqual([]);
});

test('what a switch concerns: counted of all, or of one destination, no more than are looked at', async () => {
  await arrange(ledger, 'delivering, lease live');
  await arrange(ledger, 'dispatching');
  const queued = await arrange(ledger, 'queued');
  await arrange(ledger, 'scheduled');
  await arrange(ledger, 'scheduled', { dueIn: 9000, wakeIn: 9000 });
  await arrange(ledger, 'held');
  await arrange(ledger, 'scheduled', { columns: { parked: true, wake_at: 'infinity' } });
  const { affected } = postgresControl(ledger.database);
  expect(await affected(null)).toEqual({ sending: 1, inFlight: 2, due: 1, parked: 1, complete: true });
  const name = `to-${queued.deliveryId}`;
  expect(await affected(name)).toEqual({ sending: 0, inFlight: 1, due: 0, parked: 0, complete: true });
  expect(await affected('nowhere')).toMatchObject({ sending: 0, inFlight: 0, due: 0, parked: 0 });
});
