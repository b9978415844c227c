// The outputs of a stack by which people, and the command line, find the ledger in it.
import { CfnOutput, type Stack } from 'aws-cdk-lib';
import type { ReminderLedger } from './reminder-ledger.ts';

/**
 * Gives a stack the outputs that `npm run reminders -- --stack NAME` reads, and what people look up by hand. For one ledger a
 * stack: their names are fixed.
 */
export function addOutputs(stack: Stack, ledger: ReminderLedger): void {
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
    RecoverUrl: [
      ledger.operate.url('recover').url,
      'Whoever may make reminders go on does it here; grantDuty lets them',
    ],
    ControlUrl: [ledger.operate.url('control').url, 'Whoever may pause and resume does it here; grantDuty lets them'],
    ArchiveBucketName: [ledger.archive.bucket.bucketName, 'The bucket of what the database no longer holds in full'],
  };
  for (const [name, [value, description]] of Object.entries(outputs))
    new CfnOutput(stack, name, { value, description });
}
