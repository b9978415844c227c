// The state machine, cell by cell: each verb's statement on a reminder in each situation, due and not, once and twice.
import { existsSync } from 'node:fs';
import { v7 as uuid } from 'uuid';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  type Cell,
  type Situation,
  situations,
  stateOf,
  terminalStates,
  type Verb,
  type VerbName,
  verbs,
} from '../../lambdas/core/delivery-states.ts';
import type { Conditions } from './failure-forks.ts';
import { dump, empty, ledgerTables } from './ledger-rows.ts';
import { arrange } from './situations.ts';
import { type Drive, drives } from './statement-drives.ts';
import { statementFolder, statementModules, statementOf } from './statement-modules.ts';
import { startTestLedger, type TestLedger } from './test-ledger.ts';

/** Statements that no verb of the state machine names, and why. */
const otherStatements: Readonly<Record<string, { writes: boolean; why: string }>> = {
  schedule: { writes: true, why: 'writes new reminders: there is no situation before it' },
  announce: { writes: true, why: 'marks events of the outbox, no reminder' },
  'add-destination': { writes: true, why: 'writes destinations, no reminder' },
  control: { writes: true, why: 'switches dispatch, and touches no reminder' },
  'count-affected': { writes: false, why: 'reads counts of what a switch concerns' },
  find: { writes: false, why: 'reads pages of reminders' },
  forecast: { writes: false, why: 'reads how many come due' },
  'list-actions': { writes: false, why: 'reads what people did' },
  unannounced: { writes: false, why: 'reads the outbox' },
  get: { writes: false, why: 'reads reminders for a product' },
  'show-evidence': { writes: false, why: 'reads one reminder for an operator' },
  'count-states': { writes: false, why: 'reads counts' },
  'observe-calendar': { writes: false, why: 'reads counts and ages of what is due and in flight' },
  'observe-destinations': { writes: false, why: 'reads counts of rows by destination' },
  'observe-outcomes': { writes: false, why: 'reads what became of attempts, and what waits for a person' },
  exclude: { writes: true, why: 'sets a row aside, and touches nothing of it' },
  readmit: { writes: true, why: 'ends an exclusion, and touches nothing of the row' },
  'set-aside': { writes: true, why: 'keeps what a message says, and touches no reminder' },
  'list-poison': { writes: false, why: 'reads what was set aside' },
  'list-handoffs': { writes: false, why: 'reads what was handed over and not opened' },
  'list-archivable': { writes: false, why: 'reads what is past the retention policy' },
  'list-finished-producers': { writes: false, why: 'reads whose finished reminders are not archived' },
  forget: { writes: true, why: 'deletes claims and receipts long over, and touches no reminder' },
  'list-attention': { writes: false, why: 'reads what somebody should look at' },
  'list-due': { writes: false, why: 'reads what a claim would look at' },
  'list-exclusions': { writes: false, why: 'reads what is set aside' },
  'list-destinations': { writes: false, why: 'reads the registry' },
};

const driven = Object.entries(drives) as [VerbName, Drive][];
const allVerbs = Object.entries(verbs) as [VerbName, Verb][];
/** A verb's name as its module's would be. */
const moduleOf = (verb: string) => verb.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);

let ledger: TestLedger;
let tables: string[];
beforeAll(async () => {
  ledger = await startTestLedger();
  tables = await ledgerTables(ledger);
});
afterAll(() => ledger.stop());

describe('every statement has its place in the table, and every verb its statement', () => {
  test('each module is named by a verb, or is declared to move no reminder', () => {
    const named = allVerbs.flatMap(([, { statement }]) => (typeof statement === 'string' ? [statement] : []));
    expect([...new Set([...named, ...Object.keys(otherStatements)])].sort()).toEqual(statementModules);
    expect(Object.keys(otherStatements).filter((name) => named.includes(name))).toEqual([]);
  });

  test.each(statementModules)('%s exports one statement of its own name', async (module) => {
    const statement = await statementOf(module);
    const declared = otherStatements[module];
    if (declared === undefined || declared.writes) return;
    expect(statement.text, declared.why).not.toMatch(/\b(INSERT|UPDATE|DELETE|MERGE)\b/);
  });

  test.each(allVerbs)('%s', (name, { statement, cells }) => {
    if (typeof statement === 'string') {
      expect(statementModules).toContain(statement);
      expect((drives as Partial<Record<VerbName, Drive>>)[name]?.statement.name).toBe(statement);
    } else {
      expect(statement.comesWith).toMatch(/\w/);
      expect(existsSync(new URL(`${moduleOf(name)}.ts`, statementFolder))).toBe(false);
    }
    for (const situation of situations) expect(cells[situation].answer, situation).toMatch(/\w/);
  });
});

describe.each(driven)('%s', (verb, drive) => {
  const { cells } = verbs[verb];
  for (const situation of situations) {
    const cell: Cell = cells[situation];
    const under = conditionsIn(drive.due, situation);
    if (cell.to.length > 1) {
      const forks = drive.forks ?? [];
      test(`${situation}, due: its choices lead to ${cell.to.join(', ')}`, () => {
        expect([...new Set(forks.map(({ to }) => to))].sort()).toEqual([...cell.to].sort());
      });
      for (const { because, to, under: more } of forks) {
        const together = { ...under, ...more, destination: { ...under.destination, ...more.destination } };
        test(`${situation}, due, ${because}: → ${to}, ${cell.answer}`, () =>
          check(drive, situation, together, { ...cell, to: [to] }));
      }
    } else {
      test(`${situation}, due: ${arrow(cell)}`, () => check(drive, situation, under, cell));
    }
    for (const { because, under: other, cells: others } of drive.otherwise) {
      // Where the condition makes no difference and the cell leaves a choice, that choice is tested above.
      const expected: Cell = others[situation] ?? { ...cell, to: cell.to.length > 1 ? ['scheduled'] : cell.to };
      test(`${situation}, ${because}: ${arrow(expected)}`, () =>
        check(drive, situation, conditionsIn(other, situation), expected));
    }
  }
});

const arrow = ({ to, answer }: Cell) =>
  to.length === 0 ? `nothing moves, ${answer}` : `→ ${to.join(', ')}, ${answer}`;

function conditionsIn(conditions: Drive['due'], situation: Situation): Conditions {
  return typeof conditions === 'function' ? conditions(situation) : conditions;
}

async function check(drive: Drive, situation: Situation, under: Conditions, { to, answer }: Cell): Promise<void> {
  await empty(ledger, tables);
  const row = await arrange(ledger, situation, under);
  const database = ledger.openDatabase('ledger', { ...ledger.settings, ...under.settings });
  const token = uuid();
  const [before] = (await dump(ledger, tables)).reminder_delivery ?? [];

  const first = await drive.run({ database, token, row, under });
  const once = await dump(ledger, tables);
  const [after] = once.reminder_delivery ?? [];
  expect({ answer: first.answer, state: after?.state }).toEqual({ answer, state: to[0] ?? stateOf(situation) });
  const marked = Object.fromEntries((drive.marks?.[situation] ?? []).map((column) => [column, 'marked']));
  if (to.length === 0) expect({ ...after, ...marked }).toEqual({ ...before, ...marked });
  else expect(after).not.toEqual(before);
  // What comes to an end is announced with it, and nothing else is.
  const ended = terminalStates.filter((state) => state === to[0]);
  expect(once.lifecycle_event?.map(({ state }) => state)).toEqual(ended);

  const second = await drive.run({ database, token, row, under });
  expect(second.rows.map(withoutTimeLeft)).toEqual(first.rows.map(withoutTimeLeft));
  expect(await dump(ledger, tables)).toEqual(once);
}

/** The time left until a reminder is due passes between two runs. */
const withoutTimeLeft = (row: object) => ({ ...row, due_in_ms: undefined });
