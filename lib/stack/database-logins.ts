// The logins of the database: a secret for each role, which migrate turns into a login and rotate renews.
import { RemovalPolicy, Stack } from 'aws-cdk-lib';
import { ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import { CfnRotationSchedule, Secret } from 'aws-cdk-lib/aws-secretsmanager';
import { Construct } from 'constructs';
import { type DatabaseRole, databaseRoles, firstLogin } from '../../lambdas/core/database-roles.ts';
import type { LedgerDatabase } from './ledger-database.ts';
import type { LedgerFunction } from './ledger-function.ts';

/** How often each login's password is made anew. */
const rotationDays = 30;

/** What {@link DatabaseLogins} are made from. */
export interface DatabaseLoginsProps {
  readonly database: LedgerDatabase;
  readonly encryptionKey?: IKey | undefined;
}

/**
 * A secret for each of the database's roles, with a name and a password. Deleted with the stack: a deployment makes new
 * ones, and a database that was kept is read with its owner's.
 */
export class DatabaseLogins extends Construct {
  readonly secrets: ReadonlyMap<DatabaseRole, Secret>;
  readonly #props: DatabaseLoginsProps;

  constructor(scope: Construct, id: string, props: DatabaseLoginsProps) {
    super(scope, id);
    this.#props = props;
    const roles = Object.entries(databaseRoles) as [DatabaseRole, string][];
    this.secrets = new Map(roles.map(([role, work]) => [role, this.#newSecret(role, work)]));
  }

  /** The secret of a role's login. */
  secretArn(role: DatabaseRole): string {
    const secret = this.secrets.get(role);
    if (!secret) throw new Error(`role: got ${role}; the database has ${[...this.secrets.keys()].join(', ')}`);
    return secret.secretArn;
  }

  /** Lets `migrate` read every login, to make it in the database. */
  grantMake(to: LedgerFunction): void {
    const arns = [...this.secrets.values()].map(({ secretArn }) => secretArn);
    for (const arn of arns) to.grantSecret(arn, this.#props.encryptionKey, { LOGIN_SECRET_ARNS: arns.join(',') });
  }

  /** Lets a function work on the database with the login of the role that its contract names. */
  grantLogin(to: LedgerFunction): void {
    const role = to.contract.databaseRole;
    if (role === null || role === 'owner') {
      throw new Error(
        `${to.contract.name} works as ${role ?? 'nobody'} in the database, which needs no login made for it`,
      );
    }
    this.#props.database.grantStatements(to, this.secretArn(role));
  }

  /**
   * Has every login renewed, the first time at once: that a rotation works is then known on the day of the deployment.
   * @param after what must be deployed before the first rotation
   */
  rotateBy(rotate: LedgerFunction, after: Construct): void {
    const actions = ['DescribeSecret', 'GetSecretValue', 'PutSecretValue', 'UpdateSecretVersionStage'];
    const permission = rotate.allowInvoke(new ServicePrincipal('secretsmanager.amazonaws.com'), Stack.of(this).account);
    this.#props.database.grantOwnerStatements(rotate);
    for (const [role, secret] of this.secrets) {
      rotate.grant(
        actions.map((action) => `secretsmanager:${action}`),
        secret.secretArn,
      );
      const schedule = new CfnRotationSchedule(this, `${idOf(role)}Rotation`, {
        secretId: secret.secretArn,
        rotationLambdaArn: rotate.lambda.functionArn,
        rotationRules: { automaticallyAfterDays: rotationDays },
        rotateImmediatelyOnUpdate: true,
      });
      schedule.node.addDependency(permission, rotate, after);
    }
    rotate.grantKey(this.#props.encryptionKey, ['kms:Decrypt', 'kms:GenerateDataKey']);
  }

  #newSecret(role: DatabaseRole, work: string): Secret {
    const secret = new Secret(this, idOf(role), {
      description: `Login of the reminder ledger's database that ${work}`,
      encryptionKey: this.#props.encryptionKey,
      generateSecretString: {
        secretStringTemplate: JSON.stringify({ username: firstLogin(role) }),
        generateStringKey: 'password',
        passwordLength: 40,
        excludePunctuation: true,
      },
      removalPolicy: RemovalPolicy.DESTROY,
    });
    return secret;
  }
}

/** `ledger_webhook_sender` becomes `WebhookSender`. */
function idOf(role: DatabaseRole): string {
  const words = role.split('_').slice(1);
  return words.map((word) => `${word.charAt(0).toUpperCase()}${word.slice(1)}`).join('');
}
