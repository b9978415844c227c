// The demo as people run it: it passes, and each sabotage makes it fail and name the promise that was broken.
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { sabotages } from '../../bin/demo-sabotage.ts';

const demo = fileURLToPath(new URL('../../bin/demo.ts', import.meta.url));

/** Fewer reminders than by default: here it shares the machine with other tests. */
function runDemo(...more: string[]): Promise<{ code: number | null; output: string }> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [demo, '--reminders', '300', ...more], { stdio: ['ignore', 'pipe', 'pipe'] });
    let output = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (chunk: Buffer) => {
        output += chunk.toString('utf8');
      });
    }
    child.once('error', reject);
    child.once('close', (code) => resolve({ code, output }));
  });
}

test('without sabotage all promises hold, and it exits with 0', { timeout: 180_000 }, async () => {
  const { code, output } = await runDemo();
  expect(output).toContain("All promises held, by the receiver's own log.");
  expect(output).not.toContain('BROKEN');
  expect(code).toBe(0);
});

// Three at once, as the configuration says: they wait more than they work, and what each breaks is found at any load.
test.concurrent.each(Object.entries(sabotages))(
  'sabotage "%s" is found as "%s"',
  { timeout: 180_000 },
  async (sabotage, promise) => {
    const { code, output } = await runDemo('--sabotage', sabotage);
    expect(output).toContain(`BROKEN  ${promise}`);
    expect(code).toBe(1);
  },
);

test('an unknown sabotage is refused with the known ones', async () => {
  const { code, output } = await runDemo('--sabotage', 'nonsense');
  expect(output).toContain('early');
  expect(code).toBe(1);
});
