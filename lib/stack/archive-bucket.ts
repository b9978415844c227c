// Where finished reminders go when the database lets go of their payload and evidence.
import { Duration, RemovalPolicy, Stack, Validations } from 'aws-cdk-lib';
import type { IKey } from 'aws-cdk-lib/aws-kms';
import { BlockPublicAccess, Bucket, BucketEncryption, type CfnBucket } from 'aws-cdk-lib/aws-s3';
import { Construct } from 'constructs';
import { archivePrefix } from '../../lambdas/retain/contract.ts';
import type { StageDefaults } from './deployment-stages.ts';
import type { LedgerFunction } from './ledger-function.ts';

/** What an {@link ArchiveBucket} is made from. */
export interface ArchiveBucketProps {
  readonly encryptionKey?: IKey | undefined;
  /** What becomes of the bucket when the stack is deleted; `DESTROY` empties it first. */
  readonly removalPolicy: StageDefaults['removalPolicy'];
}

/** A private, encrypted bucket. Nobody is given the right to read or to delete; objects stay until somebody removes them. */
export class ArchiveBucket extends Construct {
  readonly bucket: Bucket;
  readonly #encryptionKey: IKey | undefined;

  constructor(scope: Construct, id: string, { encryptionKey, removalPolicy }: ArchiveBucketProps) {
    super(scope, id);
    this.#encryptionKey = encryptionKey;
    this.bucket = new Bucket(this, 'Bucket', {
      blockPublicAccess: BlockPublicAccess.BLOCK_ALL,
      enforceSSL: true,
      versioned: true,
      // A page written twice is the same page.
      lifecycleRules: [{ noncurrentVersionExpiration: Duration.days(30) }],
      ...(encryptionKey
        ? { encryption: BucketEncryption.KMS, encryptionKey, bucketKeyEnabled: true }
        : { encryption: BucketEncryption.S3_MANAGED }),
      removalPolicy,
      autoDeleteObjects: removalPolicy === RemovalPolicy.DESTROY,
    });
    Validations.of(this.bucket).acknowledge({
      id: 'AwsSolutions::AwsSolutions-S1',
      reason:
        'One function writes, and CloudTrail data events name every reader; an access log would need a bucket more.',
    });
  }

  /** Lets a function write pages. It can neither read, list nor delete any. */
  grantWrite(to: LedgerFunction): void {
    const { bucketName } = this.bucket;
    to.grant(['s3:PutObject'], this.bucket.arnForObjects(`${archivePrefix}*`), { ARCHIVE_BUCKET: bucketName });
    to.grantKey(this.#encryptionKey, ['kms:GenerateDataKey'], 's3');
    const logicalId = Stack.of(this).getLogicalId(this.bucket.node.defaultChild as CfnBucket);
    to.acknowledge(
      `AwsSolutions-IAM5[Resource::<${logicalId}.Arn>/${archivePrefix}*]`,
      'A page is named by its time and digest, which nobody knows beforehand; the action is PutObject alone.',
    );
  }
}
