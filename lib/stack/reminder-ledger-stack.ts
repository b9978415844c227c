// The ledger as a stack of its own.
import { Stack, type StackProps } from 'aws-cdk-lib';
import type { Construct } from 'constructs';
import { defaultsOf } from './deployment-stages.ts';
import { addOutputs } from './ledger-outputs.ts';
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
    addOutputs(this, ledger);
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
