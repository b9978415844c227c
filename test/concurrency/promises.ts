// The promises as questions to the tables, in SQL of their own: each must find nothing, whatever ran at once.

/** Each finds the ids of reminders that break it. */
export const promises: Readonly<Record<string, string>> = {
  'a dispatching row belongs to the one claim that took it': `
    SELECT r.delivery_id FROM reminder_delivery r WHERE r.state = 'dispatching'
    AND (SELECT count(*) FROM claim_batch b WHERE b.token = r.lease_owner AND r.delivery_id = ANY (b.claimed)) <> 1`,
  'a delivering row belongs to the one attempt that is open': `
    SELECT r.delivery_id FROM reminder_delivery r WHERE r.state = 'delivering' AND NOT EXISTS (
      SELECT FROM delivery_attempt a WHERE a.delivery_id = r.delivery_id AND a.attempt_no = r.attempt_no
      AND a.lease_owner = r.lease_owner)`,
  'attempts are numbered from 1 without a gap, and the row has the last number (P5, P9)': `
    SELECT r.delivery_id FROM reminder_delivery r
    LEFT JOIN LATERAL (SELECT count(*) AS n, coalesce(max(attempt_no), 0) AS last FROM delivery_attempt a
      WHERE a.delivery_id = r.delivery_id) a ON true
    WHERE a.n <> r.attempt_no OR a.last <> r.attempt_no`,
  'no token opened one reminder twice': `
    SELECT delivery_id FROM delivery_attempt GROUP BY delivery_id, lease_owner HAVING count(*) > 1`,
  'delivered has a 2xx or evidence given by a person, and each makes delivered (P4, P8)': `
    SELECT r.delivery_id FROM reminder_delivery r WHERE (r.state = 'delivered') IS DISTINCT FROM (EXISTS (
      SELECT FROM attempt_outcome o WHERE o.delivery_id = r.delivery_id AND o.outcome = 'delivered') OR EXISTS (
      SELECT FROM operator_action a WHERE a.delivery_id = r.delivery_id AND a.verb = 'resolve'
      AND a.evidence ->> 'given' IS NOT NULL))`,
  'one success moved it, and nothing after that (P3)': `
    SELECT delivery_id FROM attempt_outcome WHERE moved_to = 'delivered' GROUP BY delivery_id HAVING count(*) > 1`,
  'at most one outcome of an attempt moved the row, a late success aside (P8)': `
    SELECT delivery_id FROM attempt_outcome WHERE moved_to <> 'delivered' GROUP BY delivery_id, attempt_no
    HAVING count(*) > 1`,
  'an attempt that is no more open has an outcome': `
    SELECT a.delivery_id FROM delivery_attempt a JOIN reminder_delivery r ON r.delivery_id = a.delivery_id
    WHERE NOT (r.state = 'delivering' AND r.attempt_no = a.attempt_no)
    AND NOT EXISTS (SELECT FROM attempt_outcome o WHERE o.delivery_id = a.delivery_id AND o.attempt_no = a.attempt_no)`,
  'the failures are no more than the attempts (P9)': `
    SELECT delivery_id FROM reminder_delivery WHERE failures > attempt_no - attempts_at_requeue`,
  'its end is announced once': `
    SELECT r.delivery_id FROM reminder_delivery r WHERE r.state IN ('delivered', 'dead', 'expired', 'cancelled')
    AND (SELECT count(*) FROM lifecycle_event e
      WHERE e.delivery_id = r.delivery_id AND e.version = r.version AND e.state = r.state) <> 1`,
  'each reschedule, hold, release and requeue that was granted made one version': `
    SELECT r.delivery_id FROM reminder_delivery r WHERE r.version - 1 <> (SELECT count(*) FROM command_receipt c
      WHERE c.verb = 'reschedule' AND c.answer ->> 'answer' = 'rescheduled'
      AND c.answer ->> 'delivery_id' = CAST(r.delivery_id AS text)) + (SELECT count(*) FROM operator_action a
      WHERE a.delivery_id = r.delivery_id AND a.verb IN ('hold', 'release', 'requeue'))`,
  'what was called off is not open to another attempt (P10)': `
    SELECT r.delivery_id FROM reminder_delivery r JOIN command_receipt c ON c.answer ->> 'delivery_id' = CAST(r.delivery_id AS text)
    WHERE c.verb = 'cancel' AND c.answer ->> 'answer' = 'cancelled' AND r.state NOT IN ('cancelled', 'delivered')`,
  'payload and hash are those of the creation (P2)': `
    SELECT delivery_id FROM reminder_delivery WHERE payload_sha256 <> sha256(convert_to(payload, 'UTF8'))`,
  'a live row wakes (P11)': `
    SELECT delivery_id FROM reminder_delivery
    WHERE state IN ('scheduled', 'dispatching', 'queued', 'delivering') AND wake_at IS NULL`,
};

/** The promises that the tables break, each with the reminders that do. */
export async function brokenPromises(sql: Sql): Promise<string[]> {
  const columns = Object.values(promises).map((query, place) => `ARRAY(${query}) AS p${place}`);
  const [found] = (await sql(`SELECT ${columns.join(', ')}`)) as Record<string, string[]>[];
  return Object.keys(promises).flatMap((promise, place) => {
    const ids = found?.[`p${place}`] ?? [];
    return ids.length === 0 ? [] : [`${promise}: ${ids}`];
  });
}

type Sql = (text: string) => Promise<unknown>;

/** From now on every move of a row is noted, with the states before and after it. */
export async function watchMoves(sql: Sql): Promise<void> {
  await sql('CREATE SCHEMA watch');
  await sql('CREATE TABLE watch.moves (delivery_id uuid, before text, after text)');
  await sql(`CREATE FUNCTION watch.note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO watch.moves VALUES (NEW.delivery_id, OLD.state, NEW.state); RETURN NULL; END $$`);
  await sql(`CREATE TRIGGER watched AFTER UPDATE ON reminder_delivery FOR EACH ROW
    WHEN (OLD.state <> NEW.state) EXECUTE FUNCTION watch.note()`);
}

/** The noted moves out of an end that nobody may make, or that a person may and none did (P3). */
export const forbiddenMoves = (sql: Sql): Promise<unknown> =>
  sql(`SELECT DISTINCT before, after FROM watch.moves m WHERE before = 'delivered'
    OR (before IN ('expired', 'cancelled') AND after <> 'delivered')
    OR (before = 'dead' AND after NOT IN ('delivered', 'cancelled') AND NOT EXISTS (
      SELECT FROM operator_action a WHERE a.delivery_id = m.delivery_id
      AND (a.verb, after) IN (('hold', 'held'), ('requeue', 'scheduled'))))`);
