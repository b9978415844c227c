// The ledger as a stack of its own, with the outputs that the command line reads.
import { CfnOutput, Stack, type StackProps } from 'aws-cdk-lib';
import type { Construct } from 'constructs';
import { defaultsOf } from './deployment-stages.ts';
import { ReminderLedger } from './reminder-ledger.ts';
import type { ReminderLedgerProps } from './reminder-ledger-props.ts';
import { emptyingProvider, keepLog, tag, triggerProvider } from './resource-providers.ts';

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
    this.#keepLogsOfProviders(props);

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
      InspectUrl: [ledger.operate.url('inspect').url, 'Whoever may inspect asks here; grantDuty lets them'],
      DecideUrl: [
        ledger.operate.url('decide').url,
        'Whoever may decide about reminders does it here; grantDuty lets them',
      ],
      ArchiveBucketName: [ledger.archive.bucket.bucketName, 'The bucket of what the database no longer holds in full'],
    };
    for (const [name, [value, description]] of Object.entries(outputs))
      new CfnOutput(this, name, { value, description });
  }

  #keepLogsOfProviders({ stage = 'production', logRetention, tags = {} }: ReminderLedgerProps) {
    const { removalPolicy, logRetention: retention } = defaultsOf(stage);
    const log = { retention: logRetention ?? retention, removalPolicy };
    const { archive, node } = this.ledger;
    const groups = [keepLog(this, 'TriggerLog', triggerProvider, node.findChild('Migration'), log)];
    const emptying = archive.bucket.node.tryFindChild('AutoDeleteObjectsCustomResource');
    if (emptying) groups.push(keepLog(this, 'EmptyingLog', emptyingProvider, emptying, log));
    tag(groups, tags);
  }
}
