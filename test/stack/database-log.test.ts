// The database's exported log names errors and quotes no row: tried on a real server with the parameters that deploy.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { expect, test } from 'vitest';
import { startPostgres } from '../../lib/local/postgres.ts';
import { databaseLogParameters } from '../../lib/stack/database-log-parameters.ts';
import { synthesized } from './synthesized.ts';

const secret = 'canary-7f3a';

/** What a server's log says of statements that fail, and of one that is slow. */
async function logOf(parameters: Readonly<Record<string, string>>): Promise<string> {
  const directory = mkdtempSync(join(tmpdir(), 'reminder-ledger-log-'));
  const postgres = await startPostgres({ directory, fresh: true });
  const client = new pg.Client(postgres.url('postgres'));
  await client.connect();
  try {
    for (const [name, value] of Object.entries(parameters)) await client.query(`ALTER SYSTEM SET ${name} = '${value}'`);
    await client.query('SELECT pg_reload_conf()');
    await client.query('SELECT pg_sleep(0.5)');
    await client.query('CREATE TABLE reminder (key text PRIMARY KEY, state text CHECK (state <> key))');
    const insert = 'INSERT INTO reminder VALUES ($1, $2)';
    await client.query(insert, [secret, 'scheduled']);
    // A duplicate key and a broken CHECK quote the row in their details, a failed statement its text.
    await client.query(insert, [secret, 'scheduled']).catch(() => undefined);
    await client.query(insert, [`${secret}-2`, `${secret}-2`]).catch(() => undefined);
    await client.query(`SELECT 1 / 0 AS "${secret}"`).catch(() => undefined);
  } finally {
    await client.end();
    await postgres.stop();
  }
  const log = readFileSync(join(directory, 'postgres', 'server.log'), 'utf8');
  rmSync(directory, { recursive: true, force: true });
  return log;
}

test('errors are logged, their rows, statements and parameters are not; without the parameters they would be', async () => {
  expect(await logOf({})).toContain(secret);
  const log = await logOf(databaseLogParameters);
  expect(log).toContain('duplicate key value violates unique constraint');
  expect(log).toContain('division by zero');
  expect(log).not.toContain(secret);
});

test('the cluster has these parameters, and takes no connection without TLS', () => {
  const { properties } = synthesized();
  expect(properties('Ledger/Database/Parameters')).toMatchObject({
    Family: 'aurora-postgresql17',
    Parameters: { 'rds.force_ssl': '1', ...databaseLogParameters },
  });
});
