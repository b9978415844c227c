// The release before this one, built from the repository's own history.
import { execFileSync } from 'node:child_process';
import { mkdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** Its commit. Whoever releases sets it to the release that is then the former one. */
const previousRelease = 'a9ab2e759a6c3100e4143430576f01a241b13147';

const repository = fileURLToPath(new URL('../..', import.meta.url));

/**
 * Builds its bundles with its own `bin/build.ts` and the packages that are installed here.
 * @param directory where its sources are put; must not exist
 * @returns the folder with a folder for each function
 * @throws {Error} when the history does not reach back to it, as in a shallow clone
 */
export function buildPreviousRelease(directory: string): string {
  mkdirSync(directory, { recursive: true });
  let sources: Buffer;
  try {
    const archive = ['archive', previousRelease, 'bin', 'lambdas', 'migrations', 'package.json'];
    sources = execFileSync('git', archive, { cwd: repository, maxBuffer: 64 * 1024 * 1024, stdio: 'pipe' });
  } catch (error) {
    throw new Error(
      `the previous release: git has no commit ${previousRelease}; fetch the whole history (git fetch --unshallow)`,
      { cause: error },
    );
  }
  execFileSync('tar', ['-x', '-C', directory], { input: sources });
  symlinkSync(join(repository, 'node_modules'), join(directory, 'node_modules'));
  execFileSync(process.execPath, ['bin/build.ts'], { cwd: directory, stdio: 'pipe' });
  return join(directory, 'dist', 'functions');
}
