// Prints the verdict on every cell as a table: one line a cell, refusals by their number in the list below it.
import type { ReminderEvidence } from '../../lambdas/core/reminder-evidence.ts';
import { type Verdict, verdict } from '../../lambdas/core/verdict.ts';
import { type OperatorVerb, operatorVerbs, type Ruling } from '../../lambdas/core/verdict-verbs.ts';
import { attemptOf, type Cell, dimensions, evidenceOf, later, now, possibleCells, settings } from './cells.ts';

const plain: Cell = {
  ...{ state: 'scheduled', lease: 'none', attempt: 'none', trace: 'none' },
  ...{ dispatch: 'open', time: 'late', cancel: 'no' },
};

const exclusion = { at: later(-60), sqlState: 'XX001', reason: 'invalid page', readmittedAt: null };
const retrying = {
  stateSince: later(-5),
  nextAttemptAt: later(300),
  wakeAt: later(120),
  attemptNo: 1,
  attempts: [attemptOf(1, 'failed')],
};
const tombstone = { archivedAt: later(-9), attemptNo: 1, unreviewedSince: null, reviewedAt: later(-20) };
const receipt = (visibleIn: number) => ({
  at: later(visibleIn - 60),
  messageId: 'm-2',
  queue: 'q',
  visibleFrom: later(visibleIn),
});

/** Circumstances beside the table's dimensions: what they change is compared with the line of their cell. */
export const further: readonly (readonly [title: string, cell: Partial<Cell>, more: Partial<ReminderEvidence>])[] = [
  [
    'next month',
    { time: 'early' },
    { dueAt: later(2_592_000), nextAttemptAt: later(2_592_000), wakeAt: later(2_591_820) },
  ],
  ['due now, the claim is about to come', {}, { dueAt: later(0), nextAttemptAt: later(0), wakeAt: later(-30) }],
  [
    'asked for late, a claim is about to come',
    {},
    { dueAt: later(-40), nextAttemptAt: later(-40), wakeAt: later(-10) },
  ],
  ['failed once just after it was due', {}, { ...retrying, dueAt: later(-9) }],
  ['failed once long after it was due', {}, retrying],
  ['failed once, handed over again', { state: 'queued' }, { ...retrying, invitations: 1, firstInvitedAt: later(-5) }],
  ['parked', { dispatch: 'parked' }, { parked: true, wakeAt: null }],
  [
    'parked, its destination has just come back',
    {},
    {
      parked: true,
      wakeAt: null,
      stateSince: later(-900),
      destination: { ...evidenceOf(plain).destination, stateSince: later(-9) },
    },
  ],
  ['parked, its destination came back long ago', {}, { parked: true, wakeAt: null, stateSince: later(-900) }],
  ['parked, its time is over', { dispatch: 'parked', time: 'over' }, { parked: true, wakeAt: later(-600) }],
  [
    'paused, and not due before tomorrow',
    { dispatch: 'paused' },
    { dueAt: later(80_000), nextAttemptAt: later(80_000), wakeAt: later(79_820) },
  ],
  [
    'late in the queue, within its allowance',
    { state: 'queued' },
    { dueAt: later(-60), nextAttemptAt: later(-60), wakeAt: later(60), handoffs: [receipt(-60)] },
  ],
  [
    'lost, the queue shows it again before a claim comes',
    { state: 'queued' },
    { invitations: 4, wakeAt: later(900), handoffs: [receipt(-200)] },
  ],
  [
    'lost, and invited again a minute ago',
    { state: 'queued' },
    { invitations: 2, wakeAt: later(180), handoffs: [receipt(-60)] },
  ],
  ['in the queue, nobody looked for dead letters', { state: 'queued' }, { deadLetter: 'not_looked' }],
  ['set aside', {}, { exclusions: [exclusion] }],
  ['set aside, handed over', { state: 'queued' }, { exclusions: [exclusion] }],
  [
    'set aside, its sender is at work',
    { state: 'delivering', lease: 'alive', attempt: 'open' },
    { exclusions: [exclusion] },
  ],
  [
    'set aside, its sender never reported',
    { state: 'delivering', lease: 'past', attempt: 'open' },
    { exclusions: [exclusion] },
  ],
  ['set aside once, readmitted', {}, { exclusions: [{ ...exclusion, readmittedAt: later(-10) }] }],
  ['dead and reviewed', { state: 'dead', attempt: 'failed' }, { unreviewedSince: null, reviewedAt: later(-5) }],
  [
    'dead and reviewed, one attempt unknown',
    { state: 'dead', attempt: 'unknown' },
    { unreviewedSince: null, reviewedAt: later(-5) },
  ],
  ['held and reviewed', { state: 'held', attempt: 'unknown' }, { unreviewedSince: null, reviewedAt: later(-5) }],
  ['held, without an expiry', { state: 'held' }, { expiresAt: null, wakeAt: null }],
  ['shadow, without an expiry', { state: 'shadow' }, { expiresAt: null, wakeAt: null }],
  [
    'dead, its receiver has forgotten the key',
    { state: 'dead', attempt: 'failed' },
    { destination: { ...evidenceOf(plain).destination, dedupWindowSeconds: 1800 } },
  ],
  [
    'dead, its receiver remembers the key',
    { state: 'dead', attempt: 'failed' },
    { destination: { ...evidenceOf(plain).destination, dedupWindowSeconds: 1801 } },
  ],
  [
    'dead, a sender reported after its attempt was closed',
    { state: 'dead' },
    {
      attemptNo: 1,
      attempts: [
        {
          ...attemptOf(1, 'unknown'),
          outcomes: [...attemptOf(1, 'unknown').outcomes, ...attemptOf(1, 'failed').outcomes],
        },
      ],
    },
  ],
  ['delivered, archived', { state: 'delivered' }, tombstone],
  ['dead, archived', { state: 'dead' }, tombstone],
  ['expired, archived', { state: 'expired' }, tombstone],
  ['cancelled, archived', { state: 'cancelled' }, tombstone],
];

const judge = (evidence: ReminderEvidence) => verdict(evidence, now, settings);

/** The evidence of each further circumstance. */
export const furtherEvidence = further.map(
  ([title, cell, more]) => [title, evidenceOf({ ...plain, ...cell }, more)] as const,
);

/** The golden file. */
export function goldenText(): string {
  const sentences: string[] = [];
  const head = ['standing', 'next', 'by', 'step', 'notes', ...Object.keys(operatorVerbs)];
  const line = (evidence: ReminderEvidence) => answerCells(judge(evidence), (text) => numberOf(text, sentences));
  const rows = possibleCells.map((cell) => [...Object.values(cell), ...line(evidenceOf(cell))]);
  const more = furtherEvidence.map(([title, evidence]) => [title, ...line(evidence)]);
  return [
    '# The verdict on every state and evidence beside it that the CHECKs of the table allow, at one instant.',
    '# by: seconds from then, with ! when that has passed. Of a verb: yes, what it needs (evi: --evidence, exp: --expires),',
    '# or the number of its refusal. Numbers are those of the sentences at the end.',
    '',
    ...columns([[...Object.keys(dimensions), ...head], ...rows]),
    '',
    '# Further circumstances',
    '',
    ...columns([['circumstances', ...head], ...more]),
    '',
    '# Sentences',
    '',
    ...sentences.map((sentence, place) => `${place + 1}  ${sentence}`),
    '',
  ].join('\n');
}

function numberOf(text: string, sentences: string[]): string {
  const sentence = text.replaceAll(/\d{4}-[\d-]+T[\d:.]+Z/g, 'TIME');
  if (!sentences.includes(sentence)) sentences.push(sentence);
  return String(sentences.indexOf(sentence) + 1);
}

function answerCells({ standing, next, cautions, verbs }: Verdict, number: (text: string) => string): string[] {
  const by = next.by === null ? '-' : `${(Date.parse(next.by) - now) / 1000}${next.overdue ? '!' : ''}`;
  const who = next.duty === null ? next.who : `${next.who}/${next.duty}`;
  const rulings = (Object.keys(operatorVerbs) as OperatorVerb[]).map((verb) => rulingCell(verbs[verb], number));
  return [standing, who, by, number(next.what), cautions.map(number).join() || '-', ...rulings];
}

function rulingCell(ruling: Ruling, number: (text: string) => string): string {
  if (!ruling.allowed) return number(ruling.reason);
  return [...new Set(ruling.needs.map(({ option }) => option.slice(2, 5)))].join('+') || 'yes';
}

function columns(rows: readonly (readonly string[])[]): string[] {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  return rows.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd(),
  );
}
