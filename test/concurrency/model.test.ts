// The ledger's statements against a model of the same life: any commands in any order, the same answers and the same rows.
// CI runs what fits into its time. All of it: `npx node bin/model.ts --sequences 1000 --seed 1`, about two minutes; another
// seed runs other sequences. MODEL_SECONDS gives this file more time.
import { expect, test } from 'vitest';
import { runModel } from './model-run.ts';

const limitMs = Number(process.env.MODEL_SECONDS ?? 18) * 1000;

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

test('a settle that forgets whose lease it is differs from the model within a few commands', async () => {
  const fence = ' AND t.lease_owner = t.open_token AND t.present_attempt = t.attempt_no';
  const { failure } = await runModel({
    seed: 1,
    plant: (name, text) => {
      if (name === 'settle') expect(text).toContain(fence);
      return name === 'settle' ? text.replace(fence, '') : text;
    },
  });
  expect(failure?.message).toContain('settle');
  // Schedule, claim, open; its lease passes, recover, claim, open again: then the first sender's failure comes.
  expect(failure?.sequence.length).toBeLessThan(14);
}, 120_000);
