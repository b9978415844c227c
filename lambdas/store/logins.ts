// Logins on PostgreSQL: made and asked about by the owner, tried out by logging in.
import type { DatabaseLogin, Logins } from '../core/database-logins.ts';
import { roleOfLogin } from '../core/database-roles.ts';
import type { DataApi } from './data-api.ts';
import { scramVerifier } from './scram-verifier.ts';

/**
 * @param owner the database, opened as its owner
 * @param openWith opens the database with a login's secret
 */
export function postgresLogins(owner: DataApi, openWith: (secretArn: string) => DataApi): Logins {
  return {
    async set({ username, password }: DatabaseLogin) {
      await owner.execute(
        'set login',
        'SELECT CAST(set_login(CAST(:login AS text), CAST(:verifier AS text)) AS text)',
        {
          login: username,
          verifier: scramVerifier(password),
        },
      );
    },
    async works(username) {
      const found = await owner.execute(
        'find login',
        `SELECT rolname FROM pg_roles
         WHERE rolname = CAST(:login AS name) AND rolcanlogin AND pg_has_role(oid, CAST(:role AS name), 'USAGE')`,
        { login: username, role: roleOfLogin(username) ?? '' },
      );
      return found.length > 0;
    },
    async logInWith(secretArn) {
      const [row] = await openWith(secretArn).execute('try login', 'SELECT CAST(current_user AS text)');
      return row?.[0] ?? '';
    },
  };
}
