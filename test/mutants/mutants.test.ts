// The machinery of the mutants: what it derives, that a dying one dies and a survivor is told, and that its lists are complete.
import { existsSync } from 'node:fs';
import { beforeAll, describe, expect, test } from 'vitest';
import { cutsOf, isWriting } from './cuts.ts';
import { equivalents } from './equivalents.ts';
import { type Mutant, onlyPlace, read, repository } from './mutant.ts';
import { allMutants, mutantsOf, writingStatements } from './mutants.ts';
import { runMutants } from './run-mutants.ts';
import { testsOfSubjects } from './tests-of-subjects.ts';
import { verdictOn } from './verdict.ts';

const madeUp = `
WITH picked AS MATERIALIZED (
  SELECT r.id, CASE WHEN r.state = 'a' THEN 'x' WHEN (r.n + 1) * 2 > CAST(:limit AS integer) THEN 'y' END AS verb
  FROM thing r
  JOIN owner o ON o.id = r.owner AND (o.open OR r.urgent)
  WHERE r.due <= now() -- not the planted one
    AND NOT EXISTS (SELECT FROM gone g WHERE g.id = r.id) AND r.planted IS NOT NULL
  FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE thing SET state = CASE state WHEN 'a' THEN 'b' ELSE state END FROM picked WHERE picked.id = thing.id AND verb IN ('x', 'y')`;

describe('the conditions of a statement', () => {
  const lines = cutsOf(madeUp).map(({ place, condition, instead }) => `${place}: ${condition} → ${instead}`);

  test('are found each once, and not what is none', () => {
    expect(lines.sort()).toEqual(
      [
        "picked verb when: r.state = 'a' → false",
        'picked verb when: (r.n + 1) * 2 > CAST(:limit AS integer) → false',
        'picked on: o.id = r.owner → true',
        'picked on: o.open OR r.urgent → true',
        'picked on or: o.open → false',
        'picked on or: r.urgent → false',
        'picked where: r.due <= now() → true',
        'picked where: NOT EXISTS (SELECT FROM gone g WHERE g.id = r.id) → true',
        'picked where where: g.id = r.id → true',
        'picked where: r.planted IS NOT NULL → true',
        "state when: 'a' → NULL",
        'where: picked.id = thing.id → true',
        "where: verb IN ('x', 'y') → true",
        "where in: 'x' → 'y'",
        "where in: 'y' → 'x'",
      ].sort(),
    );
  });

  test('are cut out where they stand, and nothing beside them', () => {
    for (const { condition, from, to } of cutsOf(madeUp)) expect(madeUp.slice(from, to)).toBe(condition);
  });

  test('one more condition is one more mutant, whoever wrote it', () => {
    const text = madeUp.replace('r.due <= now()', 'r.due <= now() AND r.tenant = CAST(:tenant AS text)');
    const added = cutsOf(text).filter((cut) => !lines.includes(`${cut.place}: ${cut.condition} → ${cut.instead}`));
    expect(added.map(({ condition }) => condition)).toEqual(['r.tenant = CAST(:tenant AS text)']);
  });

  test('what the parser does not understand is an error, and reading is not writing', () => {
    expect(() => cutsOf('SELECT FROM WHERE')).toThrow(/syntax error/);
    expect(isWriting(madeUp)).toBe(true);
    expect(isWriting('SELECT FROM thing FOR UPDATE')).toBe(false);
  });
});

describe('all mutants', () => {
  let all: Mutant[];
  beforeAll(async () => {
    all = await allMutants();
  });

  test('have a name each, and differ from the text they replace', () => {
    expect(new Set(all.map(({ name }) => name)).size).toBe(all.length);
    for (const { name, file, from, to, instead } of all) expect(read(file).slice(from, to), name).not.toBe(instead);
  });

  test('come from every writing statement that has a condition, from the rules and from the guards', async () => {
    const subjects = new Set(all.map(({ subject }) => subject));
    for (const source of await writingStatements()) {
      expect(subjects.has(source.subject), source.subject).toBe(mutantsOf(source).length > 0);
    }
    for (const subject of [
      'state_after_failure',
      'refuse_unknown_transition',
      'known_transition',
      'reminder_delivery',
    ]) {
      expect(subjects).toContain(subject);
    }
  });

  test('have tests each, whose files exist, and no test is named for what is gone', async () => {
    const statements = (await writingStatements()).map(({ subject }) => subject);
    const subjects = [...new Set([...statements, ...all.map(({ subject }) => subject)])].sort();
    expect(Object.keys(testsOfSubjects).sort()).toEqual(subjects);
    for (const file of Object.values(testsOfSubjects).flat())
      expect(existsSync(new URL(file, repository)), file).toBe(true);
  });

  test('include each that is said to be equivalent, with a reason', () => {
    const names = all.map(({ name }) => name);
    expect(Object.keys(equivalents).filter((name) => !names.includes(name))).toEqual([]);
    for (const reason of Object.values(equivalents)) expect(reason).toMatch(/\w+ \w+ \w+/);
  });
});

test('a mutant that must die dies, one that changes nothing survives and is told, and one that is no SQL proves nothing', async () => {
  const subject = 'actions_are_insert_only';
  const file = 'migrations/0012_guard_transitions.sql';
  const change = (name: string, of: string, instead: string): Mutant => {
    const from = onlyPlace(read(file), of, file);
    return { name, subject, file, from, to: from + of.length, instead };
  };
  const trigger = 'BEFORE UPDATE OR DELETE ON operator_action';
  const results = await runMutants(
    [
      change('dies', trigger, 'BEFORE DELETE ON operator_action'),
      change('survives', trigger, 'BEFORE DELETE OR UPDATE ON operator_action'),
      change('broken', trigger, 'BEFORE UPDATE OR DELETE ON no_such_table'),
    ],
    { workers: 1, pattern: '^evidence > operator_action' },
  );
  const { counts, faults } = verdictOn(results, { dies: 'said to be equivalent, wrongly' });
  expect(counts).toEqual({ killed: 1, hung: 0, survived: 1, broken: 1, equivalent: 0 });
  expect(faults.map(({ name, fault }) => `${name}: ${fault}`)).toEqual([
    'dies: stale equivalent',
    'survives: survived',
    'broken: broken',
  ]);
  expect(verdictOn(results, { survives: 'says the same in another order' }).counts).toMatchObject({ equivalent: 1 });
}, 180_000);
