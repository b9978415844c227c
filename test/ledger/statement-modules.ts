// The statements of the store as they lie in their folder, so that a new one is met by every test that iterates them.
import { readdirSync } from 'node:fs';
import type { Statement } from '../../lambdas/store/statement.ts';

export const statementFolder = new URL('../../lambdas/store/statements/', import.meta.url);

/** The files' names without their ending. */
export const statementModules = readdirSync(statementFolder)
  .map((file) => file.replace(/\.ts$/, ''))
  .sort();

/** The one statement that a module exports. @throws {Error} when there is none or several, or its name is not the file's */
export async function statementOf(module: string): Promise<Statement<unknown, unknown>> {
  const exported: Record<string, unknown> = await import(new URL(`${module}.ts`, statementFolder).href);
  const found = Object.values(exported).filter(
    (value): value is Statement<unknown, unknown> => typeof value === 'object' && value !== null && 'text' in value,
  );
  const [statement] = found;
  if (statement === undefined || found.length > 1 || statement.name !== module) {
    throw new Error(
      `${module}.ts: got ${JSON.stringify(found.map(({ name }) => name))}; export one statement, ${module}`,
    );
  }
  return statement;
}
