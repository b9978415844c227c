// A small soak: a few hundred reminders under faults of a fixed seed, all ended and no promise broken.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { soak } from './soak.ts';

let directory: string;
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'reminder-ledger-soak-'));
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

test('several hundred reminders end with their promises kept while calls fail and processes die', async () => {
  const result = await soak({
    ...{ reminders: 300, perSecond: 100, aheadSeconds: 3, faultRate: 0.1, seed: 1, limitSeconds: 120, directory },
  });
  expect(result.broken).toEqual([]);
  expect(result).toMatchObject({ scheduled: 300, lost: 0, idsMinted: 300, secondIds: 0 });
  expect(result.convergedSeconds).toBeLessThan(result.convergenceBoundSeconds);
  const faults = Object.keys(result.faults);
  expect(faults).toContainEqual(expect.stringMatching(/^data-api /));
  expect(faults).toContainEqual(expect.stringMatching(/ (kill|freeze) /));
  // At least those that the receivers which do not answer brought about.
  expect(Object.keys(result.duplicates)).not.toEqual([]);
}, 150_000);
