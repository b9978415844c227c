// What each role of the database may do, and what it is refused: tried with real logins.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { newPassword } from '../../lambdas/core/database-logins.ts';
import { type DatabaseRole, databaseRoles, firstLogin } from '../../lambdas/core/database-roles.ts';
import { DataApi } from '../../lambdas/store/data-api.ts';
import { postgresLogins } from '../../lambdas/store/logins.ts';
import { scramVerifier } from '../../lambdas/store/scram-verifier.ts';
import { startDataApi } from '../../lib/local/data-api.ts';
import { alone, forNobody, forRole } from './role-refusals.ts';
import { statementModules, statementOf } from './statement-modules.ts';
import { owner, startTestLedger, type TestLedger } from './test-ledger.ts';

const roles = Object.keys(databaseRoles) as DatabaseRole[];
const passwords = new Map<string, string>();
let ledger: TestLedger;
let api: Awaited<ReturnType<typeof startDataApi>>;

/** The database as whoever has this user name: it stands for its secret's ARN here. */
function as(user: string): DataApi {
  return new DataApi({ resourceArn: api.resourceArn, secretArn: user, database: 'ledger', settings: ledger.settings });
}
const ownerDatabase = () => as(owner.user);
const logins = () => postgresLogins(ownerDatabase(), as);

async function setLogin(username: string): Promise<void> {
  const password = newPassword();
  await logins().set({ username, password });
  passwords.set(username, password);
}

beforeAll(async () => {
  ledger = await startTestLedger();
  api = await startDataApi({
    postgres: ledger.postgres,
    accounts: (user) => {
      const password = passwords.get(user);
      return password === undefined ? undefined : { user, password };
    },
  });
  process.env.AWS_ENDPOINT_URL_RDS_DATA = api.endpoint;
  passwords.set(owner.user, owner.password);
  for (const role of roles) await setLogin(firstLogin(role));
}, 60_000);
afterAll(async () => {
  await api.close();
  await ledger.stop();
});

/** SQLSTATE of what is refused; `allowed` otherwise. */
async function attempt(role: DatabaseRole, sql: string, parameters: Record<string, string> = {}): Promise<string> {
  try {
    await as(firstLogin(role)).execute('attempt', sql, parameters);
    return 'allowed';
  } catch (error) {
    return (error as { sqlState?: string }).sqlState ?? String(error);
  }
}

describe.each(roles)('%s', (role) => {
  const may = alone[role] ?? [];

  test.each([...forNobody.filter((sql) => !may.includes(sql)), ...forRole[role]])('is refused: %s', async (sql) => {
    expect(await attempt(role, sql)).toBe('42501');
  });

  test('has no grant that lets it become another role', async () => {
    for (const other of [...roles.filter((one) => one !== role), owner.user, ledger.postgres.user]) {
      expect(await attempt(role, `SET ROLE ${other}`)).toBe('42501');
    }
  });
});

test('ledger_retain alone may delete, where triggers watch over what', async () => {
  for (const sql of alone.ledger_retain ?? []) expect(await attempt('ledger_retain', sql), sql).toBe('allowed');
});

/** Who may run which statement of the store. EXPLAIN checks every permission and does nothing. */
const runs: Record<string, DatabaseRole[]> = {
  'add-destination': ['ledger_operator'],
  announce: ['ledger_claim'],
  archive: ['ledger_retain'],
  cancel: ['ledger_schedule', 'ledger_operator'],
  claim: ['ledger_claim'],
  'claim-by-id': ['ledger_schedule', 'ledger_claim'],
  control: ['ledger_operator'],
  'count-affected': ['ledger_schedule', 'ledger_operator', 'ledger_observer'],
  'count-states': ['ledger_schedule', 'ledger_operator', 'ledger_observer'],
  decide: ['ledger_operator'],
  exclude: ['ledger_claim'],
  enqueue: ['ledger_schedule', 'ledger_claim'],
  find: ['ledger_operator', 'ledger_observer'],
  forecast: ['ledger_schedule', 'ledger_operator', 'ledger_observer'],
  forget: ['ledger_retain'],
  get: ['ledger_schedule', 'ledger_operator', 'ledger_observer'],
  'list-actions': ['ledger_operator', 'ledger_observer'],
  'list-attention': ['ledger_operator', 'ledger_observer'],
  'list-archivable': ['ledger_operator', 'ledger_observer', 'ledger_retain'],
  'list-destinations': ['ledger_operator', 'ledger_observer'],
  'list-due': ['ledger_claim', 'ledger_operator', 'ledger_observer'],
  'list-handoffs': ['ledger_operator', 'ledger_observer'],
  'list-poison': ['ledger_operator', 'ledger_observer'],
  'list-finished-producers': ['ledger_operator', 'ledger_observer', 'ledger_retain'],
  'list-exclusions': ['ledger_claim', 'ledger_operator', 'ledger_observer'],
  'observe-calendar': ['ledger_operator', 'ledger_observer'],
  'observe-destinations': ['ledger_operator', 'ledger_observer'],
  'observe-outcomes': ['ledger_operator', 'ledger_observer', 'ledger_retain'],
  open: ['ledger_webhook_sender'],
  readmit: ['ledger_operator'],
  reclaim: ['ledger_operator'],
  'set-aside': ['ledger_operator'],
  release: ['ledger_schedule', 'ledger_claim'],
  reschedule: ['ledger_schedule'],
  schedule: ['ledger_schedule'],
  settle: ['ledger_webhook_sender'],
  'show-evidence': ['ledger_operator', 'ledger_observer'],
  unannounced: ['ledger_claim', 'ledger_operator', 'ledger_observer'],
  unpark: ['ledger_schedule', 'ledger_claim', 'ledger_operator'],
};

test('each statement runs for those whose work it is, and is refused to the others', async () => {
  const sample: Record<string, string> = {
    uuid: '00000000-0000-7000-8000-000000000000',
    jsonb: '[]',
    timestamptz: 'now',
  };
  const found: Record<string, DatabaseRole[]> = {};
  for (const module of statementModules) {
    const { text } = await statementOf(module);
    const given = [...text.matchAll(/CAST\(:(\w+) AS (\w+)/g)].map(([, name = '', type = '']) => [
      name,
      sample[type] ?? '1',
    ]);
    found[module] = [];
    for (const role of roles) {
      const answer = await attempt(role, `EXPLAIN ${text}`, Object.fromEntries(given));
      expect(['allowed', '42501']).toContain(answer);
      if (answer === 'allowed') found[module].push(role);
    }
  }
  expect(found).toEqual(runs);
});

describe('set_login', () => {
  const set = (login: string, verifier: string) =>
    ownerDatabase().execute('set', 'SELECT CAST(set_login(CAST(:login AS text), CAST(:verifier AS text)) AS text)', {
      login,
      verifier,
    });
  const good = scramVerifier('x'.repeat(40));

  test.each([
    'postgres',
    'ledger_owner',
    'ledger_schedule',
    'ledger_schedule_c',
    'ledger_schedule_a ',
    'xledger_schedule_a',
    'ledger_schedule_a\n',
    'ledger_schedule_a" SUPERUSER; --',
    '',
  ])('refuses the login %j', async (login) => {
    await expect(set(login, good)).rejects.toMatchObject({ sqlState: '22023' });
  });

  test.each([
    '',
    'clear text',
    'md5d41d8cd98f00b204e9800998ecf8427e',
    `${good}x`,
    good.replace('SHA-256', 'SHA-1'),
    good.replace('4096', '1'),
    `${good.slice(0, -2)}'; ALTER ROLE x SUPERUSER`,
  ])('refuses the verifier %j, and does not repeat it', async (verifier) => {
    const error: Error = await set('ledger_schedule_b', verifier).then(
      () => expect.fail('it was taken'),
      (caught: Error) => caught,
    );
    expect(error).toMatchObject({ sqlState: '22023' });
    if (verifier !== '') expect(error.message).not.toContain(verifier);
    expect(await logins().works('ledger_schedule_b')).toBe(false);
  });

  test('changes a password: the new one logs in, the former no more, and none ever stands in the log of the server', async () => {
    await ledger.sql("ALTER SYSTEM SET log_statement = 'all'");
    await ledger.sql('SELECT pg_reload_conf()');
    const user = 'ledger_observer_b';
    await setLogin(user);
    const former = passwords.get(user) ?? '';
    expect(await logins().logInWith(user)).toBe(user);
    expect(await logins().works(user)).toBe(true);
    await setLogin(user);
    const next = passwords.get(user) ?? '';
    expect(await logins().logInWith(user)).toBe(user);
    passwords.set(user, former);
    // A connection that is open stays; a new one meets the new password.
    const closing = 'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = $1';
    await ledger.sql(closing, [user]);
    passwords.set(user, `${former}`);
    const refusal = () =>
      postgresLogins(ownerDatabase(), () => as(user))
        .logInWith(user)
        .catch((error: unknown) => error);
    // A connection that is being ended may still be handed out once.
    await expect.poll(refusal).toMatchObject({ fault: 'misconfigured' });
    expect(await refusal()).toMatchObject({ sqlState: '28P01', fault: 'misconfigured', ran: 'no', retry: 'later' });
    const log = readFileSync(join(ledger.directory, 'postgres', 'server.log'), 'utf8');
    expect(log).toContain('set_login');
    for (const password of [former, next]) expect(log).not.toContain(password);
  });
});

test('a verifier is that of RFC 7677: PostgreSQL makes the same from the same salt', async () => {
  await ledger.sql("CREATE ROLE sample LOGIN PASSWORD 'pencil'");
  const [row] = await ledger.sql<{ verifier: string }>(
    "SELECT rolpassword AS verifier FROM pg_authid WHERE rolname = 'sample'",
  );
  const salt = Buffer.from(/:([^$]+)\$/.exec(row?.verifier ?? '')?.[1] ?? '', 'base64');
  expect(scramVerifier('pencil', salt)).toBe(row?.verifier);
  expect(() => scramVerifier('pêncil')).toThrow('other characters');
});
