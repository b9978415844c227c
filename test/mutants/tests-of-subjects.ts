// Which tests stand for which part of the product: a mutant runs only those, in this order, until one fails.
import { verbs } from '../../lambdas/core/delivery-states.ts';

const ledger = (...names: string[]) => names.map((name) => `test/ledger/${name}.test.ts`);
const guard = ledger('transitions');
const checks = ledger('checks');
const archivedGuard = ledger('archive', 'transitions');
const rules = ledger('failure-rules');
const sender = ledger('sender-rules', 'limits', 'neighbours', 'poison');

/** By the name of a statement, SQL function, trigger or table, or by the path of a file. Those that fail soonest stand first. */
export const testsOfSubjects: Readonly<Record<string, readonly string[]>> = {
  schedule: ledger('bystanders-of-senders', 'identity', 'one-run', 'moves', 'lost-answers'),
  cancel: ledger('bystanders', 'moves', 'one-run', 'matrix', 'lost-answers', 'identity'),
  reschedule: ledger('bystanders', 'moves', 'one-run', 'identity', 'matrix', 'lost-answers'),
  claim: ledger('bystanders', 'moves', 'evidence', 'twins', 'matrix', 'lost-answers', 'claims', 'poison'),
  'claim-by-id': ledger('moves', 'bystanders', 'matrix', 'twins', 'lost-answers'),
  enqueue: ledger('moves', 'bystanders', 'one-run', 'matrix', 'lost-answers'),
  release: ledger('moves', 'bystanders', 'matrix', 'lost-answers'),
  unpark: ledger('bystanders', 'moves', 'twins', 'one-run', 'matrix', 'lost-answers', 'claims'),
  open: ledger('moves', 'bystanders-of-senders', 'evidence', 'attempts', 'matrix', 'poison', 'one-run', 'lost-answers'),
  settle: ledger('moves', 'bystanders-of-senders', 'evidence', 'attempts', 'matrix', 'one-run', 'lost-answers'),
  archive: ledger('archive', 'retention', 'matrix'),
  forget: ledger('archive'),
  announce: ledger('bystanders-of-senders', 'lost-answers'),
  'add-destination': ledger('bystanders-of-senders', 'lost-answers'),
  decide: ledger('decisions', 'decision-commands', 'matrix'),
  control: ledger('control'),
  exclude: ledger('poison'),
  readmit: ledger('poison', 'handoffs'),
  reclaim: ledger('recoveries', 'recovery-commands', 'matrix'),
  'set-aside': ledger('handoffs'),

  state_after_failure: rules,
  'migrations/0011_create_failure_rules.sql': rules,

  reminder_delivery: guard,
  destination: checks,
  delivery_attempt: checks,
  attempt_outcome: checks,
  dispatch_gate: checks,
  refuse_unknown_transition: guard,
  known_transition: guard,
  identity_never_changes: guard,
  reminder_is_never_deleted: guard,
  attempts_are_insert_only: archivedGuard,
  outcomes_are_insert_only: archivedGuard,
  receipts_are_insert_only: archivedGuard,
  refuse_change_until_archived: archivedGuard,
  answers_are_insert_only: archivedGuard,
  refuse_change_of_young: archivedGuard,
  actions_are_insert_only: guard,
  exclusion_is_never_deleted: guard,
  unreviewed_from_the_start: ledger('observed-outcomes'),
  unreviewed_from_now: ledger('observed-outcomes'),

  'lambdas/core/deliver-invitations.ts': sender,
  'lambdas/core/claim-due.ts': ledger('claims'),
  'lambdas/core/dispatch.ts': ledger('sender-rules', 'claims'),
  'lambdas/core/outcome-policy.ts': ['test/webhook/outcome-policy.test.ts'],
  'lambdas/queue/invitations.ts': ['test/adapters/invitations.test.ts'],
};

/** Verbs and commands, as the tests that go through all of them name their parts. */
const parts = new Map<string, string>(
  Object.entries(verbs).flatMap(([verb, { statement }]) =>
    typeof statement === 'string' ? [[verb, statement] as const, [camelCase(statement), statement] as const] : [],
  ),
)
  .set('schedule', 'schedule')
  .set('announce', 'announce')
  .set('exclude', 'exclude')
  .set('an answer that takes longer than a call may', 'cancel')
  // Of the Data API's client, whatever the statement.
  .set('an error of the Data API before the command ran', '');

/** A pattern of test names that leaves out the parts of other statements. */
export function patternFor(subject: string): string {
  const others = [...parts].filter(([, statement]) => statement !== subject).map(([part]) => part);
  return `^(?!(${others.join('|')})(,|:| >) )`;
}

function camelCase(name: string): string {
  return name.replaceAll(/-([a-z])/g, (_, letter: string) => letter.toUpperCase());
}
