// The contract with EventBridge Scheduler: how regularly the claim's ticks come, seen in the ledger's claim batches.
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import { type ContractCase, contract } from './contract-case.ts';
import type { Target } from './target.ts';

const source = 'EventBridge Scheduler User Guide, "Schedule types in EventBridge Scheduler": 60 s precision';
const reliedOnBy = 'lambdas/core/settings.ts';

/** Milliseconds of the ticks in the last while, oldest first. A tick drains in several claims of one request. */
async function ticks({ database, settings, kind }: Target): Promise<number[]> {
  const window = kind === 'aws' ? 1800 : settings.tickSeconds * 20;
  const sql = `SELECT json_agg(at ORDER BY at)::text FROM (
    SELECT (extract(epoch FROM min(claimed_at)) * 1000)::bigint AS at FROM claim_batch
    WHERE claimed_at > now() - ${window} * interval '1 second' GROUP BY request_id) AS tick`;
  const [field] = await database.row(sql);
  return JSON.parse(field?.stringValue ?? 'null') ?? [];
}

const intervals = (instants: readonly number[]) =>
  instants.slice(1).map((at, place) => (at - (instants[place] ?? at)) / 1000);

const cases: readonly ContractCase[] = [
  {
    id: 'scheduler/intervals',
    fact: 'Two ticks lie no further apart than a period and its precision; gaps and duplicates are counted.',
    reliedOnBy,
    source,
    async check(target) {
      const { settings, kind } = target;
      // Local AWS has just begun to tick.
      for (const end = Date.now() + 40_000; kind === 'local' && Date.now() < end; await sleep(500)) {
        if ((await ticks(target)).length > 3) break;
      }
      const found = intervals(await ticks(target));
      const { tickSeconds: period, tickPrecisionSeconds: precision } = settings;
      // How long a claim takes to start is no part of the promise; a busy machine takes longer.
      const longest = period + precision + (kind === 'aws' ? 2 : 2 * period);
      const gaps = found.filter((seconds) => seconds > longest);
      const duplicates = found.filter((seconds) => seconds < 1).length;
      console.log(
        `ticks ${found.length + 1}, shortest ${Math.min(...found)} s, longest ${Math.max(...found)} s, ` +
          `gaps above ${longest} s: ${gaps.length}, duplicates within 1 s: ${duplicates}`,
      );
      expect(found.length, 'intervals seen').toBeGreaterThan(1);
      expect(gaps, `intervals above ${longest} s`).toEqual([]);
    },
  },
];

contract(cases);
