// The widget's pages: text stays text whatever is in it, within CloudWatch's rules, and what they tell is what the verdict says.
import { describe, expect, test } from 'vitest';
import { ageText } from '../../lambdas/core/age-text.ts';
import type { Attention } from '../../lambdas/core/attention.ts';
import { measures } from '../../lambdas/core/observe-ledger.ts';
import { operatorCommand } from '../../lambdas/core/operator-command.ts';
import type { ReminderEvidence } from '../../lambdas/core/reminder-evidence.ts';
import { verdict } from '../../lambdas/core/verdict.ts';
import { type Explanation, explain } from '../../lambdas/core/verdict-text.ts';
import { widgetDescription, widgetLimitBytes, widgetRequest } from '../../lambdas/widget/contract.ts';
import type { Frame } from '../../lambdas/widget/frame.ts';
import { html } from '../../lambdas/widget/html.ts';
import { type LedgerView, ledgerPage } from '../../lambdas/widget/ledger-page.ts';
import { noticePage, reminderPage, storyLimit } from '../../lambdas/widget/reminder-page.ts';
import { browserPage } from '../../lib/local/console.ts';
import { attemptOf, evidenceOf, now, settings } from '../verdict/cells.ts';
import { example } from '../verdict/example.ts';

const frame: Frame = { theme: 'dark', endpoint: 'arn:aws:lambda:eu-central-1:111122223333:function:widget:look' };
const hostile = `"'><script>alert(1)</script><img src=x onerror=alert(1)><iframe src="javascript:alert(1)"></iframe><cwdb-action action="call">{}</cwdb-action>&amp;\u202e\u0000`;

const dead = {
  lease: 'none',
  attempt: 'failed',
  trace: 'queue',
  dispatch: 'open',
  time: 'late',
  cancel: 'no',
} as const;
const explained = (more: Partial<ReminderEvidence> = {}): Explanation => {
  const evidence = evidenceOf({ state: 'dead', ...dead }, more);
  return explain(evidence, verdict(evidence, now, settings), {
    region: 'eu-central-1',
    logGroup: '/aws/lambda/sender',
  });
};

/** Everything that anybody but the ledger wrote, hostile. */
function hostileReminder(): Explanation {
  const [outcome] = attemptOf(1, 'failed').outcomes;
  if (outcome === undefined) throw new Error('a failed attempt has an outcome');
  const worker = { functionVersion: hostile, requestId: hostile, logStream: hostile };
  return explained({
    ...{ key: hostile, producer: hostile, lastError: hostile, holdReason: hostile },
    destination: { ...evidenceOf({ state: 'dead', ...dead }).destination, name: hostile, owner: hostile },
    lease: { owner: hostile, until: new Date(now).toISOString() },
    handoffs: [{ at: new Date(now).toISOString(), messageId: hostile, queue: hostile, visibleFrom: hostile }],
    attempts: [{ ...attemptOf(1, 'failed'), host: hostile, worker, outcomes: [{ ...outcome, detail: hostile }] }],
    exclusions: [{ at: new Date(now).toISOString(), sqlState: 'XX001', reason: hostile, readmittedAt: null }],
  });
}

const line = { deliveryId: example.deliveryId, state: 'dead', since: new Date(now - 7_200_000).toISOString() } as const;
const exclusions = [{ at: line.since, sqlState: 'XX001', reason: 'a page is damaged', readmittedAt: null }];
const attention: Attention = { readAt: new Date(now).toISOString(), forPerson: [], overdue: [], setAside: [] };
const zeros = Object.fromEntries(
  Object.keys(measures).map((name) => [name, 0]),
) as LedgerView['observation']['measured'];
const view = (more: Partial<LedgerView> = {}): LedgerView => ({
  observation: { measured: zeros, destinations: [] },
  ...{ attention, states: null },
  ...more,
});

/** Each tag of a page. Text has none, since it holds no `<`. */
const tagsOf = (page: string) =>
  [...page.matchAll(/<\/?([a-z0-9-]+)([^>]*)>/g)].map(([, name = '', rest = '']) => [name, rest] as const);

const hostilePages = {
  ledger: ledgerPage(
    frame,
    view({
      observation: { measured: zeros, destinations: [{ name: hostile, state: hostile, parked: 1, failing: 2 }] },
      attention: { ...attention, forPerson: [{ ...line, why: hostile }], setAside: [{ ...line, why: hostile }] },
      states: [{ state: hostile, count: 1, oldestSince: line.since, oldestDue: null }],
    }),
  ),
  reminder: reminderPage(frame, hostile, hostileReminder(), null),
  notice: noticePage(frame, hostile, hostile),
};

describe.each(Object.entries(hostilePages))('a %s page with hostile text', (_, page) => {
  test('has the tags of its own alone, none that CloudWatch forbids, and no attribute that runs anything', () => {
    const names = new Set(tagsOf(page).map(([name]) => name));
    const own = [
      'a',
      'button',
      'cwdb-action',
      'div',
      'form',
      'h2',
      'h3',
      'input',
      'label',
      'li',
      'p',
      'pre',
      'span',
      'strong',
    ];
    expect(
      [...names].filter((name) => ![...own, 'style', 'table', 'tbody', 'td', 'th', 'thead', 'tr', 'ul'].includes(name)),
    ).toEqual([]);
    for (const [, rest] of tagsOf(page)) {
      // What stands in quotes is a value, whatever it looks like.
      expect(rest.replaceAll(/"[^"]*"/g, '')).not.toMatch(/\bon|<|'/);
      expect(rest).not.toMatch(/(href|src|action)="\s*javascript:/i);
    }
    expect(page).not.toContain('<script');
    expect(page).not.toMatch(/[\p{Cf}\0]/u);
  });

  test('shows it, to the letter', () => {
    expect(page).toContain('&lt;script&gt;alert(1)&lt;/script&gt;');
    expect(page).toContain('&amp;amp;\\u202e\\u0000');
  });

  test('calls the function with nothing but an id', () => {
    const actions = [...page.matchAll(/<cwdb-action action="call" endpoint="([^"]*)">([^<]*)</g)];
    expect(actions.length).toBeGreaterThan(0);
    expect(actions).toHaveLength(page.split('<cwdb-action').length - 1);
    for (const [, endpoint, parameters = ''] of actions) {
      expect(endpoint).toBe(frame.endpoint);
      const sent = JSON.parse(parameters.replaceAll('&quot;', '"')) as { reminder?: string };
      expect(widgetRequest.safeParse(sent).success).toBe(true);
      expect(['', undefined, example.deliveryId]).toContain(sent.reminder);
    }
  });

  test('is read by a browser without its actions: a form that is submitted, and links to this page', () => {
    const shown = browserPage(page);
    expect(shown).not.toContain('<cwdb-action');
    expect(shown).toContain('<button class="btn btn-primary">Explain</button>');
    for (const [, href = ''] of shown.matchAll(/<a class="[^"]*" href="([^"]*)"/g)) {
      expect(href).toMatch(/^\?(reminder=[0-9a-f-]*|count=true&amp;reminder=)$/);
    }
  });
});

describe('a template', () => {
  test('takes text as text, finished HTML as it is, lists one after another, and null as nothing', () => {
    expect(html`<p title="${'"<&\'>'}">${[html`<b>${'<b>'}</b>`, 1, null]}</p>`.toString()).toBe(
      '<p title="&quot;&lt;&amp;&#39;&gt;"><b>&lt;b&gt;</b>1</p>',
    );
  });
});

describe('one reminder', () => {
  const page = reminderPage(frame, example.deliveryId, explained(), 'Shop');

  test('has the verdict, who acts next, and times in UTC', () => {
    expect(page).toContain('<strong>needs person:</strong> It goes on only when a person decides.');
    expect(page).toContain('next: operator (decide)');
    expect(page).toContain('As of 2026-12-03 12:00:00 UTC.');
    expect(reminderPage(frame, '', example, null)).toContain('12:00:00 UTC, 1801 s after its due time.');
    expect(page).toContain('<div class="reminder-ledger dark">');
    expect(noticePage({ ...frame, theme: null }, '', '')).toContain('<div class="reminder-ledger ">');
  });

  test('has the command of each verb that is allowed, with what it needs, and the reason why the others are refused', () => {
    const commands = [...page.matchAll(/<pre data-verb="(\w+)">([^<]*)<\/pre>/g)].map(([, verb, text]) => [verb, text]);
    const at = `npm run reminders -- --stack Shop decide`;
    expect(Object.fromEntries(commands)).toEqual({
      requeue: `${at} requeue ${example.deliveryId}@1.1 --reason &#39;…&#39;`,
      hold: `${at} hold ${example.deliveryId}@1.1 --reason &#39;…&#39;`,
      cancel: `${at} cancel ${example.deliveryId}@1.1 --reason &#39;…&#39;`,
      resolve: `${at} resolve ${example.deliveryId}@1.1 --reason &#39;…&#39; --evidence &#39;…&#39;`,
      review: `${at} review ${example.deliveryId}@1.1 --reason &#39;…&#39;`,
    });
    expect(page).toContain('<li>release: it is dead, not held: use requeue</li>');
  });

  test.each([
    ['readmit', explained({ exclusions }), `recover readmit ${example.deliveryId} --reason '…'`],
    ['republish', example, `recover republish ${example.deliveryId}@1.1 --reason '…' --evidence '…'`],
    ['redrive', explained({ deadLetter: 'seen' }), "recover redrive --reason '…'"],
    ['release', example, null],
  ] as const)('has for %s what the command line takes', (verb, of, command) => {
    expect(operatorCommand(of, 1, verb, null)).toBe(command && `npm run reminders -- ${command}`);
    expect(reminderPage(frame, '', of, null).includes(`<pre data-verb="${verb}">`)).toBe(command !== null);
  });

  test('has its story in its order, with a link to the log of each attempt', () => {
    const story = reminderPage(frame, '', example, null);
    const times = [...story.matchAll(/<td class="time">([^<]*)</g)].map(([, time]) => time);
    expect(times).toEqual(times.toSorted());
    expect(times).toHaveLength(5);
    expect(story).toMatch(
      /<a href="https:\/\/eu-central-1\.console\.aws\.amazon\.com\/[^"]*" target="_blank" rel="noopener noreferrer">/,
    );
  });

  test('however long its story, is within its limit, and says what it leaves out', () => {
    const [outcome] = attemptOf(1, 'failed').outcomes;
    if (outcome === undefined) throw new Error('a failed attempt has an outcome');
    // Each character of a detail becomes six in HTML, and more where it cannot be seen.
    const attempts = Array.from({ length: 1000 }, (_, place) => ({
      ...attemptOf(place + 1, 'failed'),
      outcomes: [{ ...outcome, detail: '\u202e"'.repeat(512) }],
    }));
    const long = reminderPage(frame, '', explained({ attempts, attemptNo: 1000 }), null);
    expect(Buffer.byteLength(long)).toBeLessThan(widgetLimitBytes);
    expect(long).toContain(`${2002 - storyLimit} earlier lines are left out`);
    expect(long).toContain('attempt 1000: retry');
  });
});

describe('the ledger', () => {
  test('marks what somebody should look at, and nothing of a healthy one', () => {
    expect(ledgerPage(frame, view())).not.toContain('class="look"');
    const page = ledgerPage(
      frame,
      view({
        observation: {
          measured: {
            ...zeros,
            delivering: 5,
            dead_unreviewed: 2,
            dead_unreviewed_age: 7_200_000,
            queued: 3,
            queued_age: 90_000,
          },
          destinations: [],
        },
        attention: { ...attention, forPerson: [{ ...line, why: 'http_400' }] },
      }),
    );
    expect(page.match(/class="look"/g)).toHaveLength(1);
    expect(page).toMatch(
      /dead, not reviewed<\/th><td class="number">2<\/td><td>\s*2 h<\/td><td><span class="look">look/,
    );
    expect(page).toMatch(/queued: invited, not opened<\/th><td class="number">3<\/td><td>\s*90 s<\/td><td><\/td>/);
    expect(page).toContain('<h2>Waiting for a person</h2>');
    expect(page).toContain('2026-12-03 10:00:00 UTC, 2 h');
    expect(page).not.toContain('<h2>Overdue');
  });

  test('counts every state only when that was asked for', () => {
    expect(ledgerPage(frame, view())).toContain('Count every state');
    const states = [{ state: 'queued', count: 7, oldestSince: line.since, oldestDue: line.since }];
    expect(ledgerPage(frame, view({ states }))).toMatch(/queued<\/th><td class="number">7<\/td><td>2 h<\/td><td>2 h/);
  });
});

test('an age is told in the largest unit of which there are two', () => {
  const seconds = [0, 119, 120, 7199, 7200, 172_799, 172_800];
  expect(seconds.map((age) => ageText(age * 1000))).toEqual(['0 s', '119 s', '2 min', '120 min', '2 h', '48 h', '2 d']);
});

describe('what a dashboard sends', () => {
  test('is what the description says, and the example in it is YAML of parameters that are taken', () => {
    const [, yaml = ''] = /``` yaml\n([\s\S]*?)```/.exec(widgetDescription) ?? [];
    const example = Object.fromEntries(
      yaml
        .trim()
        .split('\n')
        .map((row) => row.split(': '))
        .map(([name, value = '']) => [name, value.replaceAll("'", '')]),
    );
    expect(widgetRequest.parse(example)).toEqual({ reminder: '', stack: 'ReminderLedger', logGroup: '' });
    for (const name of Object.keys(example)) expect(widgetDescription).toContain(`**${name}** |`);
  });

  // As the Amazon CloudWatch User Guide has it, "Details about custom widgets".
  test('may be more than is read', () => {
    const widgetContext = {
      ...{ dashboardName: 'x', widgetId: 'widget-16', accountId: '012345678901', locale: 'en', period: 300 },
      ...{ isAutoPeriod: true, timeRange: { mode: 'relative', start: 1627236199729, end: 1627322599729 } },
      ...{ theme: 'light', linkCharts: true, title: 'x', forms: { all: {} }, params: { original: 'x' }, width: 588 },
    };
    expect(widgetRequest.parse({ original: 'x', widgetContext })).toEqual({
      widgetContext: { theme: 'light', forms: { all: {} }, params: {} },
    });
    expect(widgetRequest.parse({ widgetContext: { theme: 'sepia' } })).toEqual({ widgetContext: { theme: undefined } });
  });
});
