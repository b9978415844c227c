// The files of a schema: names, statements, checksums, and which of them run outside a transaction.
import { createHash } from 'node:crypto';
import { postgreSplitterOptions, splitQuery } from 'dbgate-query-splitter';

/** One file, `NNNN_verb_object.sql`. */
export interface Migration {
  readonly version: number;
  readonly name: string;
  /** Each runs in a call of its own. */
  readonly statements: readonly string[];
  /** SHA-256 of the text, hexadecimal. */
  readonly checksum: string;
  /** Its one statement cannot be in a transaction, or needs longer than a call of the Data API may take. */
  readonly outsideTransaction: boolean;
}

/** A migration cannot be applied, or one that was applied is not what the bundle holds. */
export class MigrationError extends Error {
  override readonly name = 'MigrationError';
}

const firstLine = /^-- runs outside a transaction\b/i;
const comment = /--[^\n]*|\/\*[\s\S]*?\*\//g;
const concurrentIndex = /^create\s+(?:unique\s+)?index\s+concurrently\b/i;
const repeatableIndex = /^create\s+(?:unique\s+)?index\s+concurrently\s+if\s+not\s+exists\s+([a-z_][a-z0-9_]*)\s+on\b/i;

/**
 * Reads `NNNN_verb_object.sql` files. One whose first line begins with `-- runs outside a transaction` holds one statement,
 * which can be run again. Line ends do not count: a checkout that has CRLF gives the same statements and checksums.
 * @throws {MigrationError} when a name does not fit, a version stands twice, or a file cannot run as it says
 */
export function readMigrations(files: Iterable<readonly [name: string, sql: string]>): Migration[] {
  const migrations = [...files].map(([name, text]) => readMigration(name, text.replaceAll('\r\n', '\n')));
  const versions = new Set(migrations.map(({ version }) => version));
  if (versions.size < migrations.length) throw new MigrationError('two migrations have the same version');
  return migrations;
}

/** The index that a statement builds `CONCURRENTLY`. */
export function indexBuiltBy(statement: string): string | undefined {
  return repeatableIndex.exec(withoutComments(statement))?.[1]?.toLowerCase();
}

function readMigration(name: string, sql: string): Migration {
  const version = /^(\d{4})_[a-z0-9]+_[a-z0-9_]+\.sql$/.exec(name)?.[1];
  if (version === undefined) throw new MigrationError(`${name}: name it NNNN_verb_object.sql`);
  const statements = splitQuery(sql, postgreSplitterOptions)
    .map((part) => (typeof part === 'string' ? part : part.text))
    .filter((statement) => withoutComments(statement) !== '');
  const outsideTransaction = firstLine.test(sql);
  if (outsideTransaction) {
    if (statements.length !== 1) {
      throw new MigrationError(`${name}: got ${statements.length} statements; outside a transaction runs exactly one`);
    }
    const statement = withoutComments(statements[0] ?? '');
    if (concurrentIndex.test(statement) && !repeatableIndex.test(statement)) {
      throw new MigrationError(
        `${name}: write CREATE INDEX CONCURRENTLY IF NOT EXISTS and a plain name: it may be run again`,
      );
    }
  }
  const checksum = createHash('sha256').update(sql).digest('hex');
  return { version: Number(version), name, statements, checksum, outsideTransaction };
}

const withoutComments = (statement: string): string => statement.replace(comment, ' ').trim();
