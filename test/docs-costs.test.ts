// The calls of AWS that the deployment's guide counts for a minute and for a reminder are those that the bundles make.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { eventually, idsOf, type RunningLedger, startRunningLedger } from './functions/running-ledger.ts';

const guide = readFileSync(fileURLToPath(new URL('../docs/deploy.md', import.meta.url)), 'utf8');
const [table = ''] = /\| counted(.*\n)+?\n/.exec(guide) ?? [];
const columns = ['a minute without work', 'one reminder', 'one due within 3 minutes'] as const;

/** A column of the guide's table, by its row. */
function told(column: (typeof columns)[number]): Record<string, number> {
  const place = 2 + columns.indexOf(column);
  const rows = table.trim().split('\n').slice(2);
  return Object.fromEntries(
    rows.map((row) => row.split('|').map((cell) => cell.trim())).map((cells) => [cells[1], Number(cells[place])]),
  );
}

/** How each kind of call is published, besides statements. */
const calls: Readonly<Record<string, string>> = {
  handler: 'invocations of Lambda',
  'send-message-batch': 'SendMessageBatch',
  'put-events': 'PutEvents',
};
/** Not among the counted: a request to a receiver, and a secret that is asked for once in minutes. */
const uncounted = ['dial', 'write', 'headers', 'body', 'fetch-signing-secret'];

/** A line of what the functions published. */
interface Published {
  readonly functionName: string;
  readonly point: string;
  readonly at: 'before' | 'after';
  readonly tried: number;
}

let ledger: RunningLedger;
let file: string;
let destination: string;
beforeAll(async () => {
  ledger = await startRunningLedger({ faults: true });
  ledger.aws.scheduler.pause();
  file = join(ledger.directory, 'faults/passages.jsonl');
  destination = await ledger.destination('/ok');
  await ledger.tick();
  writeFileSync(file, '');
});
afterAll(() => ledger.stop());

function passages(functions: readonly string[]): Published[] {
  const lines = readFileSync(file, 'utf8').trim().split('\n').filter(Boolean);
  return lines
    .map((line) => JSON.parse(line) as Published)
    .filter(({ functionName }) => functions.includes(functionName));
}

/** What these functions called since the last time, by the rows of the table. What the others did is forgotten with it. */
function counted(functions: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = { 'requests of Data API': 0 };
  for (const kind of Object.values(calls)) counts[kind] = 0;
  for (const { point, at, tried } of passages(functions)) {
    // Another try of a call is a busy machine's.
    if (at !== 'before' || tried > 1 || uncounted.includes(point)) continue;
    const kind = calls[point] ?? 'requests of Data API';
    counts[kind] = (counts[kind] ?? 0) + 1;
  }
  writeFileSync(file, '');
  return counts;
}

const ofReminders = ['schedule', 'claim', 'webhook-sender'];
const minus = (some: Record<string, number>, others: Record<string, number>, times: number) =>
  Object.fromEntries(Object.entries(some).map(([kind, count]) => [kind, count - times * (others[kind] ?? 0)]));

/** What a reminder costs beside the ticks, which run anyway. */
async function delivered(dueInMs: number, ticks: number): Promise<Record<string, number>> {
  const asked = await ledger.schedule(destination, [{ dueInMs }]);
  const [{ deliveryId } = { deliveryId: '' }] = asked;
  if (ticks > 1) {
    await eventually('it is close to due', async () => {
      const sql = 'SELECT FROM reminder_delivery WHERE delivery_id = $1 AND wake_at <= now()';
      return (await ledger.sql(sql, [deliveryId])).length === 1;
    });
    await ledger.tick();
  }
  const inTime = await ledger.settled(idsOf(asked), 'delivered', dueInMs + 10_000).then(
    () => true,
    () => false,
  );
  // On a busy machine an answer may come after its deadline: a second attempt is not what is counted here.
  if (!inTime || (await ledger.outcomes(deliveryId)).length !== 1) {
    counted([]);
    return delivered(dueInMs, ticks);
  }
  await ledger.tick();
  await eventually('the sender has answered', () =>
    passages(['webhook-sender']).some(({ point, at }) => point === 'handler' && at === 'after'),
  );
  return counted(ofReminders);
}

test('a minute without work, a reminder, and one that is due soon', async () => {
  counted([]);
  await ledger.tick();
  const tick = counted(['claim']);
  await ledger.aws.invoke('observe', {});
  await eventually('a look has ended', () =>
    passages(['observe']).some(({ point, at }) => point === 'handler' && at === 'after'),
  );
  const looks = passages(['observe']);
  const handlers = looks.filter(({ point, at }) => point === 'handler' && at === 'after').length;
  const statements = looks.filter(({ point, at }) => point.startsWith('observe-') && at === 'after').length;
  const minute = { ...tick };
  minute['requests of Data API'] = (tick['requests of Data API'] ?? 0) + Math.round(statements / handlers);
  minute['invocations of Lambda'] = (tick['invocations of Lambda'] ?? 0) + 1;
  expect(minute).toEqual(told('a minute without work'));

  counted([]);
  // The stage of this ledger hands over 9 s ahead, where the deployed ones do so 3 minutes ahead.
  expect(minus(await delivered(14_000, 2), tick, 2)).toEqual(told('one reminder'));
  expect(minus(await delivered(0, 1), tick, 1)).toEqual(told('one due within 3 minutes'));
}, 180_000);
