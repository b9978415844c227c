// The ledger's statements against a model of the same life: any commands in any order, the same answers and the same rows.
// CI runs what fits into its time. All of it: `npx node bin/model.ts --sequences 1000 --seed 1`, about a minute; another
// seed runs other sequences. MODEL_SECONDS gives this file more time.
import { expect, test } from 'vitest';
import { runModel } from './model-run.ts';

const limitMs = Number(process.env.MODEL_SECONDS ?? 10) * 1000;

/** Moves that a hundred sequences cannot miss: their absence would say that nothing much was tried. */
const common = [
  ...['dispatching', 'expired', 'cancelled'].map((to) => `scheduled > ${to}`),
  ...['scheduled', 'queued', 'delivering'].map((to) => `dispatching > ${to}`),
  ...['delivering', 'expired'].map((to) => `queued > ${to}`),
  ...['scheduled', 'dead'].map((to) => `delivering > ${to}`),
];

test('whatever is asked in whatever order, the ledger answers and writes what the model does', async () => {
  const { failure, met, sequences, commands } = await runModel({ seed: 20260101, limitMs });
  expect(failure, JSON.stringify(failure, null, 2)).toBeUndefined();
  console.info(`model: ${commands} commands in ${sequences} sequences`);
  if (sequences >= 100) expect(common.filter((move) => !met.has(move))).toEqual([]);
}, 120_000);

test('a reschedule that forgets to compare versions is found, and shrunk to the two commands that show it', async () => {
  const compared = "WHEN a.expected_version <> a.version THEN 'stale'";
  const { failure } = await runModel({
    seed: 1,
    plant: (name, text) => {
      if (name === 'reschedule') expect(text).toContain(compared);
      return text.replace(compared, '');
    },
  });
  expect(failure?.message).toContain('"answer":"stale"');
  expect(failure?.sequence.map((command) => command.split(' ')[0])).toEqual(['schedule', 'reschedule']);
}, 120_000);
