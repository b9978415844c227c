// The canary: two functions, of which one schedules a reminder every few minutes and the other receives it.
import { Duration } from 'aws-cdk-lib';
import { FunctionUrlAuthType } from 'aws-cdk-lib/aws-lambda';
import { canaryFunction, canaryMinutes, canaryProduct } from '../../lambdas/canary/contract.ts';
import { canaryReceiverAlias, canaryReceiverFunction } from '../../lambdas/canary-receiver/contract.ts';
import type { FunctionContract } from '../../lambdas/core/function-contract.ts';
import type { LedgerFunction } from './ledger-function.ts';
import type { LedgerSchedules } from './ledger-schedules.ts';
import type { ReminderLedger } from './reminder-ledger.ts';
import type { SchemaMigration } from './schema-migration.ts';

/** The two functions. They are two, since no function can have its own URL among its variables. */
export interface Canary {
  readonly sender: LedgerFunction;
  readonly receiver: LedgerFunction;
}

/**
 * Adds the canary to a ledger. The sender calls the schedule function by an alias of its own and registers the receiver as a
 * destination; the receiver, whose URL is open to everybody, may read nothing but the root of the signatures.
 */
export function addCanary(
  ledger: Pick<ReminderLedger, 'schedule' | 'logins' | 'signingSecret'>,
  functionOf: (id: string, contract: FunctionContract) => LedgerFunction,
  { schedules, migration }: { schedules: LedgerSchedules; migration: SchemaMigration },
): Canary {
  const receiver = functionOf('CanaryReceiver', canaryReceiverFunction);
  ledger.signingSecret.grantSign(receiver);
  const sender = functionOf('Canary', canaryFunction);
  ledger.logins.grantLogin(sender);
  const { functionArn } = ledger.schedule.alias(canaryProduct);
  sender.grant(['lambda:InvokeFunction'], functionArn, { SCHEDULE_FUNCTION: functionArn });
  sender.addVariables({ CANARY_URL: receiver.url(canaryReceiverAlias, FunctionUrlAuthType.NONE).url });
  sender.deployAfter(migration);
  schedules.run(sender, 'Canary', migration, Duration.minutes(canaryMinutes));
  return { sender, receiver };
}
