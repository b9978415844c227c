// Checks what operators were told and did: destinations as they were registered, and rows set aside until they are readmitted.
import type { Evidence } from './evidence.ts';

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
