// The due-date table's home: Aurora PostgreSQL, reached through the Data API alone.
import { CfnResource, type Duration, RemovalPolicy, Stack, Validations } from 'aws-cdk-lib';
import { type IVpc, type SubnetSelection, SubnetType, Vpc } from 'aws-cdk-lib/aws-ec2';
import { CfnPolicy } from 'aws-cdk-lib/aws-iam';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import type { RetentionDays } from 'aws-cdk-lib/aws-logs';
import {
  AuroraPostgresEngineVersion,
  ClusterInstance,
  Credentials,
  DatabaseCluster,
  DatabaseClusterEngine,
  ParameterGroup,
} from 'aws-cdk-lib/aws-rds';
import { Construct } from 'constructs';
import { databaseLogParameters } from './database-log-parameters.ts';
import type { Capacity, StageDefaults } from './deployment-stages.ts';
import type { LedgerFunction } from './ledger-function.ts';

const databaseName = 'ledger';

/** What a {@link LedgerDatabase} is made from; each is explained at the props of the ledger. */
export interface LedgerDatabaseProps {
  readonly vpc?: IVpc | undefined;
  readonly vpcSubnets?: SubnetSelection | undefined;
  readonly encryptionKey?: IKey | undefined;
  readonly engineVersion?: AuroraPostgresEngineVersion | undefined;
  readonly capacity: Capacity;
  readonly reader: boolean;
  readonly backupRetention: Duration;
  readonly logRetention: RetentionDays;
  readonly removalPolicy: StageDefaults['removalPolicy'];
}

/**
 * Aurora Serverless v2 in subnets without a way in or out. Where it is kept when the stack is deleted, it is protected
 * against deletion too, and PostgreSQL's own log is exported: without the details that would quote rows. Where it is
 * not, there is no export, since the log group would outlive the stack.
 */
export class LedgerDatabase extends Construct {
  readonly cluster: DatabaseCluster;
  /** The secret that RDS keeps for the owner, and rotates. */
  readonly ownerSecretArn: string;
  readonly databaseName: string = databaseName;
  readonly #encryptionKey: IKey | undefined;

  /** @throws {Error} when the subnets lie in fewer than two availability zones, or the capacity is none that Aurora has */
  constructor(scope: Construct, id: string, props: LedgerDatabaseProps) {
    super(scope, id);
    const { encryptionKey, capacity, removalPolicy } = props;
    const kept = removalPolicy === RemovalPolicy.RETAIN;
    this.#encryptionKey = encryptionKey;
    const { minimum, maximum } = capacity;
    const halves = [minimum, maximum].every((units) => Number.isInteger(2 * units));
    if (!(halves && 0 <= minimum && minimum < maximum && 1 <= maximum && maximum <= 256)) {
      throw new Error(
        `capacity: got minimum ${minimum} and maximum ${maximum}; use halves, 0 <= minimum < maximum, 1 <= maximum <= 256`,
      );
    }
    const vpc = props.vpc ?? this.#isolatedNetwork();
    const vpcSubnets = props.vpcSubnets ?? { subnetType: SubnetType.PRIVATE_ISOLATED };
    const zones = [...new Set(vpc.selectSubnets(vpcSubnets).availabilityZones)];
    if (zones.length < 2) {
      throw new Error(`vpcSubnets: got subnets in ${zones.length} availability zone(s); Aurora needs two or more`);
    }
    const instance = (zone: string | undefined) => ({
      availabilityZone: zone,
      // A minor version is a change like any other: it is tried in dev first, and rolled back.
      autoMinorVersionUpgrade: false,
      publiclyAccessible: false,
    });
    const engine = DatabaseClusterEngine.auroraPostgres({
      version: props.engineVersion ?? AuroraPostgresEngineVersion.VER_17_7,
    });
    this.cluster = new DatabaseCluster(this, 'Cluster', {
      engine,
      parameterGroup: new ParameterGroup(this, 'Parameters', {
        engine,
        description: 'Reminder ledger: TLS alone, and a log that quotes no row',
        parameters: { 'rds.force_ssl': '1', ...databaseLogParameters },
      }),
      writer: ClusterInstance.serverlessV2('Writer', instance(zones[0])),
      readers: props.reader
        ? [ClusterInstance.serverlessV2('Reader', { ...instance(zones[1]), scaleWithWriter: true })]
        : [],
      serverlessV2MinCapacity: minimum,
      serverlessV2MaxCapacity: maximum,
      credentials: Credentials.fromUsername('ledger_owner', encryptionKey ? { encryptionKey } : {}),
      manageMasterUserPassword: true,
      defaultDatabaseName: databaseName,
      vpc,
      vpcSubnets,
      enableDataApi: true,
      iamAuthentication: true,
      storageEncrypted: true,
      storageEncryptionKey: encryptionKey,
      copyTagsToSnapshot: true,
      deletionProtection: kept,
      removalPolicy,
      backup: { retention: props.backupRetention },
      ...(kept ? { cloudwatchLogsExports: ['postgresql'], cloudwatchLogsRetention: props.logRetention } : {}),
    });
    if (kept) {
      acknowledgeLogRetention(this);
      keepAll(this);
    } else {
      Validations.of(this.cluster).acknowledge({
        id: 'AwsSolutions::AwsSolutions-RDS10',
        reason: 'A stage that keeps nothing must let its database be deleted with the stack.',
      });
    }
    if (!this.cluster.secret) throw new Error('database: RDS manages its password, yet CDK knows no secret of it');
    this.ownerSecretArn = this.cluster.secret.secretArn;
  }

  /** Lets a function run single statements, each its own transaction, with the login in this secret. */
  grantStatements(to: LedgerFunction, secretArn: string): void {
    this.#grant(to, ['rds-data:ExecuteStatement'], secretArn);
  }

  /** Lets a function run single statements as the owner. */
  grantOwnerStatements(to: LedgerFunction): void {
    this.#grant(to, ['rds-data:ExecuteStatement'], this.ownerSecretArn);
  }

  /** Lets the migration run statements together in a transaction too, as the owner. */
  grantMigration(to: LedgerFunction): void {
    this.#grant(
      to,
      [
        'rds-data:ExecuteStatement',
        'rds-data:BeginTransaction',
        'rds-data:CommitTransaction',
        'rds-data:RollbackTransaction',
      ],
      this.ownerSecretArn,
    );
  }

  #grant(to: LedgerFunction, actions: readonly string[], secretArn: string): void {
    to.grant(actions, this.cluster.clusterArn, { DATABASE_ARN: this.cluster.clusterArn, DATABASE_NAME: databaseName });
    // The Data API reads the secret with the caller's permission, not with one of its own.
    to.grantSecret(secretArn, this.#encryptionKey, { DATABASE_SECRET_ARN: secretArn });
  }

  #isolatedNetwork(): Vpc {
    const vpc = new Vpc(this, 'Network', {
      maxAzs: 2,
      natGateways: 0,
      // Nothing uses the default security group, and closing it would cost a function of CDK's own.
      restrictDefaultSecurityGroup: false,
      subnetConfiguration: [{ name: 'database', subnetType: SubnetType.PRIVATE_ISOLATED, cidrMask: 24 }],
    });
    Validations.of(vpc).acknowledge({
      id: 'AwsSolutions::AwsSolutions-VPC7',
      reason: 'Isolated subnets with only the database in them and no route out: a flow log would record nothing.',
    });
    return vpc;
  }
}

/**
 * Keeps what a kept cluster stands on: its network, security group and parameters cannot be deleted while it uses them, and
 * the deletion of the stack would fail at them.
 */
function keepAll(database: Construct): void {
  for (const resource of database.node.findAll()) {
    if (CfnResource.isCfnResource(resource) && !resource.cfnResourceType.startsWith('Custom::')) {
      resource.applyRemovalPolicy(RemovalPolicy.RETAIN);
    }
  }
}

/** CDK sets the retention of an exported log by a function of its own, one for the whole stack. */
function acknowledgeLogRetention(scope: Construct): void {
  const found = Stack.of(scope).node.children.find(({ node }) => node.id.startsWith('LogRetention'));
  if (!found) return;
  Validations.of(found).acknowledge({
    id: 'AwsSolutions::AwsSolutions-IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/service-role/AWSLambdaBasicExecutionRole]',
    reason: "CDK's own function writes its own log by the policy that AWS keeps for that.",
  });
  for (const policy of found.node.findAll().filter((construct) => construct instanceof CfnPolicy)) {
    Validations.of(policy).acknowledge({
      id: 'AwsSolutions::AwsSolutions-IAM5[Resource::*]',
      reason: "CDK's own function sets how long a log is kept, and may set it for any: that is all it may do.",
    });
  }
}
