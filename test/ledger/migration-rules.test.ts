// What a migration may do while the functions of the release before are at work: a table of rules, and the files held to it.
import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { readMigrations } from '../../lambdas/store/migrations.ts';

/** One file, read for the rules. */
interface File {
  /** The text with its comments. */
  readonly sql: string;
  /** Each as `bare` leaves it. */
  readonly statements: readonly string[];
  readonly outside: boolean;
  /** Whether a table was there before this file, by the tables that it makes itself. */
  readonly existed: (table: string | undefined) => boolean;
}

interface Rule {
  readonly sentence: string;
  /** Whether a file breaks it. */
  readonly broken: (file: File) => boolean;
  /** Whether a file that says which release it contracts for may. */
  readonly contractMay: boolean;
  /** Files that are refused by it. */
  readonly refused: readonly string[];
}

const outsideHead = '-- runs outside a transaction: an example.\n';
const some = ({ statements }: File, pattern: RegExp) => statements.some((statement) => pattern.test(statement));
/** Whether an action of an ALTER TABLE fits, on a table which was there before. */
const alters = ({ statements, existed }: File, action: RegExp) =>
  statements.some((statement) => {
    const [all, table] = /^alter table (?:if exists )?(?:only )?(?:public\.)?([\w"]+) /.exec(statement) ?? [''];
    return (
      existed(table) &&
      statement
        .slice(all.length)
        .split(/, ?/)
        .some((one) => action.test(one))
    );
  });
const indexed = (statement: string) =>
  /^create (?:unique )?index\b.* on (?:only )?(?:public\.)?([\w"]+)/.exec(statement)?.[1];

const rules: readonly Rule[] = [
  {
    sentence: 'It drops no table, column, view, type, schema, function or trigger that the release before may use.',
    contractMay: true,
    broken: (file) =>
      some(file, /^drop (table|view|materialized view|type|domain|schema|function|procedure|trigger|sequence)\b/) ||
      alters(file, /^drop (?!constraint)/),
    refused: [
      'DROP TABLE handoff;',
      'ALTER TABLE reminder_delivery DROP COLUMN hold_reason;',
      'ALTER TABLE reminder_delivery ADD a int, DROP hold_reason;',
      'DROP FUNCTION retry_delay;',
      '/* DROP COLUMN */ ALTER TABLE "destination" -- of\n DROP IF EXISTS policy;',
    ],
  },
  {
    sentence: 'It renames nothing: it adds the new name and leaves the old one.',
    contractMay: true,
    broken: (file) => some(file, /^alter \w+ .*\brename\b/),
    refused: [
      'ALTER TABLE destination RENAME COLUMN url TO address;',
      'ALTER TABLE handoff RENAME TO receipt;',
      'ALTER TABLE destination RENAME url TO address;',
    ],
  },
  {
    sentence: 'It changes no type of a column of a table that exists: that rewrites the table under an exclusive lock.',
    contractMay: false,
    broken: (file) => alters(file, /^alter (column )?\S+ (set data )?type\b/),
    refused: [
      'ALTER TABLE reminder_delivery ALTER COLUMN user_id TYPE uuid USING user_id::uuid;',
      'ALTER TABLE destination ALTER name SET DATA TYPE varchar(10);',
    ],
  },
  {
    sentence:
      'A column that it adds to a table that exists is not NOT NULL without a default, and has no volatile default.',
    contractMay: false,
    broken: (file) =>
      alters(file, /^add (?!.*\bdefault\b).*\bnot null\b/) ||
      alters(
        file,
        /^add .*(\bdefault (gen_random_uuid|clock_timestamp|random|nextval)\b|\bgenerated\b|\b(small|big)?serial\b)/,
      ),
    refused: [
      'ALTER TABLE destination ADD COLUMN region text NOT NULL;',
      'ALTER TABLE destination ADD a int DEFAULT 1, ADD region text NOT NULL;',
      'ALTER TABLE destination ADD COLUMN token uuid NOT NULL DEFAULT gen_random_uuid();',
    ],
  },
  {
    sentence: 'It sets no existing column NOT NULL: the release before may write NULL.',
    contractMay: true,
    broken: (file) => alters(file, /^alter (column )?\S+ set not null\b/),
    refused: ['ALTER TABLE destination ALTER COLUMN state_reason SET NOT NULL;'],
  },
  {
    sentence:
      'A constraint on a table that exists is added NOT VALID, and validated in a file of its own that runs outside a transaction.',
    contractMay: false,
    broken: (file) =>
      alters(file, /^add (?!.*\bnot valid\b).*\b(check|references)\b/) ||
      (!file.outside && alters(file, /^validate constraint\b/)),
    refused: [
      'ALTER TABLE destination ADD CONSTRAINT short CHECK (length(name) < 99);',
      'ALTER TABLE handoff ADD FOREIGN KEY (token) REFERENCES claim_batch;',
      'ALTER TABLE handoff ADD COLUMN batch uuid REFERENCES claim_batch;',
      'ALTER TABLE destination VALIDATE CONSTRAINT short;',
    ],
  },
  {
    sentence:
      'An index on a table that exists is built CONCURRENTLY, in a file of its own that runs outside a transaction; so is one that is dropped.',
    contractMay: false,
    broken: (file) =>
      file.statements.some(
        (statement) =>
          (file.existed(indexed(statement)) || /^(drop|re)\s?index\b/.test(statement)) &&
          !(file.outside && /\bconcurrently\b/.test(statement)),
      ) || alters(file, /^add .*\b(unique|primary key|exclude)\b(?! using index)/),
    refused: [
      'CREATE INDEX reminder_delivery_user ON reminder_delivery (user_id);',
      'CREATE UNIQUE INDEX CONCURRENTLY one ON destination (url);',
      `${outsideHead}CREATE INDEX IF NOT EXISTS one ON destination USING hash (url);`,
      'ALTER TABLE destination ADD CONSTRAINT one UNIQUE (url);',
      'DROP INDEX reminder_delivery_wake;',
    ],
  },
  {
    sentence:
      'What runs outside a transaction can be run again: CREATE INDEX CONCURRENTLY IF NOT EXISTS, DROP INDEX CONCURRENTLY IF EXISTS or VALIDATE CONSTRAINT.',
    contractMay: false,
    broken: (file) =>
      file.outside &&
      !some(
        file,
        /^(create (unique )?index concurrently if not exists|drop index concurrently if exists|alter table \S+ validate constraint)\b/,
      ),
    refused: [
      `${outsideHead}UPDATE destination SET state_reason = NULL;`,
      `${outsideHead}DROP INDEX CONCURRENTLY one;`,
    ],
  },
  {
    sentence: 'It deletes no rows and rewrites no table: no DELETE, TRUNCATE, CLUSTER or VACUUM FULL.',
    contractMay: true,
    broken: (file) =>
      file.statements.some((statement) => {
        const table = /^(?:delete from|truncate(?: table)?) (?:only )?(?:public\.)?([\w"]+)/.exec(statement)?.[1];
        return file.existed(table) || /^(cluster|vacuum)\b/.test(statement);
      }),
    refused: [
      'DELETE FROM handoff;',
      'TRUNCATE claim_batch;',
      'CLUSTER reminder_delivery USING reminder_delivery_pkey;',
    ],
  },
  {
    sentence:
      'It is written so that it can be cut into statements: no E strings with a quote in them, no comment in a comment, no BEGIN ATOMIC; and it ends no transaction.',
    contractMay: false,
    broken: ({ sql, statements }) =>
      /\be'(?:[^'\\]|\\[^'])*\\'/i.test(sql) ||
      /\/\*(?:(?!\*\/)[\s\S])*\/\*/.test(sql) ||
      /\bbegin\s+atomic\b/i.test(sql) ||
      statements.some((statement) =>
        /^(begin|start transaction|commit|end|rollback|abort|savepoint)\b/.test(statement),
      ),
    refused: [
      String.raw`INSERT INTO note VALUES (E'it\'s; one');`,
      '/* a /* b; */ c */ SELECT 1;',
      'CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; SELECT 2; END;',
      'BEGIN; SELECT 1; COMMIT;',
    ],
  },
];

/** Stands first, or after the line that says how it runs. */
const contract = /^(-- runs outside a transaction.*\n)?-- contract of \d+\.\d+: \S/i;

/** The sentences of the rules that a file breaks. */
function breaches(sql: string, name = '9001_change_example.sql'): string[] {
  const [migration] = readMigrations([[name, sql]]);
  const statements = (migration?.statements ?? []).map(bare);
  const made = new Set(statements.map((statement) => /^create table (?:if not exists )?([\w"]+)/.exec(statement)?.[1]));
  const file: File = {
    sql,
    statements,
    outside: migration?.outsideTransaction ?? false,
    existed: (table) => table !== undefined && !made.has(table),
  };
  return rules
    .filter((rule) => rule.broken(file) && !(rule.contractMay && contract.test(sql)))
    .map(({ sentence }) => sentence);
}

/** Without bodies of functions, texts, comments and what stands in brackets; one space between words, small letters. */
function bare(statement: string): string {
  let text = statement.replace(/(\$\w*\$)[\s\S]*?\1|'(?:[^']|'')*'|--[^\n]*|\/\*[\s\S]*?\*\//g, ' ');
  while (/\([^()]*\)/.test(text)) text = text.replace(/\([^()]*\)/g, ' ');
  return text.replace(/\s+/g, ' ').trim().toLowerCase();
}

const folder = new URL('../../migrations/', import.meta.url);

test.each(readdirSync(folder))('%s keeps to the rules', (name) => {
  expect(breaches(readFileSync(new URL(name, folder), 'utf8'), name)).toEqual([]);
});

describe.each(rules)('$sentence', ({ sentence, refused, contractMay }) => {
  test.each(refused)('%s', (sql) => {
    expect(breaches(sql)).toContain(sentence);
    const first = sql.startsWith(outsideHead) ? outsideHead : '';
    const contracting = `${first}-- contract of 1.2: nothing reads it since.\n${sql.slice(first.length)}`;
    expect(breaches(contracting).includes(sentence)).toBe(!contractMay);
  });
});

test.each([
  'ALTER TABLE destination ADD COLUMN note text, ADD COLUMN rank int NOT NULL DEFAULT 0, ADD at timestamptz DEFAULT now();',
  'ALTER TABLE destination ADD CONSTRAINT short CHECK (length(name) < 99) NOT VALID;',
  `${outsideHead}ALTER TABLE destination VALIDATE CONSTRAINT short;`,
  `${outsideHead}CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS one ON destination (url);`,
  `${outsideHead}DROP INDEX CONCURRENTLY IF EXISTS one;`,
  'CREATE TABLE note (id int NOT NULL, of uuid REFERENCES destination); CREATE INDEX note_of ON note (of);',
  'ALTER TABLE destination ALTER COLUMN state_reason DROP NOT NULL, ALTER COLUMN state DROP DEFAULT;',
  "-- DROP TABLE destination; renames nothing.\nINSERT INTO note VALUES ('DROP TABLE handoff; RENAME');",
  'CREATE OR REPLACE FUNCTION f() RETURNS void LANGUAGE plpgsql AS $$ BEGIN DELETE FROM note; END $$;',
])('%s is allowed', (sql) => {
  expect(breaches(sql)).toEqual([]);
});
