// Checks what people decided: by whom, about what they saw, on what evidence, what it wrote, and that its answers held.
import { type Evidence, instant, type Move } from './evidence.ts';

type Tell = (promise: string, sentence: string) => void;

/** What a decision needs, and what it may write. */
export function checkDecision(evidence: Evidence, { id, by, at, before, after }: Move, tell: Tell): void {
  const [action] = evidence
    .inserted('operator_action')
    .flatMap(({ row, statement }) => (statement === by.number && row.delivery_id === id ? [row] : []));
  if (by.parameters.dry_run === 'true') tell('commands', 'changed a row in a dry run');
  if (action === undefined) {
    tell('commands', 'decided, and nobody is named');
    return;
  }
  if (before === null) return;
  const seen = JSON.parse(String(by.parameters.items)) as { delivery_id: string; attempts_seen: number }[];
  const attemptsSeen = seen.find(({ delivery_id }) => delivery_id === id)?.attempts_seen;
  if (action.version_seen !== before.version || attemptsSeen !== before.attempt_no) {
    tell('commands', 'decided about what nobody saw');
  }
  const given = (action.evidence as { given: string | null }).given;
  if (after.state === 'delivered' && given === null) tell('P4', 'resolved without evidence');
  const [was, state] = [before.state, after.state];
  const anew = state === 'scheduled' || (state === 'held' && was !== 'held');
  if (Number(after.version) !== Number(before.version) + (anew ? 1 : 0)) {
    tell('commands', `version ${before.version} became ${after.version}`);
  }
  if (state === 'held' && instant(after.expires_at) <= at) tell('P10', 'held after its time');
  if (state === 'held' && after.wake_at !== after.expires_at) tell('P1', 'held, and does not wake to expire');
  if (was === 'delivering' && after.cancel_requested_at === null) tell('P10', 'the wish to cancel was not kept');
  if (state !== 'scheduled') return;
  if (mayHaveIt(evidence, id, by.number, before.attempt_no) && given === null) {
    tell('commands', 'sent again without evidence, and a receiver may have it');
  }
  if (instant(after.expires_at) <= at) tell('P10', 'to be sent after its time');
  if (instant(after.next_attempt_at) < instant(after.due_at)) tell('P10', 'to be sent before it is due');
  if (after.attempts_at_requeue !== after.attempt_no) tell('P9', 'its attempts are counted from the wrong one');
}

/** Whether some attempt before a statement has no outcome that says for certain that it failed. */
export function mayHaveIt(evidence: Evidence, id: string, statement: number, attempts: unknown): boolean {
  const failed = evidence
    .inserted('attempt_outcome')
    .flatMap(({ row, statement: made }) =>
      made < statement && row.delivery_id === id && !['unknown', 'overtaken', 'delivered'].includes(String(row.outcome))
        ? [row.attempt_no]
        : [],
    );
  return new Set(failed).size < Number(attempts);
}

/** What people were told: nothing follows a cancel, and what was done is what was said. */
export function checkDecisionAnswers(evidence: Evidence): void {
  for (const { name, number, parameters, answers } of evidence.stage.run.executed) {
    if (name !== 'decide' || parameters.dry_run === 'true') continue;
    for (const { answer, delivery_id: deliveryId } of answers ?? []) {
      const id = String(deliveryId);
      const tell = (promise: string, sentence: string) =>
        evidence.report(promise, `#${number} decide was answered ${answer}: ${sentence}`, [id], evidence.last(id));
      if (answer === 'too_late' || answer === 'cancelled') {
        const later = evidence
          .inserted('delivery_attempt')
          .find(({ row, statement }) => row.delivery_id === id && statement > number);
        if (later !== undefined) tell('P10', `attempt ${later.row.attempt_no} was opened after it`);
      }
      const end = String(evidence.last(id)?.state);
      if (answer === 'cancelled' && !['cancelled', 'delivered'].includes(end)) tell('commands', `it is ${end}`);
      if (answer === 'resolved' && end !== 'delivered') tell('P3', `it is ${end}`);
    }
  }
}
