// One Lambda function as its contract describes it: bundle, role, log group, variables.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { Duration, RemovalPolicy } from 'aws-cdk-lib';
import { PolicyStatement, Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import {
  type Alias,
  Architecture,
  type CfnFunction,
  Code,
  Function as LambdaFunction,
  LoggingFormat,
  Runtime,
} from 'aws-cdk-lib/aws-lambda';
import { LogGroup, RetentionDays } from 'aws-cdk-lib/aws-logs';
import { Construct } from 'constructs';
import type { EnvironmentName, FunctionContract } from '../../lambdas/core/function-contract.ts';
import type { Settings } from '../../lambdas/core/settings.ts';
import { functionMetadataKey } from './function-metadata.ts';

/** The variables a deployed function may have. `WEBHOOK_TRUSTED_CIDRS`, which opens the address wall, is not among them. */
export type DeployedVariables = Readonly<Partial<Record<Exclude<EnvironmentName, 'WEBHOOK_TRUSTED_CIDRS'>, string>>>;

/** What a {@link LedgerFunction} is made from. */
export interface LedgerFunctionProps {
  readonly contract: FunctionContract;
  readonly settings: Settings;
  /** The folder that holds `<name>/index.mjs` of each function. */
  readonly bundles: string;
}

/**
 * One function of the ledger. It may do nothing but write its own log until another construct grants it something
 * through {@link LedgerFunction.grant}; its variables arrive with the grants and must in the end be those that its
 * contract lists, which synthesis checks.
 */
export class LedgerFunction extends Construct {
  readonly contract: FunctionContract;
  readonly lambda: LambdaFunction;
  readonly #role: Role;
  readonly #variables: Set<string> = new Set(['STAGE']);
  readonly #aliases = new Map<string, Alias>();

  constructor(scope: Construct, id: string, { contract, settings, bundles }: LedgerFunctionProps) {
    super(scope, id);
    this.contract = contract;
    const bundle = join(bundles, contract.name);
    if (!existsSync(join(bundle, 'index.mjs'))) {
      throw new Error(`bundle of ${contract.name}: ${join(bundle, 'index.mjs')} is missing; run: npm run build`);
    }

    this.#role = new Role(this, 'Role', { assumedBy: new ServicePrincipal('lambda.amazonaws.com') });
    const logGroup = new LogGroup(this, 'Log', {
      retention: RetentionDays.ONE_MONTH,
      removalPolicy: RemovalPolicy.DESTROY,
    });
    logGroup.grantWrite(this.#role);
    this.lambda = new LambdaFunction(this, 'Function', {
      description: contract.purpose,
      code: Code.fromAsset(bundle),
      handler: 'index.handler',
      runtime: Runtime.NODEJS_24_X,
      architecture: Architecture.ARM_64,
      memorySize: contract.memoryMegabytes,
      // Lambda counts whole seconds.
      timeout: Duration.seconds(Math.ceil(contract.timeoutSeconds(settings))),
      role: this.#role,
      logGroup,
      loggingFormat: LoggingFormat.JSON,
      environment: { STAGE: settings.stage },
    });
    this.#resource.addMetadata(functionMetadataKey, contract.name);
    this.node.addValidation({ validate: () => this.#brokenEnvironment() });
  }

  /** Allows exactly these actions on exactly this resource, and sets the variables that say where it is. */
  grant(actions: readonly string[], resourceArn: string, variables: DeployedVariables = {}): void {
    this.#role.addToPolicy(new PolicyStatement({ actions: [...actions], resources: [resourceArn] }));
    for (const [name, value] of Object.entries(variables)) {
      this.#variables.add(name);
      this.lambda.addEnvironment(name, value);
    }
  }

  /** An alias of the newest version: what callers invoke, so that an attempt's evidence names the version that made it. */
  alias(name: string): Alias {
    const alias = this.#aliases.get(name) ?? this.lambda.addAlias(name);
    this.#aliases.set(name, alias);
    return alias;
  }

  /**
   * Creates and updates this function only after `construct`. The dependency is the Lambda resource's alone: were it the
   * whole construct's, the role would wait too, and a key policy that names the role would close a cycle.
   */
  deployAfter(construct: Construct): void {
    this.#resource.node.addDependency(construct);
  }

  get #resource() {
    return this.lambda.node.defaultChild as CfnFunction;
  }

  #brokenEnvironment(): string[] {
    const listed = new Set<string>(this.contract.environment);
    const difference = [...listed.symmetricDifference(this.#variables)];
    return difference.length === 0
      ? []
      : [`environment of ${this.contract.name}: ${difference.join(', ')} must be both in its contract and granted`];
  }
}
