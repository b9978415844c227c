// The simulation itself: a seed replays, planted defects are found and named, and seeds once found broken stay whole.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { foundSeeds } from './found-seeds.ts';
import { plantedDefects } from './planted-defects.ts';
import { type FailedSeed, failureText, runSeeds } from './run-seeds.ts';
import { simulate } from './simulate.ts';
import { startVirtualDatabase, type VirtualDatabase } from './virtual-database.ts';

let database: VirtualDatabase;
beforeAll(async () => {
  database = await startVirtualDatabase();
});
afterAll(() => database?.stop());

/** Of seeds in which several rows of one statement draw a chance each. */
const hashes = async (): Promise<string[]> => {
  const found: string[] = [];
  for (const seed of [2, 3, 4]) found.push((await simulate(database, seed, 'production')).hash);
  return [...found, (await simulate(database, 3, 'rehearsal')).hash];
};
let first: string[] = [];

describe('a seed', () => {
  test('replays one run, and another seed or stage gives another', async () => {
    first = await hashes();
    expect(await hashes()).toEqual(first);
    expect(new Set(first).size).toBe(first.length);
  });

  test.each(foundSeeds)('that finds what was wrong is whole without it: $wasWrong', async ({ seed, stage, defect }) => {
    const { broken } = await simulate(database, seed, stage, defect);
    expect(broken.map(({ promise }) => promise)).toContain('commands');
    expect(failureText(await simulate(database, seed, stage))).toBe('');
  });
});

/** Turns a guard of the schema off, or on again. */
const switchOf = (trigger: string, verb: 'DISABLE' | 'ENABLE') => `DO $$ DECLARE at regclass; BEGIN
  SELECT t.tgrelid::regclass INTO STRICT at FROM pg_trigger t WHERE t.tgname = '${trigger}';
  EXECUTE format('ALTER TABLE %s ${verb} TRIGGER ${trigger}', at);
END $$`;

describe('a planted defect is found within 200 schedules', () => {
  test.each(plantedDefects)(
    '$name',
    async ({ name, breaks, plant, without, seed = 1 }) => {
      const isFound = (one: FailedSeed) => one.broken.some(({ promise }) => promise === breaks);
      const switched = (verb: 'DISABLE' | 'ENABLE') =>
        without === undefined ? undefined : database.sql(switchOf(without, verb));
      await switched('DISABLE');
      const report = await runSeeds({
        ...{ database, schedules: 100, firstSeed: seed, stages: ['production', 'rehearsal'], plant },
        enough: (failed) => failed.some(isFound),
      });
      await switched('ENABLE');
      const [found] = report.failed.filter(isFound);
      expect(found).toBeDefined();
      if (report.schedules > 12)
        console.log(`${name}: found by seed ${found?.seed}, after ${report.schedules} schedules`);
    },
    300_000,
  );

  test('and a seed replays its run after all these', async () => expect(await hashes()).toEqual(first));

  test('by its own promise, each of P1 to P11', () => {
    const promises = Array.from({ length: 11 }, (_, place) => `P${place + 1}`);
    expect(promises.filter((promise) => !plantedDefects.some(({ breaks }) => breaks === promise))).toEqual([]);
  });
});
