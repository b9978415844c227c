// An app of one's own: the ledger in a stack with alarm topics and teams, and what the command line needs to find it.
import { App, Duration, Stack, type StackProps } from 'aws-cdk-lib';
import { ArnPrincipal } from 'aws-cdk-lib/aws-iam';
import { Topic } from 'aws-cdk-lib/aws-sns';
import { EmailSubscription, UrlSubscription } from 'aws-cdk-lib/aws-sns-subscriptions';
import type { Construct } from 'constructs';
import { addOutputs } from '../../lib/stack/ledger-outputs.ts';
import { ReminderLedger } from '../../lib/stack/reminder-ledger.ts';

/** One ledger. People are woken by `page`, and read `warn` in the morning. */
export class RemindersStack extends Stack {
  constructor(scope: Construct, id: string, props: StackProps = {}) {
    // A slip of the hand must not take it: what a deleted stack keeps is taken back one by one.
    super(scope, id, { terminationProtection: true, ...props });
    const page = new Topic(this, 'Page', { enforceSSL: true });
    page.addSubscription(new UrlSubscription('https://pager.example.com/hooks/reminders'));
    const warn = new Topic(this, 'Warn', { enforceSSL: true });
    warn.addSubscription(new EmailSubscription('reminders@example.com'));

    const ledger = new ReminderLedger(this, 'Reminders', {
      alarmTopics: { page, warn },
      // Each alarm's description names the team that acts: for each duty, one.
      owners: { inspect: 'support', recover: 'platform', decide: 'billing', control: 'platform on call' },
      capacity: { minimum: 0.5, maximum: 4 },
      retention: { byProducer: { billing: Duration.days(365) } },
      tags: { team: 'platform' },
    });
    ledger.grantSchedule(new ArnPrincipal('arn:aws:iam::444455556666:role/billing'), 'billing');
    const onCall = new ArnPrincipal('arn:aws:iam::111122223333:role/billing-on-call');
    for (const duty of ['inspect', 'decide', 'recover', 'control'] as const) ledger.grantDuty(onCall, duty);

    addOutputs(this, ledger);
  }
}

new RemindersStack(new App(), 'Reminders');
