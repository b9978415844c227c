// Checks every change of every row: the moves that DESIGN's matrix has and no other, and what each needs.
import { checkDecision } from './check-decisions.ts';
import { checkRecovery } from './check-recoveries.ts';
import { type Evidence, instant, type Move } from './evidence.ts';

const finished = ['delivered', 'dead', 'expired', 'cancelled'];
const live = ['scheduled', 'dispatching', 'queued', 'delivering'];
const unsent = ['scheduled', 'dispatching', 'queued'];
const from = (states: readonly string[], to: string) => states.map((state) => `${state} ${to}`);

/** What each statement may do to a row, written down anew from the promises. A state that stays is `x x`. */
const permitted: Readonly<Record<string, readonly string[]>> = {
  schedule: [],
  claim: [
    ...from(unsent, 'dispatching'),
    ...from(unsent, 'scheduled'),
    ...from([...unsent, 'held', 'shadow'], 'expired'),
    ...['scheduled', 'dead', 'expired', 'held', 'cancelled'].map((to) => `delivering ${to}`),
  ],
  'claim-by-id': ['scheduled dispatching'],
  unpark: ['scheduled scheduled'],
  enqueue: ['dispatching queued'],
  release: ['dispatching scheduled'],
  open: ['delivering', 'expired']
    .flatMap((to) => from(['dispatching', 'queued'], to))
    .concat([
      // Only brought forward: the row is to be opened alone.
      ...['dispatching dispatching', 'queued queued'],
    ]),
  settle: [
    ...from([...live, 'held', 'dead', 'expired', 'cancelled'], 'delivered'),
    ...['scheduled', 'dead', 'expired', 'held', 'cancelled'].map((to) => `delivering ${to}`),
  ],
  cancel: [...from([...unsent, 'shadow', 'held', 'dead'], 'cancelled'), 'delivering delivering'],
  reschedule: [...from(unsent, 'scheduled'), 'shadow shadow'],
  decide: [
    ...from([...unsent, 'dead'], 'held'),
    ...from(['held', 'dead'], 'scheduled'),
    ...from([...unsent, 'shadow', 'held', 'dead', 'expired', 'cancelled'], 'delivered'),
    ...from([...unsent, 'shadow', 'held', 'dead'], 'cancelled'),
    ...['delivering delivering', 'held held', 'dead dead'],
  ],
  // Only brought forward.
  reclaim: ['dispatching dispatching', 'queued queued', 'delivering delivering'],
  archive: finished.map((state) => `${state} ${state}`),
};

const identity = [
  ...['delivery_id', 'idempotency_key', 'producer', 'user_id', 'destination_id', 'payload', 'payload_sha256'],
  ...['request_fingerprint', 'created_by_command', 'created_at'],
];

/** Every move of every reminder. */
export function checkMoves(evidence: Evidence): void {
  for (const { table, before, after, statement } of evidence.changes) {
    const by = evidence.stage.run.executed[statement - 1]?.name;
    if (table === 'reminder_delivery' && after === null) evidence.report('P2', `${by} deleted a reminder`, [], before);
  }
  for (const move of evidence.moves) checkMove(evidence, move);
  for (const { row, statement } of evidence.inserted('attempt_outcome')) {
    const id = String(row.delivery_id);
    const after = evidence.rowAfter(id, statement);
    const isSuccess = Number(row.status) >= 200 && Number(row.status) < 300;
    if (isSuccess && after?.state !== 'delivered') {
      evidence.report('P8', `#${statement} recorded a success that did not win at once`, [id], row, after);
    }
  }
}

function checkMove(evidence: Evidence, move: Move): void {
  const { id, by, at, before, after } = move;
  const tell = (promise: string, sentence: string) =>
    evidence.report(promise, `#${by.number} ${by.name}: ${sentence}`, [id], before, after);
  const state = String(after.state);

  if (live.includes(state) && after.wake_at === null) tell('P11', `a row in ${state} never wakes`);
  if (live.includes(state) && instant(after.wake_at) === Number.POSITIVE_INFINITY && !after.parked) {
    tell('P11', `a row in ${state} wakes in infinity, and is not parked`);
  }
  if (before === null) {
    if (by.name !== 'schedule') tell('matrix', 'made a reminder');
    return;
  }
  // What the archive took is its own matter.
  const taken = by.name === 'archive' && after.payload === null ? ['payload'] : [];
  const changed = identity.filter((column) => before[column] !== after[column] && !taken.includes(column));
  if (changed.length > 0) tell('P2', `changed ${changed.join(', ')}`);
  const was = String(before.state);
  if (!(permitted[by.name] ?? []).includes(`${was} ${state}`)) tell('matrix', `moved ${was} to ${state}`);
  const deadLives = was === 'dead' && ['cancel', 'decide'].includes(by.name);
  if (finished.includes(was) && state !== was && state !== 'delivered' && !deadLives) {
    tell('P3', `${was} became ${state}`);
  }
  if (Number(after.attempt_no) !== Number(before.attempt_no) + (by.name === 'open' && state === 'delivering' ? 1 : 0)) {
    tell('P9', `attempt ${before.attempt_no} became ${after.attempt_no}`);
  }
  checkFailures(evidence, move, tell);
  switch (by.name) {
    case 'claim':
      if (instant(before.wake_at) > at) tell('matrix', 'took a row before its wake_at');
      if (was === 'delivering' && instant(before.lease_until) > at) tell('P6', 'recovered a row whose lease lives');
      if (state === 'dispatching') checkDispatch(evidence, move, tell);
      break;
    case 'claim-by-id':
      checkDispatch(evidence, move, tell);
      break;
    case 'enqueue':
    case 'release':
      if (before.lease_owner !== by.parameters.claim_token) tell('P6', "moved a row under another claim's lease");
      break;
    case 'open':
      if (state === 'delivering') checkOpen(evidence, move, tell);
      else if (state === was) checkBroughtForward(move, tell);
      else if (!(instant(before.expires_at) <= at)) tell('matrix', 'expired a row before its expiry');
      break;
    case 'settle':
      checkSettle(evidence, move, tell);
      break;
    case 'decide':
      checkDecision(evidence, move, tell);
      break;
    case 'reclaim':
      checkRecovery(evidence, move, tell);
      break;
  }
  if (by.name === 'claim' && state === 'expired' && was !== 'delivering' && !(instant(before.expires_at) <= at)) {
    tell('matrix', 'expired a row before its expiry');
  }
}

/** What the retry policy reads: it grows by one with each failure of an attempt, and only a new time sets it back. */
function checkFailures(evidence: Evidence, { id, by, before, after }: Move, tell: Tell): void {
  const attempt = outcomesOf(evidence, id, by.number).find(({ row }) => row.attempt_no === before?.attempt_no);
  const failed = attempt !== undefined && !['delivered', 'not_sent', 'overtaken'].includes(String(attempt.row.outcome));
  const grows = before?.state === 'delivering' && after.state !== 'delivered' && failed;
  const anew = by.name === 'reschedule' || (by.name === 'decide' && after.state === 'scheduled');
  const expected = anew ? 0 : Number(before?.failures) + (grows ? 1 : 0);
  if (after.failures !== expected) tell('P9', `failures ${before?.failures} became ${after.failures}`);
  if (before?.state !== 'delivering' || after.state !== 'scheduled') return;
  const { settings } = evidence.stage.run.weather;
  const destination = evidence.before('destination', by.number, (row) => row.destination_id === after.destination_id);
  const policy = destination?.policy as { maxFailures?: number } | undefined;
  const maxFailures = policy?.maxFailures ?? settings.maxFailures;
  const attempts = Number(after.attempt_no) - Number(after.attempts_at_requeue);
  if (Number(after.failures) >= maxFailures || attempts >= settings.attemptHardCap) {
    tell('P9', `to be tried again after ${after.failures} failures of ${maxFailures} and ${attempts} attempts`);
  }
}

const outcomesOf = (evidence: Evidence, id: string, statement: number) =>
  evidence
    .inserted('attempt_outcome')
    .filter(({ statement: made, row }) => made === statement && row.delivery_id === id);

type Tell = (promise: string, sentence: string) => void;

/** Whether nothing forbade sending: no pause, an active destination, and time left. */
function checkAllowed(evidence: Evidence, { by, at, before }: Move, tell: Tell): void {
  if (evidence.before('dispatch_gate', by.number, () => true)?.paused === true) tell('P10', 'while dispatch is paused');
  const destination = evidence.before('destination', by.number, (row) => row.destination_id === before?.destination_id);
  if (destination?.state !== 'active') tell('P10', `while its destination is ${destination?.state}`);
  if (instant(before?.expires_at) <= at) tell('P10', 'after it expired');
}

function checkDispatch(evidence: Evidence, move: Move, tell: Tell): void {
  checkAllowed(evidence, move, tell);
  if (instant(move.after.wake_at) <= move.at) tell('P11', 'a claimed row wakes at once');
}

function checkOpen(evidence: Evidence, move: Move, tell: Tell): void {
  const { id, by, at, before, after } = move;
  checkAllowed(evidence, move, tell);
  if (instant(before?.due_at) > at) tell('P10', 'opened before it is due');
  if (instant(before?.next_attempt_at) > at) tell('P10', 'opened before its next attempt');
  if (before?.cancel_requested_at !== null) tell('P10', 'opened after a cancel');
  if (instant(after.wake_at) < instant(after.lease_until)) tell('P6', 'wakes before its lease passes');
  const attempts = Number(after.attempt_no) - Number(after.attempts_at_requeue);
  if (attempts > evidence.stage.run.weather.settings.attemptHardCap) tell('P9', `opened ${attempts} times`);
  const intent = evidence
    .inserted('delivery_attempt')
    .find(({ row }) => row.delivery_id === id && row.attempt_no === after.attempt_no);
  if (intent?.statement !== by.number || intent.row.lease_owner !== after.lease_owner) tell('P5', 'left no intent');
}

function checkBroughtForward({ at, before, after }: Move, tell: Tell): void {
  const changed = Object.keys(after).filter((column) => column !== 'wake_at' && before?.[column] !== after[column]);
  if (changed.length > 0) tell('matrix', `changed ${changed.join(', ')} of a row that it did not open`);
  const [was, wake] = [instant(before?.wake_at), instant(after.wake_at)];
  if (!(wake === was || (wake < was && wake > at)))
    tell('matrix', 'put off a row that it did not open, or let it wake at once');
}

function checkSettle(evidence: Evidence, { id, by, before, after }: Move, tell: Tell): void {
  const outcomes = outcomesOf(evidence, id, by.number);
  if (after.state === 'delivered') {
    const success = outcomes.find(({ row }) => Number(row.status) >= 200 && Number(row.status) < 300);
    if (success === undefined) tell('P4', 'delivered without a 2xx');
    return;
  }
  const own = outcomes.find(({ row }) => row.attempt_no === before?.attempt_no);
  const intent = evidence
    .inserted('delivery_attempt')
    .find(({ row }) => row.delivery_id === id && row.attempt_no === own?.row.attempt_no);
  if (intent === undefined || intent.row.lease_owner !== before?.lease_owner) {
    tell('P8', `a failure of attempt ${outcomes.map(({ row }) => row.attempt_no)} moved a row that another one has`);
  }
}
