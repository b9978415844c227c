// What a cold start may cost: the size of each bundle, and the work of loading it.
import { execFile } from 'node:child_process';
import { cp, mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { functions } from '../../lambdas/functions.ts';

const dist = fileURLToPath(new URL('../../dist/functions/', import.meta.url));

/** A tenth above what they have: what goes beyond is a decision, made here. */
const kilobytes: Readonly<Record<string, number>> = {
  migrate: 430,
  schedule: 585,
  claim: 495,
  'webhook-sender': 1195,
  rotate: 505,
};

/** How many times the work of loading a process that imports nothing but the Data API's client, the least a function needs. */
const timesTheLeast = 2.5;

let folder: string;
let least: number;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'reminder-ledger-budgets-'));
  // migrate's bundle is little more than that client.
  least = await loading('migrate');
});
afterAll(() => rm(folder, { recursive: true }));

/** The least CPU time, of several fresh processes, that loading a bundle takes, in milliseconds: others on the machine do not count. */
async function loading(name: string): Promise<number> {
  const alone = join(folder, name);
  await cp(join(dist, name), alone, { recursive: true });
  const { STAGE: _, ...env } = process.env;
  const measure = `const before = process.cpuUsage();
    await import('./index.mjs').catch(() => undefined);
    const { user, system } = process.cpuUsage(before);
    console.log((user + system) / 1000);`;
  await writeFile(join(alone, 'measure.mjs'), measure);
  const times: number[] = [];
  for (let run = 0; run < 5; run += 1) {
    const { stdout } = await promisify(execFile)(process.execPath, [join(alone, 'measure.mjs')], { env });
    times.push(Number(stdout.trim().split('\n').at(-1)));
  }
  return Math.min(...times);
}

test('every function has a budget', () => {
  expect(Object.keys(kilobytes).toSorted()).toEqual(functions.map(({ name }) => name).toSorted());
});

describe.each(Object.entries(kilobytes))('%s', (name, budget) => {
  test('is no larger than its budget', async () => {
    const { size } = await stat(join(dist, name, 'index.mjs'));
    expect(size / 1000).toBeLessThan(budget);
    // A budget far above what is used would notice nothing.
    expect(size / 1000).toBeGreaterThan(budget * 0.8);
  });

  test('loads within its budget', async () => {
    const time = await loading(name);
    expect(time).toBeGreaterThan(0);
    expect(time / least, `${time} ms of CPU against ${least} ms`).toBeLessThan(timesTheLeast);
  });
});
