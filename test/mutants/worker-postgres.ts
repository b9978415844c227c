// Stands in for lib/local/postgres.ts in a mutant's tests: a server that runs already, and whose new databases have the schema.
import pg from 'pg';
import type { Postgres } from '../../lib/local/postgres.ts';

/** What the tests are told of their worker's server. */
export type WorkerServer = Pick<Postgres, 'host' | 'port' | 'user' | 'password'>;

/** The databases that outlast a test file. */
export const keptDatabases = ['postgres', 'template0', 'template1', 'unchanged'];

/** The worker's server as a fresh one: without the databases and logins that earlier tests made. Stopping it does nothing. */
export async function startPostgres(): Promise<Postgres> {
  const server: WorkerServer = JSON.parse(process.env.MUTANTS_SERVER ?? '');
  const url = (database: string) =>
    `postgres://${server.user}:${server.password}@${server.host}:${server.port}/${database}`;
  const administer = (...texts: string[]) => runOn(url('postgres'), ...texts);
  const namesOf = async (text: string, values: unknown[]) =>
    (await runOn<{ name: string }>(url('postgres'), { text, values })).map(({ name }) => pg.escapeIdentifier(name));
  const databases = await namesOf('SELECT datname AS name FROM pg_database WHERE datname <> ALL ($1)', [keptDatabases]);
  await administer(...databases.map((name) => `DROP DATABASE ${name} WITH (FORCE)`));
  const logins = await namesOf('SELECT rolname AS name FROM pg_roles WHERE rolcanlogin AND NOT rolsuper', []);
  await administer(...logins.map((name) => `DROP ROLE ${name}`));
  return {
    ...server,
    url,
    createDatabase: async (name, template = 'template1') => {
      await administer(`CREATE DATABASE ${pg.escapeIdentifier(name)} TEMPLATE ${pg.escapeIdentifier(template)}`);
    },
    dropDatabase: async (name) => {
      await administer(`DROP DATABASE IF EXISTS ${pg.escapeIdentifier(name)} WITH (FORCE)`);
    },
    stop: async () => undefined,
  };
}

/** Runs SQL in a session of its own, text by text, and answers the rows of the last one. */
export async function runOn<Row extends object>(
  url: string,
  ...texts: (string | { text: string; values: unknown[] })[]
): Promise<Row[]> {
  const client = new pg.Client(url);
  await client.connect();
  try {
    let rows: Row[] = [];
    for (const text of texts) rows = (await client.query(text)).rows as Row[];
    return rows;
  } finally {
    await client.end();
  }
}
