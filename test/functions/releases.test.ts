// Deployments one after the other on one database, with the migrate bundle of each: failed, rolled back, mended, repeated.
import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type LocalAws, startLocalAws } from '../../lib/local/local-aws.ts';

const built = fileURLToPath(new URL('../../dist/functions', import.meta.url));
let folder: string;
let running: LocalAws | undefined;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'reminder-ledger-deployments-'));
});
afterAll(async () => {
  await running?.stop();
  rmSync(folder, { recursive: true, force: true });
});

/** The bundles of a release that adds a migration. */
function release(name: string, sql: string): string {
  const functions = join(folder, name);
  cpSync(built, functions, { recursive: true });
  writeFileSync(join(functions, 'migrate', 'migrations', '9001_add_note.sql'), sql);
  return functions;
}

/** Deploys on the database that the former deployment left: migrate first, then the functions. */
async function deploy(functionsDirectory: string, fresh = false): Promise<LocalAws> {
  await running?.stop();
  running = undefined;
  running = await startLocalAws({ stage: 'rehearsal', directory: join(folder, 'data'), fresh, functionsDirectory });
  return running;
}

async function columnsOf(url: string): Promise<string[]> {
  const client = new pg.Client(url);
  await client.connect();
  const asked = "SELECT column_name FROM information_schema.columns WHERE table_name = 'destination'";
  const { rows } = await client.query<{ column_name: string }>(asked).finally(() => client.end());
  return rows.map((row) => row.column_name);
}

/** That products are served: a reminder is taken, or was. */
async function serves(aws: LocalAws): Promise<void> {
  const dueAt = '2099-01-01T00:00:00Z';
  const asked = { verb: 'schedule', key: 'kept', destination: 'partner', userId: 'me', dueAt, payload: {} };
  expect(await aws.invoke('schedule', asked)).toMatchObject({
    answer: expect.stringMatching(/^(scheduled|duplicate)$/),
  });
}

const fine = "-- A semicolon; in a comment, 'quoted'.\nALTER TABLE destination ADD COLUMN note text DEFAULT 'a;b';\n";
const broken = `${fine}SELECT 1 / 0;\n`;

test('a broken migration fails its deployment, the roll-back runs the older bundle, the mended one goes through', async () => {
  const older = await deploy(built, true);
  const client = new pg.Client(older.databaseUrl);
  await client.connect();
  await client.query(
    `INSERT INTO destination (destination_id, name, url, owner, contract, state, state_since, created_at)
     VALUES (gen_random_uuid(), 'partner', 'https://partner.example/', 'me', 'none', 'active', now(), now())`,
  );
  await client.end();
  await serves(older);
  const before = await older.invoke('migrate', {});

  await expect(deploy(release('broken', broken))).rejects.toThrow(/9001_add_note\.sql.*22012/);

  const rolledBack = await deploy(built);
  expect(await rolledBack.invoke('migrate', {})).toEqual(before);
  expect(await columnsOf(rolledBack.databaseUrl)).not.toContain('note');
  await serves(rolledBack);

  const mended = release('mended', fine);
  const newer = await deploy(mended);
  expect(await columnsOf(newer.databaseUrl)).toContain('note');
  expect(await newer.invoke('migrate', {})).toMatchObject({ applied: 0, schemaVersion: 9001 });
  await serves(newer);

  // The newer schema stays, and the older functions work on it.
  const again = await deploy(built);
  expect(await again.invoke('migrate', {})).toMatchObject({ applied: 0, schemaVersion: 9001 });
  await serves(again);

  await expect(deploy(release('edited', `${fine}-- edited\n`))).rejects.toThrow(/9001_add_note\.sql was changed/);
  await serves(await deploy(mended));
});

test('a cluster that is resuming, and errors that pass, are waited for', async () => {
  const aws = running ?? (await deploy(built, true));
  for (const error of [
    'DatabaseResumingException',
    'DatabaseUnavailableException',
    'HttpEndpointNotEnabledException',
  ]) {
    aws.dataApi.faults.next({ kind: 'error-before', error, match: /CAST\(1 AS text\)/ });
  }
  expect(await aws.invoke('migrate', {})).toMatchObject({ applied: 0 });
});
