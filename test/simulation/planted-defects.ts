// Defects to plant: each a change of a statement's text, and the promise that a run with it must be seen to break.
import type { Plant } from './run.ts';

export interface PlantedDefect {
  readonly name: string;
  readonly breaks: string;
  readonly plant: Plant;
  /** A trigger of the database that would refuse what the defect does. @default none would */
  readonly without?: string;
  /** Where the search begins, so that it ends soon: what met the defect when it was last looked for. @default 1 */
  readonly seed?: number;
}

/**
 * Changes the text of one statement.
 * @throws {Error} when the statement has not the text any more: a defect that is not planted would never be found
 */
export function change(statement: string, from: string, to: string): Plant {
  return (name, text) => {
    if (name !== statement) return text;
    if (!text.includes(from))
      throw new Error(`${statement} has no ${JSON.stringify(from)}: plant the defect elsewhere`);
    return text.replaceAll(from, to);
  };
}

/** All of them. */
export function both(...plants: readonly Plant[]): Plant {
  return (name, text) => plants.reduce((changed, plant) => plant(name, changed), text);
}

const past = `now() - make_interval(secs => CAST(:retention_seconds AS bigint))`;

export const plantedDefects: readonly PlantedDefect[] = [
  {
    name: 'who asks for a key that is taken is told a second id',
    breaks: 'P2',
    plant: change('schedule', "'delivery_id', t.delivery_id,", "'delivery_id', i.delivery_id,"),
  },
  {
    name: 'a claim changes the key',
    breaks: 'P2',
    without: 'identity_never_changes',
    plant: change(
      'claim',
      "SET state = 'dispatching',",
      "SET state = 'dispatching', idempotency_key = r.idempotency_key || '+',",
    ),
  },
  {
    name: 'a reschedule revives what is dead',
    seed: 45,
    breaks: 'P3',
    plant: both(
      change('reschedule', "a.state IN ('delivered', 'dead', 'expired',", "a.state IN ('delivered', 'expired',"),
      change('reschedule', ' OR a.attempt_no > a.definite_attempts', ''),
    ),
  },
  {
    name: 'a cancel takes what has expired',
    breaks: 'P3',
    without: 'known_transition',
    plant: change('cancel', "l.state IN ('delivered', 'expired')", "l.state IN ('delivered')"),
  },
  {
    name: 'open writes no intent',
    breaks: 'P5',
    plant: change(
      'open',
      'j.delivery_id = o.delivery_id\n), noted',
      'j.delivery_id = o.delivery_id AND false\n), noted',
    ),
  },
  {
    name: 'forget deletes answers that are young',
    seed: 5,
    breaks: 'P5',
    without: 'answers_are_insert_only',
    plant: change('forget', 'o.token < (SELECT token FROM before) AND o.answered_at < (SELECT at FROM cut)', 'true'),
  },
  {
    name: 'a recovered attempt counts as no failure',
    breaks: 'P9',
    plant: change('claim', 'failures = r.failures + 1', 'failures = r.failures'),
  },
  {
    name: 'a failure that the sender tells is not counted',
    breaks: 'P9',
    plant: change('settle', 'failures = v.failures', 'failures = r.failures'),
  },
  {
    name: 'a refused hand-off wakes in infinity',
    breaks: 'P11',
    plant: change('release', 'wake_at = now() +', "wake_at = CAST('infinity' AS timestamptz) +"),
  },
  {
    name: 'what was parked wakes no more',
    breaks: 'P11',
    plant: change(
      'unpark',
      'wake_at = r.next_attempt_at - make_interval(secs => CAST(:lookahead_seconds AS double precision))',
      "wake_at = CAST('infinity' AS timestamptz)",
    ),
  },
  {
    name: 'an open that is run again opens once more',
    breaks: 'commands',
    plant: change('open', "WHEN t.used THEN 'token_used'\n", ''),
  },
  {
    name: 'a claim takes what is set aside',
    seed: 11,
    breaks: 'matrix',
    plant: change(
      'claim',
      'FROM claim_exclusion x WHERE x.readmitted_at IS NULL',
      'FROM claim_exclusion x WHERE false',
    ),
  },
  {
    name: 'what is young is archived',
    seed: 5,
    breaks: 'retention',
    plant: both(
      change('list-archivable', `AND r.next_attempt_at <= ${past}`, ''),
      change('list-archivable', `AND r.state_since <= ${past}`, ''),
    ),
  },
  {
    name: 'the archive gets no receipt of the queue',
    seed: 6,
    breaks: 'retention',
    plant: change('list-archivable', 'JOIN handoff h ON h.delivery_id = f.delivery_id', 'JOIN handoff h ON false'),
  },
  {
    name: 'the mark has no fence: a late enqueue marks what another claim holds',
    breaks: 'P6',
    plant: change('enqueue', ' AND r.lease_owner = CAST(:claim_token AS uuid)', ''),
  },
  {
    name: 'recover looks at no lease, and open does not put the wake off until its lease passes',
    breaks: 'P6',
    plant: both(
      change('claim', "CASE WHEN c.lease_until <= now() THEN 'recover' END", "'recover'"),
      change(
        'open',
        'GREATEST(r.wake_at, now() + make_interval(secs => CAST(:lease_seconds AS double precision)))',
        'r.wake_at',
      ),
    ),
  },
  {
    name: 'open looks at no due time',
    breaks: 'P10',
    plant: change('open', "WHEN l.next_attempt_at > now() THEN 'not_due'", ''),
  },
  {
    name: 'a refused hand-off wakes in a month',
    breaks: 'P1',
    plant: change('release', 'wake_at = now() +', "wake_at = now() + interval '30 days' +"),
  },
  {
    name: 'a failure that may be tried again counts as delivered',
    breaks: 'P4',
    plant: change(
      'settle',
      "WHEN t.outcome = 'delivered' THEN CASE",
      "WHEN t.outcome IN ('delivered', 'retry') THEN CASE",
    ),
  },
  {
    name: 'a repeat carries other bytes',
    breaks: 'P7',
    plant: change(
      'open',
      "convert_to(j.payload, 'UTF8')",
      "convert_to(j.payload || CASE WHEN j.attempt_no > 0 THEN ' ' ELSE '' END, 'UTF8')",
    ),
  },
  {
    name: 'settle has no fence: a stale failure moves what another attempt has',
    breaks: 'P8',
    plant: change(
      'settle',
      "t.state = 'delivering' AND t.lease_owner = t.open_token AND t.present_attempt = t.attempt_no",
      "t.state = 'delivering'",
    ),
  },
  {
    name: 'a late success does not win',
    seed: 4,
    breaks: 'P8',
    plant: change(
      'settle',
      "t.state NOT IN ('shadow', 'delivered') THEN 'delivered' END",
      "t.state = 'delivering' AND t.lease_owner = t.open_token THEN 'delivered' END",
    ),
  },
  {
    name: 'the hard cap of attempts is five higher',
    breaks: 'P9',
    plant: both(
      ...['claim', 'settle'].map((statement) =>
        change(statement, 'CAST(:attempt_hard_cap AS integer)', 'CAST(:attempt_hard_cap AS integer) + 5'),
      ),
    ),
  },
  {
    name: 'the wish to cancel is forgotten while it is being sent',
    breaks: 'P10',
    plant: change(
      'cancel',
      'SET cancel_requested_at = COALESCE(r.cancel_requested_at, now())',
      'SET cancel_requested_at = r.cancel_requested_at',
    ),
  },
  {
    name: 'open looks at no pause',
    breaks: 'P10',
    plant: change('open', "WHEN NOT l.dispatch_on THEN 'paused'", "WHEN false THEN 'paused'"),
  },
  {
    name: 'a person may requeue without evidence',
    seed: 8,
    breaks: 'commands',
    plant: change('decide', '(a.doubtful_attempts > 0 OR a.key_forgotten)', 'false'),
  },
  {
    name: 'a decision looks at no version',
    breaks: 'commands',
    plant: change('decide', 'a.version_seen <> a.version', 'false'),
  },
  {
    name: 'a person’s wish to cancel is forgotten while it is sent',
    breaks: 'P10',
    plant: change('decide', "d.answer IN ('cancelled', 'too_late') THEN now()", "d.answer IN ('cancelled') THEN now()"),
  },
  { name: 'a dry run writes', breaks: 'commands', plant: change('decide', 'WHERE NOT c.dry_run', 'WHERE true') },
  {
    name: 'a requeue keeps the version',
    breaks: 'commands',
    plant: change('decide', "CASE WHEN j.answer IN ('requeued', 'released') OR", 'CASE WHEN'),
  },
  {
    name: 'what is requeued is counted from its first attempt',
    breaks: 'P9',
    plant: change(
      'decide',
      "attempts_at_requeue = CASE d.next_state WHEN 'scheduled' THEN r.attempt_no ELSE r.attempts_at_requeue END",
      'attempts_at_requeue = r.attempts_at_requeue',
    ),
  },
  {
    name: 'a reclaim has force on a live lease',
    breaks: 'P6',
    plant: change('reclaim', "WHEN a.lease_lives THEN 'leased'", "WHEN false THEN 'leased'"),
  },
  {
    name: 'a republish waits for no allowance',
    seed: 6,
    breaks: 'commands',
    plant: change('reclaim', "WHEN a.may_arrive THEN 'invited'", "WHEN false THEN 'invited'"),
  },
  {
    name: 'a person may republish without evidence',
    seed: 10,
    breaks: 'commands',
    plant: change('reclaim', '(a.doubtful_attempts > 0 OR a.key_forgotten)', 'false'),
  },
  {
    name: 'what a message in the dead-letter queue says is not kept',
    breaks: 'commands',
    plant: change('set-aside', 'ORDER BY x.token', 'WHERE false ORDER BY x.token'),
  },
];
