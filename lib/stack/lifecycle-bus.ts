// Where the end of each reminder's life is announced.
import { EventBus } from 'aws-cdk-lib/aws-events';
import { Construct } from 'constructs';
import type { LedgerFunction } from './ledger-function.ts';

/** An EventBridge bus with one event for each reminder that was delivered, died, expired or was cancelled. */
export class LifecycleBus extends Construct {
  readonly bus: EventBus;

  constructor(scope: Construct, id: string) {
    super(scope, id);
    this.bus = new EventBus(this, 'Bus', { description: 'Terminal transitions of reminders; source reminder-ledger' });
  }

  /** Lets a function announce on this bus. */
  grantAnnounce(to: LedgerFunction): void {
    to.grant(['events:PutEvents'], this.bus.eventBusArn, { EVENT_BUS_NAME: this.bus.eventBusName });
  }
}
