// Receivers: what each does with a request, their own log of it, and the way a request takes to them.
import { judgeAttempt } from '../../lambdas/core/outcome-policy.ts';
import type { AttemptPhase, AttemptResult, Webhook, WebhookRequest } from '../../lambdas/core/ports.ts';
import { type ExecutionEnvironment, TransportError } from './environment.ts';
import type { Run } from './run.ts';

/** A request on its way, and what came of it. */
export interface Sending {
  readonly environment: ExecutionEnvironment;
  /** When the sender decided to send, by true time. */
  readonly startedAt: number;
  readonly deliveryId: string;
  readonly deadlineMs: number;
  /** How many statements had run before it. */
  readonly statementsBefore: number;
  /** What the receiver saw, in its own words; null: no byte of it came. */
  arrival: { at: number; statementsBefore: number; to: string; key: string; payload: string } | null;
  /** What the receiver answered; null: it gave no answer. The answer may not have come back. */
  status: number | null;
}

/** What a receiver does with one request. */
interface Reaction {
  readonly refusesDial: boolean;
  readonly status: number | null;
  readonly retryAfter: string | null;
  readonly afterMs: number;
}

export class Receivers {
  readonly sendings: Sending[] = [];
  /** Called when a request has arrived, with how long its answer takes, milliseconds. */
  onArrival: (deliveryId: string, afterMs: number) => void = () => undefined;
  readonly #run: Run;

  constructor(run: Run) {
    this.#run = run;
  }

  /** The port to the receivers as one environment has it. */
  webhookOf(environment: ExecutionEnvironment): Webhook {
    return {
      prepare: async () => {
        if (environment.troubled('keysMissing')) throw new TransportError('signing keys are not to be had');
        const closing = new AbortController();
        const open = new Set<Promise<AttemptResult>>();
        return {
          post: (request, signal) => {
            const attempt = this.#post(environment, request, AbortSignal.any([signal, closing.signal]));
            open.add(attempt);
            return attempt;
          },
          close: async () => {
            closing.abort();
            await Promise.all(open);
          },
        };
      },
    };
  }

  #post(environment: ExecutionEnvironment, request: WebhookRequest, cut: AbortSignal): Promise<AttemptResult> {
    const run = this.#run;
    const { world } = run;
    const { chance } = environment;
    const { deliveryId, deadlineMs } = request;
    const begun = environment.clock.monotonic();
    const statementsBefore = run.executed.length;
    const sending: Sending = {
      ...{ environment, startedAt: world.at, deliveryId, deadlineMs, statementsBefore },
      arrival: null,
      status: null,
    };
    this.sendings.push(sending);
    world.note(environment.name, `post ${deliveryId}`);
    const reaction = this.#react(environment, deadlineMs);
    const dialMs = environment.troubled('slow') ? chance.between(0, 1.1) * deadlineMs : chance.between(1, 40);
    if (environment.troubled('killed'))
      run.during(chance, 2 * dialMs + reaction.afterMs, () => environment.kill('during a post'));
    if (environment.troubled('frozen')) {
      run.during(chance, 2 * dialMs + reaction.afterMs, () => environment.freeze(run.untilCalm(run.longWait(chance))));
    }

    return new Promise((resolve) => {
      let phase: AttemptPhase = 'connect';
      let over = false;
      const end = (status: number | null, errorCode: string | null) => {
        if (over) return;
        over = true;
        const head = { retryAfter: reaction.retryAfter, date: null, receivedAt: environment.clock.wall() };
        const verdict = judgeAttempt({ phase, response: status === null ? null : { status, ...head }, errorCode });
        resolve({ ...verdict, phase, detail: null, latencyMs: environment.clock.monotonic() - begun });
      };
      cut.addEventListener('abort', () => end(null, 'ABORTED'));
      environment.timer(deadlineMs, () => end(null, 'DEADLINE'));
      environment.after(dialMs, () => {
        if (over) return;
        if (reaction.refusesDial) return end(null, 'ECONNREFUSED');
        phase = 'written';
        const { key, payload, url } = request;
        sending.arrival = { at: world.at, statementsBefore: run.executed.length, to: url, key, payload };
        sending.status = reaction.status;
        world.note('receiver', `${deliveryId} arrived, answers ${reaction.status ?? 'nothing'}`);
        if (environment.troubled('outlived')) environment.freezeUntilOpened([deliveryId]);
        this.onArrival(deliveryId, reaction.afterMs);
        environment.after(reaction.afterMs, () => {
          if (reaction.status !== null) phase = 'headers';
          end(reaction.status, reaction.status === null ? 'ECONNRESET' : null);
        });
      });
    });
  }

  #react(environment: ExecutionEnvironment, deadlineMs: number): Reaction {
    const { chance } = environment;
    const refusesDial = environment.troubled('refusedDial');
    const afterMs = environment.troubled('slowAnswer') ? chance.between(0.3, 1.5) * deadlineMs : chance.between(2, 80);
    if (environment.troubled('noAnswer')) return { refusesDial, status: null, retryAfter: null, afterMs };
    const retry = environment.troubled('retry') || refusesDial;
    const status = environment.troubled('gone')
      ? 410
      : environment.troubled('permanent')
        ? chance.pick([400, 404, 308])
        : retry
          ? chance.pick([500, 503, 429, 408, 307])
          : chance.pick([200, 204]);
    const asked = retry && environment.troubled('retryAfter');
    const retryAfter = asked ? String(chance.integer(0, 3 * this.#run.weather.settings.tickSeconds)) : null;
    return { refusesDial, status, retryAfter, afterMs };
  }
}
