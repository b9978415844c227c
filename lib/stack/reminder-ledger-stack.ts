// The ledger as a stack of its own, with the outputs that the command line reads.
import { CfnOutput, type CfnResource, Stack, type StackProps } from 'aws-cdk-lib';
import { Policy, PolicyStatement, Role } from 'aws-cdk-lib/aws-iam';
import { LogGroup } from 'aws-cdk-lib/aws-logs';
import type { Construct } from 'constructs';
import { defaultsOf } from './deployment-stages.ts';
import { ReminderLedger } from './reminder-ledger.ts';
import type { ReminderLedgerProps } from './reminder-ledger-props.ts';

/** The props of a stack and of its ledger; what both have a name for is the ledger's. */
export interface ReminderLedgerStackProps
  extends Omit<StackProps, 'permissionsBoundary' | 'tags'>,
    ReminderLedgerProps {}

/** One {@link ReminderLedger}, deployable to any account and region. */
export class ReminderLedgerStack extends Stack {
  readonly ledger: ReminderLedger;

  constructor(scope: Construct, id: string, props: ReminderLedgerStackProps = {}) {
    // A stack's boundary is of another type, and its tags would be put on twice.
    const { permissionsBoundary: _boundary, tags: _tags, ...ofStack } = props;
    super(scope, id, { description: 'Reminder Ledger: recoverable user reminders, a verdict for each', ...ofStack });
    const ledger = new ReminderLedger(this, 'Ledger', props);
    this.ledger = ledger;
    const trigger = 'AWSCDK.TriggerCustomResourceProviderCustomResourceProvider';
    this.#keepLog('TriggerLog', trigger, ledger.node.findChild('Migration'), props);
    const emptying = ledger.archive.bucket.node.tryFindChild('AutoDeleteObjectsCustomResource');
    if (emptying)
      this.#keepLog('EmptyingLog', 'Custom::S3AutoDeleteObjectsCustomResourceProvider', emptying as Construct, props);

    const outputs: Record<string, [value: string, description: string]> = {
      ScheduleFunctionName: [ledger.schedule.lambda.functionName, 'Takes the commands of products, by an alias each'],
      ClaimFunctionName: [ledger.claim.lambda.functionName, 'Runs each minute; invoke it for a tick out of turn'],
      DatabaseArn: [ledger.database.cluster.clusterArn, 'The Aurora cluster, for the Data API'],
      DatabaseOwnerSecretArn: [ledger.database.ownerSecretArn, "The owner's login: migrations, and emergencies"],
      DatabaseOperatorSecretArn: [ledger.logins.secretArn('ledger_operator'), 'The login that registers destinations'],
      DatabaseObserverSecretArn: [
        ledger.logins.secretArn('ledger_observer'),
        'The login that reads, and changes nothing',
      ],
      DatabaseName: [ledger.database.databaseName, 'The database in the cluster, for the Data API'],
      SigningSecretArn: [ledger.signingSecret.secret.secretArn, "The root of the webhooks' signing keys"],
      InvitationQueueUrl: [ledger.queue.queue.queueUrl, 'The queue of invitations'],
      DeadLetterQueueUrl: [ledger.queue.deadLetters.queueUrl, 'Invitations that no sender could finish with'],
      EventBusName: [ledger.bus.bus.eventBusName, 'The bus that announces the end of each reminder'],
      ArchiveBucketName: [ledger.archive.bucket.bucketName, 'The bucket of what the database no longer holds in full'],
    };
    for (const [name, [value, description]] of Object.entries(outputs))
      new CfnOutput(this, name, { value, description });
  }

  /**
   * CDK's own functions would make log groups of their own, which never expire and outlive the stack. Each gets one of the
   * stack's, and may make no other.
   * @param id of the log group
   * @param provider CDK's construct, with the function in it
   * @param used what needs the function, also when the stack is deleted
   */
  #keepLog(id: string, provider: string, used: Construct, { stage = 'production', logRetention }: ReminderLedgerProps) {
    const { node } = this.node.findChild(provider);
    const role = node.findChild('Role') as CfnResource;
    const handler = node.findChild('Handler') as CfnResource;
    const { removalPolicy, ...defaults } = defaultsOf(stage);
    const log = new LogGroup(this, id, { retention: logRetention ?? defaults.logRetention, removalPolicy });
    handler.addPropertyOverride('LoggingConfig', { LogFormat: 'JSON', LogGroup: log.logGroupName });
    role.addPropertyDeletionOverride('ManagedPolicyArns');
    const actions = ['logs:CreateLogStream', 'logs:PutLogEvents'];
    const write = new PolicyStatement({ actions, resources: [log.logGroupArn] });
    const policy = new Policy(this, `${id}Policy`, { statements: [write] });
    policy.attachToRole(Role.fromRoleName(this, `${id.replace(/Log$/, '')}Role`, role.ref));
    // Or the first run would have nowhere to write to, and the last one on deletion neither.
    used.node.addDependency(policy, log);
  }
}
