// The build makes bundles that load by themselves, the same bytes each time, and leaves nothing of an earlier one.
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cp, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { buildFunctions } from '../../bin/build.ts';

const repository = fileURLToPath(new URL('../..', import.meta.url));
let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'reminder-ledger-build-'));
});
afterAll(() => rm(folder, { recursive: true }));

/** A copy of what the build reads, in a folder of the given name. */
async function copyOfRepository(name: string): Promise<string> {
  const root = join(folder, name);
  await mkdir(root);
  for (const part of ['lambdas', 'migrations', 'package.json', 'tsconfig.json']) {
    await cp(join(repository, part), join(root, part), { recursive: true });
  }
  await symlink(join(repository, 'node_modules'), join(root, 'node_modules'));
  return root;
}

/** Every file that a build made, with its hash. */
async function builtFiles(root: string): Promise<Record<string, string>> {
  const entries = await readdir(join(root, 'dist'), { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile()).map(({ parentPath, name }) => join(parentPath, name));
  const hashes = files.toSorted().map(async (file): Promise<[string, string]> => {
    const hash = createHash('sha256')
      .update(await readFile(file))
      .digest('hex');
    return [file.slice(root.length + 1), hash];
  });
  return Object.fromEntries(await Promise.all(hashes));
}

test('two builds of the same sources, in two places, are equal byte for byte; the manifest tells their hashes', async () => {
  const first = await copyOfRepository('first');
  const second = await copyOfRepository('a.second-place');
  const manifest = await buildFunctions(first);
  await buildFunctions(second);
  const files = await builtFiles(first);
  expect(await builtFiles(second)).toEqual(files);

  const migrations = (await readdir(join(repository, 'migrations'))).filter((name) => name.endsWith('.sql'));
  expect(migrations.length).toBeGreaterThan(0);
  expect(Object.keys(files)).toEqual(
    [
      'dist/manifest.json',
      ...[
        'claim',
        'migrate',
        'observe',
        'operate',
        'retain',
        'rotate',
        'schedule',
        'webhook-sender',
        'canary',
        'canary-receiver',
        'widget',
      ].map((name) => `dist/functions/${name}/index.mjs`),
      ...migrations.map((name) => `dist/functions/migrate/migrations/${name}`),
    ].toSorted(),
  );
  expect(JSON.parse(await readFile(join(first, 'dist', 'manifest.json'), 'utf8'))).toEqual(manifest);
  for (const [name, { sha256 }] of Object.entries(manifest)) {
    expect(files[`dist/functions/${name}/index.mjs`]).toBe(sha256);
  }
});

test('a build replaces what an earlier one left, and a failing one leaves it as it was', async () => {
  const root = await copyOfRepository('again');
  await mkdir(join(root, 'dist', 'functions', 'forgotten'), { recursive: true });
  await writeFile(join(root, 'dist', 'functions', 'forgotten', 'index.mjs'), '');
  await buildFunctions(root);
  const built = await builtFiles(root);
  expect(Object.keys(built)).not.toContain('dist/functions/forgotten/index.mjs');

  await writeFile(join(root, 'lambdas', 'claim', 'handler.ts'), 'export const handler = ;');
  await expect(buildFunctions(root)).rejects.toThrow('lambdas/claim/handler.ts');
  expect(await builtFiles(root)).toEqual(built);
});

test.each(['schedule', 'claim', 'webhook-sender', 'migrate', 'rotate', 'observe', 'retain', 'widget'])(
  'the bundle of %s loads alone, as Lambda loads it, and says at once which variables it misses',
  async (name) => {
    const alone = join(folder, `alone-${name}`);
    await cp(join(repository, 'dist', 'functions', name), alone, { recursive: true });
    const { STAGE: _, ...env } = process.env;
    // A file, since `node -e` has a global `require` that would hide a missing one.
    const told = "await import('./index.mjs').catch(({ name, message }) => console.log(name + ': ' + message));";
    await writeFile(join(alone, 'runtime.mjs'), told);
    const { stdout } = await promisify(execFile)(process.execPath, [join(alone, 'runtime.mjs')], { env });
    expect(stdout).toContain(`ColdStartError: ${name} cannot start: environment of ${name}: STAGE, DATABASE_ARN`);
  },
);
