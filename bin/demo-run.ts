// Runs the demo's plan against local AWS: asks, breaks things, waits until everything has ended.
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { v7 as uuid } from 'uuid';
import { storyText } from '../lambdas/core/verdict-text.ts';
import type { Command, CommandAnswer } from '../lambdas/schedule/contract.ts';
import { DataApi } from '../lambdas/store/data-api.ts';
import { addDestination } from '../lambdas/store/statements/add-destination.ts';
import { showEvidence } from '../lambdas/store/statements/show-evidence.ts';
import type { LocalAws } from '../lib/local/local-aws.ts';
import type { Receiver } from '../lib/local/receiver.ts';
import { type Asked, type Part, planDemo } from './demo-plan.ts';
import { afterDelivery, breakPromise, type Sabotage } from './demo-sabotage.ts';
import type { Intent } from './demo-verdict.ts';
import { explanationOf, notFoundText } from './reminders-text.ts';

export interface DemoRun {
  readonly aws: LocalAws;
  readonly receiver: Receiver;
  readonly reminders: number;
  readonly sabotage?: Sabotage;
  readonly say: (line: string) => void;
  readonly progress: (facts: { received: number; total: number; open: number }) => void;
}

export interface DemoResult {
  readonly asked: readonly Asked[];
  readonly intents: readonly Intent[];
  /** What the killed run held: at-least-once allows these to arrive again. */
  readonly mayRepeat: ReadonlySet<string>;
  readonly states: readonly (readonly [state: string, count: number])[];
  readonly killedStory: string;
  /** First arrival after the due time of those whose queue message was lost, in milliseconds. */
  readonly recoveredMs: readonly number[];
  /** What the run itself saw go wrong: an answer that was not the expected one, an end that did not come. */
  readonly broken: readonly string[];
}

/** How many commands one call carries. */
const callSize = 100;
/** How often a call is made before its failure counts. */
const callTries = 5;

export async function runDemo(run: DemoRun): Promise<DemoResult> {
  Object.assign(process.env, run.aws.environment);
  return new Demo(run).run();
}

class Demo {
  readonly #run: DemoRun;
  readonly #pool: pg.Pool;
  readonly #database: DataApi;
  #calledAgain = false;
  readonly #broken: string[] = [];
  readonly #mayRepeat = new Set<string>();
  #asked: readonly Asked[] = [];

  constructor(run: DemoRun) {
    this.#run = run;
    this.#pool = new pg.Pool({ connectionString: run.aws.databaseUrl, max: 2 });
    this.#database = new DataApi({
      resourceArn: run.aws.outputs.DatabaseArn ?? '',
      secretArn: run.aws.outputs.DatabaseOperatorSecretArn ?? '',
      database: run.aws.outputs.DatabaseName ?? '',
      settings: { ...run.aws.settings, dataApiTimeoutMs: 4000 },
    });
  }

  async run(): Promise<DemoResult> {
    try {
      await this.#registerDestinations();
      const plan = planDemo(this.#run.aws.settings, this.#run.reminders, Date.now());
      this.#asked = plan.asked;
      this.#planFaults();
      await this.#ask();
      this.#watchForTheKill();
      const sabotage = this.#sabotage(plan.spreadSeconds);
      await this.#changeMinds();
      await this.#untilEnded(plan.limitSeconds);
      await sabotage;
      return await this.#result();
    } finally {
      await this.#pool.end();
    }
  }

  async #registerDestinations(): Promise<void> {
    for (const [name, path] of [
      ['partner', '/ok'],
      ['flaky-partner', '/fail/2'],
    ] as const) {
      await this.#database.run(addDestination, {
        destinationId: uuid(),
        name,
        url: this.#run.receiver.url(path),
        owner: 'demo',
        contract: 'honours-key',
        deadlineMs: null,
      });
    }
  }

  async #ask(): Promise<void> {
    const counts = new Map<Part, number>();
    for (const { part } of this.#asked) counts.set(part, (counts.get(part) ?? 0) + 1);
    this.#run.say(`\nAsked for: ${[...counts].map(([part, count]) => `${count} ${part}`).join(', ')}`);
    for (let place = 0; place < this.#asked.length; place += callSize) {
      const chunk = this.#asked.slice(place, place + callSize);
      const answers = await this.#command(chunk.map((one) => this.#scheduleOf(one)));
      for (const [no, one] of chunk.entries()) {
        const answer = answers[no];
        if (answer && 'state' in answer && this.#isDone('scheduled', 'duplicate', answer))
          one.deliveryId = answer.deliveryId;
        else this.#broken.push(`schedule: ${one.key} was answered ${JSON.stringify(answer)}`);
      }
    }
  }

  #scheduleOf({ key, destination, payloadText, userId, dueAt }: Asked): Command {
    return { verb: 'schedule', key, destination, payloadText, userId, dueAt: new Date(dueAt).toISOString() };
  }

  /** As a product does: a call that failed is made again as it was, and answers what it finds. */
  async #command(commands: readonly Command[]): Promise<readonly CommandAnswer[]> {
    for (let tries = 1; ; tries += 1) {
      try {
        const { answers } = (await this.#run.aws.invoke('schedule', { commands })) as { answers: CommandAnswer[] };
        return answers;
      } catch (error) {
        if (tries === callTries) throw error;
        this.#calledAgain = true;
        await sleep(500);
      }
    }
  }

  /** Whether a command was answered as wished; after a call was made again, also by what an earlier run of it left. */
  #isDone(wished: CommandAnswer['answer'], found: CommandAnswer['answer'], answer: CommandAnswer | undefined): boolean {
    return answer?.answer === wished || (this.#calledAgain && answer?.answer === found);
  }

  #part(part: Part): Asked[] {
    return this.#asked.filter((one) => one.part === part);
  }

  /** Before anything is asked for: what is close to due goes to the queue at once. A message tells its reminder by its time. */
  #planFaults(): void {
    const { queue, scheduler } = this.#run.aws;
    for (const [part, kind] of [
      ['lost', 'lose'],
      ['duplicated', 'duplicate'],
    ] as const) {
      for (const { dueAt } of this.#part(part))
        queue.faults.next({ kind, match: new RegExp(`"not_before":${dueAt}\\b`) });
    }
    scheduler.dropNext();
    this.#run.say('Will lose a message, send one twice, drop a tick, and kill a sender in the middle of a POST.');
  }

  #watchForTheKill(): void {
    for (const { deliveryId } of this.#part('killed')) {
      this.#run.receiver.onArrival(deliveryId, () => this.#killSenderOf(deliveryId));
    }
  }

  async #killSenderOf(deliveryId: string): Promise<void> {
    const { rows } = await this.#pool.query<{ request_id: string; delivery_id: string }>(
      `SELECT b.request_id, b.delivery_id FROM delivery_attempt a JOIN delivery_attempt b USING (request_id)
       WHERE a.delivery_id = $1 AND a.attempt_no = 1`,
      [deliveryId],
    );
    const requestId = rows[0]?.request_id ?? '';
    for (const row of rows) this.#mayRepeat.add(row.delivery_id);
    if (!this.#run.aws.host.kill(requestId)) this.#broken.push(`kill: no sender was at work for request ${requestId}`);
  }

  /** Cancels, reschedules, and asks again for what is there already. */
  async #changeMinds(): Promise<void> {
    const cancelled = this.#part('cancelled');
    const cancels = await this.#command(cancelled.map(({ deliveryId }) => ({ verb: 'cancel', deliveryId })));
    for (const [no, one] of cancelled.entries()) {
      one.cancelled = cancels[no]?.answer === 'cancelled';
      if (!one.cancelled) this.#broken.push(`cancel: ${one.key} was answered ${JSON.stringify(cancels[no])}`);
    }
    const moved = this.#part('rescheduled');
    for (const one of moved) one.dueAt -= 2000;
    const moves = await this.#command(
      moved.map(({ key, dueAt }) => ({
        verb: 'reschedule',
        key,
        dueAt: new Date(dueAt).toISOString(),
        expectedVersion: 1,
      })),
    );
    const [first] = this.#part('plain');
    if (first === undefined) return;
    const [same, other] = await this.#command([
      this.#scheduleOf(first),
      { ...this.#scheduleOf(first), payloadText: '{"other":true}' } as Command,
    ]);
    type Wish = CommandAnswer['answer'];
    const expected: [wished: Wish, found: Wish, got: CommandAnswer | undefined][] = [
      ['duplicate', 'duplicate', same],
      ['conflict', 'conflict', other],
      // Made again, it asks for a version that it has itself outdated.
      ...moves.map((move): ['rescheduled', 'stale', CommandAnswer] => ['rescheduled', 'stale', move]),
    ];
    for (const [wished, found, got] of expected) {
      if (!this.#isDone(wished, found, got)) this.#broken.push(`answers: expected ${wished} and got ${got?.answer}`);
    }
    this.#run.say('Cancelled 10, rescheduled 10, repeated a key with the same payload and with another one.');
  }

  async #sabotage(spreadSeconds: number): Promise<void> {
    const { sabotage, receiver, aws, say } = this.#run;
    const [target] = this.#part('sabotaged');
    if (sabotage === undefined || target === undefined) return;
    if (afterDelivery[sabotage]) {
      for (let waited = 0; waited < spreadSeconds * 2; waited += 1) {
        if (await this.#isDelivered(target.deliveryId)) break;
        await sleep(1000);
      }
    }
    await breakPromise(aws.databaseUrl, sabotage, target.deliveryId);
    say(`Sabotage "${sabotage}" done to ${target.key}.`);
    if (sabotage !== 'twice') return;
    const before = receiver.requests.length;
    for (let waited = 0; waited < aws.settings.tickSeconds * 3 && receiver.requests.length === before; waited += 1) {
      await sleep(1000);
    }
  }

  async #isDelivered(deliveryId: string): Promise<boolean> {
    const { rows } = await this.#pool.query(
      `SELECT FROM reminder_delivery WHERE delivery_id = $1 AND state = 'delivered'`,
      [deliveryId],
    );
    return rows.length > 0;
  }

  /** Until all that is due has ended, or the time is up: what is missing then, the verdict finds. */
  async #untilEnded(limitSeconds: number): Promise<void> {
    const total = this.#asked.filter(({ cancelled, part }) => !cancelled && part !== 'far').length;
    const end = performance.now() + limitSeconds * 1000;
    for (;;) {
      const { rows } = await this.#pool.query<{ open: number }>(
        `SELECT CAST(count(*) AS integer) AS open FROM reminder_delivery
         WHERE state NOT IN ('delivered', 'dead', 'expired', 'cancelled') AND delivery_id <> $1`,
        [this.#part('far')[0]?.deliveryId],
      );
      const open = rows[0]?.open ?? 0;
      const received = new Set(this.#run.receiver.requests.map(({ webhookId }) => webhookId)).size;
      this.#run.progress({ received, total, open });
      if (open === 0 || performance.now() > end) return;
      await sleep(500);
    }
  }

  async #result(): Promise<DemoResult> {
    const states = await this.#pool.query<{ state: string; count: number }>(
      'SELECT state, CAST(count(*) AS integer) AS count FROM reminder_delivery GROUP BY state ORDER BY state',
    );
    const intents = await this.#pool.query<{ id: string; started: number }>(
      'SELECT delivery_id AS id, CAST(extract(epoch FROM started_at) * 1000 AS float8) AS started FROM delivery_attempt',
    );
    const [killed] = this.#part('killed');
    const evidence = await this.#database.run(showEvidence, { deliveryId: killed?.deliveryId ?? '' });
    const story = explanationOf(evidence, this.#run.aws.settings);
    const outcomes = evidence.flatMap((row) => (row.answer === 'outcome' ? [row.outcome] : []));
    if (outcomes[0] !== 'unknown' || outcomes.at(-1) !== 'delivered') {
      this.#broken.push(
        `killed: its attempts ended as ${outcomes.join(', ')}; the first must be unknown, the last delivered`,
      );
    }
    const recoveredMs = this.#part('lost').map(
      (one) =>
        (this.#run.receiver.requests.find(({ webhookId }) => webhookId === one.deliveryId)?.at ?? Number.NaN) -
        one.dueAt,
    );
    const waitsAtLeastMs = (this.#run.aws.settings.allowanceSeconds - 1) * 1000;
    if (recoveredMs.some((ms) => ms < waitsAtLeastMs)) this.#broken.push('lost: the message was not lost after all');
    if (this.#run.aws.scheduler.dropped === 0) this.#broken.push('ticks: none was dropped');
    return {
      asked: this.#asked,
      intents: intents.rows.map(({ id, started }) => ({ deliveryId: id, startedAt: started })),
      mayRepeat: this.#mayRepeat,
      states: states.rows.map(({ state, count }) => [state, count]),
      killedStory: story === null ? notFoundText : storyText(story),
      recoveredMs,
      broken: this.#broken,
    };
  }
}
