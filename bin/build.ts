// Bundles each function once into dist/: what is deployed, what local AWS runs and what the tests check are these files.
import { createHash } from 'node:crypto';
import { copyFile, mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { functions } from '../lambdas/functions.ts';

/** What the manifest says of a function's `index.mjs`. */
export interface Bundle {
  readonly bytes: number;
  readonly sha256: string;
}

const functionNames = functions.map(({ name }) => name);

/**
 * Bundles every function of the repository at `root` into `root/dist/functions/<name>/index.mjs`, the SDK included, with
 * the migrations beside `migrate`, and writes `root/dist/manifest.json`. The same sources give the same bytes, wherever
 * the repository lies. What an earlier build left is replaced.
 * @throws {Error} when a `lambdas/<name>/handler.ts` is missing or does not compile; `dist` is then as it was
 */
export async function buildFunctions(root: string): Promise<Record<string, Bundle>> {
  const dist = join(root, 'dist');
  const fresh = join(dist, `functions.${process.pid}`);
  try {
    await build({
      absWorkingDir: root,
      entryPoints: functionNames.map((name) => ({ in: `lambdas/${name}/handler.ts`, out: `${name}/index` })),
      outdir: fresh,
      outExtension: { '.js': '.mjs' },
      bundle: true,
      minify: true,
      platform: 'node',
      target: 'node24',
      format: 'esm',
      // ES modules first: smaller, and the SDK then needs no require.
      mainFields: ['module', 'main'],
      // undici and other CommonJS packages call require for Node's own modules.
      banner: { js: "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);" },
      legalComments: 'none',
      // What is wrong is in the error it throws.
      logLevel: 'silent',
    });
    const migrations = join(fresh, 'migrate', 'migrations');
    await mkdir(migrations);
    for (const file of await readdir(join(root, 'migrations'))) {
      if (file.endsWith('.sql')) await copyFile(join(root, 'migrations', file), join(migrations, file));
    }
    const manifest: Record<string, Bundle> = {};
    for (const name of functionNames) {
      const code = await readFile(join(fresh, name, 'index.mjs'));
      manifest[name] = { bytes: code.length, sha256: createHash('sha256').update(code).digest('hex') };
    }
    await rm(join(dist, 'functions'), { recursive: true, force: true });
    await rename(fresh, join(dist, 'functions'));
    await writeFile(join(dist, 'manifest.json'), `${JSON.stringify(manifest, null, 2)}\n`);
    return manifest;
  } finally {
    await rm(fresh, { recursive: true, force: true });
  }
}

if (import.meta.main) {
  const bundles = await buildFunctions(fileURLToPath(new URL('..', import.meta.url)));
  for (const [name, { bytes, sha256 }] of Object.entries(bundles)) {
    console.log(`${name.padEnd(16)} ${String(bytes).padStart(9)} bytes  sha256 ${sha256}`);
  }
}
