// Brings the schema up to date during a deployment, before anything that reads or writes it.
import { Duration } from 'aws-cdk-lib';
import { Trigger } from 'aws-cdk-lib/triggers';
import { Construct } from 'constructs';
import type { Settings } from '../../lambdas/core/settings.ts';
import type { LedgerDatabase } from './ledger-database.ts';
import type { LedgerFunction } from './ledger-function.ts';

/** What a {@link SchemaMigration} is made from. */
export interface SchemaMigrationProps {
  readonly database: LedgerDatabase;
  readonly migrate: LedgerFunction;
  readonly settings: Settings;
}

/**
 * Invokes the `migrate` function once in every deployment that changes its bundle or configuration, after the database's
 * writer exists. A failing migration fails the deployment. A roll-back invokes the older bundle on the newer schema.
 */
export class SchemaMigration extends Construct {
  constructor(scope: Construct, id: string, { database, migrate, settings }: SchemaMigrationProps) {
    super(scope, id);
    database.grantMigration(migrate);
    new Trigger(this, 'Trigger', {
      handler: migrate.lambda,
      timeout: Duration.seconds(migrate.contract.timeoutSeconds(settings)),
      // The cluster as a construct: its writer too, without which no statement runs.
      executeAfter: [database.cluster],
    });
  }
}
