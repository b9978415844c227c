// Turns the Data API's `:name` parameters into PostgreSQL's `$1`, leaving literals, comments and casts alone.
import { ServiceError } from './http-service.ts';

/** A value as the Data API's Field union carries it. */
export interface Field {
  readonly isNull?: boolean;
  readonly booleanValue?: boolean;
  readonly longValue?: number;
  readonly doubleValue?: number;
  readonly stringValue?: string;
  readonly blobValue?: string;
  readonly arrayValue?: unknown;
}

export interface Parameter {
  readonly name: string;
  readonly value?: Field;
  readonly typeHint?: 'JSON' | 'UUID' | 'TIMESTAMP' | 'DATE' | 'TIME' | 'DECIMAL';
}

const hintTypes = {
  JSON: 'jsonb',
  UUID: 'uuid',
  TIMESTAMP: 'timestamp',
  DATE: 'date',
  TIME: 'time',
  DECIMAL: 'numeric',
} as const;

/** What is skipped as it stands: quoted text, dollar quotes, comments, casts; then a parameter. */
const token =
  /\b[eE]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|"(?:[^"]|"")*"|(\$[A-Za-z_0-9]*\$)[\s\S]*?\1|--[^\n]*|\/\*[\s\S]*?\*\/|::|:([A-Za-z_][A-Za-z_0-9]*)/g;

/**
 * SQL and values for the extended protocol.
 * @throws {ServiceError} `BadRequestException` for a missing parameter or an array, which the Data API does not support
 */
export function bindParameters(sql: string, parameters: readonly Parameter[]): { text: string; values: unknown[] } {
  const given = new Map(parameters.map((parameter) => [parameter.name, parameter]));
  const places = new Map<string, string>();
  const values: unknown[] = [];
  const text = sql.replace(token, (found: string, _tag: string | undefined, name: string | undefined) => {
    if (name === undefined) return found;
    const parameter = given.get(name);
    if (parameter === undefined) throw new ServiceError('BadRequestException', 400, `Cannot find parameter: ${name}`);
    let place = places.get(name);
    if (place === undefined) {
      values.push(boundValue(parameter));
      place = `$${values.length}${typeOf(parameter)}`;
      places.set(name, place);
    }
    return place;
  });
  return { text, values };
}

function boundValue({ name, value }: Parameter): unknown {
  if (value === undefined || value.isNull) return null;
  if (value.arrayValue !== undefined) {
    throw new ServiceError('BadRequestException', 400, `Array parameters are not supported: ${name}`);
  }
  if (value.blobValue !== undefined) return Buffer.from(value.blobValue, 'base64');
  return value.stringValue ?? value.longValue ?? value.doubleValue ?? value.booleanValue ?? null;
}

/** Without a hint text goes as varchar, so `INSERT … VALUES (:id)` into a uuid column fails, as it does on AWS. */
function typeOf({ value, typeHint }: Parameter): string {
  if (typeHint !== undefined) return `::${hintTypes[typeHint]}`;
  if (value?.stringValue !== undefined) return '::varchar';
  if (value?.longValue !== undefined) return '::int8';
  if (value?.doubleValue !== undefined) return '::float8';
  if (value?.booleanValue !== undefined) return '::bool';
  if (value?.blobValue !== undefined) return '::bytea';
  return '';
}
