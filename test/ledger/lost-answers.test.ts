// Lost answers: whatever goes wrong on the way to the database and back, a command has its effect once and says so.
import { setTimeout as sleep } from 'node:timers/promises';
import * as rdsData from '@aws-sdk/client-rds-data';
import { v7 as uuid } from 'uuid';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { LedgerFault, Ran, Retry } from '../../lambdas/core/errors.ts';
import type { Ledger } from '../../lambdas/core/ports.ts';
import { addDestination } from '../../lambdas/store/statements/add-destination.ts';
import { cancel } from '../../lambdas/store/statements/cancel.ts';
import { comparable, comparableRows, dump, empty, ledgerTables } from './ledger-rows.ts';
import { arrange, claimToken, inSeconds, openToken, producer } from './situations.ts';
import { newReminder, outcome, startTestLedger, type TestLedger, worker } from './test-ledger.ts';

let ledger: TestLedger;
let tables: string[];
beforeAll(async () => {
  ledger = await startTestLedger();
  tables = await ledgerTables(ledger);
});
beforeEach(() => empty(ledger, tables));
afterEach(() => ledger.api.faults.clear());
afterAll(() => ledger.stop());

/** Brings the ledger to where the command has work to do, more than one run of it takes, and answers the command. */
type Arrange = () => Promise<(ledger: Ledger) => Promise<unknown>>;

/** Every method of the port: one without its case does not compile. */
const commands: { readonly [Verb in keyof Ledger]: Arrange | 'reads' } = {
  get: 'reads',
  unannounced: 'reads',
  listDue: 'reads',
  async schedule() {
    await ledger.destination('to');
    // Fixed instants: their fingerprints are compared with another run's.
    const near = newReminder('to', 0, { dueAt: '2020-01-01T00:00:00.000Z' });
    const far = newReminder('to', 0, { dueAt: '2999-01-01T00:00:00.000Z' });
    const reminders = [near, { ...near, deliveryId: uuid() }, far, newReminder('nowhere', 1)];
    const token = uuid();
    return (to) => to.schedule({ token, producer, reminders });
  },
  async cancel() {
    const rows = [await arrange(ledger, 'queued'), await arrange(ledger, 'delivering, lease live')];
    const token = uuid();
    const reminders = [...rows.map(({ key }) => ({ key })), { key: 'unknown' }];
    return (to) => to.cancel({ token, producer, reminders });
  },
  async reschedule() {
    const { deliveryId } = await arrange(ledger, 'queued');
    const token = uuid();
    const reminders = [{ name: { deliveryId }, dueAt: inSeconds(900).toISOString() }];
    return (to) => to.reschedule({ token, producer, reminders });
  },
  async claim() {
    await arrange(ledger, 'delivering, lease past', { wakeIn: -50 });
    await arrange(ledger, 'queued', { wakeIn: -40, dueIn: -60, expiresIn: -1 });
    await arrange(ledger, 'scheduled', { wakeIn: -30, destination: { state: 'paused' } });
    for (const wakeIn of [-20, -10, -5]) await arrange(ledger, 'scheduled', { wakeIn });
    const token = uuid();
    return (to) => to.claim({ token, worker, limit: 4, lowWater: null });
  },
  async exclude() {
    const { deliveryId } = await arrange(ledger, 'scheduled');
    const token = uuid();
    return (to) => to.exclude({ token, deliveryId, sqlState: 'XX001', reason: 'example' });
  },
  async claimById() {
    const rows = [await arrange(ledger, 'scheduled'), await arrange(ledger, 'queued')];
    const token = uuid();
    return (to) => to.claimById({ token, worker, deliveryIds: rows.map(({ deliveryId }) => deliveryId) });
  },
  async enqueue() {
    const rows = [await arrange(ledger, 'dispatching'), await arrange(ledger, 'delivering, lease live')];
    const receipts = rows.map(({ deliveryId }, place) => ({
      deliveryId,
      messageId: `message-${place}`,
      queue: 'invitations',
      delaySeconds: 0,
    }));
    return (to) => to.enqueue({ claimToken, receipts });
  },
  async release() {
    const rows = [await arrange(ledger, 'dispatching'), await arrange(ledger, 'queued')];
    const token = uuid();
    return (to) => to.release({ token, claimToken, deliveryIds: rows.map(({ deliveryId }) => deliveryId) });
  },
  async unpark() {
    for (let row = 0; row < 3; row += 1) {
      await arrange(ledger, 'scheduled', { columns: { parked: true, wake_at: 'infinity' } });
    }
    const token = uuid();
    return (to) => to.unpark({ token, limit: 1 });
  },
  async open() {
    const rows = [
      await arrange(ledger, 'dispatching'),
      await arrange(ledger, 'queued', { dueIn: -60, expiresIn: -1 }),
      await arrange(ledger, 'queued', { dueIn: 60 }),
    ];
    const token = uuid();
    return (to) => to.open({ token, worker, deliveryIds: rows.map(({ deliveryId }) => deliveryId) });
  },
  async settle() {
    const live = 'delivering, lease live';
    const sent = await arrange(ledger, live);
    const gone = await arrange(ledger, live);
    const late = await arrange(ledger, live, { attempts: 2 });
    const token = uuid();
    const outcomes = [sent, gone, late].map(({ deliveryId }) => outcome(deliveryId, openToken(1)));
    outcomes.splice(1, 1, outcome(gone.deliveryId, openToken(1), { outcome: 'gone', status: 410 }));
    return (to) => to.settle({ token, outcomes });
  },
  async announce() {
    const { key } = await arrange(ledger, 'queued');
    await ledger.ledger.cancel({ token: uuid(), producer, reminders: [{ key }] });
    const eventNos = (await ledger.ledger.unannounced({ limit: 10 })).map(({ eventNo }) => eventNo);
    return (to) => to.announce({ eventNos });
  },
};
const writing = Object.entries(commands).filter((entry): entry is [keyof Ledger, Arrange] => entry[1] !== 'reads');

/** What a run answers and leaves, to compare with an undisturbed one. */
async function run(arranged: Arrange, how: (command: (to: Ledger) => Promise<unknown>) => Promise<unknown>) {
  await empty(ledger, tables);
  const command = await arranged();
  const before = await dump(ledger, tables);
  const answer = comparable({ answer: await how(command) });
  const after = await dump(ledger, tables);
  expect(after).not.toEqual(before);
  return { ...answer, rows: comparableRows(after) };
}

describe.each(writing)('%s', (verb, arranged) => {
  const undisturbed = () => run(arranged, (command) => command(ledger.ledger));

  test.each([
    ['the connection breaks after it ran', { kind: 'reset-after' }],
    ['the connection breaks before it ran', { kind: 'reset-before' }],
    ['unavailable after it ran', { kind: 'error-after', error: 'ServiceUnavailableError' }],
    ['an internal error after it ran', { kind: 'error-after', error: 'InternalServerErrorException' }],
    ['a time-out after it ran', { kind: 'error-after', error: 'StatementTimeoutException' }],
    [
      'the session is ended after it ran',
      { kind: 'error-after', error: 'DatabaseErrorException', message: 'FATAL: ended; SQLState: 57P01' },
    ],
  ] as const)('%s: the same answer and the same rows as undisturbed', async (_, fault) => {
    const disturbed = await run(arranged, async (command) => {
      ledger.api.faults.next(fault);
      const before = ledger.api.statements();
      const answer = await command(ledger.ledger);
      expect(ledger.api.faults.take('')).toBeUndefined();
      expect(ledger.api.statements() - before).toBeGreaterThan(fault.kind === 'reset-before' ? 0 : 1);
      return answer;
    });
    expect(disturbed).toEqual(await undisturbed());
  });

  test('run again after it was answered, as when a sending was long under way: it changes nothing more', async () => {
    const again = await run(arranged, async (command) => {
      const answer = await command(ledger.ledger);
      const once = await dump(ledger, tables);
      expect(comparable({ answer: await command(ledger.ledger) })).toEqual(comparable({ answer }));
      expect(await dump(ledger, tables)).toEqual(once);
      return answer;
    });
    expect(again).toEqual(await undisturbed());
  });

  /** The port's commands that skip locked rows, or lock none: nothing can hold their twins back, so chance brings them together. */
  const unheld: readonly (keyof Ledger)[] = ['claim', 'claimById', 'unpark', 'schedule'];
  const rounds = unheld.includes(verb) ? [1, 2, 3, 4, 5, 6, 7, 8] : [1];
  test.each(rounds)('sent twice at once: both answer the same, and the rows are as if sent once (%i)', async () => {
    const twice = await run(arranged, async (command) => {
      const both = () => Promise.all([command(ledger.ledger), command(ledger.ledger)]);
      const lockEverything = async ({ sql }: Pick<TestLedger, 'sql'>) => {
        await sql('SELECT FROM reminder_delivery ORDER BY delivery_id FOR NO KEY UPDATE');
        await sql('SELECT FROM lifecycle_event FOR NO KEY UPDATE');
      };
      const [one, other] = unheld.includes(verb)
        ? await both()
        : await ledger.behind(lockEverything, both, 'COMMIT', 2);
      expect(comparable({ answer: one })).toEqual(comparable({ answer: other }));
      return one;
    });
    expect(twice).toEqual(await undisturbed());
  });
});

test('an answer that takes longer than a call may: asked again under the same token, and the late run changes nothing', async () => {
  const impatient = ledger.openLedger({ ...ledger.settings, dataApiTimeoutMs: 1000 });
  const { key } = await arrange(ledger, 'queued');
  const before = ledger.api.statements();
  ledger.api.faults.next({ kind: 'delay', ms: 2000 });
  const command = { token: uuid(), producer, reminders: [{ key }] };
  expect(await impatient.cancel(command)).toMatchObject([{ answer: 'cancelled' }]);
  expect(ledger.api.statements() - before).toBe(1);
  const answered = await dump(ledger, tables);
  await expect.poll(() => ledger.api.statements() - before, { timeout: 10_000 }).toBe(2);
  await sleep(500);
  expect(await dump(ledger, tables)).toEqual(answered);
});

describe('statements beside the port', () => {
  test('a destination whose first answer was lost is still answered as added', async () => {
    const input = {
      destinationId: uuid(),
      name: 'to',
      url: 'https://to.example/hook',
      owner: 'me',
      contract: 'none',
      deadlineMs: null,
    } as const;
    ledger.api.faults.next({ kind: 'reset-after' });
    expect(await ledger.database.run(addDestination, input)).toEqual([{ answer: 'added', name: 'to' }]);
    expect(await ledger.database.run(addDestination, { ...input, destinationId: uuid() })).toMatchObject([
      { answer: 'unchanged' },
    ]);
  });
});

describe('an error of the Data API before the command ran', () => {
  type Expected = readonly [name: string, fault: LedgerFault, ran: Ran, retry: Retry, sqlState?: string];
  const expected: readonly Expected[] = [
    ['InternalServerErrorException', 'unavailable', 'unknown', 'again'],
    ['ServiceUnavailableError', 'unavailable', 'unknown', 'again'],
    ['DatabaseUnavailableException', 'unavailable', 'unknown', 'again'],
    ['StatementTimeoutException', 'unavailable', 'unknown', 'again'],
    ['AnErrorNobodyKnows', 'unavailable', 'unknown', 'again'],
    ['ThrottlingException', 'busy', 'no', 'later'],
    ['TooManyRequestsException', 'busy', 'no', 'later'],
    ['DatabaseResumingException', 'unavailable', 'no', 'later'],
    ['SecretsErrorException', 'misconfigured', 'no', 'later'],
    ['BadRequestException', 'defect', 'unknown', 'never'],
    ['AccessDeniedException', 'misconfigured', 'no', 'never'],
    ['ForbiddenException', 'misconfigured', 'no', 'never'],
    ['InvalidSecretException', 'misconfigured', 'no', 'later'],
    ['InvalidResourceStateException', 'misconfigured', 'no', 'never'],
    ['HttpEndpointNotEnabledException', 'misconfigured', 'no', 'never'],
    ['DatabaseNotFoundException', 'misconfigured', 'no', 'never'],
    ['NotFoundException', 'misconfigured', 'no', 'never'],
    ['TransactionNotFoundException', 'unavailable', 'unknown', 'never'],
    ['UnsupportedResultException', 'defect', 'yes', 'never'],
    ...['40001', '40P01', '55P03', '57014'].map((state) => ofDatabase(state, 'busy', 'no', 'again')),
    ...['57P01', '57P02', '57P03', '08000', '08003', '08006'].map((state) =>
      ofDatabase(state, 'unavailable', 'unknown', 'again'),
    ),
    ...['53000', '53300'].map((state) => ofDatabase(state, 'unavailable', 'no', 'later')),
    ofDatabase('28P01', 'misconfigured', 'no', 'later'),
    ...['22001', '22P02', '23505', '23514'].map((state) => ofDatabase(state, 'refused', 'no', 'never')),
    ...['42601', '42P01', 'XX000'].map((state) => ofDatabase(state, 'defect', 'no', 'never')),
  ];
  function ofDatabase(sqlState: string, fault: LedgerFault, ran: Ran, retry: Retry): Expected {
    return ['DatabaseErrorException', fault, ran, retry, sqlState];
  }

  test('each error that the client knows has its case', () => {
    const known = Object.entries(rdsData).flatMap(([name, value]) =>
      typeof value === 'function' && value.prototype instanceof Error && name !== 'RDSDataServiceException'
        ? [name]
        : [],
    );
    expect(known.filter((name) => !expected.some(([tested]) => tested === name))).toEqual([]);
  });

  test.each(expected)('%s: %s, ran %s, retry %s (%s)', async (error, fault, ran, retry, sqlState) => {
    const message = sqlState === undefined ? 'Injected' : `ERROR: injected; Position: 8; SQLState: ${sqlState}`;
    const row = await arrange(ledger, 'scheduled');
    const input = { token: uuid(), producer, reminders: [{ item: 0, name: { key: row.key } }] };
    let tries = 0;
    const command = () =>
      ledger.database.run(cancel, input, () => {
        tries += 1;
      });
    const facts = { name: 'LedgerError', statement: 'cancel', fault, ran, retry, sqlState: sqlState ?? null };

    const undo = ledger.api.faults.next({ kind: 'error-before', error, message, times: 99 });
    await expect(command()).rejects.toMatchObject(facts);
    expect(tries).toBe(retry === 'never' ? 1 : ledger.settings.dataApiTries);
    undo();

    ledger.api.faults.next({ kind: 'error-before', error, message });
    if (retry === 'never') await expect(command()).rejects.toMatchObject(facts);
    else expect(await command()).toMatchObject([{ answer: 'cancelled' }]);
  });
});

test('ten of the largest payloads, all quotes, under the longest keys: scheduled and opened in one batch each', async () => {
  await ledger.destination('to', { url: `https://to.example/${'u'.repeat(2000)}` });
  const payload = '"'.repeat(32_768);
  const reminders = Array.from({ length: 10 }, (_, place) =>
    newReminder('to', -1, { payload, key: String(place).padStart(255, '"'), userId: '\u0001'.repeat(128) }),
  );
  const scheduled = await ledger.ledger.schedule({ token: uuid(), producer, reminders });
  expect(scheduled.map(({ answer }) => answer)).toEqual(reminders.map(() => 'scheduled'));
  const deliveryIds = reminders.map(({ deliveryId }) => deliveryId);
  await ledger.ledger.claimById({ token: uuid(), worker, deliveryIds });
  const opened = await ledger.ledger.open({ token: uuid(), worker, deliveryIds });
  expect(opened.map((answer) => ('payload' in answer ? answer.payload : answer))).toEqual(reminders.map(() => payload));
  const got = await ledger.ledger.get({ producer, reminders: deliveryIds.map((deliveryId) => ({ deliveryId })) });
  expect(got.map((view) => view?.state)).toEqual(reminders.map(() => 'delivering'));
});
