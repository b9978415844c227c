// The whole ledger as one construct, for an app of one's own: wires the parts together and defines nothing itself.
import { fileURLToPath } from 'node:url';
import type { Grant, IGrantable } from 'aws-cdk-lib/aws-iam';
import { Function as LambdaFunction } from 'aws-cdk-lib/aws-lambda';
import { Construct } from 'constructs';
import { claimFunction } from '../../lambdas/claim/contract.ts';
import type { FunctionContract } from '../../lambdas/core/function-contract.ts';
import { brokenInequalities, type Settings, settingsOf } from '../../lambdas/core/settings.ts';
import { migrateFunction } from '../../lambdas/migrate/contract.ts';
import { scheduleFunction } from '../../lambdas/schedule/contract.ts';
import { webhookSenderFunction } from '../../lambdas/webhook-sender/contract.ts';
import { InvitationQueue } from './invitation-queue.ts';
import { LedgerDatabase } from './ledger-database.ts';
import { LedgerFunction } from './ledger-function.ts';
import { LifecycleBus } from './lifecycle-bus.ts';
import { MinuteSchedule } from './minute-schedule.ts';
import { SchemaMigration } from './schema-migration.ts';
import { SigningSecret } from './signing-secret.ts';

/** How a {@link ReminderLedger} may differ from the default. */
export interface ReminderLedgerProps {
  /**
   * The numbers to deploy with. The functions find theirs by the stage's name, so these must be a stage's own; synthesis
   * fails when one of their inequalities does not hold.
   * @default settingsOf('production')
   */
  readonly settings?: Settings;
  /**
   * The folder that holds `<name>/index.mjs` of each function.
   * @default dist/functions of this package, which `npm run build` fills
   */
  readonly bundles?: string;
}

/**
 * A due-date table, the functions that advance it, and what they stand on. Products get access by
 * {@link ReminderLedger.grantSchedule}; destinations are registered by the command line.
 */
export class ReminderLedger extends Construct {
  readonly database: LedgerDatabase;
  readonly queue: InvitationQueue;
  readonly bus: LifecycleBus;
  readonly signingSecret: SigningSecret;
  readonly schedule: LedgerFunction;
  readonly claim: LedgerFunction;
  readonly webhookSender: LedgerFunction;
  readonly migrate: LedgerFunction;

  constructor(scope: Construct, id: string, props: ReminderLedgerProps = {}) {
    super(scope, id);
    const settings = props.settings ?? settingsOf('production');
    const bundles = props.bundles ?? fileURLToPath(new URL('../../dist/functions', import.meta.url));
    this.node.addValidation({ validate: () => brokenArithmetic(settings) });

    this.database = new LedgerDatabase(this, 'Database');
    this.queue = new InvitationQueue(this, 'Queue', { settings });
    this.bus = new LifecycleBus(this, 'Lifecycle');
    this.signingSecret = new SigningSecret(this, 'Signing');

    const functionOf = (functionId: string, contract: FunctionContract) =>
      new LedgerFunction(this, functionId, { contract, settings, bundles });
    this.migrate = functionOf('Migrate', migrateFunction);
    const migration = new SchemaMigration(this, 'Migration', {
      database: this.database,
      migrate: this.migrate,
      settings,
    });

    this.schedule = functionOf('Schedule', scheduleFunction);
    this.claim = functionOf('Claim', claimFunction);
    this.webhookSender = functionOf('WebhookSender', webhookSenderFunction);
    for (const user of [this.schedule, this.claim, this.webhookSender]) {
      this.database.grantStatements(user);
      user.deployAfter(migration);
    }
    this.queue.grantPublish(this.schedule);
    this.queue.grantPublish(this.claim);
    this.bus.grantAnnounce(this.claim);
    this.signingSecret.grantSign(this.webhookSender);

    this.queue.deliverTo(this.webhookSender, migration);
    new MinuteSchedule(this, 'Minute', { claim: this.claim, settings, after: migration });
  }

  /**
   * Lets a product schedule, cancel, reschedule and see its own reminders. The product gets an alias of the schedule
   * function, and the alias is how the ledger knows who calls: grant it to nothing that is not that product.
   * A Lambda function also gets the alias's ARN as `REMINDER_SCHEDULE_FUNCTION_<PRODUCT>`, in capitals, `-` as `_`.
   * @param product 1 to 63 of a-z, 0-9 and -, starting with a letter; not `default`, which is every caller without an alias
   * @throws {Error} when `product` is anything else
   */
  grantSchedule(grantee: IGrantable, product: string): Grant {
    if (!/^(?!default$)[a-z][a-z0-9-]{0,62}$/.test(product)) {
      throw new Error(
        `product: got ${JSON.stringify(product)}; use 1 to 63 of a-z, 0-9 and -, starting with a letter, but not "default"`,
      );
    }
    const alias = this.schedule.alias(product);
    if (grantee instanceof LambdaFunction) {
      const variable = `REMINDER_SCHEDULE_FUNCTION_${product.toUpperCase().replaceAll('-', '_')}`;
      grantee.addEnvironment(variable, alias.functionArn);
    }
    return alias.grantInvoke(grantee);
  }
}

/** A sentence for each inequality that does not hold, and one when the functions would run on other numbers than these. */
function brokenArithmetic(settings: Settings): string[] {
  const ofStage = settingsOf(settings.stage);
  const foreign = (Object.keys(ofStage) as (keyof Settings)[]).filter((name) => settings[name] !== ofStage[name]);
  return [
    ...brokenInequalities(settings).map((rule) => `must hold: ${rule}`),
    ...(foreign.length > 0 ? [`settings: ${foreign.join(', ')} must be those of stage ${settings.stage}`] : []),
  ];
}
