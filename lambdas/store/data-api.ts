// The door to PostgreSQL: runs statements through the RDS Data API, and again under the same token when that may help.
import { setTimeout as sleep } from 'node:timers/promises';
import {
  BeginTransactionCommand,
  CommitTransactionCommand,
  ExecuteStatementCommand,
  RDSDataClient,
  RollbackTransactionCommand,
  type SqlParameter,
} from '@aws-sdk/client-rds-data';
import { atFaultPoint, deliveryIdsIn } from '../core/fault-points.ts';
import type { Settings } from '../core/settings.ts';
import { ledgerError } from './data-api-errors.ts';
import type { Parameters, Statement, StatementRunner } from './statement.ts';

export interface DataApiOptions {
  /** ARN of the Aurora cluster. */
  readonly resourceArn: string;
  /** ARN of the secret with the login's user name and password. */
  readonly secretArn: string;
  readonly database: string;
  readonly settings: Settings;
  /**
   * How often a command is tried.
   * @default the settings' `dataApiTries`, which the lease arithmetic counts with
   */
  readonly tries?: number;
  /**
   * How long one call may take, in milliseconds.
   * @default the settings' `dataApiTimeoutMs`
   */
  readonly timeoutMs?: number;
  /**
   * The longest pause between two tries, in milliseconds.
   * @default 250
   */
  readonly longestPauseMs?: number;
}

/** Text of one column of one row; null for NULL. */
export type Column = string | null;

/** A connection-less client of one database. Every error it throws is a `LedgerError`. */
export class DataApi implements StatementRunner {
  readonly #client: RDSDataClient;
  readonly #options: DataApiOptions;
  readonly #tries: number;

  constructor(options: DataApiOptions) {
    this.#options = options;
    this.#tries = options.tries ?? options.settings.dataApiTries;
    const timeout = options.timeoutMs ?? options.settings.dataApiTimeoutMs;
    this.#client = new RDSDataClient({
      // The SDK would send a command again without anyone knowing that it ran twice.
      maxAttempts: 1,
      requestHandler: { requestTimeout: timeout, connectionTimeout: timeout, throwOnRequestTimeout: true },
    });
  }

  async run<Input, Row>(
    statement: Statement<Input, Row>,
    input: Input,
    onTry: (monotonicMs: number) => void = () => undefined,
  ): Promise<Row[]> {
    const parameters = statement.parameters(input, this.#options.settings);
    const rows = await this.#again(statement.name, this.#tries, (tried) => {
      onTry(performance.now());
      return atFaultPoint(
        { point: statement.name, tried, deliveryIds: () => deliveryIdsIn(input) },
        () => this.#send(statement.text, parameters),
        (columns) => columns.flatMap(([answer]) => deliveryIdsIn(JSON.parse(answer ?? 'null'))),
      );
    });
    return rows.map(([answer, payload]) => {
      const row = JSON.parse(answer ?? 'null');
      return payload == null ? row : { ...row, payload: Buffer.from(payload, 'base64').toString('utf8') };
    });
  }

  /** Runs SQL as it is, in a transaction when one is given; then it is tried once, since an error ends the transaction. */
  async execute(name: string, sql: string, parameters: Parameters = {}, transactionId?: string): Promise<Column[][]> {
    return this.#again(name, transactionId === undefined ? this.#tries : 1, (tried) =>
      atFaultPoint({ point: 'execute', tried }, () =>
        this.#send(sql, parameters, transactionId === undefined ? {} : { transactionId }),
      ),
    );
  }

  /**
   * Runs a statement, once, that may take longer than a call of the Data API: it goes on in the database after the error
   * that says so (Amazon Aurora User Guide, "Controlling Data API timeout behavior"). It is in no transaction.
   */
  async executeBeyondCall(name: string, sql: string): Promise<void> {
    const send = () => this.#send(sql, {}, { continueAfterTimeout: true });
    await this.#again(name, 1, () => atFaultPoint({ point: 'execute' }, send));
  }

  /** Runs `work` in one transaction. For migrations: on hot paths an orphaned one would hold its locks for 3 minutes. */
  async transaction<Result>(name: string, work: (transactionId: string) => Promise<Result>): Promise<Result> {
    const begin = () => this.#client.send(new BeginTransactionCommand({ ...this.#target() }));
    const begun = await this.#again(name, this.#tries, (tried) =>
      atFaultPoint({ point: 'begin-transaction', tried }, begin),
    );
    const { resourceArn, secretArn } = this.#options;
    const transaction = { resourceArn, secretArn, transactionId: begun.transactionId };
    try {
      const result = await work(begun.transactionId ?? '');
      const commit = () => this.#client.send(new CommitTransactionCommand(transaction));
      await this.#again(name, 1, () => atFaultPoint({ point: 'commit-transaction' }, commit));
      return result;
    } catch (error) {
      // The first error is the one to tell; an errored call has usually ended the transaction already.
      await this.#client.send(new RollbackTransactionCommand(transaction)).catch(() => undefined);
      throw error;
    }
  }

  async #send(
    sql: string,
    parameters: Parameters,
    how: { transactionId?: string; continueAfterTimeout?: boolean } = {},
  ): Promise<Column[][]> {
    const result = await this.#client.send(
      new ExecuteStatementCommand({
        ...this.#target(),
        sql,
        parameters: Object.entries(parameters).map(([name, value]) => bind(name, value)),
        ...how,
      }),
    );
    return (result.records ?? []).map((record) => record.map((field) => field.stringValue ?? null));
  }

  #target() {
    const { resourceArn, secretArn, database } = this.#options;
    return { resourceArn, secretArn, database };
  }

  async #again<Result>(name: string, tries: number, call: (tried: number) => Promise<Result>): Promise<Result> {
    for (let tried = 1; ; tried += 1) {
      try {
        return await call(tried);
      } catch (caught) {
        const error = ledgerError(name, caught);
        if (error.retry === 'never' || tried >= tries) throw error;
        const pause = Math.min(error.retry === 'later' ? 100 * 2 ** tried : 0, this.#options.longestPauseMs ?? 250);
        await sleep(pause * (0.5 + Math.random() / 2));
      }
    }
  }
}

/**
 * The database that a function's environment names.
 * @param more overrides of who logs in and how patiently it is called
 */
export function openDatabase(
  environment: {
    read(name: 'DATABASE_ARN' | 'DATABASE_SECRET_ARN' | 'DATABASE_NAME'): string;
    readonly settings: Settings;
  },
  more: Partial<Pick<DataApiOptions, 'secretArn' | 'tries' | 'timeoutMs' | 'longestPauseMs'>> = {},
): DataApi {
  return new DataApi({
    resourceArn: environment.read('DATABASE_ARN'),
    secretArn: environment.read('DATABASE_SECRET_ARN'),
    database: environment.read('DATABASE_NAME'),
    settings: environment.settings,
    ...more,
  });
}

function bind(name: string, value: string | number | null): SqlParameter {
  if (value === null) return { name, value: { isNull: true } };
  return { name, value: typeof value === 'number' ? { longValue: value } : { stringValue: value } };
}
