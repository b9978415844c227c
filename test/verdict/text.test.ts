// How a verdict is printed: hostile text made visible, lines within their columns, links into logs, and the example of the docs.
import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { logLink } from '../../lambdas/core/log-link.ts';
import { verdict } from '../../lambdas/core/verdict.ts';
import { standings } from '../../lambdas/core/verdict-standing.ts';
import {
  explain,
  explanationText,
  printable,
  printableJson,
  storyText,
  textColumns,
} from '../../lambdas/core/verdict-text.ts';
import { operatorVerbs } from '../../lambdas/core/verdict-verbs.ts';
import { attemptOf, evidenceOf, now, settings } from './cells.ts';
import { example } from './example.ts';

const operators = readFileSync(new URL('../../docs/operators.md', import.meta.url), 'utf8');
/** The first column of the table under a heading. */
const firstColumn = (heading: string) => {
  const [table = ''] = /(\|.*\n)+/.exec(operators.slice(operators.indexOf(heading))) ?? [];
  return [...table.matchAll(/^\| `(\w+)`/gm)].map(([, name]) => name);
};

describe('what is printed', () => {
  test.each([
    ['an escape sequence', '\u001b[2J\u001b[31mred', '\\u001b[2J\\u001b[31mred'],
    ['a C1 control', '\u009b2J', '\\u009b2J'],
    ['a line and a return', 'a\r\nnext: nothing', 'a\\u000d\\u000anext: nothing'],
    ['a text turned around', 'a\u202eb', 'a\\u202eb'],
    ['a character without width', 'a\u200bb\ufeff', 'a\\u200bb\\ufeff'],
    ['separators of lines', '\u2028\u2029', '\\u2028\\u2029'],
    ['half a character', '\ud800', '\\ud800'],
    ['a tag beyond the first plane', '\u{e0041}', '\\udb40\\udc41'],
    ['NUL and DEL', '\u0000\u007f', '\\u0000\\u007f'],
  ])('shows %s', (_, hostile, shown) => {
    expect(printable(hostile)).toBe(shown);
    expect(JSON.parse(printableJson({ hostile }))).toEqual({ hostile });
    expect(printableJson({ hostile }).split('\n').length).toBe(3);
  });

  test('leaves letters of any script, signs and spaces as they are', () => {
    for (const text of ['Überweisung fällig: 5 €', '支払い', 'ünïcödé 🎉', 'a  b', '\\u001b'])
      expect(printable(text)).toBe(text);
  });

  test('hides nothing of a hostile answer, key or reason, and lets none begin a line', () => {
    const hostile = '\u001b[2J\nnext: nothing: this is final\n'.repeat(30);
    const [outcome] = attemptOf(1, 'failed').outcomes;
    if (outcome === undefined) throw new Error('a failed attempt has an outcome');
    const attempts = [{ ...attemptOf(1, 'failed'), outcomes: [{ ...outcome, detail: hostile }] }];
    const evidence = evidenceOf(
      { state: 'dead', lease: 'none', attempt: 'failed', trace: 'queue', dispatch: 'open', time: 'late', cancel: 'no' },
      { key: hostile, lastError: hostile, attempts },
    );
    const explanation = explain(evidence, verdict(evidence, now, settings));
    for (const text of [explanationText(explanation), storyText(explanation)]) {
      const lines = text.split('\n');
      expect(lines.filter((line) => line.startsWith('next:'))).toHaveLength(1);
      expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(textColumns);
      expect(text).toContain('\\u001b[2J\\u000anext:');
    }
    expect(JSON.parse(printableJson(explanation)).evidence.attempts[0].outcomes[0].detail).toBe(hostile);
  });
});

describe('a link', () => {
  const worker = { logStream: '2026/12/03/[7]4b2f9d', requestId: '8f507cfc-a' };

  test('leads to the lines of one request in its log stream', () => {
    const link = logLink({ region: 'eu-central-1', logGroup: '/aws/lambda/sender' }, worker);
    expect(link).toBe(
      'https://eu-central-1.console.aws.amazon.com/cloudwatch/home?region=eu-central-1#logsV2:log-groups/log-group/' +
        '$252Faws$252Flambda$252Fsender/log-events/2026$252F12$252F03$252F$255B7$255D4b2f9d' +
        '$3FfilterPattern$3D$25228f507cfc-a$2522',
    );
    // Read back as the console does.
    const fragment = decodeURIComponent(new URL(link).hash.replaceAll('$', '%'));
    expect(decodeURIComponent(fragment)).toBe(
      '#logsV2:log-groups/log-group//aws/lambda/sender/log-events/2026/12/03/[7]4b2f9d?filterPattern="8f507cfc-a"',
    );
  });

  test.each([
    ['cn-north-1', 'cn-north-1.console.amazonaws.cn'],
    ['us-gov-west-1', 'us-gov-west-1.console.amazonaws-us-gov.com'],
    ['us-east-1', 'us-east-1.console.aws.amazon.com'],
  ])('goes to the console of %s', (region, host) => {
    expect(new URL(logLink({ region, logGroup: 'g' }, worker)).host).toBe(host);
  });

  test('cannot be led elsewhere by a name', () => {
    const hostile = { logStream: '#"><script>$25', requestId: ' ?x=1&y#' };
    const link = logLink({ region: 'eu-west-1', logGroup: '../$&?#' }, hostile);
    expect(link).not.toMatch(/[\s<>"]/);
    expect(new URL(link).host).toBe('eu-west-1.console.aws.amazon.com');
  });
});

test('only a link is longer than a line, and it stands alone', () => {
  const long = explanationText(example)
    .split('\n')
    .filter((line) => line.length > textColumns);
  expect(long).toHaveLength(1);
  expect(long[0]).toMatch(/^ +https:\S+$/);
});

describe('docs/operators.md', () => {
  test('shows what the command prints, text and JSON', () => {
    expect(operators).toContain(`\n${explanationText(example)}\n`);
    const { evidence, verbs, ...verdictAlone } = JSON.parse(printableJson(example));
    const [json = ''] = /(?<=```json\n)[\s\S]*?(?=```)/.exec(operators) ?? [];
    expect(JSON.parse(json)).toEqual({
      ...verdictAlone,
      verbs: { reclaim: verbs.reclaim, republish: verbs.republish },
      evidence: { attempts: [evidence.attempts[0]] },
    });
  });

  test('tells every standing with its meaning, and every verb with its duty', () => {
    expect(firstColumn('## Standings')).toEqual(Object.keys(standings));
    for (const [standing, meaning] of Object.entries(standings)) {
      expect(operators).toMatch(new RegExp(`\\| \`${standing}\` +\\| ${RegExp.escape(meaning)} +\\|`));
    }
    expect(firstColumn('## Verbs')).toEqual(Object.keys(operatorVerbs));
    for (const [verb, duty] of Object.entries(operatorVerbs))
      expect(operators).toMatch(new RegExp(`\\| \`${verb}\` +\\| ${duty} +\\|`));
  });
});
