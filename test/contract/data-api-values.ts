// Cases of the Data API: values out and in, and which text it takes for a parameter.
import type { SqlParameter } from '@aws-sdk/client-rds-data';
import { expect } from 'vitest';
import type { ContractCase } from './contract-case.ts';
import { failureOf } from './target.ts';

const reliedOnBy = 'lambdas/store/data-api.ts';
const model = 'RDS Data API Reference, Field';
const calling = 'Amazon Aurora User Guide, "Calling the Amazon RDS Data API"';
const unverified = 'unverified';
const text = (name: string, stringValue: string): SqlParameter => ({ name, value: { stringValue } });

/** A case that reads one row and compares it whole. */
function reads(
  id: string,
  fact: string,
  source: string,
  sql: string,
  expected: readonly unknown[],
  parameters: SqlParameter[] = [],
): ContractCase {
  return {
    ...{ id: `data-api/${id}`, fact, reliedOnBy, source },
    check: async ({ database }) => expect(await database.row(sql, { parameters })).toEqual(expected),
  };
}

export const valueCases: readonly ContractCase[] = [
  reads('int8-as-long', 'A bigint comes as longValue.', model, 'SELECT 3000000000::int8', [
    { longValue: 3_000_000_000 },
  ]),
  reads(
    'int8-beyond-2-53',
    'A bigint above 2^53 is rounded in JavaScript; as text it is exact.',
    unverified,
    'SELECT 9007199254740993::int8, 9007199254740993::int8::text',
    [{ longValue: 2 ** 53 }, { stringValue: '9007199254740993' }],
  ),
  reads('numeric-as-text', 'A numeric comes as text with its scale.', model, 'SELECT 1.50::numeric', [
    { stringValue: '1.50' },
  ]),
  reads('bool', 'A boolean comes as booleanValue.', model, 'SELECT true, false', [
    { booleanValue: true },
    { booleanValue: false },
  ]),
  reads(
    'timestamptz-without-zone',
    'A timestamptz comes in UTC as text without a zone.',
    'koxudaxi/local-data-api#106, which quotes the Amazon Aurora User Guide',
    "SELECT '2026-01-02T03:04:05.678+02:00'::timestamptz",
    [{ stringValue: '2026-01-02 01:04:05.678' }],
  ),
  reads('json-as-text', 'A json value comes as its text.', unverified, `SELECT '{"b":1,"a":2}'::json`, [
    { stringValue: '{"b":1,"a":2}' },
  ]),
  reads('jsonb-as-text', 'A jsonb value comes as normalized text.', unverified, `SELECT '{"b":1,"a":2}'::jsonb`, [
    { stringValue: '{"a": 2, "b": 1}' },
  ]),
  reads('uuid-as-text', 'A uuid comes as text.', unverified, "SELECT '0197a000-0000-7000-8000-000000000001'::uuid", [
    { stringValue: '0197a000-0000-7000-8000-000000000001' },
  ]),
  reads('bytea', 'A bytea comes as blobValue.', model, "SELECT '\\x00ff'::bytea", [
    { blobValue: new Uint8Array([0, 255]) },
  ]),
  reads('null', 'NULL comes as isNull, whatever its type.', model, 'SELECT NULL::int4, NULL::text', [
    { isNull: true },
    { isNull: true },
  ]),
  {
    ...reads('array-in-result', 'An array comes as arrayValue.', model, 'SELECT ARRAY[1,2]::int8[]', [
      { arrayValue: { longValues: [1, 2] } },
    ]),
    differsLocally: {
      how: "local AWS answers PostgreSQL's text, {1,2}; the product asks for arrays as json text",
      seen: /deeply equal/,
    },
  },
  {
    id: 'data-api/array-parameter-refused',
    fact: 'An array as a parameter is refused before the statement runs.',
    reliedOnBy,
    source: calling,
    async check({ database }) {
      const parameters = [{ name: 'a', value: { arrayValue: { longValues: [1] } } }];
      const { name } = await failureOf(database.execute('SELECT :a', { parameters }));
      expect(name).toBe('BadRequestException');
    },
  },
  {
    id: 'data-api/uuid-needs-a-cast',
    fact: 'Text does not become a uuid by itself: 42804 or 42883.',
    reliedOnBy,
    source: 'koxudaxi/py-data-api#56, a report from AWS',
    async check({ database }) {
      const parameters = [text('id', '0197a000-0000-7000-8000-000000000001')];
      const sql = 'SELECT 1 FROM destination WHERE destination_id = :id';
      expect((await failureOf(database.execute(sql, { parameters }))).message).toMatch(/SQLState: 428(04|83)$/);
    },
  },
  reads(
    'uuid-by-cast-or-hint',
    'A cast and the hint UUID both make text a uuid.',
    'RDS Data API Reference, SqlParameter',
    'SELECT pg_typeof(:id::uuid)::text, pg_typeof(:hinted)::text',
    [{ stringValue: 'uuid' }, { stringValue: 'uuid' }],
    [
      text('id', '0197a000-0000-7000-8000-000000000001'),
      { ...text('hinted', '0197a000-0000-7000-8000-000000000002'), typeHint: 'UUID' },
    ],
  ),
  reads(
    'parameter-types',
    'Text goes as varchar, a whole number as bigint, a float as double precision, a boolean as boolean.',
    unverified,
    'SELECT pg_typeof(:s)::text, pg_typeof(:l)::text, pg_typeof(:d)::text, pg_typeof(:b)::text',
    ['character varying', 'bigint', 'double precision', 'boolean'].map((stringValue) => ({ stringValue })),
    [
      text('s', 'x'),
      { name: 'l', value: { longValue: 1 } },
      { name: 'd', value: { doubleValue: 0.5 } },
      { name: 'b', value: { booleanValue: true } },
    ],
  ),
  reads(
    'names-in-quotes-and-comments',
    'A colon and a name in a literal, a quoted name, a dollar quote, a comment or a cast is no parameter.',
    unverified,
    `SELECT ':a', $t$ :a $t$, '1'::int4, "c:a", :a /* :b */ -- :c
     FROM (SELECT 1 AS "c:a") AS t`,
    [{ stringValue: ':a' }, { stringValue: ' :a ' }, { longValue: 1 }, { longValue: 1 }, { stringValue: 'X' }],
    [text('a', 'X')],
  ),
  {
    id: 'data-api/missing-parameter',
    fact: 'A parameter that is not given is refused, and its name is told.',
    reliedOnBy,
    source: unverified,
    async check({ database }) {
      const { name, message } = await failureOf(database.execute('SELECT :absent'));
      expect(name).toBe('BadRequestException');
      expect(message).toContain('absent');
    },
  },
  reads(
    'surplus-parameter',
    'A parameter that the statement does not name is ignored.',
    unverified,
    'SELECT :a',
    [{ stringValue: 'X' }],
    [text('a', 'X'), text('surplus', 'Y')],
  ),
];
