// The questions that the storm asks of the tables: each finds the breach that is doctored for it, and names the reminder.
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { ledgerTables } from '../ledger/ledger-rows.ts';
import { startTestLedger, type TestLedger } from '../ledger/test-ledger.ts';
import { arrangeCast, type Contender, idOf, openContender } from './contenders.ts';
import { brokenPromises, forbiddenMoves, promises, watchMoves } from './promises.ts';

let ledger: TestLedger;
let tables: string[];
let session: Contender;
beforeAll(async () => {
  ledger = await startTestLedger();
  tables = await ledgerTables(ledger);
  session = await openContender(ledger);
  await watchMoves(session.sql);
});
beforeEach(() => arrangeCast(ledger, tables));
afterAll(async () => {
  await session?.close();
  await ledger?.stop();
});

/** Of whom, and what is done to its rows; `$` stands for its id. */
type Breach = readonly [name: string, sql: string];

const change = (columns: string) => `UPDATE reminder_delivery SET ${columns} WHERE delivery_id = $`;
const receipt = (verb: string, answer: string) =>
  `INSERT INTO command_receipt VALUES (gen_random_uuid(), 0, '${verb}',
     jsonb_build_object('answer', '${answer}', 'delivery_id', CAST($ AS text)), now())`;
const outcome = (movedTo: string) =>
  `INSERT INTO attempt_outcome (delivery_id, attempt_no, token, recorded_by, recorded_at, outcome, moved_to)
   VALUES ($, 1, gen_random_uuid(), 'sender', now(), 'retry', '${movedTo}')`;

const breaches: Readonly<Record<string, readonly [Breach, ...Breach[]]>> = {
  'a dispatching row belongs to the one claim that took it': [
    ['dispatching', change('lease_owner = gen_random_uuid()')],
    ['dispatching', `UPDATE claim_batch SET claimed = array_remove(claimed, $)`],
  ],
  'a delivering row belongs to the one attempt that is open': [
    ['sending', change('lease_owner = gen_random_uuid()')],
    ['sending again', 'UPDATE delivery_attempt SET lease_owner = gen_random_uuid() WHERE delivery_id = $'],
  ],
  'attempts are numbered from 1 without a gap, and the row has the last number (P5, P9)': [
    ['dead', 'UPDATE delivery_attempt SET attempt_no = 2 WHERE delivery_id = $'],
    ['sending', change('attempt_no = 2')],
    ['sending again', 'DELETE FROM delivery_attempt WHERE delivery_id = $ AND attempt_no = 1'],
  ],
  'no token opened one reminder twice': [
    ['sending again', 'UPDATE delivery_attempt SET lease_owner = delivery_id WHERE delivery_id = $'],
  ],
  'delivered has a 2xx or evidence given by a person, and each makes delivered (P4, P8)': [
    ['dead', `UPDATE attempt_outcome SET outcome = 'delivered' WHERE delivery_id = $`],
    ['dead', change(`state = 'delivered', delivered_at = now()`)],
  ],
  'one success moved it, and nothing after that (P3)': [
    ['dead', `${outcome('delivered')}, ($, 1, gen_random_uuid(), 'sender', now(), 'delivered', 'delivered')`],
  ],
  'at most one outcome of an attempt moved the row, a late success aside (P8)': [['dead', outcome('dead')]],
  'an attempt that is no more open has an outcome': [
    ['dead', 'DELETE FROM attempt_outcome WHERE delivery_id = $'],
    ['sending again', 'DELETE FROM attempt_outcome WHERE delivery_id = $'],
  ],
  'the failures are no more than the attempts (P9)': [['dead', change('failures = 1, attempts_at_requeue = 1')]],
  'its end is announced once': [
    ['dead', 'DELETE FROM lifecycle_event WHERE delivery_id = $'],
    ['cancelled', 'UPDATE lifecycle_event SET version = 2 WHERE delivery_id = $'],
  ],
  'each reschedule, hold, release and requeue that was granted made one version': [
    ['scheduled', change('version = 2')],
    ['scheduled', receipt('reschedule', 'rescheduled')],
  ],
  'what was called off is not open to another attempt (P10)': [['scheduled', receipt('cancel', 'cancelled')]],
  'payload and hash are those of the creation (P2)': [['queued', change(`payload = '{}'`)]],
  'a live row wakes (P11)': [
    ['queued', `ALTER TABLE reminder_delivery DROP CONSTRAINT live_row_wakes; ${change('wake_at = NULL')}`],
  ],
};

test('there is a breach for each question', () => {
  expect(Object.keys(breaches).sort()).toEqual(Object.keys(promises).sort());
});

const all = Object.entries(breaches).flatMap(([promise, doctored]) =>
  doctored.map(([name, sql], place) => ({ promise, name, sql, place })),
);

test.each(all)('$promise, breach $place', async ({ promise, name, sql }) => {
  expect(await brokenPromises(session.sql)).toEqual([]);
  // With the guards of the schema off, and undone at the end.
  await session.sql('BEGIN; SET LOCAL session_replication_role = replica');
  await session.sql(sql.replaceAll(/\$(?!\w)/g, `CAST('${idOf(name)}' AS uuid)`));
  expect(await brokenPromises(session.sql)).toContainEqual(`${promise}: ${idOf(name)}`);
  await session.sql('ROLLBACK');
});

test('a move out of an end is noted and found, unless it is allowed', async () => {
  const ends = ['delivered', 'dead', 'expired', 'cancelled'];
  const states = ['scheduled', 'held', ...ends];
  const moves = ends.flatMap((before) =>
    states.filter((after) => after !== before).map((after) => ({ before, after })),
  );
  const allowed = ['dead delivered', 'dead cancelled', 'expired delivered', 'cancelled delivered'];
  for (const { before, after } of moves) {
    await session.sql('INSERT INTO watch.moves VALUES (gen_random_uuid(), $1, $2)', [before, after]);
    const found = await forbiddenMoves(session.sql);
    expect(found, `${before} ${after}`).toEqual(allowed.includes(`${before} ${after}`) ? [] : [{ before, after }]);
    await session.sql('DELETE FROM watch.moves');
  }
  await session.sql(`UPDATE reminder_delivery SET state = 'cancelled', wake_at = NULL WHERE delivery_id = $1`, [
    idOf('dead'),
  ]);
  expect(await session.sql('SELECT * FROM watch.moves')).toEqual([
    { delivery_id: idOf('dead'), before: 'dead', after: 'cancelled' },
  ]);
});
