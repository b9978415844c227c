// Rotations while reminders flow: warm functions go on, no attempt is burnt, and a login that is refused is taken back.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type DatabaseRole, databaseRoles } from '../../lambdas/core/database-roles.ts';
import { rotationSteps } from '../../lambdas/core/rotate-login.ts';
import { FaultPlans } from '../../lib/local/fault-plans.ts';
import { startLambdaHost } from '../../lib/local/lambda-host.ts';
import { loginSecretArn } from '../../lib/local/local-aws.ts';
import { eventually, type RunningLedger, startRunningLedger } from './running-ledger.ts';

const roles = Object.keys(databaseRoles) as DatabaseRole[];
let ledger: RunningLedger;
let destination: string;

beforeAll(async () => {
  ledger = await startRunningLedger();
  destination = await ledger.destination('/ok');
}, 60_000);
afterAll(() => ledger.stop());

let made = 0;
async function schedule(dueInMs: number): Promise<string> {
  made += 1;
  const dueAt = new Date(Date.now() + dueInMs).toISOString();
  const reminder = { verb: 'schedule', key: `rotation-${made}`, destination, userId: 'u', dueAt, payload: { made } };
  const answer = await ledger.command(reminder);
  expect(answer).toMatchObject({ answer: 'scheduled' });
  return 'deliveryId' in answer ? (answer.deliveryId ?? '') : '';
}

/** Waits until all are delivered, and expects one attempt of each and no doubt about any. */
async function expectDeliveredOnce(ids: readonly string[]): Promise<void> {
  const read = () =>
    ledger.sql<{ state: string; attempt_no: number; outcomes: string[] }>(
      `SELECT r.state, r.attempt_no, ARRAY(SELECT o.outcome FROM attempt_outcome o WHERE o.delivery_id = r.delivery_id) AS outcomes
       FROM reminder_delivery r WHERE r.delivery_id = ANY ($1)`,
      [ids],
    );
  await eventually('all are delivered', async () => (await read()).every(({ state }) => state === 'delivered'));
  const rows = await read();
  expect(rows).toHaveLength(ids.length);
  for (const row of rows) expect(row).toEqual({ state: 'delivered', attempt_no: 1, outcomes: ['delivered'] });
}

/** JSON lines alone: beside the logs lies what Node keeps compiled. */
function logLines(): string[] {
  const folder = join(ledger.directory, 'logs');
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return files
    .flatMap(({ parentPath, name }) => readFileSync(join(parentPath, name), 'utf8').split('\n'))
    .filter((line) => line.startsWith('{'));
}
/** Lines on a login that failed or had too few grants: a slow machine may have other errors. */
const refusals = () => logLines().filter((line) => /SQLState: (28|42)|InvalidSecret|LoginSecretError/.test(line));

/** Who is logged in to the ledger now, by the sessions that the Data API keeps. */
const sessions = async () =>
  (
    await ledger.sql<{ usename: string }>(
      "SELECT DISTINCT usename FROM pg_stat_activity WHERE datname = 'ledger' AND usename LIKE 'ledger!_%' ESCAPE '!'",
    )
  ).map(({ usename }) => usename);

test('every secret is rotated twice while reminders flow: each is delivered at its first attempt, and nothing fails', async () => {
  const ids = [await schedule(0)];
  await expectDeliveredOnce(ids);
  let flowing = true;
  const flow = (async () => {
    while (flowing) ids.push(await schedule(made % 2 === 0 ? 0 : 4000));
  })();
  try {
    for (const end of ['_b', '_a']) {
      for (const role of roles) await ledger.aws.rotateSecret(loginSecretArn(role));
      await eventually(`work is done as ${end}`, async () =>
        (await sessions()).includes(`ledger_webhook_sender${end}`),
      );
    }
  } finally {
    flowing = false;
    await flow;
  }
  expect(ids.length).toBeGreaterThan(10);
  await expectDeliveredOnce(ids);
  expect(refusals()).toEqual([]);
  expect(logLines().some((line) => /"level":"INFO"/.test(line))).toBe(true);
  const secrets = readFileSync(join(ledger.directory, 'login-secrets.json'), 'utf8');
  const passwords = [...secrets.matchAll(/password\\":\\"(\w+)/g)].map(([, password = '']) => password);
  expect(passwords.length).toBeGreaterThanOrEqual(10);
  const log = logLines().join('\n');
  expect(passwords.filter((password) => log.includes(password))).toEqual([]);
}, 90_000);

test('a login that is refused is taken back, functions go on, and the same rotation mends it', async () => {
  const arn = loginSecretArn('ledger_schedule');
  const { aws, sql } = ledger;
  // Behind the rotation's back: set_login takes the verifier and sets another password.
  await sql('ALTER FUNCTION set_login(text, text) RENAME TO set_login_kept');
  await sql(`CREATE FUNCTION set_login(login text, verifier text) RETURNS void LANGUAGE plpgsql AS $$
    BEGIN EXECUTE format('ALTER ROLE %I LOGIN PASSWORD %L', login, 'another'); END $$`);
  await sql('ALTER FUNCTION set_login(text, text) OWNER TO ledger_owner');
  const error: Error = await aws.rotateSecret(arn).then(
    () => expect.fail('the rotation succeeded'),
    (caught: Error) => caught,
  );
  const [, refused, stays] =
    /(ledger_schedule_[ab]) could not log in, so (ledger_schedule_[ab]) stays/.exec(error.message) ?? [];
  expect([refused, stays].toSorted()).toEqual(['ledger_schedule_a', 'ledger_schedule_b']);
  expect(error.message).toContain('SQLState: 28P01');
  await sql('DROP FUNCTION set_login(text, text)');
  await sql('ALTER FUNCTION set_login_kept(text, text) RENAME TO set_login');
  const before = await schedule(0);
  await aws.rotateSecret(arn);
  const after = await schedule(0);
  expect(await sessions()).toContain(refused);
  await expectDeliveredOnce([before, after]);
}, 60_000);

/** Around what changes anything, and after what a step ends with: killed anywhere else, no more has happened. */
const boundaries = [
  ['createSecret', 'put-secret-value', 'before'],
  ['createSecret', 'put-secret-value', 'after'],
  ['setSecret', 'execute', 'before'],
  ['setSecret', 'execute', 'after'],
  ['testSecret', 'execute', 'after'],
  ['finishSecret', 'update-secret-version-stage', 'before'],
  ['finishSecret', 'update-secret-version-stage', 'after'],
  ['finishSecret', 'execute', 'after'],
] as const;

test('killed in each of its steps, a rotation goes on by that step, and at no moment is a login in use refused', async () => {
  const { aws, directory } = ledger;
  const arn = loginSecretArn('ledger_schedule');
  const plans = new FaultPlans(join(directory, 'rotation-faults'));
  const rotate = aws.functions.filter(({ name }) => name === 'rotate');
  const host = await startLambdaHost(rotate, join(directory, 'rotation-logs'), { faultDirectory: plans.directory });
  const ids: string[] = [];
  try {
    for (const [killedIn, point, at] of boundaries) {
      const before = aws.secrets.current(arn);
      const ClientRequestToken = aws.announceVersion(arn);
      for (const Step of rotationSteps) {
        const step = () => host.invoke('rotate', JSON.stringify({ Step, SecretId: arn, ClientRequestToken }));
        if (Step === killedIn) {
          const killed = plans.next({ point, at, action: { kind: 'kill' } });
          expect(await step()).toMatchObject({ functionError: true });
          expect(killed.fired(), `${Step}: ${at} ${point}`).toBeDefined();
          // Whichever login the secret names now, it is let in.
          ids.push(await schedule(0));
        }
        expect(await step()).toMatchObject({ functionError: false });
      }
      expect(JSON.parse(aws.secrets.current(arn) ?? '').username).not.toBe(JSON.parse(before ?? '').username);
      expect(aws.announceVersion(arn)).not.toBe(ClientRequestToken);
      ids.push(await schedule(0));
    }
  } finally {
    await host.stop();
  }
  await expectDeliveredOnce(ids);
}, 60_000);

test('a deployment after a rotation changes nothing for those at work', async () => {
  expect(await ledger.aws.invoke('migrate', {})).toMatchObject({ applied: 0, logins: roles.length });
  await expectDeliveredOnce([await schedule(0)]);
});

test('each step may be run again; another version, step or secret is refused by name', async () => {
  const { aws } = ledger;
  const arn = loginSecretArn('ledger_observer');
  const rotate = (more: object) =>
    aws.invoke('rotate', { Step: 'createSecret', SecretId: arn, ClientRequestToken: 'no-such-version', ...more });
  await expect(rotate({})).rejects.toThrow(/LoginSecretError.*createSecret: version no-such-version is not pending/);
  await expect(rotate({ Step: 'rollBack' })).rejects.toThrow(/Step/);
  const id = aws.announceVersion(arn);
  for (const Step of ['createSecret', 'setSecret', 'testSecret', 'finishSecret', 'finishSecret', 'createSecret']) {
    for (let run = 0; run < 2; run += 1) expect(await rotate({ Step, ClientRequestToken: id })).toBe(null);
  }
  const signing = aws.outputs.SigningSecretArn ?? '';
  const foreign = aws.announceVersion(signing);
  await expect(rotate({ SecretId: signing, ClientRequestToken: foreign })).rejects.toThrow(
    /its username is no login of the ledger/,
  );
});
