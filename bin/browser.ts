// A headless Chromium: the one that the machine has, since none comes with the packages.
import { existsSync } from 'node:fs';
import { type Browser, chromium } from 'playwright-core';

/** Where Debian, Ubuntu, Chrome's own package and macOS put one. */
const places = [
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
];

/**
 * Starts it.
 * @throws {Error} when there is none; the message says what to install
 */
export async function startBrowser(): Promise<Browser> {
  const { CHROMIUM: named } = process.env;
  const looked = named === undefined ? places : [named];
  const executablePath = looked.find((path) => existsSync(path));
  if (executablePath === undefined) {
    throw new Error(
      `no Chromium at ${looked.join(', ')}: install one (Debian: apt-get install chromium), or name it in CHROMIUM`,
    );
  }
  return chromium.launch({ executablePath });
}
