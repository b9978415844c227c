// Reads a function's environment variables, all of them at cold start, by the names its contract lists.
import type { EnvironmentName, FunctionContract } from '../core/function-contract.ts';
import { type Settings, settingsOf } from '../core/settings.ts';

/** A function's environment, complete: every name of its contract has a value. */
export interface Environment {
  /** The numbers of the stage in `STAGE`, checked. */
  readonly settings: Settings;
  /**
   * A variable that the contract lists under `environment`.
   * @throws {EnvironmentError} when the contract does not list it
   */
  read(name: EnvironmentName): string;
  /**
   * A variable that the contract lists under `localEnvironment`; `undefined` when it is not set.
   * @throws {EnvironmentError} when the contract does not list it
   */
  find(name: EnvironmentName): string | undefined;
}

/** The environment does not hold what the function's contract lists; `names` are the variables in question. */
export class EnvironmentError extends Error {
  override readonly name = 'EnvironmentError';
  readonly names: readonly EnvironmentName[];

  constructor(message: string, names: readonly EnvironmentName[]) {
    super(message);
    this.names = names;
  }
}

/**
 * Reads what a function needs from its environment.
 * @param variables where to read; an empty text counts as missing
 * @throws {EnvironmentError} naming all variables that are missing
 * @throws {Error} when `STAGE` is not a known stage
 */
export function readEnvironment(
  contract: FunctionContract,
  variables: Readonly<Record<string, string | undefined>> = process.env,
): Environment {
  const missing = contract.environment.filter((name) => !variables[name]);
  if (missing.length > 0) {
    throw new EnvironmentError(
      `environment of ${contract.name}: ${missing.join(', ')} not set; set every variable that its contract lists`,
      missing,
    );
  }
  const listed = (names: readonly EnvironmentName[], name: EnvironmentName): string | undefined => {
    if (names.includes(name)) return variables[name] || undefined;
    throw new EnvironmentError(`environment of ${contract.name}: its contract does not list ${name}; add it there`, [
      name,
    ]);
  };
  return {
    settings: settingsOf(variables.STAGE ?? ''),
    read: (name) => listed(contract.environment, name) ?? '',
    find: (name) => listed(contract.localEnvironment, name),
  };
}
