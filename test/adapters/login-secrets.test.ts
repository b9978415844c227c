// What a login's secret may hold, and how each step of a rotation refuses what it must not do.
import { expect, test } from 'vitest';
import { LoginSecretError, newPassword, readLogin } from '../../lambdas/core/database-logins.ts';
import { type LoginSecrets, rotateLogin } from '../../lambdas/core/rotate-login.ts';

const arn = 'arn:aws:secretsmanager:us-east-1:000000000000:secret:login';
const password = newPassword();
const login = (username: string, more: object = {}) => JSON.stringify({ username, password, ...more });
const log = { info: () => undefined, warn: () => undefined, error: () => undefined };

test('a password is 40 letters and digits, another each time', () => {
  expect(password).toMatch(/^[A-Za-z0-9]{40}$/);
  expect(newPassword()).not.toBe(password);
});

test('a login is read from its secret', () => {
  expect(readLogin(arn, login('ledger_claim_b'))).toEqual({ username: 'ledger_claim_b', password });
});

test.each([
  ['no JSON, secret text', 'username'],
  ['null', 'username'],
  ['"text"', 'username'],
  [login('postgres'), 'username'],
  [login('toString_a'), 'username'],
  [login('ledger_claim'), 'username'],
  [login('ledger_claim_c'), 'username'],
  [login('ledger_claim_a', { password: 'short' }), 'password'],
  [login('ledger_claim_a', { password: `${password}'` }), 'password'],
  [login('ledger_claim_a', { password: 7 }), 'password'],
])('the secret %j is refused by its ARN and field, and its text is not told', (text, field) => {
  const refusal = (): unknown => {
    try {
      return readLogin(arn, text);
    } catch (error) {
      return error;
    }
  };
  const error = refusal();
  expect(error).toBeInstanceOf(LoginSecretError);
  expect(String(error)).toContain(`${arn}: its ${field}`);
  for (const secret of [password, 'secret text', 'short']) expect(String(error)).not.toContain(secret);
});

/** A secret with a current and a pending version, as `before` says. */
function rotating(before: { current: string; pending: string | null }) {
  const calls: string[] = [];
  let current = 'former';
  const secrets: LoginSecrets = {
    readCurrent: async () => (current === 'former' ? before.current : (before.pending ?? '')),
    readPending: async () => before.pending,
    labels: async () =>
      new Map([
        ['former', ['AWSCURRENT']],
        ['next', ['AWSPENDING']],
      ]),
    putPending: async (_arn, _id, text) => void calls.push(`put ${JSON.parse(text).username}`),
    moveCurrent: async (_arn, from, to) => {
      calls.push(`move ${from} ${to}`);
      current = to;
    },
  };
  const logins = {
    set: async ({ username }: { username: string }) => void calls.push(`set ${username}`),
    works: async () => false,
    logInWith: async () => Promise.reject(new Error('refused')),
  };
  const run = (step: Parameters<typeof rotateLogin>[2]['step'], more: object = {}) =>
    rotateLogin({ secrets, logins: { ...logins, ...more } }, log, { step, secretArn: arn, versionId: 'next' });
  return { calls, run };
}

test('the login in use never gets another password', async () => {
  const { calls, run } = rotating({ current: login('ledger_claim_a'), pending: login('ledger_claim_a') });
  await expect(run('setSecret')).rejects.toThrow('is not the other login of ledger_claim_a');
  const foreign = rotating({ current: login('ledger_claim_a'), pending: login('ledger_operator_b') });
  await expect(foreign.run('setSecret')).rejects.toThrow('is not the other login of ledger_claim_a');
  expect([...calls, ...foreign.calls]).toEqual([]);
});

test('a version that has its value keeps it; one without is not set, and a login without grants is told', async () => {
  const { calls, run } = rotating({ current: login('ledger_claim_b'), pending: login('ledger_claim_a') });
  await run('createSecret');
  expect(calls).toEqual([]);
  await expect(run('testSecret')).rejects.toThrow('ledger_claim_a may not log in');
  const empty = rotating({ current: login('ledger_claim_b'), pending: null });
  await expect(empty.run('setSecret')).rejects.toThrow('createSecret comes first');
  await empty.run('createSecret');
  expect(empty.calls).toEqual(['put ledger_claim_a']);
});

test('a refused login gives the label back; a former login that still answers does not', async () => {
  const refused = rotating({ current: login('ledger_claim_a'), pending: login('ledger_claim_b') });
  await expect(refused.run('finishSecret')).rejects.toThrow('ledger_claim_b could not log in');
  expect(refused.calls).toEqual(['move former next', 'move next former']);
  const kept = rotating({ current: login('ledger_claim_a'), pending: login('ledger_claim_b') });
  await kept.run('finishSecret', { logInWith: async () => 'ledger_claim_a' });
  expect(kept.calls).toEqual(['move former next']);
});
