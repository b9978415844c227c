// An app of one's own: the ledger, and a product's function that may use it.
import { Stack, type StackProps } from 'aws-cdk-lib';
import { Code, Function as LambdaFunction, Runtime } from 'aws-cdk-lib/aws-lambda';
import type { Construct } from 'constructs';
import { ReminderLedger } from '../../lib/stack/reminder-ledger.ts';

/** The ledger with the product `billing`. */
export class BillingStack extends Stack {
  constructor(scope: Construct, id: string, { bundle, ...props }: StackProps & { readonly bundle: string }) {
    super(scope, id, props);
    const ledger = new ReminderLedger(this, 'Reminders');
    const billing = new LambdaFunction(this, 'Billing', {
      runtime: Runtime.NODEJS_24_X,
      handler: 'index.handler',
      code: Code.fromAsset(bundle),
    });
    // Permission to invoke the alias `billing`, and its ARN in REMINDER_SCHEDULE_FUNCTION_BILLING.
    ledger.grantSchedule(billing, 'billing');
  }
}
