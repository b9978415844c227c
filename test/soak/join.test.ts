// The join finds what is planted in its evidence, one thing at a time, and shares nothing with what it judges.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import {
  type AskedLine,
  type Evidence,
  evidenceFiles,
  type FaultLine,
  judge,
  type LedgerLine,
  type ReceivedLine,
} from './join.ts';

type Changeable<Value> = Value extends readonly (infer Item)[]
  ? Changeable<Item>[]
  : Value extends object
    ? { -readonly [Name in keyof Value]: Changeable<Value[Name]> }
    : Value;

const due = 1_000_000;
const sha256Of = (key: string) => createHash('sha256').update(key).digest('hex');
const attempt = (no: number, startedAt: number) => ({ no, startedAt });
const outcome = (no: number, what: string, by: string, at: number) => ({ no, outcome: what, by, at });

/**
 * Three reminders: `a` was delivered at once, the sender of `b` was killed after the receiver had acted, and of `c`, whose
 * receiver promises nothing, nobody knows.
 */
function evidence() {
  const asked: AskedLine[] = ['a', 'b', 'c'].map((key) => ({
    key,
    destination: 'prompt',
    payloadSha256: sha256Of(key),
    dueAt: due,
    answers: [{ answer: 'scheduled', deliveryId: `id-${key}` }],
  }));
  const request = (key: string, at: number, status: number | null = 200): ReceivedLine => {
    return { at, id: `id-${key}`, key, destination: 'prompt', sha256: sha256Of(key), processed: true, status };
  };
  const row = (key: string, more: Partial<LedgerLine>): LedgerLine => ({
    ...{ id: `id-${key}`, key, destination: 'prompt', contract: 'honours-key', sha256: sha256Of(key) },
    ...{ state: 'delivered', dueAt: due, failures: 0, attemptNo: 1 },
    attempts: [attempt(1, due + 1)],
    outcomes: [outcome(1, 'delivered', 'sender', due + 10)],
    ...more,
  });
  const faults: FaultLine[] = [
    { at: due + 6, kind: 'webhook-sender kill after headers', deliveryIds: ['id-b'] },
    { at: due, kind: 'queue lose' },
  ];
  return {
    asked,
    received: [request('a', due + 5), request('b', due + 5), request('b', due + 900), request('c', due + 5, null)],
    ledger: [
      row('a', {}),
      row('b', {
        failures: 1,
        attemptNo: 2,
        attempts: [attempt(1, due + 1), attempt(2, due + 800)],
        outcomes: [outcome(1, 'unknown', 'recover', due + 700), outcome(2, 'delivered', 'sender', due + 910)],
      }),
      row('c', { state: 'held', contract: 'none', outcomes: [outcome(1, 'unknown', 'sender', due + 10)] }),
    ],
    faults,
  } satisfies Evidence as Changeable<Evidence>;
}

test('evidence of a good run breaks no promise, and its figures are told', () => {
  expect(judge(evidence())).toEqual({
    ...{ scheduled: 3, lost: 0, idsMinted: 3, secondIds: 0, requests: 4, afterDelivered: 0 },
    states: { delivered: 2, held: 1 },
    duplicates: { 'sender killed': 1 },
    latenessMs: { p50: 5, p99: 5, max: 5 },
    attempts: { 1: 2, 2: 1 },
    faults: { 'webhook-sender kill after headers': 1, 'queue lose': 1 },
    broken: [],
  });
});

type Plant = (evidence: Changeable<Evidence>) => void;
const [a, b, c] = [0, 1, 2] as const;
/** An element that the evidence above has. */
function at<Item>(list: Item[], place: number): Item {
  const found = list[place];
  if (found === undefined) throw new Error(`there is no element ${place}`);
  return found;
}

describe('finds', () => {
  test.each<[string, RegExp, Plant]>([
    ['a reminder without a row', /^P1 no loss$/, ({ ledger }) => ledger.splice(c, 1)],
    ['a reminder that has not ended', /^P1 no loss$/, ({ ledger }) => (at(ledger, c).state = 'queued')],
    ['an id that the ledger does not have', /ledger knows each id/, ({ received }) => (at(received, 0).id = 'other')],
    ['a second key for an id', /an id has one key/, ({ received }) => (at(received, 0).key = 'b')],
    ['other bytes', /^P7 same bytes/, ({ received }) => (at(received, 2).sha256 = sha256Of('other'))],
    ['another destination', /the destination/, ({ received }) => (at(received, 0).destination = 'slow')],
    ['a key that nobody asked for', /nothing is made up/, ({ asked }) => asked.splice(a, 1)],
    [
      'two ids for one key, in the ledger',
      /a key has one id/,
      ({ ledger }) => ledger.push({ ...at(ledger, a), id: 'id-a2', state: 'held', contract: 'none' }),
    ],
    [
      'two ids for one key, in what the product heard',
      /a key has one id/,
      ({ asked }) => at(asked, a).answers.push({ answer: 'scheduled', deliveryId: 'id-a2' }),
    ],
    [
      'a conflict that the product was answered',
      /every command/,
      ({ asked }) => (at(at(asked, a).answers, 0).answer = 'conflict'),
    ],
    ['a delivery that no receiver saw', /^P4/, ({ received }) => received.splice(0, 1)],
    ['a delivery that the receiver refused', /^P4/, ({ received }) => (at(received, 0).status = 503)],
    ['a delivery without its outcome', /^P4/, ({ ledger }) => (at(ledger, a).outcomes = [])],
    [
      'a request before its intent',
      /^P5 ledger first$/,
      ({ ledger }) => (at(at(ledger, a).attempts, 0).startedAt = due + 6),
    ],
    ['a request without its intent', /^P5 every attempt/, ({ ledger }) => (at(ledger, a).attempts = [])],
    ['a request before it is due', /^P10/, ({ asked }) => (at(asked, a).dueAt = due + 6)],
    ['two requests under one intent', /^P6 one request/, ({ ledger }) => at(ledger, b).attempts.splice(1)],
    [
      'an attempt while another is open',
      /^P6 one live lease/,
      ({ ledger }) => (at(at(ledger, b).outcomes, 0).at = due + 801),
    ],
    ['an attempt after a success', /^P3/, ({ ledger }) => (at(at(ledger, b).outcomes, 0).outcome = 'delivered')],
    [
      'a request that is said not to be sent',
      /^not_sent/,
      ({ ledger }) => (at(at(ledger, b).outcomes, 0).outcome = 'not_sent'),
    ],
    ['a death before its time', /^dead only/, ({ ledger }) => (at(ledger, a).state = 'dead')],
    ['a row that is held for nothing', /^held only/, ({ ledger }) => (at(ledger, c).contract = 'honours-key')],
    [
      'more attempts than there may be',
      /^P9/,
      ({ ledger }) => {
        at(ledger, c).attempts = Array.from({ length: 31 }, (_, no) => attempt(no + 1, due + no));
      },
    ],
  ])('%s', (_name, promise, plant) => {
    const planted = evidence();
    plant(planted);
    expect(judge(planted).broken.map((breach) => breach.promise)).toContainEqual(expect.stringMatching(promise));
  });

  test.each<[string, Plant]>([
    ['sender frozen', ({ faults }) => (at(faults, 0).kind = 'webhook-sender freeze after headers')],
    ['settle never reached the ledger', ({ faults }) => faults.splice(0)],
    ['receiver gave no answer in time', ({ ledger }) => (at(at(ledger, b).outcomes, 0).by = 'sender')],
    ['attempt ended as retry', ({ ledger }) => (at(at(ledger, b).outcomes, 0).outcome = 'retry')],
  ])('that a duplicate comes from: %s', (cause, plant) => {
    const planted = evidence();
    plant(planted);
    expect(judge(planted).duplicates).toEqual({ [cause]: 1 });
  });

  test('no duplicate where the receiver had not acted', () => {
    const planted = evidence();
    at(planted.received, 1).processed = false;
    expect(judge(planted).duplicates).toEqual({});
  });
});

test('stands alone: it imports Node alone, reads the files of a directory and fails when a promise is broken', () => {
  const script = fileURLToPath(new URL('join.ts', import.meta.url));
  const imports = [...readFileSync(script, 'utf8').matchAll(/from '([^']+)'/g)].map(([, from]) => from);
  expect(imports.filter((from) => !from?.startsWith('node:'))).toEqual([]);

  const directory = mkdtempSync(join(tmpdir(), 'reminder-ledger-join-'));
  try {
    const write = (all: Evidence) => {
      for (const [name, file] of Object.entries(evidenceFiles)) {
        const lines = all[name as keyof Evidence].map((line) => `${JSON.stringify(line)}\n`);
        writeFileSync(join(directory, file), lines.join(''));
      }
    };
    const run = () => execFileSync(process.execPath, [script, directory], { encoding: 'utf8' });
    write(evidence());
    expect(run()).toMatch(/scheduled 3, lost 0, ids minted 3, second ids 0.*No promise is broken/s);
    const planted = evidence();
    planted.ledger.splice(c, 1);
    write(planted);
    expect(run).toThrow(expect.objectContaining({ status: 1, stdout: expect.stringContaining('BROKEN P1 no loss') }));
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
});
