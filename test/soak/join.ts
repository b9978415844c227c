// Joins what a product asked for, what the receivers wrote down and what the ledger holds, and says which promise is broken.
// It shares nothing with the product: `node test/soak/join.ts <directory>` reads four files of JSON lines and judges.
import { createReadStream } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';

/** A reminder as the product asked for it, with every answer that it heard. */
export interface AskedLine {
  readonly key: string;
  readonly destination: string;
  readonly payloadSha256: string;
  /** Epoch milliseconds, as are all times here. */
  readonly dueAt: number;
  readonly answers: readonly { readonly answer: string; readonly deliveryId?: string }[];
}

/** A request as a receiver saw it. */
export interface ReceivedLine {
  readonly at: number;
  readonly id: string;
  readonly key: string;
  readonly destination: string;
  readonly sha256: string | null;
  readonly processed: boolean;
  readonly status: number | null;
}

/** A reminder as the ledger has it. */
export interface LedgerLine {
  readonly id: string;
  readonly key: string;
  readonly destination: string;
  readonly contract: string;
  readonly sha256: string;
  readonly state: string;
  readonly dueAt: number;
  readonly failures: number;
  readonly attemptNo: number;
  readonly attempts: readonly { readonly no: number; readonly startedAt: number }[];
  /** In the order in which they were recorded. */
  readonly outcomes: readonly {
    readonly no: number;
    readonly outcome: string;
    readonly by: string;
    readonly at: number;
  }[];
}

/** A fault that was injected. */
export interface FaultLine {
  readonly at: number;
  readonly kind: string;
  readonly deliveryIds?: readonly string[];
}

/** All that is joined. */
export interface Evidence {
  readonly asked: readonly AskedLine[];
  readonly received: readonly ReceivedLine[];
  readonly ledger: readonly LedgerLine[];
  readonly faults: readonly FaultLine[];
}

/** The verdict, in figures. */
export interface Report {
  readonly scheduled: number;
  /** Asked for, and neither ended nor waiting for a person. */
  readonly lost: number;
  readonly idsMinted: number;
  /** Keys that more than one id was seen for. */
  readonly secondIds: number;
  readonly states: Readonly<Record<string, number>>;
  readonly requests: number;
  /** Requests for a reminder that a receiver had acted on before, by what made the ledger send again. */
  readonly duplicates: Readonly<Record<string, number>>;
  /** Requests that came after the ledger had recorded a success: at-least-once allows them. */
  readonly afterDelivered: number;
  /** From due to the first request, in milliseconds. */
  readonly latenessMs: { readonly p50: number; readonly p99: number; readonly max: number };
  /** How many reminders had how many attempts. */
  readonly attempts: Readonly<Record<string, number>>;
  readonly faults: Readonly<Record<string, number>>;
  readonly broken: readonly Breach[];
}

/** A promise that did not hold. */
export interface Breach {
  readonly promise: string;
  readonly times: number;
  /** The first few that broke it. */
  readonly examples: readonly string[];
}

/** The stage's limits, by docs/architecture.md: a dead reminder has used up one of them. */
const mostFailures = 12;
const mostAttempts = 30;

/** Judges the evidence. */
export function judge({ asked, received, ledger, faults }: Evidence): Report {
  const breaches = new Map<string, string[]>();
  const broken = (promise: string, culprit: string) => void listIn(breaches, promise).push(culprit);
  const wishes = new Map(asked.map((one) => [one.key, one]));
  const rows = new Map(ledger.map((row) => [row.id, row]));
  const requestsOf = grouped(received, ({ id }) => id);
  const rowsOf = grouped(ledger, ({ key }) => key);
  const idsOf = new Map<string, Set<string>>();
  const seen = (key: string, id: string | undefined) => {
    if (id) idsOf.set(key, (idsOf.get(key) ?? new Set()).add(id));
  };
  for (const { key, answers } of asked) for (const { deliveryId } of answers) seen(key, deliveryId);
  for (const { key, id } of [...ledger, ...received]) seen(key, id);

  let lost = 0;
  const lose = (key: string, how: string) => {
    lost += 1;
    broken('P1 no loss', `${key} ${how}`);
  };
  for (const { key, answers } of asked) {
    const odd = answers.find(({ answer }) => answer !== 'scheduled' && answer !== 'duplicate');
    if (odd !== undefined) broken('every command is answered as it should', `${key} was answered ${odd.answer}`);
    const row = rowsOf.get(key)?.[0];
    if (row === undefined) lose(key, 'has no row');
    else if (!['delivered', 'dead', 'held'].includes(row.state)) lose(key, `is still ${row.state}`);
  }
  for (const [key, ids] of idsOf) {
    if (!wishes.has(key)) broken('P2 one identity: nothing is made up', `nobody asked for ${key}`);
    if (ids.size > 1) broken('P2 one identity: a key has one id', `${key} has ${[...ids].join(' and ')}`);
  }
  for (const request of received) {
    const name = `${request.id} under ${request.key}`;
    const row = rows.get(request.id);
    if (row === undefined) broken('P2 one identity: the ledger knows each id', name);
    else if (row.key !== request.key) broken('P2 one identity: an id has one key', name);
    if (request.sha256 !== null && request.sha256 !== wishes.get(request.key)?.payloadSha256) {
      broken('P7 same bytes on every attempt', name);
    }
    if (request.destination !== wishes.get(request.key)?.destination) broken('P2 one identity: the destination', name);
    if (request.at < (wishes.get(request.key)?.dueAt ?? 0)) broken('P10 never before it is due', name);
  }

  const duplicates: Record<string, number> = {};
  const disturbed = grouped(
    faults.flatMap(({ deliveryIds = [], ...fault }) => deliveryIds.map((id) => ({ id, ...fault }))),
    ({ id }) => id,
  );
  let afterDelivered = 0;
  for (const row of ledger) {
    judgeRow(row, requestsOf.get(row.id) ?? [], broken);
    const deliveredAt = row.outcomes.find(({ outcome }) => outcome === 'delivered')?.at;
    for (const { at } of requestsOf.get(row.id) ?? []) {
      if (deliveredAt !== undefined && at > deliveredAt) afterDelivered += 1;
    }
    for (const cause of causesOf(row, requestsOf.get(row.id) ?? [], disturbed.get(row.id) ?? [], broken)) {
      duplicates[cause] = (duplicates[cause] ?? 0) + 1;
    }
  }

  const late = asked
    .flatMap(({ key, dueAt }) => {
      const first = requestsOf.get(rowsOf.get(key)?.[0]?.id ?? '')?.[0];
      return first === undefined ? [] : [first.at - dueAt];
    })
    .sort((a, b) => a - b);
  const part = (share: number) => late[Math.min(late.length - 1, Math.floor(late.length * share))] ?? Number.NaN;
  return {
    scheduled: asked.length,
    lost,
    idsMinted: new Set([...idsOf.values()].flatMap((ids) => [...ids])).size,
    secondIds: [...idsOf.values()].filter((ids) => ids.size > 1).length,
    states: counted(ledger.map(({ state }) => state)),
    requests: received.length,
    duplicates,
    afterDelivered,
    latenessMs: { p50: part(0.5), p99: part(0.99), max: part(1) },
    attempts: counted(ledger.map(({ attemptNo }) => String(attemptNo))),
    faults: counted(faults.map(({ kind }) => kind)),
    broken: [...breaches].map(([promise, all]) => ({ promise, times: all.length, examples: all.slice(0, 5) })),
  };
}

type Broken = (promise: string, culprit: string) => void;

function judgeRow(row: LedgerLine, requests: readonly ReceivedLine[], broken: Broken): void {
  const { key, state, outcomes, attempts } = row;
  const has = (...kinds: string[]) => outcomes.some(({ outcome }) => kinds.includes(outcome));
  if (state === 'delivered') {
    const heard = requests.some(({ processed, status }) => processed && status !== null && status < 300);
    if (!has('delivered') || !heard) broken('P4 delivered means a 2xx that a receiver gave', key);
  }
  if (state === 'dead' && row.failures < mostFailures && attempts.length < mostAttempts && !has('permanent', 'gone')) {
    broken('dead only when the policy is used up', `${key} after ${row.failures} failures`);
  }
  if (state === 'held' && (row.contract === 'honours-key' || !has('unknown'))) {
    broken('held only for a receiver that promises nothing, after an unknown attempt', key);
  }
  if (attempts.length > mostAttempts) broken('P9 attempts are bounded', `${key} has ${attempts.length}`);
  if (attempts.some(({ no }, place) => no !== place + 1) || attempts.length !== row.attemptNo) {
    broken('P5 every attempt has its intent', key);
  }
  for (const { no, startedAt } of attempts) {
    const before = attempts.find((one) => one.no === no - 1);
    const closed = outcomes.find((one) => one.no === before?.no);
    if (before && !(closed && closed.at <= startedAt)) broken('P6 one live lease', `${key}, attempt ${no}`);
    const success = outcomes.find(({ outcome, at }) => outcome === 'delivered' && at < startedAt);
    if (success) broken('P3 no attempt is opened after a success', `${key}, attempt ${no}`);
  }
}

/** Why each request came that was not the first one which the receiver acted on. */
function causesOf(
  { key, attempts, outcomes }: LedgerLine,
  requests: readonly ReceivedLine[],
  disturbed: readonly FaultLine[],
  broken: Broken,
): string[] {
  const causes: string[] = [];
  const sent = [...requests].sort((a, b) => a.at - b.at);
  const attemptOf = ({ at }: ReceivedLine) => attempts.findLast(({ startedAt }) => startedAt <= at);
  const hit = (action: string, from: number, to: number) =>
    disturbed.some(({ at, kind }) => kind.startsWith(`webhook-sender ${action} `) && at >= from && at <= to);
  const used = new Set<number>();
  let acted: { no: number; startedAt: number } | undefined;
  for (const request of sent) {
    const attempt = attemptOf(request);
    if (attempt === undefined) {
      broken('P5 ledger first', `${key} at ${request.at}`);
      continue;
    }
    const frozen = hit('freeze', 0, request.at);
    if (used.has(attempt.no) && !frozen) broken('P6 one request an attempt', `${key}, attempt ${attempt.no}`);
    used.add(attempt.no);
    if (acted !== undefined) {
      const { no, startedAt } = acted;
      const known = outcomes.find((one) => one.no === no);
      if (attempt.no === no) causes.push('sender frozen between its last look and the write');
      else if (known?.outcome === 'not_sent') broken('not_sent means that nothing was sent', `${key}, attempt ${no}`);
      else if (known?.outcome !== 'unknown') causes.push(`attempt ended as ${known?.outcome ?? 'open'}`);
      else if (known.by === 'sender') causes.push('receiver gave no answer in time');
      else if (hit('kill', startedAt, attempt.startedAt)) causes.push('sender killed');
      else if (hit('freeze', startedAt, attempt.startedAt)) causes.push('sender frozen');
      else causes.push('settle never reached the ledger');
    }
    if (request.processed) acted = attempt;
  }
  return causes;
}

function listIn<Key, Item>(lists: Map<Key, Item[]>, key: Key): Item[] {
  const found = lists.get(key) ?? [];
  lists.set(key, found);
  return found;
}

function grouped<Item>(items: readonly Item[], keyOf: (item: Item) => string): Map<string, Item[]> {
  const groups = new Map<string, Item[]>();
  for (const item of items) listIn(groups, keyOf(item)).push(item);
  return groups;
}

/** How often each occurs, the most frequent first. */
function counted(names: readonly string[]): Record<string, number> {
  const groups = [...grouped(names, (name) => name)].map(([name, all]): [string, number] => [name, all.length]);
  return Object.fromEntries(groups.sort(([, a], [, b]) => b - a));
}

/** The names of the files in a soak's directory. */
export const evidenceFiles = {
  asked: 'asked.jsonl',
  received: 'received.jsonl',
  ledger: 'ledger.jsonl',
  faults: 'faults.jsonl',
} as const;

/** @throws {Error} when a file is missing or a line is no JSON */
export async function readEvidence(directory: string): Promise<Evidence> {
  async function lines<Line>(name: string): Promise<Line[]> {
    const all: Line[] = [];
    const path = join(directory, name);
    for await (const line of createInterface({ input: createReadStream(path), crlfDelay: Number.POSITIVE_INFINITY })) {
      all.push(JSON.parse(line));
    }
    return all;
  }
  return {
    asked: await lines(evidenceFiles.asked),
    received: await lines(evidenceFiles.received),
    ledger: await lines(evidenceFiles.ledger),
    faults: await lines(evidenceFiles.faults),
  };
}

/** The report as a person reads it. */
export function reportText(report: Report): string {
  const table = (counts: Readonly<Record<string, number>>) =>
    Object.entries(counts).map(([name, count]) => `  ${String(count).padStart(8)}  ${name}`);
  const { latenessMs, broken } = report;
  return [
    `scheduled ${report.scheduled}, lost ${report.lost}, ids minted ${report.idsMinted}, second ids ${report.secondIds}`,
    'reminders by state:',
    ...table(report.states),
    `requests ${report.requests}; after a recorded success ${report.afterDelivered}; duplicates by cause:`,
    ...table(report.duplicates),
    'reminders by attempts:',
    ...table(report.attempts),
    `from due to the first request: p50 ${latenessMs.p50} ms, p99 ${latenessMs.p99} ms, longest ${latenessMs.max} ms`,
    'faults injected:',
    ...table(report.faults),
    ...broken.map(
      ({ promise, times, examples }) => `BROKEN ${promise}: ${times} times, such as ${examples.join('; ')}`,
    ),
    broken.length === 0 ? 'No promise is broken.' : `${broken.length} promises are broken.`,
  ].join('\n');
}

if (import.meta.main) {
  const { values, positionals } = parseArgs({ options: { json: { type: 'boolean' } }, allowPositionals: true });
  const [directory] = positionals;
  if (directory === undefined) {
    console.error('directory: got none; give the directory that a soak was kept in');
    process.exit(2);
  }
  const report = judge(await readEvidence(directory));
  console.log(values.json ? JSON.stringify(report, null, 2) : reportText(report));
  process.exitCode = report.broken.length === 0 ? 0 : 1;
}
