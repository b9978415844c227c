// The whole ledger as one construct, for an app of one's own: wires the parts together and defines nothing itself.
import { fileURLToPath } from 'node:url';
import { Duration, Stack, Tags } from 'aws-cdk-lib';
import type { Grant, IGrantable } from 'aws-cdk-lib/aws-iam';
import { Function as LambdaFunction } from 'aws-cdk-lib/aws-lambda';
import { Construct } from 'constructs';
import { canaryProduct } from '../../lambdas/canary/contract.ts';
import { claimFunction } from '../../lambdas/claim/contract.ts';
import type { FunctionContract } from '../../lambdas/core/function-contract.ts';
import { brokenInequalities, type Settings, settingsOf } from '../../lambdas/core/settings.ts';
import { migrateFunction } from '../../lambdas/migrate/contract.ts';
import { observeFunction } from '../../lambdas/observe/contract.ts';
import { duties, type OperateDuty, operateFunction } from '../../lambdas/operate/contract.ts';
import { type RetentionPolicy, retainFunction } from '../../lambdas/retain/contract.ts';
import { rotateFunction } from '../../lambdas/rotate/contract.ts';
import { scheduleFunction } from '../../lambdas/schedule/contract.ts';
import { webhookSenderFunction } from '../../lambdas/webhook-sender/contract.ts';
import { widgetAlias, widgetFunction, widgetTag } from '../../lambdas/widget/contract.ts';
import { ArchiveBucket } from './archive-bucket.ts';
import { addCanary, type Canary } from './canary.ts';
import { DatabaseLogins } from './database-logins.ts';
import { defaultsOf, deploymentStageOf } from './deployment-stages.ts';
import { GradualDeployment } from './gradual-deployment.ts';
import { InvitationQueue } from './invitation-queue.ts';
import { LedgerAlarms } from './ledger-alarms.ts';
import { LedgerDashboards } from './ledger-dashboards.ts';
import { LedgerDatabase } from './ledger-database.ts';
import { LedgerFunction } from './ledger-function.ts';
import { LedgerSchedules } from './ledger-schedules.ts';
import { LifecycleBus } from './lifecycle-bus.ts';
import type { ReminderLedgerProps, Retention } from './reminder-ledger-props.ts';
import { bound, providersOf, tag } from './resource-providers.ts';
import { SchemaMigration } from './schema-migration.ts';
import { SigningSecret } from './signing-secret.ts';

/**
 * A due-date table, the functions that advance it, and what they stand on. Products get access by
 * {@link ReminderLedger.grantSchedule}; destinations are registered by the command line.
 */
export class ReminderLedger extends Construct {
  readonly database: LedgerDatabase;
  readonly logins: DatabaseLogins;
  readonly queue: InvitationQueue;
  readonly bus: LifecycleBus;
  readonly signingSecret: SigningSecret;
  readonly archive: ArchiveBucket;
  readonly schedule: LedgerFunction;
  readonly claim: LedgerFunction;
  readonly webhookSender: LedgerFunction;
  readonly migrate: LedgerFunction;
  readonly rotate: LedgerFunction;
  readonly observe: LedgerFunction;
  readonly retain: LedgerFunction;
  readonly operate: LedgerFunction;
  /** What sends the canary, and what receives it. @default none, see the prop `canary` */
  readonly canary: Canary | undefined;
  readonly widget: LedgerFunction;
  readonly alarms: LedgerAlarms;

  /** @throws {Error} when a prop cannot be deployed; what does not fit together fails synthesis, with all its sentences */
  constructor(scope: Construct, id: string, props: ReminderLedgerProps = {}) {
    super(scope, id);
    const stage = deploymentStageOf(props.stage ?? 'production');
    const { removalPolicy, ...defaults } = defaultsOf(stage);
    const settings = { ...settingsOf(stage), ...props.queue };
    const { encryptionKey } = props;
    const logRetention = props.logRetention ?? defaults.logRetention;
    const backupRetention = props.backupRetention ?? defaults.backupRetention;
    const retention = { ...defaultRetention, ...props.retention };
    this.node.addValidation({ validate: () => brokenRules(settings, props, { backupRetention, retention }) });

    this.database = new LedgerDatabase(this, 'Database', {
      vpc: props.vpc,
      vpcSubnets: props.vpcSubnets,
      encryptionKey,
      engineVersion: props.engineVersion,
      capacity: props.capacity ?? defaults.capacity,
      reader: props.reader ?? defaults.reader,
      backupRetention,
      logRetention,
      removalPolicy,
    });
    this.logins = new DatabaseLogins(this, 'Logins', { database: this.database, encryptionKey });
    this.queue = new InvitationQueue(this, 'Queue', { settings, removalPolicy });
    this.bus = new LifecycleBus(this, 'Lifecycle');
    this.signingSecret = new SigningSecret(this, 'Signing', { encryptionKey, removalPolicy });
    this.archive = new ArchiveBucket(this, 'Archive', { encryptionKey, removalPolicy });

    const functionOf = (functionId: string, contract: FunctionContract, egress?: ReminderLedgerProps['egress']) =>
      new LedgerFunction(this, functionId, {
        contract,
        settings,
        bundles: props.bundles ?? fileURLToPath(new URL('../../dist/functions', import.meta.url)),
        logRetention,
        removalPolicy,
        tracing: props.tracing ?? true,
        reservedConcurrency: props.reservedConcurrency?.[contract.name],
        egress,
      });
    this.migrate = functionOf('Migrate', migrateFunction);
    this.logins.grantMake(this.migrate);
    const migration = new SchemaMigration(this, 'Migration', {
      database: this.database,
      migrate: this.migrate,
      settings,
    });

    this.schedule = functionOf('Schedule', scheduleFunction);
    this.claim = functionOf('Claim', claimFunction);
    this.webhookSender = functionOf('WebhookSender', webhookSenderFunction, props.egress);
    this.observe = functionOf('Observe', observeFunction);
    this.retain = functionOf('Retain', retainFunction);
    this.operate = functionOf('Operate', operateFunction);
    this.widget = functionOf('Widget', widgetFunction);
    Tags.of(this.widget.lambda).add(widgetTag.key, widgetTag.value);
    for (const user of [
      ...[this.schedule, this.claim, this.webhookSender, this.observe, this.retain, this.operate],
      this.widget,
    ]) {
      this.logins.grantLogin(user);
      user.deployAfter(migration);
    }
    this.rotate = functionOf('Rotate', rotateFunction);
    this.rotate.deployAfter(migration);
    this.logins.rotateBy(this.rotate, migration);
    this.queue.grantPublish(this.schedule);
    this.queue.grantPublish(this.claim);
    this.bus.grantAnnounce(this.claim);
    this.signingSecret.grantSign(this.webhookSender);
    this.archive.grantWrite(this.retain);
    this.retain.addVariables({ RETENTION_POLICY: JSON.stringify(daysOf(retention)) });

    this.queue.grantRedrive(this.operate);
    for (const duty of duties) this.operate.url(duty);

    this.queue.deliverTo(this.webhookSender, migration);
    // Its id is part of the logical id of a queue that holds messages.
    const schedules = new LedgerSchedules(this, 'Minute', { settings });
    schedules.run(this.claim, 'Tick', migration);
    schedules.run(this.observe, 'Observation', migration);
    schedules.run(this.retain, 'Retention', migration, Duration.days(1));
    this.canary = (props.canary ?? defaults.canary) ? addCanary(this, functionOf, { schedules, migration }) : undefined;
    this.alarms = new LedgerAlarms(this, 'Alarms', {
      alarmTopics: props.alarmTopics,
      owners: props.owners,
      functions: [
        ...[this.migrate, this.schedule, this.claim, this.webhookSender, this.rotate, this.observe, this.retain],
        ...[this.operate, ...Object.values(this.canary ?? {})],
      ],
      canary: this.canary !== undefined,
      migrate: this.migrate,
      claim: this.claim,
      queue: this.queue,
      schedules,
      database: this.database,
    });
    new LedgerDashboards(this, 'Dashboards', {
      alarms: this.alarms,
      functions: [
        ...[this.schedule, this.claim, this.webhookSender, this.observe, this.retain, this.operate, this.widget],
        ...[this.migrate, this.rotate],
      ],
      queue: this.queue,
      schedules,
      database: this.database,
      widget: this.widget.alias(widgetAlias),
      widgetParameters: {
        stack: Stack.of(this).stackName,
        logGroup: this.webhookSender.lambda.logGroup.logGroupName,
      },
    });
    const config = props.gradualDeployment;
    if (config) {
      for (const [shiftId, fn, alias] of [
        ['ClaimShift', this.claim, 'tick'],
        ['WebhookSenderShift', this.webhookSender, 'invitations'],
      ] as const) {
        new GradualDeployment(this, shiftId, { of: fn, alias, config, alarms: this.alarms.of(fn) });
      }
    }
    const all = [this, ...providersOf(this)];
    tag(all, props.tags ?? {});
    if (props.permissionsBoundary) bound(all, props.permissionsBoundary);
  }

  /**
   * Lets a product schedule, cancel, reschedule and see its own reminders. The product gets an alias of the schedule
   * function, and the alias is how the ledger knows who calls: grant it to nothing that is not that product.
   * A Lambda function also gets the alias's ARN as `REMINDER_SCHEDULE_FUNCTION_<PRODUCT>`, in capitals, `-` as `_`.
   * @param product 1 to 63 of a-z, 0-9 and -, starting with a letter; not `default`, which is every caller without an
   * alias, and not `canary`, which is the ledger's own
   * @throws {Error} when `product` is anything else
   */
  grantSchedule(grantee: IGrantable, product: string): Grant {
    if (!/^[a-z][a-z0-9-]{0,62}$/.test(product) || ['default', canaryProduct].includes(product)) {
      throw new Error(
        `product: got ${JSON.stringify(product)}; use 1 to 63 of a-z, 0-9 and -, starting with a letter, but neither "default" nor "canary"`,
      );
    }
    const alias = this.schedule.alias(product);
    if (grantee instanceof LambdaFunction) {
      const variable = `REMINDER_SCHEDULE_FUNCTION_${product.toUpperCase().replaceAll('-', '_')}`;
      grantee.addEnvironment(variable, alias.functionArn);
    }
    return alias.grantInvoke(grantee);
  }

  /**
   * Lets people with this principal do a duty: call the URL of its alias, signed, and nothing else. What they decide is
   * kept under their name as IAM knows it.
   */
  grantDuty(grantee: IGrantable, duty: OperateDuty): Grant {
    return this.operate.url(duty).grantInvokeUrl(grantee);
  }

  /**
   * Lets people with this principal see the ledger, and the verdict on each reminder, in the dashboard: CloudWatch invokes the
   * widget with the permissions of whoever looks. It changes nothing. To see dashboard and alarms they need CloudWatch's own
   * read permissions as well.
   */
  grantLook(grantee: IGrantable): Grant {
    return this.widget.alias(widgetAlias).grantInvoke(grantee);
  }
}

const defaultRetention: Required<Retention> = {
  finished: Duration.days(90),
  byProducer: {},
  exports: Duration.days(30),
};

/** As the function `retain` reads it. */
function daysOf({ finished, byProducer }: Required<Retention>): RetentionPolicy {
  const days = Object.entries(byProducer).map(([producer, duration]) => [producer, duration.toDays()]);
  return { finishedDays: finished.toDays(), byProducer: Object.fromEntries(days) };
}

/** A sentence for each rule between the numbers that does not hold. */
function brokenRules(
  settings: Settings,
  { reservedConcurrency }: ReminderLedgerProps,
  { backupRetention, retention }: { backupRetention: Duration; retention: Required<Retention> },
): string[] {
  const reserved = reservedConcurrency?.['webhook-sender'];
  const backup = backupRetention.toDays();
  const { queueRetentionDays, deadLetterRetentionDays } = settings;
  const exports = retention.exports.toDays();
  const least = backup + queueRetentionDays + deadLetterRetentionDays + exports;
  const { finishedDays, byProducer } = daysOf(retention);
  const policies = [['finished', finishedDays] as const, ...Object.entries(byProducer)];
  const rules: [holds: boolean, sentence: string][] = [
    [1 <= backup && backup <= 35, `backupRetention: 1 <= ${backup} d <= 35`],
    ...policies.map(([of, days]): [boolean, string] => [
      days >= least,
      `retention: ${of} ${days} d >= backup ${backup} d + queue ${queueRetentionDays} d + dead letters ${deadLetterRetentionDays} d + exports ${exports} d = ${least} d`,
    ]),
    [
      reserved === undefined || reserved >= settings.senderConcurrency,
      `reservedConcurrency: webhook-sender ${reserved} >= senderConcurrency ${settings.senderConcurrency}; a throttled batch uses up receives`,
    ],
  ];
  return [...brokenInequalities(settings), ...rules.flatMap(([holds, sentence]) => (holds ? [] : [sentence]))].map(
    (rule) => `must hold: ${rule}`,
  );
}
