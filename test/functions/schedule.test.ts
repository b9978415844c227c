// The schedule function as a product calls it: every answer of its contract, aliases and batches.
import { v7 as uuid } from 'uuid';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { CommandAnswer } from '../../lambdas/schedule/contract.ts';
import { eventually, invitation, type RunningLedger, startRunningLedger } from './running-ledger.ts';

let ledger: RunningLedger;
let ok: string;
beforeAll(async () => {
  ledger = await startRunningLedger();
  // What a tick does is no matter of this function's answers.
  ledger.aws.scheduler.pause();
  ok = await ledger.destination('/ok');
}, 60_000);
afterAll(() => ledger.stop());

const later = '2040-01-01T00:00:00.000Z';
const good = (more: object = {}) => ({
  verb: 'schedule',
  key: `key-${uuid()}`,
  destination: ok,
  dueAt: later,
  userId: 'user-1',
  payload: { a: 1 },
  ...more,
});
const rows = async () => Number((await ledger.sql('SELECT count(*) AS n FROM reminder_delivery'))[0]?.n);

describe('the answers', () => {
  test('scheduled: it is in the calendar, with its id, state, due time, expiry and version', async () => {
    const command = good({ dueAt: '2040-01-01T02:00:00+01:00', expiresAt: '2040-01-02T00:00:00Z' });
    const answer = await ledger.command(command, 'shop');
    expect(answer).toEqual({
      answer: 'scheduled',
      deliveryId: expect.stringMatching(/^[0-9a-f]{8}-[0-9a-f]{4}-7/),
      state: 'scheduled',
      dueAt: '2040-01-01T01:00:00.000Z',
      expiresAt: '2040-01-02T00:00:00.000Z',
      version: 1,
    });
    const { deliveryId = '' } = answer as { deliveryId?: string };
    expect(await ledger.row(deliveryId)).toMatchObject({
      producer: 'shop',
      user_id: 'user-1',
      idempotency_key: command.key,
      payload: '{"a":1}',
      due_at: new Date('2040-01-01T01:00:00Z'),
    });
  });

  test('duplicate: the same again, also with its time told in another offset, and after whatever became of it', async () => {
    const command = good();
    const first = await ledger.command(command);
    const again = { ...first, answer: 'duplicate' };
    expect(await ledger.command(command)).toEqual(again);
    expect(await ledger.command({ ...command, dueAt: '2039-12-31T19:00:00-05:00' })).toEqual(again);
    const moved = { dueAt: '2041-01-01T00:00:00.000Z', version: 2 };
    await ledger.command({ verb: 'reschedule', key: command.key, dueAt: moved.dueAt });
    expect(await ledger.command(command)).toEqual({ ...again, ...moved });
    await ledger.command({ verb: 'cancel', key: command.key });
    expect(await ledger.command(command)).toEqual({ ...again, ...moved, state: 'cancelled' });
  });

  test.each([
    ['destination', async () => ({ destination: await ledger.destination('/ok') })],
    ['dueAt', async () => ({ dueAt: '2040-01-01T00:00:01Z' })],
    ['expiresAt', async () => ({ expiresAt: '2050-01-01T00:00:00Z' })],
    ['userId', async () => ({ userId: 'user-2' })],
    ['payload', async () => ({ payload: { a: 2 } })],
  ])('conflict: names %s', async (field, other) => {
    const command = good();
    const { deliveryId } = (await ledger.command(command)) as { deliveryId?: string };
    const answer = await ledger.command({ ...command, ...(await other()) });
    expect(answer).toEqual({ answer: 'conflict', fields: [field], deliveryId });
  });

  test('conflict: names all fields that differ, by the creating request, also after a reschedule', async () => {
    const command = good();
    await ledger.command(command);
    await ledger.command({ verb: 'reschedule', key: command.key, dueAt: '2041-01-01T00:00:00Z' });
    const answer = await ledger.command({ ...command, dueAt: '2041-01-01T00:00:00Z', payload: { b: 1 } });
    expect(answer).toMatchObject({ answer: 'conflict', fields: ['dueAt', 'payload'] });
  });

  test('cancelled: it will not be sent, and a second cancel says so again', async () => {
    const [near] = await ledger.schedule(ok, [{ dueInMs: 8000 }]);
    const name = { deliveryId: near?.deliveryId };
    expect(await ledger.command({ verb: 'cancel', ...name })).toMatchObject({
      answer: 'cancelled',
      state: 'cancelled',
    });
    expect(await ledger.command({ verb: 'cancel', key: near?.key })).toMatchObject({ answer: 'cancelled' });
  });

  test('rescheduled, unchanged, stale: by version', async () => {
    const { key } = good();
    await ledger.command(good({ key }));
    const move = { verb: 'reschedule', key, dueAt: '2041-01-01T00:00:00.000Z' };
    const moved = { state: 'scheduled', dueAt: move.dueAt, expiresAt: null, version: 2 };
    expect(await ledger.command({ ...move, expectedVersion: 1 })).toMatchObject({ answer: 'rescheduled', ...moved });
    expect(await ledger.command({ ...move, expectedVersion: 2 })).toMatchObject({ answer: 'unchanged', ...moved });
    expect(await ledger.command({ ...move, dueAt: later, expectedVersion: 1 })).toMatchObject({
      answer: 'stale',
      ...moved,
    });
    const expiresAt = '2042-01-01T00:00:00.000Z';
    expect(await ledger.command({ ...move, expiresAt })).toMatchObject({
      answer: 'rescheduled',
      expiresAt,
      version: 3,
    });
    const beyond = { ...move, dueAt: '2043-01-01T00:00:00Z' };
    expect(await ledger.command(beyond)).toMatchObject({ answer: 'invalid', issues: [{ path: 'expiresAt' }] });
    expect(await ledger.command({ ...beyond, expiresAt: null })).toMatchObject({
      answer: 'rescheduled',
      expiresAt: null,
    });
  });

  test('too_late: it is being sent', async () => {
    const { deliveryId } = await ledger.scheduleUnsent(ok);
    // A sender that dies leaves the row being sent until its lease passes: long enough for any machine.
    ledger.receiver.onArrival(deliveryId, async () => {
      const [attempt] = await ledger.sql('SELECT request_id FROM delivery_attempt WHERE delivery_id = $1', [
        deliveryId,
      ]);
      expect(ledger.aws.host.kill(String(attempt?.request_id))).toBe(true);
    });
    await expect(ledger.deliver([invitation(deliveryId)])).rejects.toThrow('SIGKILL');
    const facts = { answer: 'too_late', state: 'delivering', version: 1 };
    expect(await ledger.command({ verb: 'reschedule', deliveryId, dueAt: later })).toMatchObject(facts);
    expect(await ledger.command({ verb: 'cancel', deliveryId })).toMatchObject(facts);
    expect((await ledger.row(deliveryId)).cancel_requested_at).not.toBeNull();
  });

  test('finished and held: nothing moves it any more, or only a person', async () => {
    const partner = await ledger.destination('/reset', 'none');
    const [delivered] = await ledger.schedule(ok, [{ dueInMs: 300 }]);
    const [held] = await ledger.schedule(partner, [{ dueInMs: 300 }]);
    await ledger.settled([delivered?.deliveryId ?? '']);
    await ledger.settled([held?.deliveryId ?? ''], 'held');
    const answerTo = (verb: string, key = '', more = {}) => ledger.command({ verb, key, ...more });
    const finished = { answer: 'finished', state: 'delivered' };
    expect(await answerTo('cancel', delivered?.key)).toMatchObject(finished);
    expect(await answerTo('reschedule', delivered?.key, { dueAt: later })).toMatchObject(finished);
    // Its attempt may have been processed: another due time would give it a second sendable version.
    expect(await answerTo('reschedule', held?.key, { dueAt: later })).toMatchObject({
      answer: 'too_late',
      state: 'held',
    });
    expect(await answerTo('cancel', held?.key)).toMatchObject({ answer: 'cancelled' });
    const [waiting] = await ledger.schedule(ok, [{}]);
    await ledger.sql(
      `UPDATE reminder_delivery SET state = 'held', hold_reason = 'test', wake_at = NULL WHERE delivery_id = $1`,
      [waiting?.deliveryId],
    );
    expect(await answerTo('reschedule', waiting?.key, { dueAt: later })).toMatchObject({
      answer: 'held',
      state: 'held',
    });
  });

  test('found and not_found: what the ledger says, and never the payload', async () => {
    const command = good({ payload: { canary: 'payload-canary' } });
    const { deliveryId } = (await ledger.command(command)) as { deliveryId?: string };
    const found = await ledger.command({ verb: 'get', key: command.key });
    expect(found).toMatchObject({
      answer: 'found',
      deliveryId,
      state: 'scheduled',
      dueAt: later,
      version: 1,
      reminder: { key: command.key, destination: ok, userId: 'user-1', attempts: 0, lastError: null, parked: false },
    });
    expect(await ledger.command({ verb: 'get', deliveryId })).toEqual(found);
    expect(JSON.stringify(found)).not.toContain('payload-canary');
    for (const verb of ['get', 'cancel']) {
      expect(await ledger.command({ verb, key: 'nobody' })).toEqual({ answer: 'not_found' });
      expect(await ledger.command({ verb, deliveryId: uuid() })).toEqual({ answer: 'not_found' });
    }
    expect(await ledger.command({ verb: 'reschedule', key: 'nobody', dueAt: later })).toEqual({ answer: 'not_found' });
  });
});

describe('who asks', () => {
  test("another product's reminders cannot be seen, moved or learned of", async () => {
    const command = good();
    const own = (await ledger.command(command, 'shop')) as { deliveryId?: string };
    const names = [{ key: command.key }, { deliveryId: own.deliveryId }];
    for (const product of ['bank', undefined]) {
      for (const name of names) {
        for (const verb of [
          { verb: 'get' },
          { verb: 'cancel' },
          { verb: 'reschedule', dueAt: '2041-01-01T00:00:00Z' },
        ]) {
          expect(await ledger.command({ ...verb, ...name }, product)).toEqual({ answer: 'not_found' });
        }
      }
      expect(await ledger.command(command, product)).toEqual({ answer: 'conflict', fields: [] });
      expect(await ledger.command({ ...command, userId: 'x' }, product)).toEqual({ answer: 'conflict', fields: [] });
    }
    expect(await ledger.command({ verb: 'get', key: command.key }, 'shop')).toMatchObject({ dueAt: later, version: 1 });
  });

  test('a version number is nobody: only an alias names a product', async () => {
    const command = good();
    await ledger.command(command);
    for (const qualifier of ['7', '$LATEST']) {
      expect(await ledger.command(command, qualifier)).toMatchObject({ answer: 'duplicate' });
    }
  });
});

describe('a batch', () => {
  test('is carried out in its order, each command answered', async () => {
    const command = good({ dueAt: new Date(Date.now() + 1500).toISOString() });
    const other = good();
    const { key } = command;
    const answers = await ledger.commands([
      command,
      other,
      { verb: 'cancel', key },
      command,
      { verb: 'get', key },
      { verb: 'get', key: other.key },
      { verb: 'reschedule', key: other.key, dueAt: '2041-01-01T00:00:00Z' },
      { verb: 'get', key: other.key },
      other,
      { ...other, userId: 'user-2' },
    ]);
    expect(answers).toMatchObject([
      { answer: 'scheduled' },
      { answer: 'scheduled' },
      { answer: 'cancelled' },
      { answer: 'duplicate', state: 'cancelled' },
      { answer: 'found', state: 'cancelled' },
      { answer: 'found', dueAt: later },
      { answer: 'rescheduled', version: 2 },
      { answer: 'found', version: 2 },
      { answer: 'duplicate', version: 2 },
      { answer: 'conflict', fields: ['userId'] },
    ]);
    const { deliveryId = '' } = answers[0] as { deliveryId?: string };
    expect(await ledger.row(deliveryId)).toMatchObject({ state: 'cancelled', invitations: 0 });
  });

  test('that names one key several times writes one reminder', async () => {
    const command = good();
    const answers = await ledger.commands([command, command, { ...command, payload: [] }, command]);
    const told = answers.map(({ answer }) => answer);
    expect(told).toEqual(['scheduled', 'duplicate', 'conflict', 'duplicate']);
    expect(await ledger.sql('SELECT FROM reminder_delivery WHERE idempotency_key = $1', [command.key])).toHaveLength(1);
    const cancels = await ledger.commands(Array.from({ length: 3 }, () => ({ verb: 'cancel', key: command.key })));
    expect(cancels.map(({ answer }) => answer)).toEqual(['cancelled', 'cancelled', 'cancelled']);
  });

  test('of 500 is taken whole', async () => {
    const answers = await ledger.commands(Array.from({ length: 500 }, () => good()));
    expect(new Set(answers.map(({ answer }) => answer))).toEqual(new Set(['scheduled']));
    expect(answers).toHaveLength(500);
  });

  test('of 5 MiB of payload is taken whole', async () => {
    const payloadText = 'x'.repeat(32_768);
    const all = Array.from({ length: 160 }, () => good({ payload: undefined, payloadText }));
    // At this stage a statement has half a second: on a slow machine it may take a second call, which finds what the first did.
    const answers = await ledger.commands(all).catch(() => ledger.commands(all));
    expect(answers.filter(({ answer }) => answer === 'scheduled' || answer === 'duplicate')).toHaveLength(160);
    const stored = await ledger.sql('SELECT FROM reminder_delivery WHERE payload = $1', [payloadText]);
    expect(stored).toHaveLength(160);
  });

  test.each<[string, () => object, string]>([
    ['501 commands', () => ({ commands: Array.from({ length: 501 }, () => good()) }), 'commands'],
    ['no commands', () => ({ commands: [] }), 'commands'],
    ['commands that are an object', () => ({ commands: { 0: good() } }), 'commands'],
    ['commands that are null', () => ({ commands: null }), 'commands'],
    ['another field beside them', () => ({ commands: [good()], dryRun: true }), 'dryRun'],
    ['a verb beside them', () => ({ ...good(), commands: [good()] }), 'verb'],
    [
      'more than 5 MiB of payload',
      () => ({
        commands: Array.from({ length: 161 }, () => good({ payload: undefined, payloadText: 'x'.repeat(32_768) })),
      }),
      'commands',
    ],
  ])('with %s is refused whole', async (_what, request, path) => {
    const before = await rows();
    const answer = (await ledger.call(request())) as CommandAnswer;
    expect(answer.answer).toBe('invalid');
    expect(answer.answer === 'invalid' && answer.issues.map((issue) => issue.path)).toContain(path);
    expect(await rows()).toBe(before);
  });
});

test('what is due at once needs no tick; what is called off meanwhile never goes out', async () => {
  const asked = await ledger.schedule(ok, [{ dueInMs: 500 }, { dueInMs: 4000 }, { dueInMs: -60_000 }]);
  const [near, called, overdue] = asked.map(({ deliveryId }) => deliveryId);
  expect(await ledger.command({ verb: 'cancel', deliveryId: called })).toMatchObject({ answer: 'cancelled' });
  await ledger.settled([near ?? '', overdue ?? '']);
  const refused = new RegExp(`"message":"open".*"deliveryId":"${called}","answer":"finished"`);
  await eventually('its message is taken', () => refused.test(ledger.logs()));
  expect(ledger.received(called ?? '')).toEqual([]);
});
