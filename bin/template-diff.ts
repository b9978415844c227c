// What a change does to the synthesized templates, as Markdown for its reviewers: `template-diff BASE HEAD`.
import { execFile } from 'node:child_process';
import { existsSync, readdirSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { CloudAssembly, type CloudFormationStackArtifact } from 'aws-cdk-lib/cx-api';

/** The longest comment that GitHub takes, in characters. */
export const commentLimit = 65_536;

/** The first line of the comment, by which a later run finds it again. */
export const marker = '<!-- template-diff -->';

/** Types whose loss takes data, evidence or trust with it, or that others outside of the stack hang on. */
const stateful = new Set([
  'AWS::RDS::DBCluster',
  'AWS::RDS::DBInstance',
  'AWS::SQS::Queue',
  'AWS::SecretsManager::Secret',
  'AWS::KMS::Key',
  'AWS::Logs::LogGroup',
  'AWS::Events::EventBus',
]);

/** What the CDK calls a change that a resource does not survive, and what that means. */
const fatal: Readonly<Record<string, string>> = {
  replace: 'is replaced by a new one',
  'may be replaced': 'may be replaced by a new one',
  destroy: 'is deleted',
  orphan: 'leaves the stack and stays behind',
};

const loudLimit = 100;
const fence = '``````';
const cdk = fileURLToPath(import.meta.resolve('aws-cdk/bin/cdk'));
const run = promisify(execFile);

/**
 * Compares two folders, each with one cloud assembly a subfolder (`cdk synth --output FOLDER/STAGE`), without an account:
 * the CDK compares the templates themselves. What stateful resources do not survive stands first.
 * @param limit the longest text to make, in characters; details are cut to fit
 * @returns Markdown that begins with {@link marker}
 */
export async function templateDiff(base: string, head: string, limit: number = commentLimit): Promise<string> {
  const [before, after] = [stacksIn(base), stacksIn(head)];
  const differences = await Promise.all(
    [...new Set([...before.keys(), ...after.keys()])]
      .toSorted()
      .map(async (name): Promise<[string, string]> => [name, await difference(before.get(name), after.get(name))]),
  );
  const changed = differences.filter(([, text]) => text !== '');
  const unchanged = differences.filter(([, text]) => text === '').map(([name]) => `\`${name}\``);
  const loud = changed.flatMap(([name, text]) => lossesIn(text).map((loss) => `> - \`${name}\`: ${loss}`));
  const introduction = [
    marker,
    '## What this does to the templates',
    ...(loud.length === 0
      ? []
      : [
          '> [!CAUTION]\n> **Stateful resources do not stay as they are.**',
          ...loud.slice(0, loudLimit),
          ...(loud.length > loudLimit ? [`> - and ${loud.length - loudLimit} more, see below`] : []),
        ]),
    ...(unchanged.length === 0 ? [] : [`\nNo difference: ${unchanged.join(', ')}.`]),
  ].join('\n');
  // The longest last and with all the room that is left, so that a short one is never cut.
  const sections = changed.toSorted(([, a], [, b]) => a.length - b.length);
  return sections.reduce((markdown, [name, text], place) => {
    const room = Math.floor((limit - markdown.length) / (sections.length - place));
    return markdown + section(name, text, room);
  }, introduction);
}

/** The stacks of all assemblies in a folder, by name. */
function stacksIn(folder: string): Map<string, CloudFormationStackArtifact> {
  const assemblies = readdirSync(folder).filter((stage) => existsSync(join(folder, stage, 'manifest.json')));
  if (assemblies.length === 0)
    throw new Error(`${folder}: holds no cloud assembly; run: npx cdk synth --output ${join(folder, 'production')}`);
  const stacks = assemblies.flatMap((stage) => new CloudAssembly(join(folder, stage)).stacks);
  return new Map(stacks.map((stack) => [stack.stackName, stack]));
}

/** What the CDK prints of a stack's difference; empty when there is none. */
async function difference(before?: CloudFormationStackArtifact, after?: CloudFormationStackArtifact): Promise<string> {
  if (after === undefined) return 'This stack is not synthesized any more. What is deployed of it stays as it is.';
  if (before === undefined) return `This stack is new: ${Object.keys(after.template.Resources).length} resources.`;
  // `--app` with a folder synthesizes nothing; from there, so that no cdk.json is found whose build would run.
  const options = ['--app', after.assembly.directory, '--template', before.templateFullPath, '--method', 'template'];
  const { stdout } = await run(
    process.execPath,
    [cdk, 'diff', after.hierarchicalId, ...options, '--ci', '--quiet', '--no-color', '--no-notices'],
    { cwd: after.assembly.directory, maxBuffer: 2 ** 28 },
  );
  return stdout
    .replace(/^✨.*$/m, '')
    .replace(/^Stack .*\n/, '')
    .trim();
}

/** A sentence for each stateful resource that does not survive, or whose protection changes. */
function lossesIn(text: string): string[] {
  let resource = '';
  return text.split('\n').flatMap((line) => {
    // The path is missing where the CDK knows it from neither side.
    const [, type = '', path, logicalId = '', impact = ''] =
      /^\[.\] (\S+::\S+) (?:(\S+) )??(\S+)(?: (replace|may be replaced|destroy|orphan|import))?$/.exec(line) ?? [];
    if (type !== '') {
      resource = stateful.has(type) ? `${type} \`${path ?? logicalId}\` (\`${logicalId}\`)` : '';
      return resource !== '' && impact in fatal ? [`${resource} **${fatal[impact]}**`] : [];
    }
    const [, protection] = /^ [├└]─ \[.\] (DeletionPolicy|UpdateReplacePolicy|DeletionProtection)\b/.exec(line) ?? [];
    return resource !== '' && protection !== undefined ? [`${resource} changes its **${protection}**`] : [];
  });
}

/** One stack's difference, cut at a line so that all of it has at most `limit` characters. */
function section(name: string, text: string, limit: number): string {
  const around = (inside: string, note = '') => `\n### ${name}\n\n${fence}text\n${inside}\n${fence}\n${note}`;
  if (around(text).length <= limit) return around(text);
  const note = '\nCut here: `npx cdk diff` tells all of it.\n';
  const room = Math.max(0, limit - around('', note).length);
  return around(text.slice(0, Math.max(0, text.lastIndexOf('\n', room))), note);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [base, head, ...rest] = process.argv.slice(2);
  if (base === undefined || head === undefined || rest.length > 0) {
    console.error('template-diff: give two folders of cloud assemblies: BASE HEAD');
    process.exitCode = 2;
  } else writeSync(process.stdout.fd, `${await templateDiff(base, head)}\n`);
}
