// What each function is deployed with: bundle, variables, time-out, log.
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { bundleHash, deployedBundles } from '../../bin/deployed-bundles.ts';
import { canaryFunction } from '../../lambdas/canary/contract.ts';
import { canaryReceiverFunction } from '../../lambdas/canary-receiver/contract.ts';
import { claimFunction } from '../../lambdas/claim/contract.ts';
import type { FunctionContract } from '../../lambdas/core/function-contract.ts';
import { migrateFunction } from '../../lambdas/migrate/contract.ts';
import { observeFunction } from '../../lambdas/observe/contract.ts';
import { operateFunction } from '../../lambdas/operate/contract.ts';
import { retainFunction } from '../../lambdas/retain/contract.ts';
import { rotateFunction } from '../../lambdas/rotate/contract.ts';
import { scheduleFunction } from '../../lambdas/schedule/contract.ts';
import { webhookSenderFunction } from '../../lambdas/webhook-sender/contract.ts';
import { widgetFunction } from '../../lambdas/widget/contract.ts';
import { synthesized } from './synthesized.ts';

const dist = fileURLToPath(new URL('../../dist/functions', import.meta.url));

/** Every file of a folder, by its path in it, with its hash. */
function hashesOf(folder: string): Record<string, string> {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return Object.fromEntries(
    files.map(({ parentPath, name }) => {
      const path = join(parentPath, name);
      return [path.slice(folder.length), createHash('sha256').update(readFileSync(path)).digest('hex')];
    }),
  );
}

const { template, assembly, properties: propertiesOf } = synthesized();

interface FunctionProperties {
  readonly Code: { readonly S3Key: string };
  readonly Environment: { readonly Variables: Record<string, unknown> };
}

describe.each<[path: string, contract: FunctionContract, timeoutSeconds: number]>([
  ['Ledger/Schedule/Function', scheduleFunction, 29],
  ['Ledger/Claim/Function', claimFunction, 55],
  ['Ledger/WebhookSender/Function', webhookSenderFunction, 30],
  ['Ledger/Migrate/Function', migrateFunction, 840],
  ['Ledger/Rotate/Function', rotateFunction, 60],
  ['Ledger/Observe/Function', observeFunction, 55],
  ['Ledger/Retain/Function', retainFunction, 900],
  ['Ledger/Operate/Function', operateFunction, 29],
  ['Ledger/Canary/Function', canaryFunction, 60],
  ['Ledger/CanaryReceiver/Function', canaryReceiverFunction, 10],
  ['Ledger/Widget/Function', widgetFunction, 29],
])('%s', (path, contract, timeoutSeconds) => {
  const properties = propertiesOf<FunctionProperties>(path);

  test('runs its bundle, byte for byte', () => {
    const asset = join(assembly, `asset.${properties.Code.S3Key.replace('.zip', '')}`);
    const hashes = hashesOf(asset);
    expect(hashes).toEqual(hashesOf(join(dist, contract.name)));
    expect(Object.keys(hashes)).toContain('/index.mjs');
  });

  test('has the variables of its contract and no other', () => {
    const { Variables } = properties.Environment;
    expect(Object.keys(Variables).toSorted()).toEqual([...contract.environment].toSorted());
    expect(Variables.STAGE).toBe('production');
  });

  test('runs on Node.js 24 on ARM, for as long as its contract says, and logs JSON to its own group', () => {
    expect(properties).toMatchObject({
      Runtime: 'nodejs24.x',
      Architectures: ['arm64'],
      Handler: 'index.handler',
      MemorySize: contract.memoryMegabytes,
      Timeout: timeoutSeconds,
      TracingConfig: { Mode: 'Active' },
      LoggingConfig: { LogFormat: 'JSON', LogGroup: { Ref: expect.stringMatching(/Log/) } },
    });
    expect(propertiesOf(path.replace('Function', 'Log'))).toMatchObject({ RetentionInDays: 90 });
  });
});

test('no function anywhere in the stack opens the address wall', () => {
  expect(JSON.stringify(template.toJSON())).not.toContain('WEBHOOK_TRUSTED_CIDRS');
});

test('the app deploys the bundles that were built, as the demo compares them', async () => {
  const built = new Map<string, string>();
  for (const name of readdirSync(dist)) built.set(name, await bundleHash(join(dist, name)));
  expect(await deployedBundles()).toEqual(built);
});
