// Writes down what the ledger holds, in SQL of its own: a line for each reminder, for the join to read.
import { closeSync, openSync, writeSync } from 'node:fs';
import pg from 'pg';

const page = `
SELECT r.delivery_id, json_build_object(
    'id', r.delivery_id,
    'key', r.idempotency_key,
    'destination', d.name,
    'contract', d.contract,
    'sha256', encode(sha256(convert_to(r.payload, 'UTF8')), 'hex'),
    'state', r.state,
    'dueAt', extract(epoch FROM r.due_at) * 1000,
    'failures', r.failures,
    'attemptNo', r.attempt_no,
    'attempts', COALESCE((
      SELECT json_agg(json_build_object('no', a.attempt_no, 'startedAt', extract(epoch FROM a.started_at) * 1000)
                      ORDER BY a.attempt_no)
      FROM delivery_attempt a WHERE a.delivery_id = r.delivery_id), '[]'),
    'outcomes', COALESCE((
      SELECT json_agg(json_build_object('no', o.attempt_no, 'outcome', o.outcome, 'by', o.recorded_by,
                                        'at', extract(epoch FROM o.recorded_at) * 1000)
                      ORDER BY o.recorded_at, o.attempt_no)
      FROM attempt_outcome o WHERE o.delivery_id = r.delivery_id), '[]'))::text AS line
FROM reminder_delivery r JOIN destination d USING (destination_id)
WHERE r.delivery_id > $1 ORDER BY r.delivery_id LIMIT 2000`;

/** Writes the lines to `file`, which must not exist. */
export async function exportLedger(databaseUrl: string, file: string): Promise<void> {
  const output = openSync(file, 'wx');
  // The database ends statements after the stage's short time: that is meant for functions.
  const client = new pg.Client({ connectionString: databaseUrl, options: '-c statement_timeout=0' });
  await client.connect();
  try {
    for (let after = '00000000-0000-0000-0000-000000000000'; ; ) {
      const { rows } = await client.query<{ delivery_id: string; line: string }>(page, [after]);
      const last = rows.at(-1);
      if (last === undefined) return;
      writeSync(output, rows.map(({ line }) => `${line}\n`).join(''));
      after = last.delivery_id;
    }
  } finally {
    await client.end();
    closeSync(output);
  }
}
