// The root of the keys that webhooks are signed with.
import { RemovalPolicy, Validations } from 'aws-cdk-lib';
import { Secret } from 'aws-cdk-lib/aws-secretsmanager';
import { Construct } from 'constructs';
import type { LedgerFunction } from './ledger-function.ts';

/**
 * A secret `{"current": "<64 letters and digits>"}`, from which each destination's key is derived. An operator rotates it
 * by moving the present value to `previous`: both then sign. Kept when the stack is deleted, because receivers know the keys.
 */
export class SigningSecret extends Construct {
  readonly secret: Secret;

  constructor(scope: Construct, id: string) {
    super(scope, id);
    this.secret = new Secret(this, 'Secret', {
      description: 'Root of the keys that sign the webhooks of the reminder ledger',
      generateSecretString: {
        secretStringTemplate: '{}',
        generateStringKey: 'current',
        passwordLength: 64,
        excludePunctuation: true,
      },
      removalPolicy: RemovalPolicy.RETAIN,
    });
    Validations.of(this.secret).acknowledge({
      id: 'AwsSolutions::AwsSolutions-SMG4',
      reason:
        'Receivers must learn a new key before it signs alone; a rotation by the clock would break their verification.',
    });
  }

  /** Lets a function read the root. */
  grantSign(to: LedgerFunction): void {
    to.grant(['secretsmanager:GetSecretValue'], this.secret.secretArn, { SIGNING_SECRET_ARN: this.secret.secretArn });
  }
}
