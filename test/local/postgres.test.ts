// PostgreSQL on this machine: data that last, and servers that never outlive their purpose.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { afterAll, expect, test } from 'vitest';
import { type Postgres, startPostgres } from '../../lib/local/postgres.ts';

// mkdtemp makes it 700: when we run as root, the server's own user cannot reach it.
const directory = mkdtempSync(join(tmpdir(), 'reminder-ledger-postgres-'));
const source = new URL('../../lib/local/postgres.ts', import.meta.url).href;

afterAll(() => rmSync(directory, { recursive: true }));

async function query(postgres: Postgres, database: string, sql: string): Promise<unknown[]> {
  const client = new pg.Client(postgres.url(database));
  client.on('error', () => undefined);
  await client.connect();
  const { rows } = await client.query(sql).finally(() => client.end());
  return rows;
}

/** Starts a server on the directory from a process of its own. */
async function startElsewhere(): Promise<{ owner: ChildProcess; port: number }> {
  const options = JSON.stringify({ directory, fresh: false });
  const script = `import(${JSON.stringify(source)}).then((m) => m.startPostgres(${options})).then((p) => console.log(p.port))`;
  const owner = spawn(process.execPath, ['-e', script], { stdio: ['ignore', 'pipe', 'inherit'] });
  const [port] = await once(owner.stdout, 'data');
  return { owner, port: Number(port) };
}

async function answers(port: number): Promise<boolean> {
  const client = new pg.Client({ host: '127.0.0.1', port, user: 'postgres', password: 'postgres' });
  client.on('error', () => undefined);
  const connected = await client.connect().then(
    () => true,
    () => false,
  );
  await client.end();
  return connected;
}

async function gone(port: number): Promise<boolean> {
  for (const end = Date.now() + 10_000; Date.now() < end; await sleep(100)) if (!(await answers(port))) return true;
  return false;
}

async function killed(owner: ChildProcess): Promise<void> {
  owner.kill('SIGKILL');
  await once(owner, 'exit');
}

test('databases are made, copied and dropped; data outlast a restart and not a fresh start', async () => {
  let postgres = await startPostgres({ directory, fresh: true });
  await postgres.createDatabase('first');
  await query(postgres, 'first', "CREATE TABLE kept AS SELECT 'here' AS text");
  await postgres.createDatabase('second', 'first');
  expect(await query(postgres, 'second', 'SELECT text FROM kept')).toEqual([{ text: 'here' }]);
  await postgres.dropDatabase('second');
  await expect(query(postgres, 'second', 'SELECT 1')).rejects.toThrow('does not exist');
  expect(await query(postgres, 'first', 'SHOW server_version')).toEqual([
    { server_version: expect.stringMatching(/^17\./) },
  ]);
  await postgres.stop();

  postgres = await startPostgres({ directory, fresh: false });
  expect(await query(postgres, 'first', 'SELECT text FROM kept')).toEqual([{ text: 'here' }]);
  expect(await query(postgres, 'first', 'SHOW fsync')).toEqual([{ fsync: 'on' }]);
  await postgres.stop();

  postgres = await startPostgres({ directory, fresh: true });
  await expect(query(postgres, 'first', 'SELECT 1')).rejects.toThrow('does not exist');
  await postgres.stop();
});

test('a server ends when its owner is killed', async () => {
  const { owner, port } = await startElsewhere();
  expect(await answers(port)).toBe(true);
  await killed(owner);
  expect(await gone(port)).toBe(true);
});

test('a server of a live process is left alone, one left over is ended by the next start', async () => {
  const { owner, port } = await startElsewhere();
  await expect(startPostgres({ directory, fresh: false })).rejects.toThrow(`process ${owner.pid} already runs`);
  expect(await answers(port)).toBe(true);

  for (const entry of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    const status = fileOrNothing(`/proc/${entry}/stat`);
    // Without its watcher nothing ends the server when its owner is killed.
    if (status.includes(`(sh) S ${owner.pid} `)) process.kill(Number(entry), 'SIGKILL');
  }
  await killed(owner);
  await sleep(300);
  expect(await answers(port)).toBe(true);

  const postgres = await startPostgres({ directory, fresh: false });
  expect(await answers(port)).toBe(port === postgres.port);
  await postgres.stop();
});

test('a directory that was removed does not bring its data back', async () => {
  const removed = join(directory, 'removed');
  let postgres = await startPostgres({ directory: removed, fresh: false });
  const place = realpathSync(join(removed, 'postgres'));
  await postgres.createDatabase('old');
  await postgres.stop();
  rmSync(removed, { recursive: true });
  postgres = await startPostgres({ directory: removed, fresh: false });
  await expect(query(postgres, 'old', 'SELECT 1')).rejects.toThrow('does not exist');
  await postgres.stop();
  rmSync(removed, { recursive: true });
  // Root's data lie elsewhere, and are swept by the next start.
  postgres = await startPostgres({ directory, fresh: false });
  expect(existsSync(place)).toBe(false);
  await postgres.stop();
});

test('a start that fails says why', async () => {
  const postgres = await startPostgres({ directory, fresh: false });
  const other = mkdtempSync(join(tmpdir(), 'reminder-ledger-postgres-'));
  await expect(startPostgres({ directory: other, fresh: true, port: postgres.port })).rejects.toThrow('could not bind');
  await postgres.stop();
  rmSync(other, { recursive: true });
});

function fileOrNothing(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
