// The migrate function: applies the migrations that lie beside its bundle.
import { readdirSync, readFileSync } from 'node:fs';
import { functionHandler } from '../runtime/handler-stack.ts';
import { openDatabase } from '../store/data-api.ts';
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
  return async (_request, { log }) => {
    const answer = await migrateSchema(database, migrations, environment.settings);
    log.info('migrate', { ...answer });
    return answer;
  };
});
