// Commands that are wrong, by hand and at random: each is told its field, and neither a neighbour nor a worker suffers.
import fc from 'fast-check';
import { v7 as uuid } from 'uuid';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { badCommands } from './bad-commands.ts';
import { type RunningLedger, startRunningLedger } from './running-ledger.ts';

let ledger: RunningLedger;
let ok: string;
beforeAll(async () => {
  ledger = await startRunningLedger();
  // What a tick does is no matter of this function's answers.
  ledger.aws.scheduler.pause();
  ok = await ledger.destination('/ok');
}, 60_000);
afterAll(() => ledger.stop());

const later = '2040-01-01T00:00:00.000Z';
const good = (more: object = {}) => ({
  verb: 'schedule',
  key: `key-${uuid()}`,
  destination: ok,
  dueAt: later,
  userId: 'user-1',
  payload: { a: 1 },
  ...more,
});
const rows = async () => Number((await ledger.sql('SELECT count(*) AS n FROM reminder_delivery'))[0]?.n);
const workers = () => {
  const own = ledger.aws.host.environments().filter(({ functionName }) => functionName === 'schedule');
  return own.map(({ pid }) => pid);
};

describe('a bad command', () => {
  let before: number;
  let pids: number[];
  beforeEach(async () => {
    // Both pools are warm after this, so that a worker which is gone afterwards has died.
    await ledger.command({ verb: 'get', key: 'nobody' });
    before = await rows();
    pids = workers();
  });

  /** Each bad one is refused by its path; each good one between them is scheduled; nothing else was written. */
  async function expectRefused(bad: readonly (readonly [what: string, command: unknown, path: string])[]) {
    const answers = await ledger.commands(bad.flatMap(([, command]) => [command as object, good()]));
    const wrong = bad.flatMap(([what, , path], place) => {
      const answer = answers[2 * place];
      const paths = answer?.answer === 'invalid' ? answer.issues.map((issue) => issue.path) : [];
      const said = answer?.answer === 'invalid' && answer.issues.every(({ message }) => message.length > 0);
      return said && paths.includes(path) ? [] : [`${what}: ${JSON.stringify(answer)}, not ${path}`];
    });
    expect(wrong).toEqual([]);
    const neighbours = answers.filter((_, place) => place % 2 === 1).map(({ answer }) => answer);
    expect(new Set(neighbours)).toEqual(new Set(['scheduled']));
    expect(await rows()).toBe(before + bad.length);
    expect(workers(), 'no worker died of it').toEqual(pids);
  }

  test('is told its field, whatever it is, beside good ones that are carried out', async () => {
    const bad = badCommands(ok);
    expect(bad.length).toBeGreaterThan(75);
    await expectRefused(bad);
  });

  test('alone is answered as in a batch', async () => {
    for (const [what, command, path] of badCommands(ok)) {
      const { failed, answer } = await ledger.invokeText(JSON.stringify(command));
      const issues = (answer as { issues?: { path: string }[] }).issues ?? [];
      expect({ failed, paths: issues.map((issue) => issue.path) }, what).toEqual({
        failed: false,
        paths: expect.arrayContaining([path]),
      });
    }
    expect(await rows()).toBe(before);
    expect(workers()).toEqual(pids);
  });

  test('nested 20,000 deep is refused, as raw text, alone and beside a good one', async () => {
    for (const [open, close] of [
      ['[', ']'],
      ['{"a":', '}'],
    ] as const) {
      const deep = `${open.repeat(20_000)}1${close.repeat(20_000)}`;
      const text = JSON.stringify(good({ payload: 'DEEP' })).replace('"DEEP"', deep);
      const refused = { answer: 'invalid', issues: [{ path: 'payload' }] };
      expect(await ledger.invokeText(text)).toMatchObject({ failed: false, answer: refused });
      const both = await ledger.invokeText(`{"commands":[${text},${JSON.stringify(good())}]}`);
      expect(both).toMatchObject({ failed: false, answer: { answers: [refused, { answer: 'scheduled' }] } });
      for (const event of [
        deep,
        `{"verb":${deep}}`,
        JSON.stringify(good({ key: 0 })).replace('"key":0', `"key":${deep}`),
      ]) {
        expect(await ledger.invokeText(event)).toMatchObject({ failed: false, answer: { answer: 'invalid' } });
      }
    }
    expect(await rows()).toBe(before + 2);
    expect(workers()).toEqual(pids);
  });

  test('with a number beyond any is refused rather than sent as null', async () => {
    for (const huge of ['1e400', '[-1e400]', '{"__proto__":1e999}']) {
      const text = JSON.stringify(good({ payload: 'HUGE' })).replace('"HUGE"', huge);
      const refused = { answer: 'invalid', issues: [{ path: 'payload' }] };
      expect(await ledger.invokeText(text), huge).toMatchObject({ failed: false, answer: refused });
    }
    expect(await rows()).toBe(before);
  });

  const json = fc.jsonValue({ maxDepth: 3 });
  const noText = json.filter((value) => typeof value !== 'string');
  const wrongValues: Record<string, fc.Arbitrary<unknown>> = {
    verb: json.filter((value) => !['schedule', 'cancel', 'reschedule', 'get'].includes(value as string)),
    key: fc.oneof(
      noText,
      fc.string({ unit: 'binary', maxLength: 300 }).filter((text) => !/^[!-~]{1,255}$/.test(text)),
    ),
    destination: fc.oneof(noText, fc.string({ unit: 'binary' })),
    userId: fc.oneof(noText, fc.string({ minLength: 129, maxLength: 200 }), fc.constantFrom('', '\ud83d', 'a\u0000')),
    dueAt: fc.oneof(
      noText,
      fc.string(),
      fc.date({ noInvalidDate: true }).map((date) => date.toISOString().slice(0, -1)),
      fc.date({ noInvalidDate: true, max: new Date('1999-12-31T23:59:59Z') }).map((date) => date.toISOString()),
    ),
    expiresAt: fc.oneof(
      noText,
      fc.string(),
      fc.date({ noInvalidDate: true, max: new Date(later) }).map((date) => date.toISOString()),
    ),
    payloadText: json,
  };
  const wrong = fc
    .constantFrom(...Object.keys(wrongValues))
    .chain((field) => fc.tuple(fc.constant(field), wrongValues[field] ?? json));
  const unknown = fc.tuple(
    fc.string({ minLength: 1 }).filter((name) => !(name in good()) && !(name in wrongValues)),
    json,
  );

  test('drawn at random is refused by its field', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.oneof(wrong, unknown), { minLength: 20, maxLength: 40 }), async (drawn) => {
        before = await rows();
        await expectRefused(
          drawn.map(([field, value]) => [
            `${field} ${JSON.stringify(value)}`,
            Object.defineProperty(good(), field, { value, enumerable: true }),
            // Both payloads at once are told of at the one.
            field === 'payloadText' && typeof value === 'string' ? 'payload' : field,
          ]),
        );
      }),
      { numRuns: 12 },
    );
  });

  test('of any JSON at all is answered, and nobody dies of it', async () => {
    await fc.assert(
      fc.asyncProperty(fc.jsonValue(), async (event) => {
        const { failed, answer } = await ledger.invokeText(JSON.stringify(event));
        expect(failed).toBe(false);
        expect(answer).toMatchObject({ answer: 'invalid', issues: [{ path: expect.stringMatching(/./) }] });
      }),
      { numRuns: 60 },
    );
    expect(await rows()).toBe(before);
    expect(workers()).toEqual(pids);
  });
});

test('a good payload arrives in the calendar as the text it is, whatever its keys are called', async () => {
  for (const payload of [
    '{"__proto__":{"a":1},"b":2}',
    '[{"__proto__":1}]',
    '{"constructor":{"prototype":1},"toString":2,"toJSON":3,"hasOwnProperty":4}',
    'null',
    'false',
    '0',
    '""',
    '[]',
    JSON.stringify('\u0000\ud800'),
    JSON.stringify('é'.repeat(16_383)),
  ]) {
    const text = JSON.stringify(good({ payload: 'HERE' })).replace('"HERE"', payload);
    const { answer } = await ledger.invokeText(text);
    expect(answer, payload.slice(0, 40)).toMatchObject({ answer: 'scheduled' });
    const { deliveryId } = answer as { deliveryId: string };
    expect((await ledger.row(deliveryId)).payload).toBe(payload);
  }
});
