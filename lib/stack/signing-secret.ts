// The root of the keys that webhooks are signed with.
import { Validations } from 'aws-cdk-lib';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import { Secret } from 'aws-cdk-lib/aws-secretsmanager';
import { Construct } from 'constructs';
import type { StageDefaults } from './deployment-stages.ts';
import type { LedgerFunction } from './ledger-function.ts';

/** What a {@link SigningSecret} is made from. */
export interface SigningSecretProps {
  readonly encryptionKey?: IKey | undefined;
  /** Kept in production when the stack is deleted, because receivers know the keys. */
  readonly removalPolicy: StageDefaults['removalPolicy'];
}

/**
 * A secret `{"current": "<64 letters and digits>"}`, from which each destination's key is derived. An operator rotates it
 * by moving the present value to `previous`: both then sign.
 */
export class SigningSecret extends Construct {
  readonly secret: Secret;
  readonly #encryptionKey: IKey | undefined;

  constructor(scope: Construct, id: string, { encryptionKey, removalPolicy }: SigningSecretProps) {
    super(scope, id);
    this.#encryptionKey = encryptionKey;
    this.secret = new Secret(this, 'Secret', {
      description: 'Root of the keys that sign the webhooks of the reminder ledger',
      generateSecretString: {
        secretStringTemplate: '{}',
        generateStringKey: 'current',
        passwordLength: 64,
        excludePunctuation: true,
      },
      encryptionKey,
      removalPolicy,
    });
    Validations.of(this.secret).acknowledge({
      id: 'AwsSolutions::AwsSolutions-SMG4',
      reason:
        'Receivers must learn a new key before it signs alone; a rotation by the clock would break their verification.',
    });
  }

  /** Lets a function read the root. */
  grantSign(to: LedgerFunction): void {
    const { secretArn } = this.secret;
    to.grantSecret(secretArn, this.#encryptionKey, { SIGNING_SECRET_ARN: secretArn });
  }
}
