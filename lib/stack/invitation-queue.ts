// The short-lived transport: a queue of invitations, and the queue of those that were given up.
import { Duration } from 'aws-cdk-lib';
import { EventSourceMapping } from 'aws-cdk-lib/aws-lambda';
import { Queue, QueueEncryption } from 'aws-cdk-lib/aws-sqs';
import { Construct } from 'constructs';
import type { Settings } from '../../lambdas/core/settings.ts';
import type { StageDefaults } from './deployment-stages.ts';
import type { LedgerFunction } from './ledger-function.ts';

/** What an {@link InvitationQueue} is made from. */
export interface InvitationQueueProps {
  readonly settings: Settings;
  /** What becomes of the dead letters when the stack is deleted. */
  readonly removalPolicy: StageDefaults['removalPolicy'];
}

/**
 * A standard SQS queue with its dead-letter queue. A message names a reminder and nothing else, so a lost queue loses no
 * reminder. The dead-letter queue keeps messages longer than the queue, since a message's age goes on counting there
 * (Amazon SQS Developer Guide, "Dead-letter queues").
 */
export class InvitationQueue extends Construct {
  readonly queue: Queue;
  readonly deadLetters: Queue;
  readonly #settings: Settings;

  constructor(scope: Construct, id: string, { settings, removalPolicy }: InvitationQueueProps) {
    super(scope, id);
    this.#settings = settings;
    this.deadLetters = new Queue(this, 'DeadLetters', {
      retentionPeriod: Duration.days(settings.deadLetterRetentionDays),
      encryption: QueueEncryption.SQS_MANAGED,
      enforceSSL: true,
      removalPolicy,
    });
    this.queue = new Queue(this, 'Invitations', {
      visibilityTimeout: Duration.seconds(settings.visibilityTimeoutSeconds),
      retentionPeriod: Duration.days(settings.queueRetentionDays),
      encryption: QueueEncryption.SQS_MANAGED,
      enforceSSL: true,
      deadLetterQueue: { queue: this.deadLetters, maxReceiveCount: settings.maxReceiveCount },
    });
  }

  /** Lets a function hand invitations over. The action covers SendMessageBatch. */
  grantPublish(to: LedgerFunction): void {
    to.grant(['sqs:SendMessage'], this.queue.queueArn, { INVITATION_QUEUE_URL: this.queue.queueUrl });
  }

  /** Lets a function look at what was given up, give it back or delete it, and count what both queues hold. It sends nothing. */
  grantRedrive(to: LedgerFunction): void {
    const actions = ['ReceiveMessage', 'DeleteMessage', 'ChangeMessageVisibility', 'GetQueueAttributes'];
    to.grant(
      actions.map((action) => `sqs:${action}`),
      this.deadLetters.queueArn,
      { DEAD_LETTER_QUEUE_URL: this.deadLetters.queueUrl },
    );
    to.grant(['sqs:GetQueueAttributes'], this.queue.queueArn, { INVITATION_QUEUE_URL: this.queue.queueUrl });
  }

  /**
   * Feeds a function with invitations: ten at once, without waiting for more, single messages may fail. The three actions
   * are those that Lambda's poller needs (AWS Lambda Developer Guide, "Using Lambda with Amazon SQS").
   * @param after what must be deployed before the first message is taken
   */
  deliverTo(sender: LedgerFunction, after: Construct): void {
    sender.grant(['sqs:ReceiveMessage', 'sqs:DeleteMessage', 'sqs:GetQueueAttributes'], this.queue.queueArn);
    const source = new EventSourceMapping(this, 'Source', {
      target: sender.alias('invitations'),
      eventSourceArn: this.queue.queueArn,
      batchSize: this.#settings.senderBatchSize,
      maxBatchingWindow: Duration.seconds(0),
      reportBatchItemFailures: true,
      maxConcurrency: this.#settings.senderConcurrency,
    });
    source.node.addDependency(after);
  }
}
