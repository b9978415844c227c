// The stack synthesizes, alone and in another app, and refuses with a sentence what must not be deployed.
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Duration, Stack } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import { SubnetType, Vpc } from 'aws-cdk-lib/aws-ec2';
import { describe, expect, test } from 'vitest';
import { ReminderLedger } from '../../lib/stack/reminder-ledger.ts';
import { ReminderLedgerStack } from '../../lib/stack/reminder-ledger-stack.ts';
import { flagSets, newApp, synthesized } from './synthesized.ts';

const repository = fileURLToPath(new URL('../..', import.meta.url));

describe.each(flagSets)('under %s', (_name, flags) => {
  test.each(['production', 'dev'] as const)('stage %s synthesizes without a cycle and without a warning', (stage) => {
    const app = newApp(flags);
    const stack = new ReminderLedgerStack(app, 'ReminderLedger', { stage });
    const assembly = app.synth();
    expect(assembly.getStackArtifact(stack.artifactId).messages).toEqual([]);
    expect(() => Template.fromStack(stack)).not.toThrow();
  });

  test('two ledgers fit into one stack of another app', () => {
    const stack = new Stack(newApp(flags), 'Shop');
    new ReminderLedger(stack, 'Reminders');
    new ReminderLedger(stack, 'Offers');
    Template.fromStack(stack).resourceCountIs('AWS::Scheduler::Schedule', 8);
  });
});

test('the outputs are those that the command line reads, each described', () => {
  const outputs = synthesized().template.toJSON().Outputs as Record<string, { Description: string }>;
  expect(Object.keys(outputs).toSorted()).toEqual([
    'ArchiveBucketName',
    'ClaimFunctionName',
    'ControlUrl',
    'DatabaseArn',
    'DatabaseName',
    'DatabaseObserverSecretArn',
    'DatabaseOperatorSecretArn',
    'DatabaseOwnerSecretArn',
    'DeadLetterQueueUrl',
    'DecideUrl',
    'EventBusName',
    'InspectUrl',
    'InvitationQueueUrl',
    'RecoverUrl',
    'ScheduleFunctionName',
    'SigningSecretArn',
  ]);
  for (const { Description } of Object.values(outputs)) expect(Description).toMatch(/\w+ \w+/);
});

describe('the app', () => {
  const run = (context: Record<string, string>) => {
    const { outdir } = newApp();
    const env = { ...process.env, CDK_OUTDIR: outdir, CDK_CONTEXT_JSON: JSON.stringify(context) };
    return { outdir, ...spawnSync(process.execPath, ['bin/app.ts'], { cwd: repository, encoding: 'utf8', env }) };
  };

  test('deploys production unless told otherwise, each stage as a stack of its own, production protected, within 30 s', () => {
    for (const [context, stack, isProtected] of [
      [{}, 'ReminderLedger', true],
      [{ stage: 'dev' }, 'ReminderLedgerDev', false],
    ] as const) {
      const begun = performance.now();
      const { outdir, status, stderr } = run(context);
      expect(status, stderr).toBe(0);
      expect(readdirSync(outdir)).toContain(`${stack}.template.json`);
      expect(performance.now() - begun).toBeLessThan(30_000);
      const { artifacts } = JSON.parse(readFileSync(join(outdir, 'manifest.json'), 'utf8'));
      expect(artifacts[stack].properties.terminationProtection ?? false).toBe(isProtected);
    }
  });

  test('names the stages that it knows when asked for another, in one sentence', () => {
    const { status, stderr } = run({ stage: 'staging' });
    expect(status).toBe(1);
    expect(stderr).toBe('stage: got "staging"; use one of production, dev\n');
  });
});

describe('synthesis fails', () => {
  test('with the sentence of every inequality that does not hold', () => {
    const app = newApp();
    new ReminderLedgerStack(app, 'ReminderLedger', {
      queue: { visibilityTimeoutSeconds: 100, maxReceiveCount: 3, queueRetentionDays: 14 },
      backupRetention: Duration.days(36),
      reservedConcurrency: { 'webhook-sender': 0 },
    });
    const { message } = caught(() => app.synth());
    for (const sentence of [
      'must hold: visibility 100 s >= 6 x sender timeout 30 s',
      'must hold: maxReceiveCount 3 >= 5',
      'must hold: queue retention 14 d < dead-letter retention 14 d',
      'must hold: backupRetention: 1 <= 36 d <= 35',
      'must hold: reservedConcurrency: webhook-sender 0 >= senderConcurrency 10',
    ])
      expect(message).toContain(sentence);
  });

  test('for a stage that is not deployed, and names those that are', () => {
    for (const stage of ['rehearsal', 'staging', '']) {
      expect(() => new ReminderLedgerStack(newApp(), 'Odd', { stage: stage as 'dev' })).toThrow(
        `stage: got ${JSON.stringify(stage)}; use one of production, dev`,
      );
    }
  });

  test('for a capacity that Aurora does not have', () => {
    expect(() => new ReminderLedgerStack(newApp(), 'Odd', { capacity: { minimum: 4, maximum: 2 } })).toThrow(
      'capacity: got minimum 4 and maximum 2; use halves, 0 <= minimum < maximum, 1 <= maximum <= 256',
    );
  });

  test.each([
    [0.3, 2],
    [0, 0.5],
  ])('for a capacity of %d to %d, which Aurora would refuse only once the network is made', (minimum, maximum) => {
    expect(() => new ReminderLedgerStack(newApp(), 'Odd', { capacity: { minimum, maximum } })).toThrow('use halves');
  });

  test('for a network with the database in one availability zone', () => {
    const app = newApp();
    const stack = new Stack(app, 'Shop');
    const vpc = new Vpc(stack, 'Network', { maxAzs: 1, natGateways: 0 });
    const vpcSubnets = { subnetType: SubnetType.PUBLIC };
    expect(() => new ReminderLedger(stack, 'Reminders', { vpc, vpcSubnets })).toThrow(
      'vpcSubnets: got subnets in 1 availability zone(s); Aurora needs two or more',
    );
  });

  test('when the bundles were not built, and says how to', () => {
    const bundles = join(tmpdir(), 'reminder-ledger-never-built');
    expect(() => new ReminderLedgerStack(newApp(), 'Unbuilt', { bundles })).toThrow(
      `bundle of migrate: ${join(bundles, 'migrate', 'index.mjs')} is missing; run: npm run build`,
    );
  });

  test('when a function’s variables and its contract part', () => {
    const app = newApp();
    const { ledger } = new ReminderLedgerStack(app, 'ReminderLedger');
    ledger.bus.grantAnnounce(ledger.schedule);
    expect(() => app.synth()).toThrow(
      'environment of schedule: EVENT_BUS_NAME must be both in its contract and granted',
    );
  });
});

function caught(call: () => unknown): Error {
  try {
    call();
  } catch (error) {
    if (error instanceof Error) return error;
  }
  throw new Error('nothing was thrown');
}
