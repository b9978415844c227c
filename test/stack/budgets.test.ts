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

interface Budget {
  /** A tenth above what it has: what goes beyond is a decision, made here. */
  readonly kilobytes: number;
  /** The work of loading it, in times of the yardstick's: two fifths above what it has, since machines differ. */
  readonly loading: number;
}

const budgets: Readonly<Record<string, Budget>> = {
  migrate: { kilobytes: 430, loading: 1.7 },
  schedule: { kilobytes: 585, loading: 2.1 },
  claim: { kilobytes: 495, loading: 1.8 },
  'webhook-sender': { kilobytes: 1195, loading: 2.5 },
  rotate: { kilobytes: 505, loading: 1.8 },
  observe: { kilobytes: 400, loading: 1.5 },
  retain: { kilobytes: 640, loading: 2.1 },
  operate: { kilobytes: 615, loading: 2 },
  canary: { kilobytes: 470, loading: 1.8 },
  'canary-receiver': { kilobytes: 490, loading: 1.8 },
  widget: { kilobytes: 535, loading: 1.9 },
};

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'reminder-ledger-budgets-'));
});
afterAll(() => rm(folder, { recursive: true }));

/** The CPU time that loading a module takes in a fresh process, in milliseconds. */
async function loading(place: string, module: string): Promise<number> {
  const { STAGE: _, ...env } = process.env;
  const measure = `const before = process.cpuUsage();
    await import(${JSON.stringify(module)}).catch(() => undefined);
    const { user, system } = process.cpuUsage(before);
    console.log((user + system) / 1000);`;
  await writeFile(join(place, 'measure.mjs'), measure);
  const { stdout } = await promisify(execFile)(process.execPath, [join(place, 'measure.mjs')], { env });
  return Number(stdout.trim().split('\n').at(-1));
}

test('every function has a budget', () => {
  expect(Object.keys(budgets).toSorted()).toEqual(functions.map(({ name }) => name).toSorted());
});

describe.each(Object.entries(budgets))('%s', (name, { kilobytes, loading: times }) => {
  test('is no larger than its budget', async () => {
    const { size } = await stat(join(dist, name, 'index.mjs'));
    expect(size / 1000).toBeLessThan(kilobytes);
    // A budget far above what is used would notice nothing.
    expect(size / 1000).toBeGreaterThan(kilobytes * 0.8);
  });

  test('loads within its budget', async () => {
    const alone = join(folder, name);
    await cp(join(dist, name), alone, { recursive: true });
    // The pinned SQS client from node_modules is the yardstick: a slower machine is slower at it too. The two take turns,
    // since CPU time is dearer while others use the caches, and the least of each counts.
    const yardstick = {
      place: folder,
      module: import.meta.resolve('@aws-sdk/client-sqs'),
      least: Number.POSITIVE_INFINITY,
    };
    const bundle = { place: alone, module: './index.mjs', least: Number.POSITIVE_INFINITY };
    for (let round = 1; round <= 3 || (round <= 15 && bundle.least >= times * yardstick.least); round += 1) {
      for (const one of [yardstick, bundle]) one.least = Math.min(one.least, await loading(one.place, one.module));
    }
    expect(bundle.least).toBeGreaterThan(0);
    const figures = `${bundle.least} ms of CPU against ${yardstick.least} ms`;
    expect(bundle.least / yardstick.least, figures).toBeLessThan(times);
  });
});
