// The ledger as a stack of its own, with the outputs that the command line reads.
import { CfnOutput, Stack, type StackProps } from 'aws-cdk-lib';
import type { Construct } from 'constructs';
import { ReminderLedger, type ReminderLedgerProps } from './reminder-ledger.ts';

/** One {@link ReminderLedger}, deployable to any account and region. */
export class ReminderLedgerStack extends Stack {
  readonly ledger: ReminderLedger;

  constructor(scope: Construct, id: string, props: StackProps & ReminderLedgerProps = {}) {
    super(scope, id, { description: 'Reminder Ledger: recoverable user reminders, a verdict for each', ...props });
    const ledger = new ReminderLedger(this, 'Ledger', props);
    this.ledger = ledger;

    const outputs: Record<string, [value: string, description: string]> = {
      ScheduleFunctionName: [ledger.schedule.lambda.functionName, 'Takes the commands of products, by an alias each'],
      ClaimFunctionName: [ledger.claim.lambda.functionName, 'Runs each minute; invoke it for a tick out of turn'],
      DatabaseArn: [ledger.database.cluster.clusterArn, 'The Aurora cluster, for the Data API'],
      DatabaseSecretArn: [ledger.database.ownerSecretArn, "The database owner's login, for the Data API"],
      DatabaseName: [ledger.database.databaseName, 'The database in the cluster, for the Data API'],
      SigningSecretArn: [ledger.signingSecret.secret.secretArn, "The root of the webhooks' signing keys"],
      InvitationQueueUrl: [ledger.queue.queue.queueUrl, 'The queue of invitations'],
      DeadLetterQueueUrl: [ledger.queue.deadLetters.queueUrl, 'Invitations that no sender could finish with'],
      EventBusName: [ledger.bus.bus.eventBusName, 'The bus that announces the end of each reminder'],
    };
    for (const [name, [value, description]] of Object.entries(outputs))
      new CfnOutput(this, name, { value, description });
  }
}
