// The faults of a soak: drawn from the seed at a rate over calls and processes, carried out by local AWS, and written down.
import { closeSync, openSync, writeSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import type { DataApiFault } from '../../lib/local/data-api.ts';
import type { EventFault } from '../../lib/local/event-bus.ts';
import { type FaultPlan, FaultPlans, type PlannedFault } from '../../lib/local/fault-plans.ts';
import type { Faults } from '../../lib/local/faults.ts';
import type { LocalAws } from '../../lib/local/local-aws.ts';
import type { QueueFault } from '../../lib/local/queue.ts';
import { draw, pick } from './draw.ts';

/** A fault that happened, as its line in the file tells it. */
export interface InjectedFault {
  /** Epoch milliseconds. */
  readonly at: number;
  /** What it was done to and how, such as `data-api timeout-after`. */
  readonly kind: string;
  /** Every reminder that a killed or frozen process had to do with. */
  readonly deliveryIds?: readonly string[];
}

const dataApiFaults: readonly [DataApiFault, ...DataApiFault[]] = [
  { kind: 'error-before' },
  { kind: 'error-after' },
  { kind: 'error-before', error: 'DatabaseErrorException', message: 'ERROR: could not serialize; SQLState: 40001' },
  { kind: 'error-before', error: 'ThrottlingException', message: 'Rate exceeded' },
  { kind: 'reset-before' },
  { kind: 'reset-after' },
  { kind: 'timeout-before' },
  { kind: 'timeout-after' },
  { kind: 'twice' },
  { kind: 'delay', ms: 300 },
];

const queueFaults: readonly [QueueFault, ...QueueFault[]] = [
  { kind: 'lose' },
  { kind: 'duplicate', times: 3 },
  { kind: 'refuse', times: 3 },
  { kind: 'omit' },
  { kind: 'redeliver', times: 3 },
  { kind: 'reorder', times: 3 },
  { kind: 'error-before' },
  { kind: 'error-after' },
  { kind: 'timeout-after' },
  { kind: 'twice' },
  { kind: 'error-before', operation: 'DeleteMessageBatch' },
  { kind: 'timeout-before', operation: 'DeleteMessageBatch' },
];

const busFaults: readonly [EventFault, ...EventFault[]] = [
  { kind: 'refuse' },
  { kind: 'error-before' },
  { kind: 'timeout-after' },
];

type Place = Pick<FaultPlan, 'point' | 'at'>;
const places: readonly [Place, ...Place[]] = [
  { point: 'schedule', at: 'before' },
  { point: 'schedule', at: 'after' },
  { point: 'claim', at: 'after' },
  { point: 'send-message-batch', at: 'after' },
  { point: 'enqueue', at: 'after' },
  { point: 'open', at: 'before' },
  { point: 'open', at: 'after' },
  { point: 'dial', at: 'before' },
  { point: 'dial', at: 'after' },
  { point: 'write', at: 'before' },
  { point: 'write', at: 'after' },
  { point: 'headers', at: 'after' },
  { point: 'body', at: 'after' },
  { point: 'settle', at: 'before' },
  { point: 'settle', at: 'after' },
];

/** Beyond a lease at stage `rehearsal`. */
const longestFreezeMs = 12_000;
const lookMs = 50;

/** Faults that go on until they are stopped. */
export interface FaultInjection {
  /** How many happened so far. */
  count(): number;
  /** Ends all of them and repairs what is broken. Resolves when none can happen any more. */
  stop(): Promise<void>;
}

/**
 * Starts. Each call of the Data API, the queue and the bus, each run of a function and each tick is drawn for once; when
 * the lot falls, one of the calls to come has the fault. Every second there is a chance of a fifth of the rate for
 * something rare: the event source off, a session's process killed, which restarts PostgreSQL, or every session ended.
 * @param options.file lines of {@link InjectedFault} are appended to it
 */
export function injectFaults(
  aws: LocalAws,
  options: { seed: number; rate: number; faultDirectory: string; file: string },
): FaultInjection {
  const { seed, rate } = options;
  const plans = new FaultPlans(options.faultDirectory);
  const file = openSync(options.file, 'a');
  /** Planned faults; each tells what happened since it was looked at last, and whether more may come. */
  const watched = new Set<() => { readonly fresh: readonly InjectedFault[]; readonly more: boolean }>();
  const withdrawals: (() => void)[] = [];
  const seenRuns = new Set<string>();
  const drawnFor = new Map<string, number>();
  let happened = 0;
  let running = true;

  function record(fault: InjectedFault): void {
    happened += 1;
    writeSync(file, `${JSON.stringify(fault)}\n`);
  }

  /** Draws once for each of the calls that were made since the last time. */
  function forEachNew(what: string, made: number, plan: (no: number) => void): void {
    for (let no = drawnFor.get(what) ?? made; no < made; no += 1) if (draw(seed, what, no) < rate) plan(no);
    drawnFor.set(what, made);
  }

  function planCall<
    Fault extends {
      readonly kind?: string;
      readonly error?: string;
      readonly operation?: string;
      readonly times?: number;
    },
  >(
    service: string,
    faults: Pick<Faults<Fault & object>, 'next' | 'taken'>,
    list: readonly [Fault, ...Fault[]],
    no: number,
  ): void {
    // A copy: what was taken is told apart by the object.
    const fault = { ...pick(list, seed, `${service} kind`, no) };
    withdrawals.push(faults.next(fault));
    const kind = [service, fault.operation, fault.kind, fault.error].filter(Boolean).join(' ');
    let told = 0;
    watched.add(() => {
      const taken = faults.taken(fault);
      const fresh = taken.slice(told).map((at) => ({ at, kind }));
      told = taken.length;
      return { fresh, more: told < (fault.times ?? 1) };
    });
  }

  function planProcess(no: number): void {
    const kill = draw(seed, 'process', 'kill', no) < 0.5;
    const ms = Math.round(300 + draw(seed, 'process', 'freeze', no) * (longestFreezeMs - 300));
    const action: FaultPlan['action'] = kill ? { kind: 'kill' } : { kind: 'freeze', ms };
    const plan: FaultPlan = { ...pick(places, seed, 'place', no), action };
    const planned: PlannedFault = plans.next(plan);
    withdrawals.push(() => planned.withdraw());
    watched.add(() => {
      const fired = planned.fired();
      if (fired === undefined) return { fresh: [], more: true };
      const { at, functionName, deliveryIds } = fired;
      const kind = `${functionName} ${action.kind} ${plan.at} ${plan.point}`;
      return { fresh: [{ at, kind, deliveryIds }], more: false };
    });
  }

  const rare: readonly [() => Promise<string>, ...(() => Promise<string>)[]] = [
    async () => {
      await aws.eventSource.pause();
      await sleep(10_000);
      aws.eventSource.resume();
      return 'event-source off for 10 s';
    },
    async () => {
      const client = await connected();
      const { rows } = await client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
      const ended = new Promise((resolve) => client.once('end', resolve));
      // One session's process killed: the server ends all sessions, recovers from its log and starts anew.
      process.kill(rows[0]?.pid ?? 0, 'SIGKILL');
      await ended;
      return 'postgres restarted after a kill';
    },
    async () => {
      const client = await connected();
      await client.query('SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename LIKE $1', ['ledger%']);
      await client.end();
      return 'postgres every session ended';
    },
  ];

  async function connected(): Promise<pg.Client> {
    const client = new pg.Client(aws.databaseUrl);
    client.on('error', () => undefined);
    await client.connect();
    return client;
  }

  function tell(): void {
    for (const look of watched) {
      const { fresh, more } = look();
      if (!more) watched.delete(look);
      for (const fault of fresh) record(fault);
    }
  }

  async function plan(): Promise<void> {
    while (running) {
      forEachNew('data-api', aws.dataApi.statements(), (no) =>
        planCall<DataApiFault>('data-api', aws.dataApi.faults, dataApiFaults, no),
      );
      forEachNew('queue', aws.queue.sendCalls(), (no) =>
        planCall<QueueFault>('queue', aws.queue.faults, queueFaults, no),
      );
      forEachNew('bus', Math.floor(aws.bus.events.length / 10), (no) =>
        planCall<EventFault>('bus', aws.bus.faults, busFaults, no),
      );
      forEachNew('tick', aws.scheduler.ticks, () => {
        aws.scheduler.dropNext();
        record({ at: Date.now(), kind: 'scheduler tick lost' });
      });
      for (const { requestId } of aws.host.environments()) if (requestId !== undefined) seenRuns.add(requestId);
      forEachNew('process', seenRuns.size, planProcess);
      tell();
      await sleep(lookMs);
    }
  }

  async function nowAndThen(): Promise<void> {
    for (let second = 0; running; second += 1) {
      if (draw(seed, 'rare', second) < rate / 5) {
        const at = Date.now();
        const kind = await pick(rare, seed, 'rare kind', second)().catch(() => undefined);
        if (kind !== undefined) record({ at, kind });
      }
      await sleep(1000);
    }
  }

  const work = Promise.all([plan(), nowAndThen()]);
  return {
    count: () => happened,
    async stop() {
      running = false;
      await work;
      for (const withdraw of withdrawals) withdraw();
      tell();
      closeSync(file);
    },
  };
}
