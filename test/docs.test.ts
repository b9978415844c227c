// What people read holds: printed parts are fresh, examples compile and run, and every script, file and link named exists.
import { execFile } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { v7 as uuid } from 'uuid';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { sabotages } from '../bin/demo-sabotage.ts';
import { statesPage, withStates } from '../bin/print-states.ts';
import type { Inbox } from '../docs/examples/receiver.ts';
import { deliveryStates } from '../lambdas/core/delivery-states.ts';
import { deriveSigningSecret, signedHeaders } from '../lambdas/webhook/signing.ts';
import { type RunningLedger, startRunningLedger } from './functions/running-ledger.ts';

const repository = fileURLToPath(new URL('..', import.meta.url));
const read = (path: string): string => readFileSync(join(repository, path), 'utf8');
const pages = [
  'README.md',
  'CHANGELOG.md',
  'docs/architecture.md',
  'docs/contract-suite.md',
  'docs/deploy.md',
  'docs/operators.md',
  'docs/product-function.md',
  'docs/retention.md',
  'docs/upgrade.md',
];
const examples = readdirSync(join(repository, 'docs/examples')).filter((name) => name.endsWith('.ts'));
const run = promisify(execFile);

/** All first groups of a pattern. */
function named(text: string, pattern: RegExp): string[] {
  return [...text.matchAll(pattern)].map(([, name]) => name ?? '');
}

/** The words in the first column of the first table under a heading. */
function firstColumn(page: string, heading: string): string[] {
  const [table] = /(\|.*\n)+/.exec(page.slice(page.indexOf(heading))) ?? [''];
  return table
    .trim()
    .split('\n')
    .slice(2)
    .flatMap((row) => named(row.split('|')[1] ?? '', /([\w-]+)/g));
}

/** As GitHub makes them. */
function anchors(page: string): string[] {
  const slug = (heading: string) =>
    heading
      .toLowerCase()
      .replaceAll(/[^\w\s-]/g, '')
      .replaceAll(' ', '-');
  return named(page, /^#+ (.+)$/gm).map(slug);
}

test('the state machine in docs/architecture.md is the one that runs; else: npm run states', () => {
  const page = readFileSync(statesPage, 'utf8');
  expect(withStates(page)).toBe(page);
});

describe.each(pages)('%s', (path) => {
  const page = read(path);

  test('names npm scripts that exist', () => {
    const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> };
    const used = [...named(page, /npm run ([\w-]+)/g), ...named(page, /npm (start|test)\b/g)];
    expect(used.filter((script) => !(script in scripts))).toEqual([]);
  });

  test('names files and folders that exist', () => {
    const paths = named(page, /`((?:bin|docs|lambdas|lib|migrations|test|\.ci)\/[^`\s<>]*)`/g);
    expect(paths.filter((name) => !existsSync(join(repository, name)))).toEqual([]);
  });

  test('has no dead link', () => {
    const links = named(page, /\]\(([^)\s]+)\)/g).filter((link) => !/^https?:/.test(link));
    const dead = links.filter((link) => {
      const [file = '', anchor] = link.split('#');
      const target = file === '' ? path : normalize(join(dirname(path), file));
      if (!existsSync(join(repository, target))) return true;
      return anchor !== undefined && !anchors(read(target)).includes(anchor);
    });
    expect(dead).toEqual([]);
  });

  test('does not promise one delivery and no more', () => {
    const sentences = named(page, /([^.\n]*exactly[ -]once[^.\n]*)/gi);
    expect(sentences.filter((sentence) => !sentence.includes('is not promised'))).toEqual([]);
  });
});

const helps = new Map<string, Promise<string>>();

/** What the command line says of itself, or of one of its commands: asked once, since each question is a process. */
function help(command = ''): Promise<string> {
  const words = command.split(' ').filter(Boolean);
  const told =
    helps.get(command) ??
    run(process.execPath, [join(repository, 'bin/reminders.ts'), ...words, '--help']).then(({ stdout }) => stdout);
  helps.set(command, told);
  return told;
}

test('each use of the command line names a command and options that it has', async () => {
  const all = await help();
  const uses = pages.flatMap((path) => named(read(path), /npm run reminders -- (?!--help)([^`\n]*)/g));
  expect(uses.length).toBeGreaterThan(5);
  for (const use of uses) {
    const [, command = ''] = /^(?:--\w+ \S+ )*([a-z]+(?: add| list|(?<=recover) [a-z]+)?)/.exec(use) ?? [];
    expect(all, use).toMatch(new RegExp(`^ {2}${command.split(' ')[0]}\\b`, 'm'));
    const its = await help(command);
    for (const option of named(use.replaceAll(/'[^']*'/g, ''), /(--[a-z-]+)/g))
      expect(its, use).toContain(`${option} `);
  }
});

describe('README.md', () => {
  const readme = read('README.md');

  test('begins with the demo, then the tests, then the deployment', () => {
    const commands = named(readme, /```sh\n(.+)\n/g).slice(0, 3);
    expect(commands).toEqual([
      'npm ci && npm run demo',
      'npm ci && npm test',
      'npm run build && npx cdk deploy -c stage=dev',
    ]);
  });

  test('tells the exit codes that the command line has', async () => {
    expect(readme).toContain(/Exit codes: .*/.exec(await help())?.[0]);
  });

  test('tells every answer of the schedule function', () => {
    const [type = ''] = /export type CommandAnswer =[\s\S]*?;\n\n/.exec(read('lambdas/schedule/contract.ts')) ?? [];
    const answers = named(type, /(?<=answer: .*)'(\w+)'/g);
    expect(answers.length).toBeGreaterThan(10);
    expect(firstColumn(readme, "## From a product's function").toSorted()).toEqual(answers.toSorted());
  });

  test('tells every state, output, sabotage and promise', () => {
    expect(firstColumn(readme, '## For operators').toSorted()).toEqual(deliveryStates.toSorted());
    const outputs = named(read('lib/stack/ledger-outputs.ts'), /^ {4}(\w+): \[/gm);
    expect(firstColumn(readme, '## Deploy it').toSorted()).toEqual(outputs.toSorted());
    for (const sabotage of Object.keys(sabotages)) expect(readme).toContain(`\`${sabotage}\``);
    expect(firstColumn(readme, '## What it promises')).toEqual(
      Array.from({ length: 12 }, (_, place) => `P${place + 1}`),
    );
  });
});

describe('the examples', () => {
  test('stand in the pages as they are, and no page has other code', () => {
    const texts = examples.map((name) => read(`docs/examples/${name}`));
    const blocks = pages.flatMap((path) => named(read(path), /```ts\n([\s\S]*?)```/g));
    expect(blocks).toEqual(expect.arrayContaining(texts));
    expect(blocks.filter((block) => !texts.some((text) => text.includes(block)))).toEqual([]);
  });

  test('compile', async () => {
    const compile = run(join(repository, 'node_modules/.bin/tsc'), ['-p', join(repository, 'docs/examples')]);
    await compile.catch(({ stdout }) => expect.fail(stdout));
  });
});

describe('the receiver', () => {
  const root = 'r'.repeat(64);
  const secret = deriveSigningSecret(root, 'partner');
  const inbox = (kept: Map<string, string>): Inbox => ({
    async keep(key, body) {
      const isNew = !kept.has(key);
      kept.set(key, body);
      return isNew;
    },
  });
  const request = { deliveryId: uuid(), key: 'bill-7', destination: 'partner', payload: 'not JSON' };
  const post = (body = request.payload, destination = 'partner') => ({
    headers: { ...signedHeaders({ ...request, destination }, { current: root }, new Date()) },
    body,
  });

  test('keeps what verifies, under its key, and refuses the rest', async () => {
    const { receive } = await import('../docs/examples/receiver.ts');
    const kept = new Map<string, string>();
    expect(await receive(post('other bytes'), secret, inbox(kept))).toBe(503);
    expect(await receive(post(request.payload, 'another'), secret, inbox(kept))).toBe(503);
    expect(kept.size).toBe(0);
    expect(await receive(post(), secret, inbox(kept))).toBe(204);
    expect(await receive(post(), secret, inbox(kept))).toBe(204);
    expect([...kept]).toEqual([['bill-7', 'not JSON']]);
  });
});

describe("the product's function", () => {
  let ledger: RunningLedger;
  beforeAll(async () => {
    ledger = await startRunningLedger();
    const url = ledger.receiver.url('/ok');
    await ledger.sql(
      `INSERT INTO destination (destination_id, name, url, owner, contract, state, state_since, created_at)
       VALUES ($1, 'partner', $2, 'test', 'honours-key', 'active', now(), now())`,
      [uuid(), url],
    );
    const alias = `arn:aws:lambda:us-east-1:000000000000:function:${ledger.aws.outputs.ScheduleFunctionName}:billing`;
    Object.assign(process.env, ledger.aws.environment, { REMINDER_SCHEDULE_FUNCTION_BILLING: alias });
  });
  afterAll(() => ledger.stop());

  test('schedules, moves and calls off, and may be invoked again with the same event', async () => {
    const { handler } = await import('../docs/examples/product-function.ts');
    const inDays = (days: number) => new Date(Date.now() + days * 86_400_000).toISOString();
    const opened = { what: 'opened', bill: '7', customer: 'c-1', dueAt: inDays(30) } as const;
    const moved = { what: 'moved', bill: '7', dueAt: inDays(40) } as const;
    const paid = { what: 'paid', bill: '7' } as const;
    expect([await handler(opened), await handler(opened)]).toEqual(['scheduled', 'duplicate']);
    expect([await handler(moved), await handler(moved)]).toEqual(['rescheduled', 'unchanged']);
    expect(
      await ledger.sql('SELECT producer, due_at, expires_at - due_at AS life FROM reminder_delivery'),
    ).toMatchObject([{ producer: 'billing', due_at: new Date(moved.dueAt), life: { days: 7 } }]);
    expect([await handler(paid), await handler(paid)]).toEqual(['cancelled', 'cancelled']);
    expect([await handler(moved), await handler({ ...paid, bill: '8' })]).toEqual(['finished', 'not_found']);
  });

  test('is invoked again while a moved reminder is being sent', async () => {
    const { nextAfter } = await import('../docs/examples/product-function.ts');
    const facts = { deliveryId: uuid(), state: 'delivering', dueAt: '', expiresAt: null, version: 1 };
    const answer = { answer: 'too_late', ...facts } as const;
    expect(nextAfter({ what: 'moved', bill: '7', dueAt: '' }, answer)).toBe('again');
    expect(nextAfter({ what: 'paid', bill: '7' }, answer)).toBe('done');
  });
});
