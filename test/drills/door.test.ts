// The door to the drills: what it lists, and what it says when it cannot do what it is asked.
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { leftOut, notDrilled } from './matrix.ts';
import { drills } from './run-drills.ts';

const door = (...words: string[]) =>
  spawnSync(process.execPath, [fileURLToPath(new URL('../../bin/drill.ts', import.meta.url)), ...words], {
    encoding: 'utf8',
  });

test('lists every drill with its bound as a sum, every pair that makes no sense and every point that needs none', () => {
  const { stdout, status } = door('--list');
  expect(status).toBe(0);
  for (const { name, rehearses } of drills)
    expect(stdout).toMatch(new RegExp(`^${RegExp.escape(name)}( \\(fast\\))?\n  ${RegExp.escape(rehearses)}$`, 'm'));
  for (const { name, reason } of leftOut) expect(stdout).toContain(`${name}: ${reason}`);
  for (const [point, reason] of Object.entries(notDrilled)) expect(stdout).toContain(`${point}: ${reason}`);
  expect(stdout).toMatch(/within 7 a sender's run \+ 5 this machine = 12 s/);
});

test.each([
  [['--stage', 'production', '--all'], 'got production; drills run at rehearsal'],
  [['--stage', 'elsewhere'], 'elsewhere'],
  [['--only', 'no such drill'], 'there is no drill "no such drill"; --list prints them'],
  [['--at-once', '17', '--all'], 'got 17; give 1 to 16'],
  [[], 'nothing to run: give --only'],
])('%j is refused with a sentence', (words, sentence) => {
  const { stderr, status } = door(...words);
  expect(status).not.toBe(0);
  expect(stderr).toContain(sentence);
});
