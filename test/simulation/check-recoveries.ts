// Checks what people made go on: that it is only brought forward, under no live lease, in time, on evidence, and by a name.
import { mayHaveIt } from './check-decisions.ts';
import { type Evidence, instant, type Move } from './evidence.ts';

type Tell = (promise: string, sentence: string) => void;

/** What may be brought forward, and what that may write. */
export function checkRecovery(evidence: Evidence, { id, by, at, before, after }: Move, tell: Tell): void {
  if (before === null) return;
  const others = Object.keys(after).filter((column) => column !== 'wake_at' && before[column] !== after[column]);
  if (others.length > 0) tell('matrix', `changed ${others.join(', ')}`);
  if (instant(after.wake_at) > at || instant(before.wake_at) <= at) tell('matrix', 'brought nothing forward');
  if (instant(before.lease_until) > at) tell('P6', 'has force on a lease that lives');
  if (by.parameters.dry_run === 'true') tell('commands', 'changed a row in a dry run');
  const [action] = evidence
    .inserted('operator_action')
    .flatMap(({ row, statement }) => (statement === by.number && row.delivery_id === id ? [row] : []));
  if (action === undefined) {
    tell('commands', 'brought it forward, and nobody is named');
    return;
  }
  const { verb } = action;
  const seen = JSON.parse(String(by.parameters.items)) as { delivery_id: string; attempts_seen: number | null }[];
  const attemptsSeen = seen.find(({ delivery_id }) => delivery_id === id)?.attempts_seen;
  if (verb !== 'redrive' && (action.version_seen !== before.version || attemptsSeen !== before.attempt_no)) {
    tell('commands', 'made go on what nobody saw');
  }
  if (verb === 'reclaim') return;
  const { allowanceSeconds } = evidence.stage.run.weather.settings;
  const invited = evidence
    .inserted('handoff')
    .filter(({ row, statement }) => row.delivery_id === id && statement < by.number)
    .map(({ row }) => instant(row.visible_from));
  const since = Math.max(instant(before.next_attempt_at), ...invited);
  if (since + allowanceSeconds * 1000 > at) tell('commands', 'invited again within the allowance of an invitation');
  if (instant(before.expires_at) <= at) tell('P10', 'to be sent after its time');
  const given = (action.evidence as { given: string | null }).given;
  if (given === null && mayHaveIt(evidence, id, by.number, before.attempt_no)) {
    tell('commands', 'invited again without evidence, and a receiver may have it');
  }
}

/** What left the dead-letter queue by a look: its reminder had no use for it, or what it said is kept. */
export function checkRedrives(evidence: Evidence): void {
  const actions = evidence.inserted('operator_action');
  const ids = new Set(evidence.ids);
  for (const { what, messageId, body } of evidence.stage.queue.events) {
    if (what !== 'removed') continue;
    const invitation = /"delivery_id":"([^"]+)"/.exec(body)?.[1] ?? '';
    const kept = actions.some(({ row }) => {
      const said = row.evidence as { messageId?: string; messages?: string[]; body?: string };
      return ids.has(invitation)
        ? row.verb === 'redrive' && row.delivery_id === invitation
        : row.verb === 'set_aside' && said.messageId === messageId && said.body === body;
    });
    if (!kept) evidence.report('commands', `message ${messageId} was removed, and nobody is named`, [invitation], body);
  }
}
