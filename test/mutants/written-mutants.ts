// Mutants by hand: where a rule stands in TypeScript, or in arithmetic that is no condition.
import { type Mutant, onlyPlace, read } from './mutant.ts';

/** What is wrong with the product then, where, and instead of what. */
interface Written {
  readonly name: string;
  readonly file: string;
  readonly instead: readonly [of: string, stands: string];
}

const [claim, claimById, open, settle, release] = ['claim', 'claim-by-id', 'open', 'settle', 'release'].map(
  (name) => `lambdas/store/statements/${name}.ts`,
) as [string, string, string, string, string];
const sender = 'lambdas/core/deliver-invitations.ts';
const tick = 'lambdas/core/claim-due.ts';
const rules = 'migrations/0011_create_failure_rules.sql';

const written: readonly Written[] = [
  {
    name: 'the lease is not checked before a send',
    file: sender,
    instead: ['leaseLeft < deadlineMs + settings.leaseMarginMs', 'leaseLeft < Number.NEGATIVE_INFINITY'],
  },
  {
    name: 'the lease must outlast the deadline, and no margin',
    file: sender,
    instead: ['leaseLeft < deadlineMs + settings.leaseMarginMs', 'leaseLeft < deadlineMs'],
  },
  {
    name: 'a frozen environment does not age its lease',
    file: sender,
    instead: [
      'Math.max(clock.monotonic() - since.monotonic, clock.wall() - since.wall)',
      'clock.monotonic() - since.monotonic',
    ],
  },
  {
    name: 'a clock that is set back lengthens the lease',
    file: sender,
    instead: ['Math.max(clock.monotonic() - since.monotonic, clock.wall() - since.wall)', 'clock.wall() - since.wall'],
  },
  {
    name: 'the age of a lease counts from the answer of open',
    file: sender,
    instead: [
      'opened.map((attempt) => this.#send(attempt, token, since))',
      'opened.map((attempt) => this.#send(attempt, token, { monotonic: clock.monotonic(), wall: clock.wall() }))',
    ],
  },
  {
    name: 'a send begins although the run has no time to settle it',
    file: sender,
    instead: ['this.#run.remainingMs() < deadlineMs + this.#commandMs()', 'this.#run.remainingMs() < 0'],
  },
  {
    name: 'not_before is not waited for',
    file: sender,
    instead: ['Math.max(0, ...invited.map(({ notBefore }) => notBefore - now))', '0'],
  },
  {
    name: 'what is due in a moment is not opened once more',
    file: sender,
    instead: ['early.length > 0 && this.#timeForAnotherOpen(earlyByMs)', 'false'],
  },
  {
    name: 'a group whose settle failed is settled one by one under new tokens',
    file: sender,
    instead: ['this.#settle([outcome], token)', 'this.#settle([outcome])'],
  },
  {
    name: 'a reminder that must be opened alone is opened beside the others',
    file: sender,
    instead: ['await this.#attempt(ids);', 'await this.#attempt(ids, true);'],
  },
  {
    name: 'of the successes only 200 counts',
    file: 'lambdas/core/outcome-policy.ts',
    instead: ['{ statuses: [[200, 299]],', '{ statuses: [[200, 200]],'],
  },
  {
    name: 'a late success does not win over another attempt',
    file: settle,
    instead: [
      "WHEN t.outcome = 'delivered' THEN CASE WHEN",
      "WHEN t.outcome = 'delivered' THEN CASE WHEN t.present_attempt = t.attempt_no AND",
    ],
  },
  {
    name: 'DelaySeconds is rounded up',
    file: 'lambdas/queue/invitations.ts',
    instead: ['Math.floor(Math.min(longestDelaySeconds', 'Math.ceil(Math.min(longestDelaySeconds'],
  },
  {
    name: 'the time since the claim is not taken off the delay',
    file: 'lambdas/core/dispatch.ts',
    instead: ['delaySeconds: (dueInMs - (begun - askedAt)) / 1000', 'delaySeconds: dueInMs / 1000'],
  },
  {
    name: 'what the queue refused is not released',
    file: 'lambdas/core/dispatch.ts',
    instead: ['refused.length === 0', 'refused.length >= 0'],
  },
  {
    name: 'a tick goes on when its queue refuses everything',
    file: tick,
    instead: ["if (handed.queueRefused) this.#answer.stopped = 'queue_refused';", ''],
  },
  {
    name: 'a claim does not find its own batch again',
    file: claim,
    instead: [
      'FROM claim_batch WHERE token = CAST(:token AS uuid)',
      'FROM claim_batch WHERE token = CAST(:token AS uuid) AND false',
    ],
  },
  {
    name: 'a claim by id does not find its own batch again',
    file: claimById,
    instead: [
      'FROM claim_batch WHERE token = CAST(:token AS uuid)',
      'FROM claim_batch WHERE token = CAST(:token AS uuid) AND false',
    ],
  },
  {
    name: 'a twin of a claim does not wait for its first run',
    file: claim,
    instead: [
      'pg_advisory_xact_lock(hashtextextended(CAST(:token AS text), 0))',
      'hashtextextended(CAST(:token AS text), 0)',
    ],
  },
  {
    name: 'a claim opens no lease but until now',
    file: claim,
    instead: [
      'lease_until = now() + make_interval(secs => CAST(:lease_seconds AS double precision))',
      'lease_until = now() + 0 * make_interval(secs => CAST(:lease_seconds AS double precision))',
    ],
  },
  {
    name: 'invitations in vain do not lengthen the allowance',
    file: claim,
    instead: ['power(2, LEAST(r.invitations, 5))', 'power(2, 0 * r.invitations)'],
  },
  {
    name: 'a row claimed late wakes in the past',
    file: claim,
    instead: ['wake_at = GREATEST(now(), r.next_attempt_at)', 'wake_at = r.next_attempt_at'],
  },
  {
    name: 'a parked row hides its expiry',
    file: claim,
    instead: ["LEAST(CAST('infinity' AS timestamptz), r.expires_at)", "CAST('infinity' AS timestamptz)"],
  },
  {
    name: 'a recovered attempt is no failure',
    file: claim,
    instead: ['failures = r.failures + 1', 'failures = r.failures'],
  },
  {
    name: 'a token opens again',
    file: open,
    instead: ["    WHEN t.used THEN 'token_used'\n", "    WHEN false THEN 'token_used'\n"],
  },
  {
    name: 'an opened row wakes before its lease ends',
    file: open,
    instead: [
      'GREATEST(r.wake_at, now() + make_interval(secs => CAST(:lease_seconds AS double precision)))',
      'r.wake_at',
    ],
  },
  {
    name: 'each release waits the same',
    file: release,
    instead: ['power(2, LEAST(GREATEST(r.invitations - 1, 0), 5))', 'power(2, 0 * r.invitations)'],
  },
  {
    name: 'a twin of a settle collides with what its first run recorded',
    file: settle,
    instead: [
      'ON CONFLICT DO NOTHING\n  RETURNING delivery_id, attempt_no, moved_to',
      'RETURNING delivery_id, attempt_no, moved_to',
    ],
  },
  {
    name: 'a retry is looked at when it is due, not a lookahead before',
    file: settle,
    instead: [
      "WHEN 'scheduled' THEN v.retry_at - make_interval(secs => CAST(:lookahead_seconds AS double precision))",
      "WHEN 'scheduled' THEN v.retry_at - 0 * make_interval(secs => CAST(:lookahead_seconds AS double precision))",
    ],
  },
  { name: 'the hard cap is one attempt later', file: rules, instead: ['attempts >= hard_cap', 'attempts > hard_cap'] },
  {
    name: 'maxFailures is one failure later',
    file: rules,
    instead: ['failures >= max_failures', 'failures > max_failures'],
  },
  { name: 'a pause has no cap', file: rules, instead: [', cap_seconds),', ", CAST('infinity' AS float8)),"] },
  { name: 'a pause has no jitter', file: rules, instead: ['fraction * LEAST', '1 * LEAST'] },
  { name: 'a pause that is asked for is not kept', file: rules, instead: ['COALESCE(asked_seconds, 0)', '0'] },
  {
    name: "a destination's own maxFailures is not read by settle",
    file: settle,
    instead: [
      "COALESCE(CAST(d.policy ->> 'maxFailures' AS integer), CAST(:max_failures AS integer))",
      'CAST(:max_failures AS integer)',
    ],
  },
  {
    name: "a destination's own maxFailures is not read by claim",
    file: claim,
    instead: [
      "COALESCE(CAST(d.policy ->> 'maxFailures' AS integer), CAST(:max_failures AS integer))",
      'CAST(:max_failures AS integer)',
    ],
  },
];

/** The mutants by hand. @throws {Error} when the text of one does not stand in its file exactly once */
export function writtenMutants(): Mutant[] {
  return written.map(({ name, file, instead: [of, stands] }) => {
    const from = onlyPlace(read(file), of, file);
    const subject = /statements\/(.+)\.ts$/.exec(file)?.[1] ?? file;
    return { name: `by hand: ${name}`, subject, file, from, to: from + of.length, instead: stands };
  });
}
