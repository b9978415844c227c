// What the synthesized app would deploy: the hash of each function's bundle, read from the cloud assembly alone.
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { functionMetadataKey } from '../lib/stack/function-metadata.ts';

interface Template {
  readonly Resources: Record<string, { Type: string; Metadata?: Record<string, string>; Properties: AssetProperties }>;
}
interface AssetProperties {
  readonly Code?: { readonly S3Key?: string };
}

/**
 * Synthesizes the app in a process of its own and answers, for each function by its contract's name, the SHA-256 of the
 * files that its template deploys, by {@link bundleHash}.
 * @throws {Error} when the app does not synthesize: its message is the app's
 */
export async function deployedBundles(): Promise<Map<string, string>> {
  const assembly = await mkdtemp(join(tmpdir(), 'reminder-ledger-assembly-'));
  try {
    const app = fileURLToPath(new URL('app.ts', import.meta.url));
    await promisify(execFile)(process.execPath, [app], { env: { ...process.env, CDK_OUTDIR: assembly } });
    const bundles = new Map<string, string>();
    for (const file of await readdir(assembly)) {
      if (!file.endsWith('.template.json')) continue;
      const template: Template = JSON.parse(await readFile(join(assembly, file), 'utf8'));
      for (const { Metadata, Properties } of Object.values(template.Resources)) {
        const name = Metadata?.[functionMetadataKey];
        // CDK names an asset's folder and its object in the bucket by the same hash of its content.
        const hash = Properties?.Code?.S3Key?.replace('.zip', '');
        if (!name || !hash) continue;
        bundles.set(name, await bundleHash(join(assembly, `asset.${hash}`)));
      }
    }
    return bundles;
  } finally {
    await rm(assembly, { recursive: true, force: true });
  }
}

/** The SHA-256, in hexadecimal, of all files of a bundle with their names: its code, and migrations where there are some. */
export async function bundleHash(folder: string): Promise<string> {
  const hash = createHash('sha256');
  const files = await readdir(folder, { recursive: true, withFileTypes: true });
  for (const path of files
    .filter((file) => file.isFile())
    .map((file) => join(file.parentPath, file.name))
    .sort()) {
    const content = await readFile(path);
    hash.update(JSON.stringify([relative(folder, path), content.length])).update(content);
  }
  return hash.digest('hex');
}
