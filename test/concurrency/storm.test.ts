// Sixteen sessions at once on the same few reminders, round after round: whatever the order, every promise holds after each.
// CI runs as many rounds as fit into its time; STORM_SECONDS gives it more, STORM_SEED another order.
import { v7 as uuid } from 'uuid';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { OpenAnswer, OutcomeKind } from '../../lambdas/core/ports.ts';
import { comparable, ledgerTables } from '../ledger/ledger-rows.ts';
import { startTestLedger, type TestLedger, worker } from '../ledger/test-ledger.ts';
import { Chance } from '../simulation/chance.ts';
import { arrangeCast, type Contender, ids, openContender, untilWaiting } from './contenders.ts';
import { brokenPromises, forbiddenMoves, watchMoves } from './promises.ts';
import { type Play, plays } from './verbs.ts';

const limitMs = Number(process.env.STORM_SECONDS ?? 8) * 1000;
const chance = new Chance(process.env.STORM_SEED ?? 'storm');
const many = 16;

let ledger: TestLedger;
let tables: string[];
let contenders: Contender[];
let barrier: Contender;
beforeAll(async () => {
  ledger = await startTestLedger();
  tables = await ledgerTables(ledger);
  contenders = await Promise.all(Array.from({ length: many }, () => openContender(ledger)));
  barrier = await openContender(ledger);
  await watchMoves(ledger.sql);
});
afterAll(async () => {
  await Promise.all([...contenders, barrier].map((contender) => contender.close()));
  await ledger.stop();
});

/** What each attempt was opened under, as the answers told it. */
const opened = new Map<string, string>();

async function open({ ledger: own }: Contender, token: string): Promise<OpenAnswer[]> {
  const answers = await own.open({ token, worker, deliveryIds: ids, alone: true });
  for (const answer of answers) {
    if (answer.answer !== 'opened') continue;
    const attempt = `${answer.deliveryId} ${answer.attemptNo}`;
    expect(opened.get(attempt) ?? token, `${attempt} was opened twice`).toBe(token);
    opened.set(attempt, token);
  }
  return answers;
}

const result = (outcome: OutcomeKind) => ({
  ...{ outcome, phase: 'headers' as const, status: null, errorClass: outcome, detail: null, latencyMs: 1 },
  retryAfterSeconds: null,
});

/** Settles an attempt that somebody opened: not always the one who did, and not always the last one. */
const settleOne =
  (outcome: OutcomeKind): Play =>
  async ({ ledger: own }, token) => {
    const attempts = [...opened];
    const [attempt, openToken] = attempts[chance.integer(0, attempts.length - 1)] ?? [];
    const [deliveryId, attemptNo] = attempt?.split(' ') ?? [];
    if (deliveryId === undefined || openToken === undefined) return [];
    const one = { deliveryId, attemptNo: Number(attemptNo), openToken, ...result(outcome) };
    return own.settle({ token, outcomes: [one] });
  };

const all: Readonly<Record<string, Play>> = {
  ...plays,
  open,
  'settle one delivered': settleOne('delivered'),
  'settle one retry': settleOne('retry'),
  'settle one unknown': settleOne('unknown'),
};
const verbs = [...Object.keys(all), 'claim', 'claim', 'open', 'open', 'settle one retry', 'settle one unknown'];
const pick = <Value>(values: readonly Value[]): Value => chance.pick(values as [Value, ...Value[]]);

/** A round: all are sent at once, every other time into a barrier that goes when all wait. Answers what was sent and what came. */
async function round(withBarrier: boolean) {
  const sent: { verb: string; token: string; answer: Promise<unknown> }[] = [];
  if (withBarrier) await barrier.sql('BEGIN; SELECT FROM reminder_delivery ORDER BY delivery_id FOR NO KEY UPDATE');
  let left = many;
  for (const contender of contenders) {
    // Now and then a twin of one that was just sent.
    const twin = sent.length > 0 && chance.happens(0.25) ? pick(sent) : undefined;
    const { verb, token } = twin ?? { verb: pick(verbs), token: uuid() };
    // Claims pass over rows that are held: they are kept from looking.
    if (withBarrier) await barrier.sql('SELECT pg_advisory_xact_lock(hashtextextended($1, 0))', [token]);
    const answer = (all[verb] as Play)(contender, token).finally(() => {
      left -= 1;
    });
    answer.catch(() => undefined);
    sent.push({ verb, token, answer });
  }
  if (withBarrier) {
    await untilWaiting(ledger, () => left);
    await barrier.sql('COMMIT');
  }
  return Promise.all(sent.map(async ({ verb, token, answer }) => ({ verb, token, answer: await answer })));
}

/** Lets time pass for the rows that a timer moves. */
const timePasses = (seconds: number) =>
  ledger.sql(
    `UPDATE reminder_delivery SET wake_at = wake_at - $1 * interval '1 s', lease_until = lease_until - $1 * interval '1 s',
       next_attempt_at = LEAST(next_attempt_at, next_attempt_at - $1 * interval '1 s')
     WHERE state IN ('scheduled', 'dispatching', 'queued', 'delivering')`,
    [seconds],
  );

/** Without what differs from one moment to the next. */
const saidBy = (answer: unknown) =>
  JSON.stringify(comparable(answer ?? null)).replaceAll(/"(state|highWater)":[^,}]*/g, '');

test('sixteen at once, round after round', async () => {
  const end = performance.now() + limitMs;
  let rounds = 0;
  for (; performance.now() < end; rounds += 1) {
    if (rounds % 6 === 0) {
      await arrangeCast(ledger, tables);
      await ledger.sql('DELETE FROM watch.moves');
      opened.clear();
    }
    const came = await round(rounds % 2 === 0);
    // A pause would keep the rounds to come quiet.
    await ledger.sql('UPDATE dispatch_gate SET paused = false, paused_since = NULL, reason = NULL');
    expect(await brokenPromises(ledger.sql), `round ${rounds}: ${came.map(({ verb }) => verb)}`).toEqual([]);
    expect(await forbiddenMoves(ledger.sql), `round ${rounds}: ${came.map(({ verb }) => verb)}`).toEqual([]);
    for (const { verb, token, answer } of came) {
      // What settles the attempt of a moment settles another one the next time; open answers of the leases that it holds;
      // a readmit that found nothing leaves no receipt, so its twin may find what was excluded in between; archive has no
      // token, and judges anew.
      if (verb.startsWith('settle one') || ['open', 'readmit', 'archive'].includes(verb)) continue;
      const twin = came.find((other) => other.token === token);
      expect(saidBy(answer), `${verb}, a twin`).toBe(saidBy(twin?.answer));
    }
    await timePasses(pick([0, 30, 70, 300]));
    if (rounds % 6 === 5) await afterTheStorm();
  }
  const retried = contenders.flatMap((contender) => contender.retried);
  console.info(`storm: ${rounds} rounds of ${many}; tried again after ${retried.length === 0 ? 'nothing' : retried}`);
  expect(rounds).toBeGreaterThan(5);
}, 120_000);

/** Once nobody interferes, a claim, a sender and time bring every reminder to its end (P1). */
async function afterTheStorm(): Promise<void> {
  const [healer] = contenders as [Contender];
  await ledger.sql(
    'UPDATE claim_exclusion SET readmitted_at = now(), readmitted_by = token WHERE readmitted_at IS NULL',
  );
  for (let turn = 0; turn < 4; turn += 1) {
    await timePasses(5000);
    await healer.ledger.unpark({ token: uuid(), limit: 50 });
    await healer.ledger.claim({ token: uuid(), worker, limit: 50, lowWater: null });
    const token = uuid();
    const answers = await open(healer, token);
    const outcomes = answers.flatMap((answer) =>
      answer.answer === 'opened'
        ? [{ deliveryId: answer.deliveryId, attemptNo: answer.attemptNo, openToken: token, ...result('delivered') }]
        : [],
    );
    if (outcomes.length > 0) await healer.ledger.settle({ token: uuid(), outcomes });
  }
  const left = await ledger.sql(`SELECT delivery_id, state FROM reminder_delivery
    WHERE state NOT IN ('delivered', 'dead', 'expired', 'cancelled', 'held') AND due_at < now() + interval '1 day'`);
  expect(left).toEqual([]);
  expect(await brokenPromises(ledger.sql)).toEqual([]);
}

test('claims of many sessions share the rows out among them: each row has one owner', async () => {
  await arrangeCast(ledger, tables);
  await ledger.sql(`INSERT INTO reminder_delivery (delivery_id, producer, user_id, destination_id, idempotency_key,
      request_fingerprint, payload, payload_sha256, created_by_command, created_at, due_at, next_attempt_at, wake_at, state,
      state_since)
    SELECT gen_random_uuid(), producer, user_id, destination_id, 'crowd ' || n, request_fingerprint, payload, payload_sha256,
      created_by_command, created_at, due_at, next_attempt_at, wake_at, state, state_since
    FROM reminder_delivery, generate_series(1, 400) AS n WHERE idempotency_key = 'scheduled'`);
  const answers = await Promise.all(
    contenders.map((contender) => contender.ledger.claim({ token: uuid(), worker, limit: 20, lowWater: null })),
  );
  const claimed = answers.flatMap((answer) => answer.claimed.map(({ deliveryId }) => deliveryId));
  expect(new Set(claimed).size).toBe(claimed.length);
  expect(answers.filter((answer) => answer.claimed.length > 0).length).toBeGreaterThan(many / 2);
  expect(await brokenPromises(ledger.sql)).toEqual([]);
});
