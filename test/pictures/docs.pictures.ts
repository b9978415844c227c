// Takes the pictures of docs/pictures: the console, the widget in both themes, and the dashboards as far as they go without AWS.
import { mkdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { startBrowser } from '../../bin/browser.ts';
import { startConsole } from '../../lib/local/console.ts';
import { eventually, startRunningLedger } from '../functions/running-ledger.ts';
import { dashboardOf } from '../stack/dashboard-bodies.ts';
import { synthesized } from '../stack/synthesized.ts';
import { dashboardPage, seriesIn } from './dashboard-drawing.ts';

const folder = fileURLToPath(new URL('../../docs/pictures', import.meta.url));

test('the pictures of the documentation', async () => {
  mkdirSync(folder, { recursive: true });
  const ledger = await startRunningLedger();
  const console = await startConsole({ host: ledger.aws.host });
  const browser = await startBrowser();
  const named = async (name: string, path: string, contract?: string): Promise<string> => {
    await ledger.sql('UPDATE destination SET name = $1 WHERE name = $2', [
      name,
      await ledger.destination(path, contract),
    ]);
    return name;
  };
  const [partner, bank, post, shop] = await Promise.all([
    named('partner', '/ok'),
    named('bank', '/status/400'),
    named('post', '/reset', 'none'),
    named('shop', '/status/503'),
  ]);
  const wish = (key: string, dueInMs = 0) => ({ key, dueInMs });
  const [dead] = await ledger.schedule(bank, [wish('bill-7'), wish('bill-8')]);
  await ledger.schedule(
    shop,
    [1, 2, 3, 4].map((number) => wish(`order-${number}`)),
  );
  await ledger.schedule(post, [wish('letter-1')]);
  const later = Array.from({ length: 24 }, (_, place) => wish(`visit-${place}`, 1000 + place * 1000));
  await ledger.schedule(partner, later);
  await ledger.sql(`INSERT INTO destination (destination_id, name, url, owner, contract, state, state_since, created_at)
    VALUES (gen_random_uuid(), 'school', 'https://to.example/', 'teachers', 'honours-key', 'paused', now(), now())`);
  await ledger.schedule('school', [wish('lesson-1', 1000), wish('lesson-2', 1000), wish('lesson-3', 1000)]);
  // So many looks make a line.
  await sleep(45_000);

  const shot = async (
    name: string,
    size: { width: number; height: number },
    scheme: 'light' | 'dark',
    show: (page: import('playwright-core').Page) => Promise<unknown>,
  ) => {
    const context = await browser.newContext({
      viewport: size,
      colorScheme: scheme,
      deviceScaleFactor: name.startsWith('dashboard') ? 0.8 : 1,
    });
    const page = await context.newPage();
    await show(page);
    const path = join(folder, `${name}.png`);
    await page.screenshot({ path });
    await context.close();
    expect(statSync(path).size, name).toBeLessThan(200_000);
  };
  /** As CloudWatch shows it: of an action nothing is seen. On a busy machine the ledger may answer later. */
  const widget = (request: object) =>
    eventually('the ledger answers', async () => {
      const page = (await ledger.aws.invoke('widget', request, 'look')) as string;
      return !page.includes('did not answer') && `<style>cwdb-action { display: none; }</style>${page}`;
    });
  const reminder = `?reminder=${dead?.deliveryId}`;
  await shot('console', { width: 1000, height: 1000 }, 'light', (page) => page.goto(`${console.endpoint}/?count=true`));
  await shot('console-reminder', { width: 1000, height: 1150 }, 'dark', (page) =>
    page.goto(`${console.endpoint}/${reminder}`),
  );
  for (const theme of ['light', 'dark'] as const) {
    const request = {
      ...(theme === 'dark' ? { reminder: dead?.deliveryId } : {}),
      stack: 'ReminderLedger',
      widgetContext: { theme },
    };
    const page = await widget(request);
    await shot(`widget-${theme}`, { width: 900, height: 700 }, theme, (blank) =>
      blank.setContent(`<!doctype html><body style="margin: 0">${page}`),
    );
  }
  const found = synthesized();
  const series = seriesIn(ledger.logs());
  const light = await widget({ widgetContext: { theme: 'light' } });
  for (const [id, title] of [
    ['Wrong', 'Is anything wrong?'],
    ['Why', 'Why?'],
  ] as const) {
    const { widgets } = dashboardOf(found, `Ledger/Dashboards/${id}`);
    const page = dashboardPage(title, widgets, series, light);
    await shot(`dashboard-${id.toLowerCase()}`, { width: 1210, height: id === 'Why' ? 1900 : 940 }, 'light', (blank) =>
      blank.setContent(page),
    );
  }
  await browser.close();
  await console.close();
  await ledger.stop();
});
