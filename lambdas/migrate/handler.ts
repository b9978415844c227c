// The migrate function: applies the migrations that lie beside its bundle, and sets the logins that secrets hold.
import { readdirSync, readFileSync } from 'node:fs';
import { readLogin } from '../core/database-logins.ts';
import { functionHandler } from '../runtime/handler-stack.ts';
import { loginSecrets } from '../secrets/secrets-manager.ts';
import { openDatabase } from '../store/data-api.ts';
import { postgresLogins } from '../store/logins.ts';
import { migrateSchema, readMigrations } from '../store/migrations.ts';
import { type MigrateRequest, type MigrateResponse, migrateFunction } from './contract.ts';

/** One call of the Data API ends after 45 s. */
const callTimeoutMs = 46_000;

/** Lambda's entry point. */
export const handler = functionHandler<MigrateRequest, MigrateResponse>(migrateFunction, (environment) => {
  const folder = new URL('./migrations/', import.meta.url);
  const migrations = readMigrations(
    readdirSync(folder).map((name): [string, string] => [name, readFileSync(new URL(name, folder), 'utf8')]),
  );
  const database = openDatabase(environment, { timeoutMs: callTimeoutMs });
  const secrets = loginSecrets();
  const logins = postgresLogins(database, (secretArn) => openDatabase(environment, { secretArn }));
  const secretArns = environment.read('LOGIN_SECRET_ARNS').split(',');
  return async (_request, { log }) => {
    const schema = await migrateSchema(database, migrations, environment.settings);
    // Also those that are there already: a restored cluster knows the passwords of its time.
    for (const arn of secretArns) await logins.set(readLogin(arn, await secrets.readCurrent(arn)));
    const answer = { ...schema, logins: secretArns.length };
    log.info('migrate', { ...answer });
    return answer;
  };
});
