// The simulation itself: a seed replays, planted defects are found and named, and seeds once found broken stay whole.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { foundSeeds } from './found-seeds.ts';
import { plantedDefects } from './planted-defects.ts';
import { failureText, runSeeds } from './run-seeds.ts';
import { simulate } from './simulate.ts';
import { startVirtualDatabase, type VirtualDatabase } from './virtual-database.ts';

describe('a seed', () => {
  let database: VirtualDatabase;
  beforeAll(async () => {
    database = await startVirtualDatabase();
  });
  afterAll(() => database?.stop());

  test('replays one run, also after others, and another seed gives another', async () => {
    const hashes: string[] = [];
    for (const seed of [21, 22, 23, 21]) hashes.push((await simulate(database, seed, 'production')).hash);
    expect(hashes[3]).toBe(hashes[0]);
    expect(new Set(hashes).size).toBe(3);
    expect((await simulate(database, 21, 'rehearsal')).hash).not.toBe(hashes[0]);
  });

  test('that once broke a promise keeps it', async () => {
    for (const { seed, stage } of foundSeeds) expect(failureText(await simulate(database, seed, stage))).toBe('');
  });
});

describe('a planted defect is found within 200 schedules', () => {
  test.each(plantedDefects)(
    '$name',
    async ({ breaks, plant }) => {
      const { failed } = await runSeeds({
        schedules: 100,
        firstSeed: 1,
        stages: ['production', 'rehearsal'],
        plant,
        enough: (found) => found.length > 0,
      });
      expect(failed[0]?.broken.map(({ promise }) => promise)).toContain(breaks);
    },
    300_000,
  );
});
