// A soak: many reminders through local AWS while faults fall at a rate, then none, until all have ended; and what was seen.
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { v7 as uuid } from 'uuid';
import type { Settings } from '../../lambdas/core/settings.ts';
import { type LocalAws, startLocalAws } from '../../lib/local/local-aws.ts';
import { testAuthority } from '../../lib/local/test-authority.ts';
import { exportLedger } from './export-ledger.ts';
import { injectFaults } from './injected-faults.ts';
import { evidenceFiles, judge, type Report, readEvidence } from './join.ts';
import { destinations, planCalls } from './plan.ts';
import { askFor } from './product.ts';
import type { ReceiversOptions } from './receivers.ts';

export interface SoakOptions {
  readonly reminders: number;
  /** The chance of a fault, 0 to 1, for each call and each run of a function. */
  readonly faultRate: number;
  readonly seed: number;
  /** Where everything is kept; must not hold a soak yet. */
  readonly directory: string;
  /** How many reminders are asked for in a second. */
  readonly perSecond: number;
  /** How long a reminder is asked for ahead of its due time at most. @default 40 */
  readonly aheadSeconds?: number;
  /** After so long it stops asking, and does not wait for the end of what is still on its way. */
  readonly limitSeconds: number;
  readonly progress?: (facts: SoakProgress) => void;
}

export interface SoakProgress {
  readonly phase: 'faults' | 'converging';
  readonly taken: number;
  readonly ended: number;
  readonly faults: number;
  readonly seconds: number;
}

/** The join's report, and how the run went. */
export interface SoakResult extends Report {
  readonly seed: number;
  readonly faultRate: number;
  /** With faults, from the first call to the last due time. */
  readonly faultSeconds: number;
  /** From the end of the faults until every reminder had ended; null: it had not within its time. */
  readonly convergedSeconds: number | null;
  readonly convergenceBoundSeconds: number;
  /** Reminders ended in a second while faults fell. */
  readonly endedPerSecond: number;
}

const callSize = 100;
/** `GREATEST(now(), …) + allowance · 2^min(invitations, 5)`: the longest that the calendar lets a row be. */
const longestDoubling = 2 ** 5;

/**
 * How long after the last fault every reminder has ended, in seconds: one that was invited in vain again and again waits
 * longest; then it is claimed, and may need an attempt that is not answered, and another one.
 */
export function convergenceBoundSeconds(settings: Settings): number {
  const { tickSeconds, tickPrecisionSeconds, leaseSeconds, senderTimeoutSeconds, retryCapSeconds } = settings;
  const attempt = retryCapSeconds + tickSeconds + tickPrecisionSeconds + senderTimeoutSeconds;
  return settings.allowanceSeconds * longestDoubling + leaseSeconds + 2 * attempt;
}

/** Runs a soak from an empty ledger to its report. The directory then holds the evidence, the logs and the database. */
export async function soak(options: SoakOptions): Promise<SoakResult> {
  const { directory, seed, reminders, aheadSeconds = 40 } = options;
  mkdirSync(directory, { recursive: true });
  const file = (name: keyof typeof evidenceFiles) => join(directory, evidenceFiles[name]);
  const faultDirectory = join(directory, 'faults');
  const authority = await testAuthority({ directory: join(directory, 'test-authority') });
  const receivers = await startReceivers({ ...authority, file: file('received'), seed });
  let aws: LocalAws | undefined;
  try {
    aws = await startLocalAws({
      ...{ stage: 'rehearsal', directory, fresh: true, schedulerSeed: seed, caFile: authority.caFile },
      rehearsal: { faultDirectory },
    });
    const pool = new pg.Pool({ connectionString: aws.databaseUrl, max: 2, options: '-c statement_timeout=0' });
    pool.on('error', () => undefined);
    await addDestinations(pool, receivers.port);

    const begin = Date.now();
    const spreadSeconds = reminders / options.perSecond;
    const calls = planCalls({ seed, reminders, begin, spreadSeconds, aheadSeconds, callSize });
    const lastDueAt = Math.max(...calls.flatMap(({ wishes }) => wishes.map(({ dueAt }) => dueAt)));
    const limit = AbortSignal.timeout(options.limitSeconds * 1000);
    const injection = injectFaults(aws, { seed, rate: options.faultRate, faultDirectory, file: file('faults') });
    let taken = 0;
    let ended = 0;
    let phase: SoakProgress['phase'] = 'faults';
    const look = async () => {
      ended = await endedIn(pool).catch(() => ended);
      const seconds = Math.round((Date.now() - begin) / 1000);
      options.progress?.({ phase, taken, ended, faults: injection.count(), seconds });
    };

    const asking = askFor(aws, calls, {
      ...{ seed, twiceRate: options.faultRate, file: file('asked'), signal: limit },
      told: (count) => {
        taken = count;
      },
    });
    while (Date.now() < lastDueAt && !limit.aborted) {
      await look();
      await sleep(Math.min(2000, Math.max(0, lastDueAt - Date.now())));
    }
    await asking;
    await injection.stop();
    receivers.process.send('well');
    phase = 'converging';
    await look();
    const [stopped, endedWithFaults] = [Date.now(), ended];
    while (ended < reminders && !limit.aborted) {
      await sleep(500);
      await look();
    }
    const convergedSeconds = ended < reminders ? null : (Date.now() - stopped) / 1000;
    await pool.end();
    await exportLedger(aws.databaseUrl, file('ledger'));
    const faultSeconds = (stopped - begin) / 1000;
    return {
      ...judge(await readEvidence(directory)),
      ...{ seed, faultRate: options.faultRate, faultSeconds, convergedSeconds },
      convergenceBoundSeconds: convergenceBoundSeconds(aws.settings),
      endedPerSecond: endedWithFaults / faultSeconds,
    };
  } finally {
    await aws?.stop();
    receivers.process.kill();
  }
}

async function startReceivers(options: ReceiversOptions): Promise<{ process: ChildProcess; port: number }> {
  const { key, cert, file, seed } = options;
  const child = fork(fileURLToPath(new URL('receivers.ts', import.meta.url)), [
    JSON.stringify({ key, cert, file, seed }),
  ]);
  const [port] = await once(child, 'message');
  return { process: child, port };
}

async function addDestinations(pool: pg.Pool, port: number): Promise<void> {
  for (const { name, contract } of destinations) {
    await pool.query(
      `INSERT INTO destination (destination_id, name, url, owner, contract, state, state_since, created_at)
       VALUES ($1, $2, $3, 'soak', $4, 'active', now(), now())`,
      [uuid(), name, `https://127.0.0.1:${port}/${name}`, contract],
    );
  }
}

/** How many reminders are terminal, or wait for a person. */
async function endedIn(pool: pg.Pool): Promise<number> {
  const text = `SELECT count(*)::int AS ended FROM reminder_delivery WHERE state IN ('delivered', 'dead', 'held')`;
  const { rows } = await pool.query<{ ended: number }>(text);
  return rows[0]?.ended ?? 0;
}
