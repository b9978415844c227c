// The ledger's statements against a model of the same life: any commands in any order, the same answers and the same rows.
// CI runs what fits into its time. All of it: `npx node bin/model.ts --sequences 1000 --seed 1`, about a minute; another
// seed runs other sequences. MODEL_SECONDS gives this file more time.
import { expect, test } from 'vitest';
import { statementModules, statementOf } from '../ledger/statement-modules.ts';
import { isWriting } from '../mutants/cuts.ts';
import { runModel } from './model-run.ts';

const limitMs = Number(process.env.MODEL_SECONDS ?? 10) * 1000;

/** Writing statements that no command of the model runs, with the reason. */
const notModelled: Readonly<Record<string, string>> = {
  control: 'it moves no reminder, and the model pauses by itself',
  forget: 'it deletes what no command under way can ask for, and the model asks again however late',
  reclaim:
    'it moves no reminder but brings its time forward, which test/ledger/recoveries.test.ts goes through cell by cell',
  'set-aside': 'it is about messages that no reminder is known of',
};

/** Moves that a hundred sequences cannot miss: their absence would say that nothing much was tried. */
const common = [
  ...['dispatching', 'expired', 'cancelled'].map((to) => `scheduled > ${to}`),
  ...['scheduled', 'queued', 'delivering'].map((to) => `dispatching > ${to}`),
  ...['delivering', 'expired'].map((to) => `queued > ${to}`),
  ...['scheduled', 'dead'].map((to) => `delivering > ${to}`),
];

test('whatever is asked in whatever order, the ledger answers and writes what the model does', async () => {
  const { failure, met, statements, sequences, commands } = await runModel({ seed: 20260101, limitMs });
  expect(failure, JSON.stringify(failure, null, 2)).toBeUndefined();
  console.info(`model: ${commands} commands in ${sequences} sequences`);
  if (sequences >= 100) expect(common.filter((move) => !met.has(move))).toEqual([]);
  const writing: string[] = [];
  for (const name of statementModules) if (isWriting((await statementOf(name)).text)) writing.push(name);
  if (sequences >= 100) expect(writing.filter((name) => !statements.has(name))).toEqual(Object.keys(notModelled));
}, 120_000);

test('a decision that does not ask for evidence is found, and so is an archive that takes what waits for a person', async () => {
  const cuts = {
    decide: ['WHEN a.evidence IS NULL\n', 'WHEN false\n'],
    archive: ["WHEN l.unreviewed_since IS NOT NULL THEN 'unreviewed'", ''],
  } as const;
  for (const [planted, [condition, instead]] of Object.entries(cuts)) {
    const { failure } = await runModel({
      seed: 1,
      plant: (name, text) => {
        if (name === planted) expect(text).toContain(condition);
        return name === planted ? text.replace(condition, instead) : text;
      },
    });
    expect(failure?.message).toContain(`the answer to ${planted}`);
  }
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
