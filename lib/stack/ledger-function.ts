// One Lambda function as its contract describes it: bundle, role, log group, variables.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { Duration, Stack, Validations } from 'aws-cdk-lib';
import type { IVpc, SubnetSelection } from 'aws-cdk-lib/aws-ec2';
import { Effect, PolicyStatement, Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import {
  type Alias,
  Architecture,
  type CfnFunction,
  CfnPermission,
  Code,
  type FunctionUrl,
  FunctionUrlAuthType,
  Function as LambdaFunction,
  LoggingFormat,
  Runtime,
  Tracing,
} from 'aws-cdk-lib/aws-lambda';
import { LogGroup, type RetentionDays } from 'aws-cdk-lib/aws-logs';
import { Construct } from 'constructs';
import type { EnvironmentName, FunctionContract } from '../../lambdas/core/function-contract.ts';
import type { Settings } from '../../lambdas/core/settings.ts';
import type { StageDefaults } from './deployment-stages.ts';
import { functionMetadataKey } from './function-metadata.ts';

/** The variables a deployed function may have. `WEBHOOK_TRUSTED_CIDRS`, which opens the address wall, is not among them. */
export type DeployedVariables = Readonly<Partial<Record<Exclude<EnvironmentName, 'WEBHOOK_TRUSTED_CIDRS'>, string>>>;

/** What a {@link LedgerFunction} is made from. */
export interface LedgerFunctionProps {
  readonly contract: FunctionContract;
  readonly settings: Settings;
  /** The folder that holds `<name>/index.mjs` of each function. */
  readonly bundles: string;
  readonly logRetention: RetentionDays;
  /** What becomes of the log when the stack is deleted. */
  readonly removalPolicy: StageDefaults['removalPolicy'];
  readonly tracing: boolean;
  /** @default none reserved */
  readonly reservedConcurrency?: number | undefined;
  /** A network to run in. @default none of the account's */
  readonly egress?: { readonly vpc: IVpc; readonly subnets?: SubnetSelection } | undefined;
}

/**
 * What Lambda does in the name of a function in a network, on resources that it cannot name beforehand (AWS Managed
 * Policy Reference, "AWSLambdaVPCAccessExecutionRole").
 */
const networkActions = [
  'ec2:AssignPrivateIpAddresses',
  'ec2:CreateNetworkInterface',
  'ec2:DeleteNetworkInterface',
  'ec2:DescribeNetworkInterfaces',
  'ec2:DescribeSubnets',
  'ec2:UnassignPrivateIpAddresses',
];

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
  readonly #urls = new Map<string, FunctionUrl>();

  constructor(scope: Construct, id: string, props: LedgerFunctionProps) {
    super(scope, id);
    const { contract, settings, bundles, egress } = props;
    this.contract = contract;
    const bundle = join(bundles, contract.name);
    if (!existsSync(join(bundle, 'index.mjs'))) {
      throw new Error(`bundle of ${contract.name}: ${join(bundle, 'index.mjs')} is missing; run: npm run build`);
    }

    this.#role = new Role(this, 'Role', { assumedBy: new ServicePrincipal('lambda.amazonaws.com') });
    const logGroup = new LogGroup(this, 'Log', {
      retention: props.logRetention,
      removalPolicy: props.removalPolicy,
    });
    logGroup.grantWrite(this.#role);
    if (egress) this.#allowNetwork();
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
      tracing: props.tracing ? Tracing.ACTIVE : Tracing.DISABLED,
      ...(props.reservedConcurrency === undefined ? {} : { reservedConcurrentExecutions: props.reservedConcurrency }),
      ...(egress && { vpc: egress.vpc, ...(egress.subnets && { vpcSubnets: egress.subnets }) }),
      environment: { STAGE: settings.stage },
    });
    this.#resource.addMetadata(functionMetadataKey, contract.name);
    if (props.tracing || egress) {
      this.acknowledge(
        'AwsSolutions-IAM5[Resource::*]',
        'X-Ray takes traces, and EC2 makes network interfaces, on no resource that could be named beforehand.',
      );
    }
    this.node.addValidation({ validate: () => this.#brokenEnvironment() });
  }

  /** Allows exactly these actions on exactly this resource, and sets the variables that say where it is. */
  grant(actions: readonly string[], resourceArn: string, variables: DeployedVariables = {}): void {
    this.#role.addToPolicy(new PolicyStatement({ actions: [...actions], resources: [resourceArn] }));
    this.addVariables(variables);
  }

  /** Sets variables that name no resource. */
  addVariables(variables: DeployedVariables): void {
    for (const [name, value] of Object.entries(variables)) {
      this.#variables.add(name);
      this.lambda.addEnvironment(name, value);
    }
  }

  /**
   * Lets the function read a secret. The permission to decrypt stands on the role alone: a key policy that named the role
   * would make key, role, function and database wait for each other.
   */
  grantSecret(secretArn: string, encryptionKey: IKey | undefined, variables: DeployedVariables = {}): void {
    this.grant(['secretsmanager:GetSecretValue'], secretArn, variables);
    this.grantKey(encryptionKey, ['kms:Decrypt']);
  }

  /** Lets the function use a key, through one service alone. */
  grantKey(
    encryptionKey: IKey | undefined,
    actions: readonly string[],
    service: 'secretsmanager' | 's3' = 'secretsmanager',
  ): void {
    if (encryptionKey === undefined) return;
    const through = { 'kms:ViaService': `${service}.${Stack.of(this).region}.amazonaws.com` };
    this.#role.addToPolicy(
      new PolicyStatement({
        actions: [...actions],
        resources: [encryptionKey.keyArn],
        conditions: { StringEquals: through },
      }),
    );
  }

  /** Accepts what cdk-nag finds in the function's permissions. */
  acknowledge(finding: string, reason: string): void {
    Validations.of(this.#role).acknowledge({ id: `AwsSolutions::${finding}`, reason });
  }

  /** Lets a service invoke the function, on behalf of one account alone. */
  allowInvoke(service: ServicePrincipal, account: string): CfnPermission {
    return new CfnPermission(this, 'Invoke', {
      action: 'lambda:InvokeFunction',
      functionName: this.lambda.functionArn,
      principal: service.service,
      sourceAccount: account,
    });
  }

  /** An alias of the newest version: what callers invoke, so that an attempt's evidence names the version that made it. */
  alias(name: string): Alias {
    const alias = this.#aliases.get(name) ?? this.lambda.addAlias(name);
    this.#aliases.set(name, alias);
    return alias;
  }

  /**
   * The URL of an alias, which lets in nobody but whom IAM lets. Grant it through the URL alone: who may invoke the
   * alias itself could write the event, and so who they are.
   * @param authType NONE lets in everybody: for a function that verifies each request itself @default IAM
   */
  url(aliasName: string, authType: FunctionUrlAuthType = FunctionUrlAuthType.AWS_IAM): FunctionUrl {
    const url = this.#urls.get(aliasName) ?? this.alias(aliasName).addFunctionUrl({ authType });
    this.#urls.set(aliasName, url);
    return url;
  }

  /**
   * Creates and updates this function only after `construct`. The dependency is the Lambda resource's alone: were it the
   * whole construct's, the role would wait too, and a key policy that names the role would close a cycle.
   */
  deployAfter(construct: Construct): void {
    this.#resource.node.addDependency(construct);
  }

  /** Lambda may use the network in the role's name; code that runs with the role may not. */
  #allowNetwork(): void {
    const { partition, region, account } = Stack.of(this);
    const fromCode = { 'lambda:SourceFunctionArn': `arn:${partition}:lambda:${region}:${account}:function:*` };
    this.#role.addToPolicy(new PolicyStatement({ actions: networkActions, resources: ['*'] }));
    this.#role.addToPolicy(
      new PolicyStatement({
        effect: Effect.DENY,
        actions: networkActions,
        resources: ['*'],
        conditions: { ArnLike: fromCode },
      }),
    );
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
