// The console in a real browser, and the widget as CloudWatch calls it: the deployed bundle on a real ledger.
import { request as httpRequest } from 'node:http';
import { createRequire } from 'node:module';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startBrowser } from '../../bin/browser.ts';
import { type WidgetRequest, widgetAlias, widgetDescription } from '../../lambdas/widget/contract.ts';
import { startConsole } from '../../lib/local/console.ts';
import type { Service } from '../../lib/local/http-service.ts';
import { commandLine } from '../cli/command-line.ts';
import { eventually, type RunningLedger, startRunningLedger } from '../functions/running-ledger.ts';
import { dashboardOf, metricsOf } from '../stack/dashboard-bodies.ts';
import { synthesized } from '../stack/synthesized.ts';

const axe = createRequire(import.meta.url).resolve('axe-core/axe.min.js');
const hostile = `"'><script>document.title='owned'</script><img src="http://evil.test/x" onerror="document.title='owned'"><style>*{display:none}</style>`;

let ledger: RunningLedger;
let pages: Service;
let browser: Browser;
let deliveryId: string;
let key: string;
beforeAll(async () => {
  browser = await startBrowser();
  ledger = await startRunningLedger();
  pages = await startConsole({ host: ledger.aws.host });
  // A receiver's name, a product's key and an error: all of them may be anything.
  const partner = await ledger.destination('/status/400');
  await ledger.sql('UPDATE destination SET owner = $1 WHERE name = $2', [hostile, partner]);
  const asked = await ledger.schedule(partner, [{ key: `bill-${hostile.replaceAll(' ', '/')}`, dueInMs: 0 }]);
  [{ deliveryId, key } = { deliveryId: '', key: '' }] = asked;
  await ledger.settled([deliveryId], 'dead');
  await ledger.sql('UPDATE reminder_delivery SET last_error = $1 WHERE delivery_id = $2', [hostile, deliveryId]);
}, 90_000);
afterAll(async () => {
  await browser?.close();
  await pages?.close();
  await ledger?.stop();
});

/** A page, with everything that it asked for and complained of. */
async function open(path: string, options: BrowserContextOptions = {}) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  const asked: string[] = [];
  const complaints: string[] = [];
  page.on('request', (request) => void asked.push(request.url()));
  page.on('console', (message) => void complaints.push(message.text()));
  page.on('pageerror', (error) => void complaints.push(String(error)));
  await page.goto(`${pages.endpoint}${path}`);
  return { page, asked, complaints, close: () => context.close() };
}

async function findings(page: Page): Promise<string[]> {
  await page.addScriptTag({ path: axe });
  const { violations } = (await page.evaluate('axe.run()')) as {
    violations: { id: string; nodes: { html: string }[] }[];
  };
  return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(' ')}`);
}

describe('the console', () => {
  test('is used by keyboard alone: from the address to the search, to the verdict and its command', async () => {
    const { page, asked, complaints, close } = await open('/');
    await page.keyboard.press('Tab');
    await page.keyboard.type(deliveryId);
    await page.keyboard.press('Tab');
    expect(await page.evaluate('document.activeElement.textContent')).toBe('Explain');
    await page.keyboard.press('Enter');
    await page.waitForURL(`**/?reminder=${deliveryId}`);
    expect(await page.textContent('.verdict')).toContain('needs person: It goes on only when a person decides.');
    const command = (await page.textContent('pre[data-verb=requeue]')) ?? '';
    expect(command).toBe(`npm run reminders -- decide requeue ${deliveryId}@1.1 --reason '…'`);
    const words = command.replace('npm run reminders -- ', '').replace("'…'", 'mended').split(' ');
    const run = await commandLine(() => ledger.directory, ledger.directory).reminders(...words);
    expect(run).toMatchObject({ code: 0, stdout: expect.stringMatching(/requeued[\s\S]*nothing was done/) });
    // Back to the ledger, and by its link to the reminder.
    await page.keyboard.press('Tab');
    await page.keyboard.press('Tab');
    await page.keyboard.press('Tab');
    expect(await page.evaluate('document.activeElement.textContent')).toBe('The whole ledger');
    await page.keyboard.press('Enter');
    await page.waitForURL('**/?reminder=');
    await page.focus(`text=${deliveryId}`);
    await page.keyboard.press('Enter');
    await page.waitForURL(`**/?reminder=${deliveryId}`);
    expect(complaints).toEqual([]);
    expect(asked.filter((url) => !url.startsWith(pages.endpoint) && !url.startsWith('data:'))).toEqual([]);
    await close();
  });

  test('shows hostile text as text: nothing runs, nothing is asked for, nothing is hidden', async () => {
    for (const path of [
      '/?count=true&reminder=',
      `/?reminder=${deliveryId}`,
      `/?reminder=${encodeURIComponent(hostile)}`,
    ]) {
      const { page, asked, complaints, close } = await open(path);
      expect(await page.title()).toBe('Reminder Ledger on local AWS');
      expect(await page.isVisible('h1')).toBe(true);
      expect(await page.innerHTML('main')).toContain('&lt;script&gt;');
      expect(asked.filter((url) => !url.startsWith('data:'))).toEqual([page.url()]);
      expect(complaints).toEqual([]);
      await close();
    }
  });

  test('would run nothing even if text were not escaped: its policy stops it', async () => {
    const raw = {
      ...ledger.aws.host,
      invoke: async () => ({ payload: JSON.stringify(`<style></style>${hostile}`) }) as never,
    };
    const open = await startConsole({ host: raw });
    const page = await browser.newPage();
    await page.goto(open.endpoint);
    await sleep(200);
    expect(await page.title()).toBe('Reminder Ledger on local AWS');
    expect(await page.isVisible('h1')).toBe(true);
    await page.close();
    await open.close();
  });

  test.each(['light', 'dark'] as const)('is %s as the browser prefers, and axe finds nothing', async (colorScheme) => {
    for (const path of ['/?count=true', `/?reminder=${deliveryId}`]) {
      const { page, close } = await open(path, { colorScheme, bypassCSP: true });
      const background = await page.evaluate('getComputedStyle(document.body).backgroundColor');
      expect(background).toBe({ light: 'rgb(255, 255, 255)', dark: 'rgb(22, 29, 38)' }[colorScheme]);
      expect(await findings(page)).toEqual([]);
      await close();
    }
  });

  test('answers this machine alone, by its own names, and only reads', async () => {
    const ask = (method: string, path: string, host: string) =>
      new Promise<number>((resolve, reject) => {
        const asked = httpRequest(`${pages.endpoint}${path}`, { method, headers: { host } }, (response) => {
          response.resume();
          resolve(response.statusCode ?? 0);
        });
        asked.on('error', reject).end();
      });
    const { host, port } = new URL(pages.endpoint);
    expect(await ask('GET', '/', host)).toBe(200);
    expect(await ask('GET', '/', `localhost:${port}`)).toBe(200);
    expect(await ask('GET', '/', `evil.test:${port}`)).toBe(421);
    expect(await ask('GET', '/', '127.0.0.1')).toBe(421);
    expect(await ask('POST', '/', host)).toBe(405);
    expect(await ask('GET', '/elsewhere', host)).toBe(404);
    const { headers } = await fetch(pages.endpoint);
    expect(headers.get('content-security-policy')).toMatch(
      /^default-src 'none'; style-src 'nonce-[^']{24}'; img-src data:; /,
    );
  });
});

describe('the widget, as CloudWatch calls it', () => {
  const ask = (request: WidgetRequest) => ledger.aws.invoke('widget', request, widgetAlias) as Promise<string>;
  const count = () => ledger.sql('SELECT xmin FROM reminder_delivery');

  test('describes itself, and asks the database nothing', async () => {
    expect(await ask({ describe: true })).toBe(widgetDescription);
  });

  test.each(['light', 'dark'] as const)('has the theme of the dashboard: %s', async (theme) => {
    const page = await browser.newPage();
    await page.setContent(await ask({ widgetContext: { theme } }));
    const background = await page.evaluate(
      "getComputedStyle(document.querySelector('.reminder-ledger')).backgroundColor",
    );
    expect(background).toBe({ light: 'rgb(255, 255, 255)', dark: 'rgb(22, 29, 38)' }[theme]);
    await page.close();
  });

  test('explains what its form names when it is asked to, else what a button names, by id or key', async () => {
    const form = { forms: { all: { reminder: key } } };
    expect(await ask({ search: true, widgetContext: form })).toContain(`<h2>${deliveryId}</h2>`);
    expect(await ask({ reminder: deliveryId, widgetContext: { forms: { all: { reminder: 'stale' } } } })).toContain(
      '<h2>01',
    );
    expect(await ask({ reminder: '', widgetContext: form })).toContain('<h2>Now</h2>');
    expect(await ask({ reminder: 'nobody' })).toContain('not found: no reminder has that id or key');
    expect(await ask({ reminder: '\u0000' })).toContain('invalid: reminder: must not contain NUL');
  });

  test('keeps what the dashboard has set when a button sends no more than its own', async () => {
    const params = { stack: 'Shop', logGroup: '/aws/lambda/sender' };
    const page = await ask({ reminder: deliveryId, widgetContext: { params } });
    expect(page).toContain(`npm run reminders -- --stack Shop decide requeue ${deliveryId}`);
    expect(page).toContain('/cloudwatch/home?region=');
  });

  test('changes nothing, and says so when the ledger does not answer', async () => {
    const before = await count();
    await ask({ count: true });
    await ask({ reminder: deliveryId });
    expect(await count()).toEqual(before);
    ledger.aws.dataApi.faults.next({ kind: 'error-before', naming: deliveryId, times: 20 });
    expect(await ask({ reminder: deliveryId })).toContain('the ledger did not answer (show-evidence)');
    ledger.aws.dataApi.faults.clear();
  });

  test('shows no payload and no user', async () => {
    const shown = `${await ask({ count: true })}${await ask({ reminder: deliveryId })}`;
    expect(shown).not.toContain('user-1');
    expect(shown).not.toContain('{&quot;of&quot;');
  });
});

test('each metric of the dashboards is one that a function printed', async () => {
  const [ok, busy, lost] = await Promise.all(['/ok', '/status/500', '/reset'].map((path) => ledger.destination(path)));
  const again = { key: 'again', dueAt: new Date(Date.now() + 900_000).toISOString() };
  for (const to of [ok, busy, lost]) await ledger.schedule(to ?? '', [{ dueInMs: 0 }]);
  for (const wish of [again, again]) await ledger.schedule(ok ?? '', [wish]);
  await ledger.command({ verb: 'schedule', ...again, destination: ok, userId: 'other', payloadText: '' });
  await ledger.command({ verb: 'reschedule', key: 'again', dueAt: new Date(Date.now() + 800_000).toISOString() });
  await ledger.command({ verb: 'cancel', key: 'again' });
  await ledger.tick();
  await ledger.aws.invoke('observe', {});
  const found = synthesized();
  const shown = ['Wrong', 'Why'].flatMap((id) =>
    dashboardOf(found, `Ledger/Dashboards/${id}`).widgets.flatMap(metricsOf),
  );
  const own = shown.filter(({ namespace }) => namespace === 'ReminderLedger');
  expect(own.length).toBeGreaterThan(40);
  await eventually('each of them is printed', () => {
    const printed = printedMetrics(ledger.logs());
    return own.every(({ name, dimensions }) => printed.has(`${dimensions.service} ${name}`));
  }).catch(() => undefined);
  const printed = printedMetrics(ledger.logs());
  expect(own.map(({ name, dimensions }) => `${dimensions.service} ${name}`).filter((one) => !printed.has(one))).toEqual(
    [],
  );
});

/** What lines in CloudWatch's embedded format publish: the function and the metric. */
function printedMetrics(log: string): Set<string> {
  const lines = log.split('\n').filter((text) => text.includes('"_aws"'));
  return new Set(
    lines.flatMap((text) => {
      const { _aws, service } = JSON.parse(text) as {
        service: string;
        _aws: { CloudWatchMetrics: { Metrics: { Name: string }[] }[] };
      };
      return _aws.CloudWatchMetrics.flatMap(({ Metrics }) => Metrics.map(({ Name }) => `${service} ${Name}`));
    }),
  );
}
