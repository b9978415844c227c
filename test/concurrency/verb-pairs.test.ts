// Any two writing verbs at once on the same reminders: the one has read and waits, the other commits, the first goes on. What
// comes of each reminder is what comes of it when the two run one after the other, in one order or the other.
import { isDeepStrictEqual } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { ScheduleAnswer } from '../../lambdas/core/ports.ts';
import { dump, ledgerTables } from '../ledger/ledger-rows.ts';
import { statementModules, statementOf } from '../ledger/statement-modules.ts';
import { startTestLedger, type TestLedger } from '../ledger/test-ledger.ts';
import { arrangeCast, type Contender, idOf, names, openContender, untilWaiting } from './contenders.ts';
import { brokenPromises } from './promises.ts';
import { apart, byHand, type Play, plays } from './verbs.ts';

let ledger: TestLedger;
let tables: string[];
let first: Contender;
let second: Contender;
beforeAll(async () => {
  ledger = await startTestLedger();
  tables = await ledgerTables(ledger);
  first = await openContender(ledger);
  second = await openContender(ledger);
});
afterAll(async () => {
  await first.close();
  await second.close();
  await ledger.stop();
});

const everything: Readonly<Record<string, Play>> = { ...plays, ...byHand };
const tokenOf = (verb: string) =>
  `00000000-0000-7000-a000-${String(Object.keys(everything).indexOf(verb)).padStart(8, '0')}0000`;
const play = (verb: string, by: Contender, token = tokenOf(verb)) => (everything[verb] as Play)(by, token);

test('every statement that writes is played', async () => {
  const writing: string[] = [];
  for (const module of statementModules) {
    if (/\b(INSERT INTO|UPDATE [a-z_]+ )/.test((await statementOf(module)).text)) writing.push(module);
  }
  const played = new Set([...Object.keys(plays).map((verb) => verb.split(' ')[0]), ...apart]);
  expect(writing.filter((module) => !played.has(module))).toEqual([]);
});

/** What came of each reminder: its rows, and what was said of it. Instants are told by their distance, in steps of 25 s. */
interface Fate {
  readonly of: unknown;
  readonly said: readonly string[];
}
type Fates = ReadonlyMap<string, Fate>;

/** One after the other. Remembered: a pair is compared with both orders. */
const inTurn = new Map<string, Promise<Fates>>();
function oneAfterTheOther(...both: readonly string[]): Promise<Fates> {
  const known = inTurn.get(both.join()) ?? run();
  inTurn.set(both.join(), known);
  return known;
  async function run() {
    const began = Date.now();
    await arrangeCast(ledger, tables);
    const answers: Record<string, unknown> = {};
    for (const verb of both) answers[verb] = await play(verb, first);
    return fatesOf(began, answers);
  }
}

/**
 * An outcome that came while a reschedule or a requeue waited is not in its snapshot: it takes that attempt for one in doubt, and refuses
 * too much rather than too little. The row is then as the other verb left it.
 */
async function refusedForDoubt(later: string, sooner: string, name: string, { of, said }: Fate): Promise<boolean> {
  if (later !== 'reschedule' && later !== 'decide requeue unproven') return false;
  const left = (await oneAfterTheOther(sooner)).get(name);
  return (
    isDeepStrictEqual(of, left?.of) &&
    said.some((line) => line.startsWith(`${later}: `) && /"(too_late|evidence_needed)"/.test(line))
  );
}

/**
 * `sooner` runs and is committed while `later` has its snapshot and waits: for the rows, for its turn, or for a row that
 * `sooner` has inserted. For that `sooner` is run before `later` is sent, otherwise after.
 */
async function overtaken(later: string, sooner: string, isSentFirst = true): Promise<Fates> {
  const began = Date.now();
  await arrangeCast(ledger, tables);
  await second.sql('BEGIN');
  await second.sql('SELECT pg_advisory_xact_lock(hashtextextended($1, 0))', [tokenOf(later)]);
  await second.sql('SELECT FROM reminder_delivery ORDER BY delivery_id FOR NO KEY UPDATE');
  let left = 1;
  const send = async () => {
    const waiting = play(later, first).finally(() => {
      left = 0;
    });
    waiting.catch(() => undefined);
    await untilWaiting(ledger, () => left);
    return { answer: waiting };
  };
  const sent = isSentFirst ? await send() : undefined;
  const answer = await play(sooner, second);
  const { answer: waiting } = sent ?? (await send());
  await second.sql('COMMIT');
  return fatesOf(began, { [later]: await waiting, [sooner]: answer });
}

async function fatesOf(began: number, answers: Readonly<Record<string, unknown>>): Promise<Fates> {
  const rows = await dump(ledger, tables);
  const steps = (text: string) => {
    const plain = text
      .replaceAll(/"(dueInMs|notBefore|askedAt|event_no|exclusion_no|action_no)":"?-?[\d.]+"?/g, '"$1":0')
      .replaceAll(/"(highWater|high_water)":"[^"]*"/g, '"$1":0');
    return plain.replaceAll(/"\d{4}-\d\d-\d\d[T ][\d:.]+(?:Z|\+00(?::00)?)"/g, (instant) => {
      // The cast's own distances lie away from the edges of a step, however slow the machine is.
      const distance = Math.round((Date.parse(JSON.parse(instant)) - began + 5000) / 25_000);
      return JSON.stringify(distance > 1000 ? 'in years' : `${distance} steps`);
    });
  };
  return new Map(
    [...names, 'a new one'].map((name) => {
      const id = String(rows.reminder_delivery?.find((row) => row.idempotency_key === name)?.delivery_id ?? idOf(name));
      const of = ['reminder_delivery', 'delivery_attempt', 'attempt_outcome', 'handoff', 'lifecycle_event'].map(
        (table) =>
          rows[table]?.filter((row) => row.delivery_id === id).map((row) => JSON.parse(steps(JSON.stringify(row)))),
      );
      const said = Object.entries(answers)
        .map(([verb, answer]) => `${verb}: ${steps(answerAbout(answer, id))}`)
        .sort();
      return [name, { of, said }];
    }),
  );
}

/** What an answer says of one reminder; counts say nothing of any. */
function answerAbout(answer: unknown, id: string): string {
  if (typeof answer !== 'object' || answer === null) return '';
  const lists = Array.isArray(answer) ? { answers: answer } : answer;
  return Object.entries(lists)
    .flatMap(([name, list]) =>
      Array.isArray(list)
        ? list.filter((one) => JSON.stringify(one).includes(id)).map((one) => `${name} ${JSON.stringify(one)}`)
        : [],
    )
    .join();
}

const verbs = Object.keys(everything);
/** They lock no reminder: only what the other inserts or switches can stand in their way. */
const inserting = ['schedule', 'exclude', 'readmit', 'control pause'];

test.each(Object.keys(plays))('%s, overtaken by any other', async (later) => {
  const differing: string[] = [];
  for (const sooner of verbs) {
    if (sooner === later) continue;
    const fates = await overtaken(later, sooner, !inserting.includes(later));
    differing.push(...(await brokenPromises(ledger.sql)).map((broken) => `${sooner}: ${broken}`));
    const orders = [await oneAfterTheOther(sooner, later), await oneAfterTheOther(later, sooner)];
    for (const [name, fate] of fates) {
      if (orders.some((order) => isDeepStrictEqual(order.get(name), fate))) continue;
      if (await refusedForDoubt(later, sooner, name, fate)) continue;
      const unlike = orders.map((order) => unlikeness(order.get(name), fate));
      differing.push(`${name}, overtaken by ${sooner}: ${unlike.join('; in the other order: ')}`);
    }
  }
  expect(differing.slice(0, 5).join('\n')).toBe('');
});

describe.each(Object.keys(plays))('%s, sent twice at once: one effect, one answer', (verb) => {
  test.each([
    ['one waits while the other runs', true],
    ['one comes while the other is not yet committed', false],
  ])('%s', async (_, isSentFirst) => {
    const fates = await overtaken(verb, verb, isSentFirst);
    expect(await brokenPromises(ledger.sql)).toEqual([]);
    for (const [name, fate] of await oneAfterTheOther(verb)) expect(fates.get(name), name).toEqual(fate);
  });
});

test('a schedule sent again after its reminder has ended says no, and not nothing, of whether it is near due', async () => {
  await arrangeCast(ledger, tables);
  await play('schedule', first);
  await first.ledger.cancel({ token: tokenOf('cancel'), producer: 'product', reminders: [{ key: 'a new one' }] });
  const answers = (await play('schedule', second)) as ScheduleAnswer[];
  expect(answers.at(-1)).toMatchObject({ answer: 'scheduled', state: 'cancelled', nearDue: false });
});

/** Where two values differ: path, the one's, the other's. */
function unlikeness(one: unknown, other: unknown, path = ''): string {
  if (isDeepStrictEqual(one, other)) return '';
  if (typeof one !== 'object' || typeof other !== 'object' || one === null || other === null) {
    return ` ${path} ${JSON.stringify(one)} became ${JSON.stringify(other)}`;
  }
  const keys = new Set([...Object.keys(one), ...Object.keys(other)]);
  const of = (side: object, key: string) => (side as Record<string, unknown>)[key] ?? null;
  return [...keys].map((key) => unlikeness(of(one, key), of(other, key), `${path}.${key}`)).join('');
}
