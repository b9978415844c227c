// The workflow runs scripts that exist with the least power, and its comparison of templates says first what is lost.
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { App, CfnResource, RemovalPolicy, Stack } from 'aws-cdk-lib';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { commentLimit, marker, templateDiff } from '../bin/template-diff.ts';

const read = (path: string): string => readFileSync(new URL(`../${path}`, import.meta.url), 'utf8');
const run = promisify(execFile);

interface Step {
  readonly uses?: string;
  readonly run?: string;
  readonly with?: Readonly<Record<string, unknown>>;
}

interface Workflow {
  readonly on: Readonly<Record<string, unknown>>;
  readonly permissions: unknown;
  readonly jobs: Readonly<
    Record<string, { readonly if?: string; readonly permissions: unknown; readonly steps: Step[] }>
  >;
}

describe('.github/workflows/check.yml', () => {
  const text = read('.github/workflows/check.yml');
  // The parser that comes with the CDK: there is none among our own dependencies.
  const require = createRequire(import.meta.resolve('aws-cdk-lib'));
  const workflow: Workflow = require('yaml').parse(text);
  const jobs = Object.entries(workflow.jobs);
  const steps = jobs.flatMap(([, job]) => job.steps);
  const scripts = steps.flatMap((step) => step.run ?? []);
  const uses = steps.flatMap((step) => step.uses ?? []);

  test('runs on pull requests, on main, and by hand', () => {
    expect(workflow.on).toMatchObject({ pull_request: null, push: { branches: ['main'] } });
    expect(Object.keys(workflow.on)).toEqual(['pull_request', 'push', 'workflow_dispatch']);
  });

  test('runs npm scripts that exist, the check and the tests among them', () => {
    const { scripts: known } = JSON.parse(read('package.json')) as { scripts: Record<string, string> };
    const named = scripts.flatMap((script) => [...script.matchAll(/npm (?:run ([\w:-]+)|(test)\b)/g)]);
    const names = named.map(([, script, short]) => script ?? short ?? '');
    expect(names).toEqual(expect.arrayContaining(['check', 'test']));
    expect(names.filter((name) => !(name in known))).toEqual([]);
  });

  test('gives each job the least token', () => {
    expect(workflow.permissions).toEqual({});
    expect(Object.fromEntries(jobs.map(([name, { permissions }]) => [name, permissions]))).toEqual({
      check: { contents: 'read' },
      'template-diff': { contents: 'read' },
      comment: { 'pull-requests': 'write' },
      contract: { contents: 'read', 'id-token': 'write' },
    });
  });

  test('runs nothing of a pull request where the token can write', () => {
    const { comment, contract } = workflow.jobs;
    expect(comment?.if).toBe('github.event.pull_request.head.repo.full_name == github.repository');
    expect(comment?.steps.flatMap((step) => step.uses?.split('@')[0] ?? [])).toEqual(['actions/download-artifact']);
    expect(comment?.steps.flatMap((step) => step.run ?? []).join()).not.toMatch(/\b(npm|npx|node)\b/);
    expect(contract?.if).toBe("github.event_name == 'workflow_dispatch'");
  });

  test('needs no secret, and leaves no token behind for scripts to find', () => {
    expect(text).not.toContain('secrets.');
    const checkouts = steps.filter((step) => step.uses?.startsWith('actions/checkout@'));
    expect(checkouts.length).toBeGreaterThan(1);
    for (const { with: options } of checkouts) expect(options).toMatchObject({ 'persist-credentials': false });
  });

  test('pins each action by its commit, and keeps what others wrote out of the scripts', () => {
    expect(uses.filter((action) => !/@[0-9a-f]{40}$/.test(action))).toEqual([]);
    expect(scripts.filter((script) => script.includes('${{'))).toEqual([]);
  });

  test('keeps logic out of YAML', () => {
    expect(scripts.filter((script) => script.trim().split('\n').length > 5)).toEqual([]);
    expect(text).toContain(`startswith("${marker}")`);
  });
});

type Resources = Readonly<Record<string, { type: string; properties?: object; retain?: boolean }>>;
type Named = [name: string, resource: Resources[string]];

describe('bin/template-diff.ts', () => {
  const folder = mkdtempSync(join(tmpdir(), 'reminder-ledger-template-diff-'));
  afterAll(() => rmSync(folder, { recursive: true }));

  const before: Resources = {
    Cluster: { type: 'AWS::RDS::DBCluster', properties: { Engine: 'aurora-postgresql', DatabaseName: 'ledger' } },
    DeadLetters: { type: 'AWS::SQS::Queue', retain: true },
    Parameter: { type: 'AWS::SSM::Parameter', properties: { Type: 'String', Value: 'one' } },
  };
  const after: Resources = {
    Cluster: { type: 'AWS::RDS::DBCluster', properties: { Engine: 'aurora-postgresql', DatabaseName: 'other' } },
    DeadLetters: { type: 'AWS::SQS::Queue' },
    Parameter: { type: 'AWS::SSM::Parameter', properties: { Type: 'String', Value: 'two' } },
  };

  function synthesize(side: string, stage: string, name: string, resources: Resources): void {
    const app = new App({ outdir: join(folder, side, stage) });
    const stack = new Stack(app, name);
    for (const [id, { type, properties = {}, retain = false }] of Object.entries(resources)) {
      const resource = new CfnResource(stack, id, { type, properties });
      if (retain) resource.applyRemovalPolicy(RemovalPolicy.RETAIN);
    }
    app.synth();
  }

  beforeAll(() => {
    for (const side of ['base', 'head', 'huge']) synthesize(side, 'dev', 'LedgerDev', before);
    synthesize('base', 'production', 'Ledger', before);
    synthesize('base', 'retired', 'Retired', before);
    synthesize('head', 'production', 'Ledger', after);
    synthesize('head', 'fresh', 'Fresh', before);
    const queues = Array.from({ length: 110 }, (_, place): Named => [`Queue${place}`, { type: 'AWS::SQS::Queue' }]);
    const parameters = (value: string) =>
      Array.from({ length: 110 }, (_, place): Named => {
        const properties = { Type: 'String', Value: value.repeat(120) };
        return [`Parameter${place}`, { type: 'AWS::SSM::Parameter', properties }];
      });
    synthesize('full', 'production', 'Ledger', Object.fromEntries([...queues, ...parameters('long ')]));
    synthesize('huge', 'production', 'Ledger', Object.fromEntries(parameters('other ')));
  });

  test('shows first and loudly what stateful resources do not survive, then all of it', async () => {
    const script = fileURLToPath(new URL('../bin/template-diff.ts', import.meta.url));
    const [base, head] = [join(folder, 'base'), join(folder, 'head')];
    // Without an account, a home or a region, as in a workflow without secrets.
    const { stdout } = await run(process.execPath, [script, base, head], { env: { PATH: process.env.PATH } });
    expect(stdout.split('\n').slice(0, 12)).toEqual([
      marker,
      '## What this does to the templates',
      '> [!CAUTION]',
      '> **Stateful resources do not stay as they are.**',
      '> - `Ledger`: AWS::RDS::DBCluster `Cluster` (`Cluster`) **is replaced by a new one**',
      '> - `Ledger`: AWS::SQS::Queue `DeadLetters` (`DeadLetters`) changes its **DeletionPolicy**',
      '> - `Ledger`: AWS::SQS::Queue `DeadLetters` (`DeadLetters`) changes its **UpdateReplacePolicy**',
      '',
      'No difference: `LedgerDev`.',
      '### Fresh',
      '',
      '``````text',
    ]);
    expect(stdout).toContain('This stack is new: 3 resources.');
    expect(stdout).toMatch(/### Ledger\n[\s\S]* AWS::SSM::Parameter Parameter Parameter[\s\S]*\[-\] one\n.*\[\+\] two/);
    expect(stdout).toMatch(/### Retired\n\n`+text\nThis stack is not synthesized any more/);
  });

  test('says little when nothing changes', async () => {
    const markdown = await templateDiff(join(folder, 'base'), join(folder, 'base'));
    expect(markdown).toBe(
      `${marker}\n## What this does to the templates\n\nNo difference: \`Ledger\`, \`LedgerDev\`, \`Retired\`.`,
    );
  });

  test('fits into a comment, whatever the size of the difference', async () => {
    const markdown = await templateDiff(join(folder, 'full'), join(folder, 'huge'));
    expect(markdown.length).toBeLessThanOrEqual(commentLimit);
    expect(markdown.length).toBeGreaterThan(commentLimit - 1000);
    expect(markdown).toContain('and 10 more, see below');
    expect(markdown.match(/^``````/gm)).toHaveLength(4);
    expect(markdown).toContain('Cut here: ');
  });

  test('says what to do about a folder without a template', async () => {
    await expect(templateDiff(folder, join(folder, 'head'))).rejects.toThrow(
      `${folder}: holds no cloud assembly; run: npx cdk synth --output ${join(folder, 'production')}`,
    );
  });
});
