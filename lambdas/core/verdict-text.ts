// What people and programs read of a verdict: plain text in 100 columns, and JSON; neither lets hostile text through.
import { type LogPlace, logLink } from './log-link.ts';
import {
  type AttemptStanding,
  attemptStanding,
  type RecordedAttempt,
  type ReminderEvidence,
} from './reminder-evidence.ts';
import type { Verdict } from './verdict.ts';
import { type OperatorVerb, operatorVerbs, type Ruling } from './verdict-verbs.ts';

/** No line of a text is longer, but one that holds a link alone. */
export const textColumns = 100;

/** As much of what a receiver said as a line shows; all of it stands in the JSON. */
const detailLength = 200;

/** A verdict with what it was made from, as `--json` prints it. */
export interface Explanation extends Verdict {
  readonly evidence: Omit<ReminderEvidence, 'attempts'> & {
    readonly attempts: readonly (RecordedAttempt & {
      readonly standing: AttemptStanding;
      /** Its worker's log in the CloudWatch console; null where it is not known which log that is. */
      readonly logs: string | null;
    })[];
  };
}

/** @param place the sender's log; null: not known */
export function explain(evidence: ReminderEvidence, judged: Verdict, place: LogPlace | null = null): Explanation {
  const attempts = evidence.attempts.map((attempt) => ({
    ...attempt,
    standing: attemptStanding(attempt),
    logs: place === null ? null : logLink(place, attempt.worker),
  }));
  return { ...judged, evidence: { ...evidence, attempts } };
}

/** Everything but letters, marks, digits, signs and the space: what moves a cursor, hides, or turns a line around. */
const unprintable = /[\p{C}\p{Zl}\p{Zp}]/gu;

/** The text with what cannot be seen written out, such as `\u001b`. */
export function printable(text: string): string {
  return text.replaceAll(unprintable, escaped);
}

function escaped(character: string): string {
  return Array.from({ length: character.length }, (_, place) => character.charCodeAt(place))
    .map((code) => `\\u${code.toString(16).padStart(4, '0')}`)
    .join('');
}

/**
 * JSON of the same value whose text shows every character: it may be printed on a terminal.
 * @param indent the columns of a level; 0: all of it on one line
 */
export function printableJson(value: unknown, indent = 2): string {
  return JSON.stringify(value, null, indent).replaceAll(unprintable, (one) => (one === '\n' ? one : escaped(one)));
}

/** Story, verdict and verbs. */
export function explanationText(explanation: Explanation): string {
  const { evidence, standing, meaning, asOf, lateSeconds, cautions, verbs } = explanation;
  const late = lateSeconds === null || lateSeconds === 0 ? '' : `, ${lateSeconds} s after its due time`;
  const rulings = (Object.keys(operatorVerbs) as OperatorVerb[]).map((verb) => [verb, verbs[verb]] as const);
  const listed = (allowed: boolean) =>
    rulings.filter(([, ruling]) => ruling.allowed === allowed).flatMap(([verb, ruling]) => rulingLines(verb, ruling));
  return [
    ...heading(evidence),
    '',
    ...wrapped(`${standing.replaceAll('_', ' ')}: ${meaning}`),
    ...wrapped(`as of ${asOf}${late}`),
    ...nextLines(explanation),
    ...cautions.flatMap((caution) => wrapped(`note: ${caution}`, 6)),
    '',
    ...story(evidence),
    '',
    'allowed, each with --reason:',
    ...(listed(true).length === 0 ? ['  none'] : listed(true)),
    'refused:',
    ...(listed(false).length === 0 ? ['  none'] : listed(false)),
  ].join('\n');
}

/** What happened, line by line, ending with what happens next. */
export function storyText(explanation: Explanation): string {
  const { evidence } = explanation;
  return [...heading(evidence), '', ...story(evidence), '', ...nextLines(explanation)].join('\n');
}

function nextLines(judged: Verdict): string[] {
  return wrapped(nextText(judged), 6);
}

/** Who acts next, by when, and how, on one line. */
export function nextText({ next }: Verdict): string {
  const who = next.who === 'operator' ? `operator (${next.duty})` : next.who;
  const when = next.by === null ? '' : `, by ${next.by}${next.overdue ? ', which has passed' : ''}`;
  return next.who === 'nobody' ? `next: ${next.what}` : `next: ${who}${when}: ${next.what}`;
}

function heading(evidence: ReminderEvidence): string[] {
  const { deliveryId, state, stateSince, version, key, producer, destination, attemptNo, failures } = evidence;
  const expiry = evidence.expiresAt === null ? '' : `  expires ${evidence.expiresAt}`;
  return [
    `${deliveryId}  ${state} since ${stateSince}`,
    `key ${key}  producer ${producer}  destination ${destination.name} (${destination.state})`,
    `due ${evidence.dueAt}${expiry}  version ${version}  attempts ${attemptNo}, failures ${failures}`,
  ].flatMap((line) => wrapped(line, 4));
}

/** One thing that happened to a reminder. */
export interface StoryLine {
  readonly at: string;
  /** As it was recorded: show it through `printable` alone. */
  readonly text: string;
  /** The log of the worker that did it; null where there is none to link to. */
  readonly logs: string | null;
}

/** What happened to a reminder, in its order. */
export function storyLines(evidence: Explanation['evidence']): StoryLine[] {
  const line = (at: string, text: string, logs: string | null = null): StoryLine => ({ at, text, logs });
  const lines = [
    line(evidence.createdAt, `scheduled by ${evidence.producer}`),
    ...evidence.handoffs.map(({ at, messageId, queue, visibleFrom }) =>
      line(at, `queue accepted message ${messageId}, visible from ${visibleFrom} (${queue})`),
    ),
    ...evidence.attempts.flatMap((attempt) => [
      line(attempt.startedAt, openedText(attempt), attempt.logs),
      ...attempt.outcomes.map((outcome) => line(outcome.at, outcomeText(attempt, outcome))),
    ]),
    ...evidence.exclusions.flatMap(({ at, reason, readmittedAt }) => [
      line(at, `set aside, because updating it fails: ${reason}`),
      ...(readmittedAt === null ? [] : [line(readmittedAt, 'readmitted')]),
    ]),
  ];
  // The sort is stable: of one millisecond, what stands first above happened first.
  return lines.toSorted((one, other) => Date.parse(one.at) - Date.parse(other.at));
}

function story(evidence: Explanation['evidence']): string[] {
  return storyLines(evidence).flatMap(({ at, text, logs }) => [
    ...wrapped(`${at}  ${text}`, 26),
    ...(logs === null ? [] : [`${' '.repeat(26)}${logs}`]),
  ]);
}

function openedText({ attemptNo, host, worker }: RecordedAttempt): string {
  const { functionVersion, requestId, logStream } = worker;
  return `attempt ${attemptNo} opened by request ${requestId} of webhook-sender version ${functionVersion}, log stream ${logStream}, to ${host}`;
}

function outcomeText({ attemptNo }: RecordedAttempt, outcome: RecordedAttempt['outcomes'][number]): string {
  const { status, errorClass, phase, detail, movedTo } = outcome;
  const how = [status, errorClass, phase && `in phase ${phase}`].filter(Boolean).join(', ');
  const moved = movedTo === null ? 'moved nothing' : `moved it to ${movedTo}`;
  const said = detail === null ? '' : `; ${detail.slice(0, detailLength)}${detail.length > detailLength ? ' ...' : ''}`;
  return `attempt ${attemptNo}: ${outcome.outcome}${how && ` (${how})`}, said ${outcome.recordedBy}; ${moved}${said}`;
}

function rulingLines(verb: OperatorVerb, ruling: Ruling): string[] {
  const name = `  ${verb.padEnd(11)}`;
  if (!ruling.allowed) return wrapped(`${name}${ruling.reason}`, name.length);
  const needs = ruling.needs.flatMap(({ option, because }) =>
    wrapped(`${' '.repeat(name.length)}needs ${option}: ${because}`, name.length + 2),
  );
  return [...wrapped(`${name}${ruling.effect}`, name.length), ...needs];
}

/** Lines of printable text, those after the first indented; a word longer than a line is cut. */
function wrapped(text: string, indent = 0): string[] {
  const margin = ' '.repeat(indent);
  const lines: string[] = [];
  let rest = printable(text);
  while (rest.length > textColumns) {
    const space = rest.lastIndexOf(' ', textColumns);
    // Not within the margin, where a cut would leave an empty line for ever.
    const cut = space > Math.max(indent, rest.search(/\S/)) ? space : textColumns;
    lines.push(rest.slice(0, cut).trimEnd());
    rest = margin + rest.slice(cut).trimStart();
  }
  return [...lines, rest];
}
