// The ledger that a command talks to: local AWS by default, a deployed stack by name.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { InvokeCommand, LambdaClient } from '@aws-sdk/client-lambda';
import { type Settings, settingsOf } from '../lambdas/core/settings.ts';
import type { OperateDuty } from '../lambdas/operate/contract.ts';
import type { CommandAnswer, ScheduleRequest, ScheduleResponse } from '../lambdas/schedule/contract.ts';
import { DataApi } from '../lambdas/store/data-api.ts';
import { parseTrustedCidrs, type TrustedRange } from '../lambdas/webhook/address-wall.ts';
import { deriveSigningSecret } from '../lambdas/webhook/signing.ts';
import { signingKeys } from '../lambdas/webhook/signing-keys.ts';
import { StackOutputsError, stackOutputs } from './stack-outputs.ts';

/** Where local AWS keeps its data unless told otherwise. */
export const localDirectory = fileURLToPath(new URL('../.local-aws/', import.meta.url));

/** Where to find the ledger. */
export interface TargetOptions {
  /** The name of a deployed CloudFormation stack. @default local AWS */
  readonly stack?: string;
  /** The directory of a running local AWS. @default `.local-aws` of this checkout */
  readonly local?: string;
}

/** A command cannot be carried out as it was given; the message says what was got and what to do. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

/** What a stack's outputs or local AWS's `endpoints.json` name alike. */
const outputNames = [
  'ScheduleFunctionName',
  'DatabaseArn',
  'DatabaseOperatorSecretArn',
  'DatabaseName',
  'SigningSecretArn',
  'InspectUrl',
  'DecideUrl',
  'RecoverUrl',
  'ControlUrl',
] as const;
/** The output that has a duty's URL. */
const urlOf = {
  inspect: 'InspectUrl',
  decide: 'DecideUrl',
  recover: 'RecoverUrl',
  control: 'ControlUrl',
} as const satisfies Record<OperateDuty, (typeof outputNames)[number]>;
type Outputs = Readonly<Record<(typeof outputNames)[number], string>>;

/** A reachable ledger. */
export class LedgerTarget {
  /** Who registers destinations. */
  readonly operator: DataApi;
  /** Ranges that a destination may lie in although they are not public: local AWS has the loopback. */
  readonly trusted: readonly TrustedRange[];
  /** The numbers that the ledger runs with. A deployed one has production's, whatever its stage. */
  readonly settings: Settings;
  readonly #outputs: Outputs;
  readonly #lambda = new LambdaClient({});

  private constructor(outputs: Outputs, trusted: readonly TrustedRange[], stage = 'production') {
    this.#outputs = outputs;
    this.trusted = trusted;
    this.settings = settingsOf(stage);
    this.operator = new DataApi({
      resourceArn: outputs.DatabaseArn,
      secretArn: outputs.DatabaseOperatorSecretArn,
      database: outputs.DatabaseName,
      settings: settingsOf('production'),
    });
  }

  /** @throws {UsageError} when local AWS does not run there, or there is no such stack */
  static async find(options: TargetOptions): Promise<LedgerTarget> {
    return options.stack === undefined
      ? localTarget(options.local ?? localDirectory, (...found) => new LedgerTarget(...found))
      : new LedgerTarget(await outputsOf(options.stack), []);
  }

  /**
   * Invokes the schedule function as a product would.
   * @param product the alias to call by @default none: the producer is `default`
   */
  async invoke(request: ScheduleRequest, product?: string): Promise<ScheduleResponse> {
    const { FunctionError: failed, Payload: payload } = await this.#lambda.send(
      new InvokeCommand({
        FunctionName: this.#outputs.ScheduleFunctionName,
        ...(product === undefined ? {} : { Qualifier: product }),
        Payload: JSON.stringify(request),
      }),
    );
    const text = Buffer.from(payload ?? []).toString('utf8');
    if (failed !== undefined) {
      const { errorType, errorMessage } = JSON.parse(text) as { errorType: string; errorMessage: string };
      throw new Error(`the schedule function failed: ${errorType}: ${errorMessage}; run the same command again`);
    }
    return JSON.parse(text) as ScheduleResponse;
  }

  /** One command's answer. */
  async command(request: ScheduleRequest, product?: string): Promise<CommandAnswer> {
    const response = await this.invoke(request, product);
    if ('answers' in response) throw new Error('one command got the answer of a batch');
    return response;
  }

  /** The URL of a duty of the operate function. */
  url(duty: OperateDuty): string {
    return this.#outputs[urlOf[duty]];
  }

  /** The secret that the receiver of a destination verifies signatures with. */
  async signingSecret(destination: string): Promise<string> {
    const { current } = await signingKeys(this.#outputs.SigningSecretArn)();
    return deriveSigningSecret(current, destination);
  }
}

function outputsOf(stack: string): Promise<Outputs> {
  return stackOutputs(stack, outputNames).catch((error: unknown) => {
    throw error instanceof StackOutputsError ? new UsageError(error.message) : error;
  });
}

function localTarget(
  directory: string,
  make: (outputs: Outputs, trusted: TrustedRange[], stage: string) => LedgerTarget,
): LedgerTarget {
  const file = join(directory, 'endpoints.json');
  let running: {
    pid: number;
    stage: string;
    environment: Record<string, string>;
    outputs: Outputs;
    trustedCidrs: string;
  };
  try {
    running = JSON.parse(readFileSync(file, 'utf8'));
    // Throws when there is no such process any more.
    process.kill(running.pid, 0);
  } catch {
    throw new UsageError(
      `local AWS does not run in ${directory}; start it with \`npm start\`, or name a stack with --stack`,
    );
  }
  Object.assign(process.env, running.environment);
  return make(running.outputs, parseTrustedCidrs(running.trustedCidrs), running.stage);
}
