// Bundles of several releases against one database at work: killed, two at once, waiting, an index beside the traffic.
import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type DatabaseRole, databaseRoles } from '../../lambdas/core/database-roles.ts';
import { migrateFunction } from '../../lambdas/migrate/contract.ts';
import { type DataApi, startDataApi } from '../../lib/local/data-api.ts';
import { FaultPlans } from '../../lib/local/fault-plans.ts';
import { type InvokeAnswer, type LambdaHost, startLambdaHost } from '../../lib/local/lambda-host.ts';
import { loginSecretArn } from '../../lib/local/local-aws.ts';
import { eventually, idsOf, type RunningLedger, startRunningLedger } from './running-ledger.ts';

const built = fileURLToPath(new URL('../../dist/functions/migrate', import.meta.url));
let ledger: RunningLedger;
/** The owner's Data API: as AWS's, but it ends an orphaned transaction and a call sooner. */
let api: DataApi;
const hosts: LambdaHost[] = [];
beforeAll(async () => {
  ledger = await startRunningLedger();
  api = await startDataApi({
    postgres: ledger.aws.postgres,
    accounts: () => ({ user: 'ledger_owner', password: 'local' }),
    limits: { statementMs: 3000, transactionIdleMs: 3000 },
  });
});
afterAll(async () => {
  await Promise.all(hosts.map((host) => host.stop()));
  await api.close();
  await ledger.stop();
});

interface Release {
  readonly host: LambdaHost;
  /** Invokes its migrate. */
  migrate(): Promise<InvokeAnswer>;
  /** All that its migrate wrote. */
  log(): string;
  readonly plans: FaultPlans;
}

/** The migrate bundle of a release that has these files beside those of this one. */
async function release(name: string, files: Readonly<Record<string, string>> = {}): Promise<Release> {
  const folder = join(ledger.directory, name);
  cpSync(built, folder, { recursive: true });
  for (const [file, sql] of Object.entries(files)) writeFileSync(join(folder, 'migrations', file), sql);
  const { environment, outputs } = ledger.aws;
  const variables = {
    ...environment,
    AWS_ENDPOINT_URL_RDS_DATA: api.endpoint,
    STAGE: 'rehearsal',
    DATABASE_ARN: api.resourceArn,
    DATABASE_NAME: outputs.DatabaseName ?? '',
    DATABASE_SECRET_ARN: outputs.DatabaseOwnerSecretArn ?? '',
    LOGIN_SECRET_ARNS: (Object.keys(databaseRoles) as DatabaseRole[]).map(loginSecretArn).join(),
  };
  const logs = join(folder, 'logs');
  const fn = { name: 'migrate', folder, timeoutSeconds: 840, memoryMegabytes: 512, concurrency: 2 };
  const plans = new FaultPlans(join(folder, 'faults'));
  const host = await startLambdaHost([{ ...fn, environment: variables }], logs, { faultDirectory: plans.directory });
  hosts.push(host);
  return {
    host,
    plans,
    migrate: () => host.invoke(migrateFunction.name, '{}'),
    log: () => readFileSync(join(logs, 'migrate.log'), 'utf8'),
  };
}

/** The answer of a migrate that went well. */
const done = ({ functionError, payload }: InvokeAnswer): unknown => {
  expect(functionError, payload).toBe(false);
  return JSON.parse(payload);
};

/** A reminder goes all its way through the functions that are deployed. */
async function delivers(): Promise<void> {
  const asked = await ledger.schedule(await ledger.destination('/ok'), [{ dueInMs: 0 }]);
  await ledger.settled(idsOf(asked));
  expect(ledger.received(asked[0]?.deliveryId ?? '')).toHaveLength(1);
}

test('a broken migration fails its deployment and tells its file, its SQLSTATE and nothing of a row; others go on', async () => {
  const canary = 'canary-of-a-row';
  const fine = `-- A semicolon; in a comment, 'quoted'.
ALTER TABLE destination ADD COLUMN note text DEFAULT 'a;b';
CREATE TABLE once (note text PRIMARY KEY);
INSERT INTO once VALUES ('${canary}');
`;
  const older = await release('older');
  const broken = await release('broken', { '9001_add_note.sql': `${fine}INSERT INTO once VALUES ('${canary}');\n` });
  const mended = await release('mended', { '9001_add_note.sql': fine });
  const edited = await release('edited', { '9001_add_note.sql': `${fine}-- edited\n` });
  const added = () => ledger.sql(`SELECT FROM information_schema.columns WHERE column_name = 'note'`);
  const before = done(await older.migrate());
  expect(before).toMatchObject({ applied: 0 });

  const failed = await broken.migrate();
  expect(failed.functionError).toBe(true);
  expect(failed.payload).toMatch(/9001_add_note\.sql.*23505/);
  expect(failed.payload + broken.log()).not.toContain(canary);
  expect(await added()).toHaveLength(0);

  // Rolled back, mended, rolled back again: the newer schema stays, and the older functions work on it.
  expect(done(await older.migrate())).toEqual(before);
  await delivers();
  expect(done(await mended.migrate())).toMatchObject({ applied: 1, schemaVersion: 9001 });
  expect(await added()).toHaveLength(2);
  expect(done(await older.migrate())).toMatchObject({ applied: 0, schemaVersion: 9001 });
  await delivers();
  expect((await edited.migrate()).payload).toMatch(/9001_add_note\.sql was changed/);
  expect(done(await mended.migrate())).toMatchObject({ applied: 0, schemaVersion: 9001 });
}, 180_000);

/** A transaction of somebody else. */
async function transaction(sql: string): Promise<pg.Client> {
  const client = new pg.Client(ledger.aws.databaseUrl);
  client.on('error', () => undefined);
  await client.connect();
  await client.query(`BEGIN; ${sql}`);
  return client;
}

/** Waits until a statement of a migration is seen to wait for us, and answers its migrate's process. */
async function atWork({ host }: Release, statement: string): Promise<number> {
  await eventually(`${statement} runs`, async () => {
    const asked = `SELECT FROM pg_stat_activity WHERE state = 'active' AND wait_event_type = 'Lock' AND query LIKE $1`;
    return (await ledger.sql(asked, [`%${statement}%`])).length > 0;
  });
  const pid = host.environments().find(({ requestId }) => requestId !== undefined)?.pid;
  if (pid === undefined) throw new Error('no migrate is at work');
  return pid;
}

test('killed in the middle, its transaction left open: the next one waits for the end of that and goes on', async () => {
  const slow = await release('slow', {
    '9002_create_half.sql':
      'CREATE TABLE half (id int);\nLOCK TABLE destination IN SHARE MODE;\nCREATE TABLE rest (id int);\n',
  });
  const holder = await transaction('LOCK TABLE destination IN ROW EXCLUSIVE MODE');
  const killed = slow.migrate();
  slow.host.kill(await atWork(slow, 'LOCK TABLE destination IN SHARE MODE'));
  expect((await killed).functionError).toBe(true);
  // Two at once, as when a caller that lost its connection asks again.
  const next = [slow.migrate(), slow.migrate()];
  await holder.query('COMMIT');
  await holder.end();
  const answers = (await Promise.all(next)).map(done) as { applied: number; schemaVersion: number }[];
  expect(answers.map(({ applied }) => applied).sort()).toEqual([0, 1]);
  expect(answers.map(({ schemaVersion }) => schemaVersion)).toEqual([9002, 9002]);
  await delivers();
});

test('an index is built beside the traffic, beyond a call of the Data API, and after its migrate was killed', async () => {
  const indexed = await release('indexed', {
    '9003_index_created.sql': `-- runs outside a transaction: by when they were made.
CREATE INDEX CONCURRENTLY IF NOT EXISTS reminder_delivery_created ON reminder_delivery (created_at);
`,
  });
  const valid = `SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('reminder_delivery_created')`;
  const holder = await transaction('LOCK TABLE reminder_delivery IN ROW EXCLUSIVE MODE');
  const killed = indexed.migrate();
  indexed.host.kill(await atWork(indexed, 'CREATE INDEX CONCURRENTLY'));
  expect((await killed).functionError).toBe(true);
  const next = indexed.migrate();
  await delivers();
  expect(await ledger.sql(valid)).toEqual([{ indisvalid: false }]);
  await holder.query('COMMIT');
  await holder.end();
  expect(done(await next)).toMatchObject({ applied: 1, schemaVersion: 9003 });
  expect(await ledger.sql(valid)).toEqual([{ indisvalid: true }]);
});

test('a cluster that resumes, and credentials that are not to be had yet, are waited for', async () => {
  const { migrate } = await release('patient');
  for (const error of [
    'DatabaseResumingException',
    'DatabaseUnavailableException',
    'SecretsErrorException',
    'HttpEndpointNotEnabledException',
  ]) {
    api.faults.next({ kind: 'error-before', error, match: /CAST\(1 AS text\)/ });
  }
  expect(done(await migrate())).toMatchObject({ applied: 0, schemaVersion: 9003 });
});

test('killed around the commit of a migration, and before a login is set: the next one finds what stands and goes on', async () => {
  const { migrate, plans } = await release('interrupted', { '9005_create_late.sql': 'CREATE TABLE late (id int);\n' });
  // One transaction before that of the new file; what is applied already needs none.
  const commit = { point: 'commit-transaction', pass: 2 } as const;
  for (const [at, stands] of [
    [{ ...commit, at: 'before' }, false],
    [{ ...commit, at: 'after' }, true],
    [{ point: 'get-secret-value', at: 'after' }, true],
  ] as const) {
    const killed = plans.next({ ...at, action: { kind: 'kill' } });
    expect(await migrate()).toMatchObject({ functionError: true });
    expect(killed.fired()).toBeDefined();
    const late = await ledger.sql(
      `SELECT name FROM schema_migration WHERE version = 9005 AND to_regclass('late') IS NOT NULL`,
    );
    expect(late).toHaveLength(stands ? 1 : 0);
  }
  expect(done(await migrate())).toMatchObject({ applied: 0, logins: Object.keys(databaseRoles).length });
  await delivers();
}, 60_000);
