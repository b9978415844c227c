// A small soak: two hundred reminders under faults of a fixed seed, all ended and no promise broken.
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

test('two hundred reminders end with their promises kept while calls fail and processes die', async () => {
  const result = await soak({
    ...{ reminders: 200, perSecond: 50, aheadSeconds: 3, faultRate: 0.1, seed: 7, limitSeconds: 400, directory },
  });
  expect(result.broken).toEqual([]);
  expect(result).toMatchObject({ scheduled: 200, lost: 0, idsMinted: 200, secondIds: 0 });
  expect(result.convergedSeconds).not.toBeNull();
  const faults = Object.keys(result.faults);
  expect(faults).toContainEqual(expect.stringMatching(/^data-api /));
  expect(faults).toContainEqual(expect.stringMatching(/ (kill|freeze) /));
  // At least those that the receivers which do not answer brought about.
  expect(Object.keys(result.duplicates)).not.toEqual([]);
  // Generous: a slow machine is no failure.
}, 480_000);
