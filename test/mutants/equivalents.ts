// Mutants that no test can see, and why: what else decides the same.

/** By the mutant's name: the reason, which names the guard that stands behind the condition. */
export const equivalents: Readonly<Record<string, string>> = {
  'add-destination: added where: NOT EXISTS (SELECT FROM taken) → true':
    'the name and the id are unique, so ON CONFLICT DO NOTHING adds nothing',
  'cancel: judged where: NOT EXISTS (SELECT FROM repeated p WHERE p.item = i.item) → true':
    "the receipt's key refuses a second one, and nothing moves without a receipt",
  'cancel: cancelled on: c.item = j.item → true':
    "a twin that shares the token has recorded all of the command's items or none: it holds all their rows; what it called off is cancelled, and stays so",
  'cancel: flagged on: c.item = j.item → true': 'the wish that a twin left is kept by COALESCE',
  'claim: candidate where: EXISTS (SELECT FROM turn) → true':
    'the batch is asked for first, and takes the turn before any candidate is looked at',
  "claim: judged verb when: c.state IN ('held', 'shadow') → false":
    'the CHECK waiting_row_wakes_to_expire: such a row wakes when it expires, which is judged before',
  "claim: judged verb in: 'held' → 'shadow'":
    'the CHECK waiting_row_wakes_to_expire: such a row wakes when it expires, which is judged before',
  "claim: judged verb in: 'shadow' → 'held'":
    'the CHECK waiting_row_wakes_to_expire: such a row wakes when it expires, which is judged before',
  'claim: batch where: EXISTS (SELECT FROM turn) → true':
    'the candidates take the turn already, and the token is unique',
  'claim-by-id: batch where: EXISTS (SELECT FROM turn) → true':
    'the candidates take the turn already, and the token is unique',
  'decide: asked where: NOT EXISTS (SELECT FROM repeated p WHERE p.item = i.item) → true':
    "the receipt's key refuses a second one, and nothing moves without a receipt",
  "decide: judged answer: a.verb = 'resolve' → true":
    'of what is delivered every other verb was answered by a line before',
  'decide: announced where: d.next_state <> d.state → true':
    'what is delivered or cancelled already is not among what is done',
  'open: locked suspect: r.attempt_no > 0 → true':
    'attempts count from 1, so none has an outcome under 0; the condition saves the look',
  'open: token used where: a.delivery_id = ANY (ARRAY(SELECT delivery_id FROM asked)) → true':
    'a token opens the same ids whenever it is run; the condition keeps the look on the primary key',
  "open: token used where: state = 'delivering' → true":
    'the CHECK leased_states: besides delivering rows only dispatching ones have an owner, and that is a claim',
  'reclaim: asked where: NOT EXISTS (SELECT FROM repeated p WHERE p.item = i.item) → true':
    "the receipt's key refuses a second one, and nothing is brought forward without a receipt",
  "reclaim: recent where: o.verb IN ('republish', 'redrive') → true":
    'no action of another verb has that answer; the condition keeps the look on the index',
  'release: repeated where: item = 0 → true': 'a release answers under item 0 alone',
  "release: locked own: r.state = 'dispatching' → true":
    'the token of a claim owns dispatching rows alone: open puts its own in its place',
  'release: locked where: NOT EXISTS (SELECT FROM repeated) → true':
    'nothing is released without the receipt, whose key refuses a second one',
  'release: receipt where: NOT EXISTS (SELECT FROM repeated) → true':
    'the key is unique, so ON CONFLICT DO NOTHING adds nothing',
  'release: released where: EXISTS (SELECT FROM receipt) → true':
    'a second run locks no rows; a twin that waited finds none that its claim still owns',
  "reschedule: asked definite_attempts where in: 'overtaken' → 'unknown'":
    'only a delivered reminder has an overtaken attempt, and is answered finished before',
  'reschedule: asked where: NOT EXISTS (SELECT FROM repeated p WHERE p.item = i.item) → true':
    "the receipt's key refuses a second one, and nothing moves without a receipt",
  "reschedule: judged answer or: a.state = 'delivering' → false":
    'a reminder that is being sent has an attempt without an outcome, which the other arm counts',
  'schedule: taken where: r.idempotency_key = ANY (ARRAY(SELECT key FROM item)) → true':
    'the join compares the keys; the condition keeps the look on the index',
  'schedule: created where: NOT EXISTS (SELECT FROM taken t WHERE t.idempotency_key = i.key) → true':
    'the key is unique, so ON CONFLICT DO NOTHING adds nothing',
  'settle: repeated where: o.delivery_id = ANY (ARRAY(SELECT delivery_id FROM item)) → true':
    'the join compares the ids; the condition keeps the look on the primary key',
  'settle: timed where: NOT EXISTS (SELECT FROM repeated p WHERE p.delivery_id = i.d … ttempt_no = i.attempt_no) → true':
    "the outcome's key refuses a second one, and nothing moves without a recorded outcome",
  "settle: judged next_state: t.state = 'delivering' → true":
    'the token of an open owns delivering rows alone, by the CHECK leased_states and since claims have their own',
  'settle: judged next_state: t.lease_owner = t.open_token → true':
    'the present attempt is open under its own token, and the attempt is joined by that token',
  'settle: judged next_state: t.present_attempt = t.attempt_no → true':
    'a token opens a reminder once, so the owner of the lease names the attempt',
  'settle: deciding on: c.delivery_id = j.delivery_id → true':
    "a twin that shares the token has recorded all of the command's items or none: it holds all their rows",
  'settle: deciding on: c.attempt_no = j.attempt_no → true':
    "a twin that shares the token has recorded all of the command's items or none: it holds all their rows",
  "settle: overtaken where: v.next_state = 'delivered' → true":
    "any other outcome decides only as the present attempt's own",
  'settle: overtaken where: v.present_attempt <> v.attempt_no → true':
    'the command itself then holds the present attempt, which the last condition excludes',
  'settle: overtaken where: NOT EXISTS (SELECT FROM item i WHERE i.delivery_id = v.deliv … t_no = v.present_attempt) → true':
    "the present attempt's own outcome is recorded first, and its key refuses a second one under this token",
  'unpark: repeated where: item = 0 → true': 'an unpark answers under item 0 alone',
  'unpark: ready where: NOT EXISTS (SELECT FROM repeated) → true':
    'nothing is unparked without the receipt, whose key refuses a second one',
  "destination: check policy_is_readable or: NOT policy ? 'maxFailures' → false":
    'a CHECK passes on NULL, which is what the other arm gives without the member',
  'reminder_delivery: check expires_after_due or: expires_at IS NULL → false':
    'a CHECK passes on NULL, which is what the other arm gives',
  'reminder_delivery: check payload_size or: payload IS NULL → false':
    'a CHECK passes on NULL, which is what the other arm gives',
  "unreviewed_from_the_start: when: NEW.state IN ('held', 'dead') → true":
    'the function leaves NULL for every other state; the condition saves the call',
  "unreviewed_from_now: when: NEW.state IN ('held', 'dead') OR OLD.state IN ('held', 'dead') → true":
    'the function leaves NULL for every other state; the condition saves the call',
};
