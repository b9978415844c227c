// The due-date table's home: Aurora PostgreSQL, reached through the Data API alone.
import { Duration, RemovalPolicy, Validations } from 'aws-cdk-lib';
import { SubnetType, Vpc } from 'aws-cdk-lib/aws-ec2';
import {
  AuroraPostgresEngineVersion,
  ClusterInstance,
  Credentials,
  DatabaseCluster,
  DatabaseClusterEngine,
} from 'aws-cdk-lib/aws-rds';
import { Construct } from 'constructs';
import type { LedgerFunction } from './ledger-function.ts';

const databaseName = 'ledger';

/**
 * Aurora Serverless v2 (PostgreSQL 17) in subnets without a way in or out. Kept when the stack is deleted; restorable to
 * any second of the last 35 days. PostgreSQL's own log is not exported, because its error details quote rows.
 *
 * Known limit: every function logs in as the cluster's owner, whose password RDS keeps and rotates. A login for each
 * function, with the least grants it can do its work with, comes later.
 */
export class LedgerDatabase extends Construct {
  readonly cluster: DatabaseCluster;
  /** The secret that RDS keeps for the owner. */
  readonly ownerSecretArn: string;
  readonly databaseName: string = databaseName;

  constructor(scope: Construct, id: string) {
    super(scope, id);
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
    this.cluster = new DatabaseCluster(this, 'Cluster', {
      engine: DatabaseClusterEngine.auroraPostgres({ version: AuroraPostgresEngineVersion.VER_17_7 }),
      writer: ClusterInstance.serverlessV2('Writer'),
      serverlessV2MinCapacity: 0.5,
      serverlessV2MaxCapacity: 8,
      credentials: Credentials.fromUsername('ledger_owner'),
      manageMasterUserPassword: true,
      defaultDatabaseName: databaseName,
      vpc,
      vpcSubnets: { subnetType: SubnetType.PRIVATE_ISOLATED },
      enableDataApi: true,
      iamAuthentication: true,
      storageEncrypted: true,
      copyTagsToSnapshot: true,
      deletionProtection: true,
      removalPolicy: RemovalPolicy.RETAIN,
      backup: { retention: Duration.days(35) },
    });
    if (!this.cluster.secret) throw new Error('database: RDS manages its password, yet CDK knows no secret of it');
    this.ownerSecretArn = this.cluster.secret.secretArn;
  }

  /** Lets a function run single statements, each its own transaction. */
  grantStatements(to: LedgerFunction): void {
    this.#grant(to, ['rds-data:ExecuteStatement']);
  }

  /** Lets the migration run statements together in a transaction too. */
  grantMigration(to: LedgerFunction): void {
    this.#grant(to, [
      'rds-data:ExecuteStatement',
      'rds-data:BeginTransaction',
      'rds-data:CommitTransaction',
      'rds-data:RollbackTransaction',
    ]);
  }

  #grant(to: LedgerFunction, actions: readonly string[]): void {
    to.grant(actions, this.cluster.clusterArn, { DATABASE_ARN: this.cluster.clusterArn, DATABASE_NAME: databaseName });
    // The Data API reads the secret with the caller's permission, not with one of its own.
    to.grant(['secretsmanager:GetSecretValue'], this.ownerSecretArn, { DATABASE_SECRET_ARN: this.ownerSecretArn });
  }
}
