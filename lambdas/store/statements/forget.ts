// forget: deletes what only a command run twice would ask for, once no run of that command can still be under way.
import type { Statement } from '../statement.ts';

export interface ForgetRow {
  readonly answer: 'forgotten';
  readonly claims: number;
  readonly receipts: number;
}

/**
 * Claims and receipts older than a span, of each `limit` at most. Their tokens begin with the time at which they were
 * made (RFC 9562, UUID version 7), so the oldest stand first in the primary key and need no index more.
 */
export const forget: Statement<{ olderThanSeconds: number; limit: number }, ForgetRow> = {
  name: 'forget',
  text: `
WITH cut AS MATERIALIZED (
  SELECT now() - make_interval(secs => CAST(:older_than_seconds AS bigint)) AS at
), before AS MATERIALIZED (
  SELECT CAST(lpad(to_hex(CAST(floor(extract(epoch FROM c.at) * 1000) AS bigint)), 12, '0') || repeat('0', 20) AS uuid)
    AS token
  FROM cut c
), claim AS (
  DELETE FROM claim_batch b
  WHERE b.token IN (
    SELECT o.token FROM claim_batch o
    WHERE o.token < (SELECT token FROM before) AND o.claimed_at < (SELECT at FROM cut)
    ORDER BY o.token LIMIT CAST(:limit AS integer))
  RETURNING b.token
), receipt AS (
  DELETE FROM command_receipt r
  WHERE (r.token, r.item) IN (
    SELECT o.token, o.item FROM command_receipt o
    WHERE o.token < (SELECT token FROM before) AND o.answered_at < (SELECT at FROM cut)
    ORDER BY o.token, o.item LIMIT CAST(:limit AS integer))
  RETURNING r.token
)
SELECT CAST(json_build_object(
  'answer', 'forgotten', 'claims', (SELECT count(*) FROM claim), 'receipts', (SELECT count(*) FROM receipt)) AS text)
  AS answer`,
  parameters: ({ olderThanSeconds, limit }) => ({ older_than_seconds: olderThanSeconds, limit }),
};
