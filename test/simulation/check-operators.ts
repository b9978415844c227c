// Checks what operators were told and did: destinations as they were registered, and rows set aside until they are readmitted.
import { type Evidence, instant, type Move } from './evidence.ts';

const identity = ['destination_id', 'name', 'url', 'owner', 'contract', 'deadline_ms', 'created_at'];

/** One destination a name, as it was first asked for, and every answer true of it. */
export function checkDestinations(evidence: Evidence): void {
  for (const { table, before, after } of evidence.changes) {
    if (table !== 'destination' || before === null) continue;
    const changed = identity.filter((column) => before[column] !== after?.[column]);
    if (changed.length > 0) evidence.report('P2', `a destination changed its ${changed.join(', ')}`, [], before, after);
  }
  for (const { asked, answer } of evidence.stage.registered) {
    const [row, ...more] = evidence.inserted('destination').filter((one) => one.row.name === asked.name);
    const tell = (sentence: string) =>
      evidence.report(
        'commands',
        `add-destination was answered ${answer.answer}: ${sentence}`,
        [],
        asked,
        row,
        ...more,
      );
    if (row === undefined || more.length > 0) {
      tell(`there are ${row === undefined ? 0 : more.length + 1} of its name`);
      continue;
    }
    const { destination_id, url, owner, contract, deadline_ms } = row.row;
    const own = destination_id === asked.destinationId;
    const same =
      url === asked.url && owner === asked.owner && contract === asked.contract && deadline_ms === asked.deadlineMs;
    const truth = own ? 'added' : same ? 'unchanged' : 'conflict';
    if (answer.answer !== truth) tell(`it is ${truth}`);
  }
}

/** Only a damaged row is set aside, no claim takes it meanwhile, and a person's action ends it. */
export function checkExclusions(evidence: Evidence): void {
  const { run } = evidence.stage;
  const actions = evidence.inserted('operator_action');
  const standing = new Map<string, boolean>();
  for (const { table, before, after, statement } of evidence.changes) {
    if (table === 'reminder_delivery') {
      const id = String(after?.delivery_id);
      const by = run.executed[statement - 1]?.name;
      if (by === 'claim' && standing.get(id)) {
        evidence.report('matrix', `#${statement} claim took a row that is set aside`, [id], before, after);
      }
    }
    if (table !== 'claim_exclusion' || after === null) continue;
    const id = String(after.delivery_id);
    standing.set(id, after.readmitted_at === null);
    if (before === null) {
      if (!run.everDamaged.has(id)) evidence.report('matrix', `#${statement} set a sound row aside`, [id], after);
      continue;
    }
    const acted = actions.some(
      ({ row, statement: made }) =>
        made === statement && row.token === after.readmitted_by && row.verb === 'readmit' && row.delivery_id === id,
    );
    if (!acted) evidence.report('commands', `#${statement} readmitted it, and nobody is named`, [id], before, after);
  }
  for (const [id, stands] of standing) if (stands) evidence.report('P1', 'still set aside at the end', [id]);
}

/** What a person's decision needs: an action of theirs, the version that they saw, and evidence where a receiver may have it. */
export function checkDecision(evidence: Evidence, { id, by, at, before, after }: Move, tell: Tell): void {
  const [action] = evidence
    .inserted('operator_action')
    .flatMap(({ row, statement }) => (statement === by.number && row.delivery_id === id ? [row] : []));
  if (action === undefined) {
    tell('commands', 'decided, and nobody is named');
    return;
  }
  if (action.version_seen !== before?.version) tell('commands', 'decided about a version that nobody saw');
  const { given } = action.evidence as { given: string | null };
  const known = evidence
    .inserted('attempt_outcome')
    .flatMap(({ row, statement }) =>
      statement < by.number &&
      row.delivery_id === id &&
      !['unknown', 'overtaken', 'delivered'].includes(String(row.outcome))
        ? [row.attempt_no]
        : [],
    );
  const mayHaveIt = new Set(known).size < Number(before?.attempt_no);
  if (after.state === 'delivered' && given === null) tell('P4', 'resolved without evidence');
  if (after.state !== 'scheduled') return;
  if (mayHaveIt && given === null) tell('commands', 'requeued without evidence, and a receiver may have it');
  if (instant(after.expires_at) <= at) tell('P10', 'requeued after its time');
}

type Tell = (promise: string, sentence: string) => void;
