// Decisions as commands: several in one, under a token, as a dry run, beside what they do not name.
import { v7 as uuid } from 'uuid';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { decide as decideStatement } from '../../lambdas/store/statements/decide.ts';
import { command, decider } from './decider.ts';
import { dump, empty, ledgerTables } from './ledger-rows.ts';
import { type Arranged, arrange } from './situations.ts';
import { startTestLedger, type TestLedger } from './test-ledger.ts';

let ledger: TestLedger;
let tables: string[];
beforeAll(async () => {
  ledger = await startTestLedger();
  tables = await ledgerTables(ledger);
});
beforeEach(() => empty(ledger, tables));
afterAll(() => ledger.stop());

const { decide, rowOf, actions, known } = decider(() => ledger);

test('each of several is answered on its own, in order; what is unknown too', async () => {
  const rows = [await arrange(ledger, 'dead'), await arrange(ledger, 'delivered'), await arrange(ledger, 'dead')];
  const unknown = { ...(rows[0] as Arranged), deliveryId: uuid() };
  const answers = await decide(command('requeue', [...rows, unknown]));
  expect(answers.map(({ answer }) => answer)).toEqual(['requeued', 'refused', 'requeued', 'not_found']);
  expect(answers.map(({ deliveryId }) => deliveryId)).toEqual([...rows, unknown].map(({ deliveryId }) => deliveryId));
  expect((await actions()).map(({ delivery_id }) => delivery_id).sort()).toEqual(
    [rows[0], rows[2]].map((row) => row?.deliveryId).sort(),
  );
});

test('under its token a decision answers the same for ever, also after another has changed the row', async () => {
  const row = await arrange(ledger, 'dead');
  const first = command('requeue', [row]);
  const answer = await decide(first);
  await decide({
    ...command('hold', []),
    reminders: [{ deliveryId: row.deliveryId, versionSeen: 2, attemptsSeen: 0 }],
  });
  const before = await dump(ledger, tables);
  expect(await decide(first)).toEqual(answer);
  expect(await dump(ledger, tables)).toEqual(before);
});

test('a dry run answers what would be, writes nothing, and leaves its token free', async () => {
  const row = await arrange(ledger, 'dead');
  const wet = command('requeue', [row]);
  const before = await dump(ledger, tables);
  const answer = await decide({ ...wet, dryRun: true });
  expect(await dump(ledger, tables)).toEqual(before);
  expect(await decide(wet)).toEqual(answer);
  expect(await rowOf(row)).toMatchObject({ state: 'scheduled' });
});

test('another command under the same id does nothing, and is not told the answer of the first', async () => {
  const [first, second] = [await arrange(ledger, 'dead'), await arrange(ledger, 'queued')];
  const done = command('requeue', [first]);
  await decide(done);
  const before = await dump(ledger, tables);
  for (const other of [command('hold', [second]), command('requeue', [second]), command('review', [first])]) {
    const [{ deliveryId } = { deliveryId: '' }] = other.reminders;
    expect(await decide({ ...other, token: done.token })).toEqual([{ answer: 'token_used', deliveryId }]);
  }
  expect(await dump(ledger, tables)).toEqual(before);
});

test('a row that cannot be updated keeps only itself from being decided', async () => {
  const [broken, sound] = [await arrange(ledger, 'dead'), await arrange(ledger, 'dead')];
  await ledger.sql(
    `CREATE FUNCTION refuse_one() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
       RAISE EXCEPTION 'damaged' USING ERRCODE = 'XX001'; END $$;
     CREATE TRIGGER refuse_one BEFORE UPDATE ON reminder_delivery FOR EACH ROW
       WHEN (OLD.delivery_id = '${broken.deliveryId}') EXECUTE FUNCTION refuse_one()`,
  );
  try {
    const answers = await decide(command('requeue', [broken, sound]));
    expect(answers).toMatchObject([
      { answer: 'unusable', deliveryId: broken.deliveryId },
      { answer: 'requeued', deliveryId: sound.deliveryId },
    ]);
  } finally {
    await ledger.sql('DROP TRIGGER refuse_one ON reminder_delivery; DROP FUNCTION refuse_one()');
  }
});

describe('what is not named', () => {
  test('an attempt of another reminder is no evidence for this one', async () => {
    const [row, other] = [
      await arrange(ledger, 'dead', { attempts: 1 }),
      await arrange(ledger, 'dead', { attempts: 3 }),
    ];
    for (const attemptNo of [1, 2, 3]) await known(other, attemptNo, 'retry');
    expect(await decide(command('requeue', [row]))).toMatchObject([{ answer: 'evidence_needed' }]);
  });

  test('is neither waited for nor changed, and answers under other ids stay theirs', async () => {
    const [row, other] = [await arrange(ledger, 'dead'), await arrange(ledger, 'dead')];
    await decide(command('review', [other]));
    const session = await ledger.session();
    try {
      await session.sql('BEGIN');
      await session.sql('SELECT FROM reminder_delivery WHERE delivery_id = $1 FOR UPDATE', [other.deliveryId]);
      expect(await decide(command('requeue', [row]))).toMatchObject([
        { answer: 'requeued', deliveryId: row.deliveryId },
      ]);
    } finally {
      await session.close();
    }
    expect(await rowOf(other)).toMatchObject({ state: 'dead', version: 1 });
  });
});

test('a command about several is answered in one run, and run again it says the same of each', async () => {
  const rows = [await arrange(ledger, 'dead'), await arrange(ledger, 'dead')];
  const { reminders, ...rest } = command('requeue', rows);
  const run = (some: typeof reminders) =>
    ledger.database.run(decideStatement, { ...rest, reminders: some.map((seen, item) => ({ ...seen, item })) });
  const first = await run(reminders.slice(0, 1));
  expect(first).toMatchObject([{ item: 0, answer: 'requeued', delivery_id: rows[0]?.deliveryId }]);
  const lines = [...first, { item: 1, answer: 'requeued', delivery_id: rows[1]?.deliveryId, state: 'scheduled' }];
  for (let times = 0; times < 2; times += 1) {
    const found = await run(reminders);
    expect(found).toHaveLength(2);
    expect(found).toMatchObject(lines);
  }
  const both = [await arrange(ledger, 'dead'), await arrange(ledger, 'held')];
  const other = command('review', both);
  const once = await ledger.database.run(decideStatement, {
    ...other,
    reminders: other.reminders.map((seen, item) => ({ ...seen, item })),
  });
  expect(once).toMatchObject(
    both.map(({ deliveryId }, item) => ({ item, answer: 'reviewed', delivery_id: deliveryId })),
  );
  expect(await actions()).toHaveLength(4);
});
