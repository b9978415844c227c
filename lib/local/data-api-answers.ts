// What the local Data API answers: rows in its Field union, within its limits, and errors under AWS's names.
import pg from 'pg';
import { ServiceError } from './http-service.ts';
import type { Field } from './sql-parameters.ts';

/** Limits of an answer. */
export interface AnswerLimits {
  /** @default 1 MiB */
  readonly responseBytes: number;
  /** A row, counted as the JSON of its fields, which is never less than the database's own count. @default 64 KiB */
  readonly rowBytes: number;
}

/** The HTTP status of each error that is not 400 (service model of the RDS Data API). */
const statusOf: Readonly<Record<string, number>> = {
  ForbiddenException: 403,
  AccessDeniedException: 403,
  NotFoundException: 404,
  TransactionNotFoundException: 404,
  DatabaseNotFoundException: 404,
  ThrottlingException: 429,
  InternalServerErrorException: 500,
  ServiceUnavailableError: 503,
  DatabaseUnavailableException: 504,
};

/** An error with the status that belongs to its name. */
export const failure = (name: string, message: string) => new ServiceError(name, statusOf[name] ?? 400, message);

/** Each column is kept as PostgreSQL's text: the Data API gives times in UTC without a zone and decimals as strings. */
export const textOf = (text: string): string => text;

/** Type numbers of PostgreSQL's catalog, pg_type. */
const integerTypes = new Set([20, 21, 23, 26]);
const floatTypes = new Set([700, 701]);
const booleanType = 16;
const byteaType = 17;
const textType = 25;
const timestamptzType = 1184;

function fieldOf(text: string | null, type: number): Field {
  if (text === null) return { isNull: true };
  if (integerTypes.has(type)) return { longValue: Number(text) };
  if (floatTypes.has(type)) return { doubleValue: Number(text) };
  if (type === booleanType) return { booleanValue: text === 't' };
  if (type === byteaType) return { blobValue: Buffer.from(text.slice(2), 'hex').toString('base64') };
  if (type === timestamptzType) return { stringValue: text.replace(/[+-]\d\d(:\d\d)?$/, '') };
  return { stringValue: text };
}

/**
 * The answer to a statement, as JSON. By the time a result is found too large the statement has run and is committed:
 * that is what makes this error dangerous.
 * @throws {ServiceError} `UnsupportedResultException`
 */
export function answerOf(result: pg.QueryArrayResult, limits: AnswerLimits, metadata = false): string {
  const rows = result.fields.length > 0;
  const records = result.rows.map((row) => {
    const fields = row.map((text, place) => fieldOf(text, result.fields[place]?.dataTypeID ?? textType));
    if (Buffer.byteLength(JSON.stringify(fields)) <= limits.rowBytes) return fields;
    throw failure('UnsupportedResultException', `A row of the result exceeds ${limits.rowBytes} bytes`);
  });
  const answer = JSON.stringify({
    ...(rows ? { records } : {}),
    numberOfRecordsUpdated: rows ? 0 : (result.rowCount ?? 0),
    generatedFields: [],
    ...(metadata ? { columnMetadata: result.fields.map(({ name }) => ({ name })) } : {}),
  });
  if (Buffer.byteLength(answer) <= limits.responseBytes) return answer;
  throw failure('UnsupportedResultException', `Database response exceeded size limit of ${limits.responseBytes} bytes`);
}

/**
 * What a caller is told of anything that went wrong. The detail, which can hold a row's values, stands in the message as it does on AWS (seen in issue 46 of
 * cloud-utils/sqlalchemy-aurora-data-api), so that a log that leaks it leaks it here too.
 */
export function serviceError(error: unknown): unknown {
  if (error instanceof ServiceError) return error;
  if (error instanceof pg.DatabaseError) {
    const { severity = 'ERROR', message, detail, position, code } = error;
    const more = `${detail ? `\n  Detail: ${detail}` : ''}${position ? `; Position: ${position}` : ''}`;
    return failure('DatabaseErrorException', `${severity}: ${message}${more}; SQLState: ${code}`);
  }
  const text = error instanceof Error ? error.message : String(error);
  if (text === 'Query read timeout') return failure('StatementTimeoutException', 'Request timed out');
  return failure('DatabaseUnavailableException', text);
}
