// The fast subset of the drills: the essay's own, and one for each call and each kind of fault, on the bundles that deploy.
import { readFileSync } from 'node:fs';
import { beforeAll, describe, expect, test } from 'vitest';
import { afterDelivery, breakPromise, type Sabotage } from '../../bin/demo-sabotage.ts';
import { faultPoints } from '../../lambdas/core/fault-points.ts';
import { settingsOf } from '../../lambdas/core/settings.ts';
import { undiciPoints } from '../../lib/local/fault-plans.ts';
import type { Reminder } from './cell.ts';
import { boundSeconds, boundText, type Drill } from './drill.ts';
import { essayDrills } from './essay.ts';
import { kinds } from './kinds.ts';
import { calls, leftOut, matrix, notDrilled } from './matrix.ts';
import { type DrillResult, drills, runDrills } from './run-drills.ts';

const fast = drills.filter((drill) => drill.fast);

const ordinary = { bound: 'at once', promises: [], endsIn: ['delivered'] } as const;

const inVain: Drill = {
  ...ordinary,
  name: 'in vain',
  rehearses: 'A fault for a reminder that does not exist.',
  points: ['settle'],
  async run(cell) {
    await cell.schedule(cell.newReminder(500));
    const deliveryId = '00000000-0000-7000-8000-000000000000';
    cell.plan({ point: 'settle', at: 'after', deliveryId, action: { kind: 'kill' } });
  },
};

/** A promise broken past the product's code, before or after the reminder is delivered, and what must be told of it. */
const planted = (sabotage: Sabotage, tells: string): Drill & { readonly tells: string } => ({
  ...ordinary,
  name: `planted: ${sabotage}`,
  rehearses: 'A bug that nobody has made.',
  tells,
  async run(cell) {
    const sabotageOf = ({ deliveryId }: Reminder) => breakPromise(cell.stage.aws.databaseUrl, sabotage, deliveryId);
    const reminder = await cell.schedule();
    if (!afterDelivery[sabotage]) await sabotageOf(reminder);
    if (sabotage !== 'early') await cell.bringNear(reminder);
    if (!afterDelivery[sabotage]) return;
    await cell.untilState(reminder, 'delivered');
    await sabotageOf(reminder);
    cell.lastsUntil(Date.now() + 2 * cell.settings.tickSeconds * 1000 + 3000);
  },
});
const bugs = [planted('early', 'P10'), planted('newkey', 'P2'), planted('twice', 'P3'), planted('noattempt', 'P12')];

describe('the fast subset', () => {
  let results: Map<string, DrillResult>;
  beforeAll(async () => {
    const all = await runDrills([...fast, ...bugs, inVain], { atOnce: 8 });
    results = new Map(all.map((result) => [result.drill, result]));
  }, 180_000);

  test.each(fast.map(({ name, rehearses }) => [name, rehearses]))('%s: %s', (name) => {
    const result = results.get(name);
    expect(result, `within ${result?.bound}`).toMatchObject({
      ...{ passed: true, converged: true, exercised: true, broken: [], error: null, sameKeyAndBytes: true },
      idsMinted: result?.states.length,
    });
  });

  test.each(bugs.map(({ name, tells }) => [name, tells]))('is told of a bug: %s breaks %s', (name, tells) => {
    const broken = results.get(name)?.broken ?? [];
    expect(broken.map((sentence) => sentence.split(/[: ]/)[0])).toContain(tells);
    expect(results.get(name)?.passed).toBe(false);
  });

  test('reports a fault that nobody meets as not exercised, and not as passed', () => {
    expect(results.get(inVain.name)).toMatchObject({
      ...{ converged: true, exercised: false, passed: false, broken: [], first: { exercised: false } },
    });
  });

  test('has the essay’s six, each call and each kind', () => {
    const names = fast.map(({ name }) => name);
    expect(names).toEqual(expect.arrayContaining(essayDrills.map(({ name }) => name)));
    const cells = names.filter((name) => matrix.some((drill) => drill.name === name)).map((name) => name.split(': '));
    expect(new Set(cells.map(([call]) => call))).toEqual(new Set(calls.map(({ name }) => name)));
    expect(new Set(cells.map(([, kind]) => kind))).toEqual(new Set(Object.keys(kinds)));
  });
});

describe('the matrix', () => {
  test('has each pair of a call and a kind once, as a drill or with the reason why it makes no sense', () => {
    const names = [...matrix, ...leftOut].map(({ name }) => name);
    const pairs = calls.flatMap(({ name }) => Object.keys(kinds).map((kind) => `${name}: ${kind}`));
    expect(names.sort()).toEqual(pairs.sort());
    expect(matrix.length).toBeGreaterThanOrEqual(110);
  });

  test('stops a process at each fault point, or says why no drill needs it; a test that does stands there', () => {
    const reached = new Set(drills.flatMap(({ points = [] }) => points));
    const points = Object.keys({ ...faultPoints, ...undiciPoints });
    expect(points.filter((point) => !reached.has(point)).sort()).toEqual(Object.keys(notDrilled).sort());
    for (const [point, reason] of Object.entries(notDrilled)) {
      const [file] = /test\/\S+\.ts/.exec(reason) ?? [];
      if (file === undefined) continue;
      expect(readFileSync(new URL(`../../${file}`, import.meta.url), 'utf8'), reason).toContain(`'${point}'`);
    }
  });

  test('names each drill once, and each bound is the sum that it shows', () => {
    expect(new Set(drills.map(({ name }) => name)).size).toBe(drills.length);
    const settings = settingsOf('rehearsal');
    for (const { bound } of drills) {
      const text = boundText(bound, settings);
      const [parts = '', sum] = text.split(' = ');
      const added = parts.split(' + ').reduce((total, part) => total + Number.parseFloat(part), 0);
      expect(`${added} s`, text).toBe(sum);
      expect(boundSeconds(bound, settings)).toBe(added);
    }
  });
});
