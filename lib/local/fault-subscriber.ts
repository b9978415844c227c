// Preloaded into the processes of functions: carries out fault plans at the passages that the functions publish.

import { subscribe } from 'node:diagnostics_channel';
import { appendFileSync, existsSync } from 'node:fs';
import { join } from 'node:path';
import { faultPointChannel, type Passage } from '../../lambdas/core/fault-points.ts';
import { type FaultAction, FaultPlans } from './fault-plans.ts';

const directory = process.env.FAULT_DIRECTORY ?? '';
const functionName = process.env.AWS_LAMBDA_FUNCTION_NAME ?? '';
const plans = new FaultPlans(directory);
/** Exists when somebody wants to know every passage: a line of JSON for each. */
const passagesFile = join(directory, 'passages.jsonl');
/** The reminders that this invocation had to do with. */
const seen = new Set<string>();

/** undici's channels as passages; which reminder it is stands in the header `webhook-id`. */
const undiciChannels: Readonly<Record<string, Pick<Passage, 'point' | 'at'>>> = {
  'undici:client:sendHeaders': { point: 'write', at: 'before' },
  'undici:request:bodySent': { point: 'write', at: 'after' },
  'undici:request:headers': { point: 'headers', at: 'after' },
  'undici:request:trailers': { point: 'body', at: 'after' },
};

subscribe(faultPointChannel, (passage) => pass(passage as Passage));
for (const [name, side] of Object.entries(undiciChannels)) {
  subscribe(name, (message) => {
    const { headers } = (message as { request: { headers: readonly string[] } }).request;
    const id = headers[headers.indexOf('webhook-id') + 1] ?? '';
    pass({ ...side, deliveryIds: () => [id] });
  });
}

function pass({ point, at, tried = 1, deliveryIds = () => [] }: Passage): void {
  if (point === 'handler' && at === 'before') seen.clear();
  const ids = deliveryIds();
  for (const id of ids) seen.add(id);
  if (existsSync(passagesFile)) {
    appendFileSync(passagesFile, `${JSON.stringify({ functionName, point, at, tried, deliveryIds: ids })}\n`);
  }
  const concerned = ids.length > 0 ? ids : [...seen];
  const taken = plans.take(
    (plan) =>
      plan.point === point &&
      plan.at === at &&
      (plan.functionName ?? functionName) === functionName &&
      (plan.deliveryId === undefined || concerned.includes(plan.deliveryId)),
  );
  if (taken === undefined) return;
  plans.tell(taken.id, {
    plan: taken.plan,
    pid: process.pid,
    functionName,
    at: Date.now(),
    deliveryIds: [...seen],
  });
  carryOut(taken.plan.action);
}

function carryOut(action: FaultAction): void {
  if (action.kind !== 'delay') process.kill(process.pid, action.kind === 'kill' ? 'SIGKILL' : 'SIGSTOP');
  // A signal reaches all threads in a moment; this one must not run on until then.
  standStill(action.kind === 'delay' ? action.ms : action.kind === 'freeze' ? 100 : 60_000);
}

/** The passage is synchronous: nothing of the function runs meanwhile. */
function standStill(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}
