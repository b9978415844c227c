// Synthesizes the ledger for tests and names its resources by their place in it, so that tests read as tables.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { App, CfnElement, type Stack } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import { afterAll } from 'vitest';
import { ReminderLedgerStack } from '../../lib/stack/reminder-ledger-stack.ts';

/** The feature flags that the repository's own app runs with. */
export const repositoryFlags: Record<string, unknown> = JSON.parse(
  readFileSync(new URL('../../cdk.json', import.meta.url), 'utf8'),
).context;

/** The sets of feature flags a consumer may have: a construct that is published must be right under each. */
export const flagSets: [name: string, flags: Record<string, unknown>][] = [
  ['no feature flags', {}],
  ["the repository's feature flags", repositoryFlags],
];

const assemblies = mkdtempSync(join(tmpdir(), 'reminder-ledger-assemblies-'));
afterAll(() => rmSync(assemblies, { recursive: true }));

/** An app whose cloud assembly lies in a folder of its own, which the end of the test file removes. */
export function newApp(context: Record<string, unknown> = repositoryFlags): App {
  return new App({ context, outdir: mkdtempSync(join(assemblies, 'assembly-')) });
}

/** A resource as the template has it. */
export interface Resource {
  readonly Type: string;
  readonly Properties: Record<string, unknown>;
  readonly DependsOn?: readonly string[];
  readonly Metadata?: object;
}

/** A synthesized stack: each resource under its path in the stack, such as `Ledger/Claim/Function`. */
export interface Synthesized {
  readonly template: Template;
  readonly resources: ReadonlyMap<string, Resource>;
  /** The folder of the cloud assembly. */
  readonly assembly: string;
  /** What the template says of the resource at this path, of the shape that the caller asks for. */
  properties<Shape>(path: string): Shape;
  /** A value of the template as text, with paths for logical ids: `Ledger/Claim/Log.Arn`. */
  text(value: unknown): string;
}

/**
 * Synthesizes a stack. {@link Template} also fails on a dependency cycle.
 * @param stack @default the stack as the repository deploys it
 */
export function synthesized(stack: Stack = new ReminderLedgerStack(newApp(), 'ReminderLedger')): Synthesized {
  const template = Template.fromStack(stack);
  const paths = new Map<string, string>();
  for (const construct of stack.node.findAll()) {
    if (!CfnElement.isCfnElement(construct)) continue;
    const path = construct.node.path.replace(`${stack.node.path}/`, '').replace(/(\/(Resource|Default))+$/, '');
    paths.set(stack.resolve(construct.logicalId), path);
  }
  const named = Object.entries<Resource>(template.toJSON().Resources);
  const resources = new Map(named.map(([logicalId, resource]) => [paths.get(logicalId) ?? logicalId, resource]));
  return {
    template,
    resources,
    assembly: (stack.node.root as App).outdir,
    properties: <Shape>(path: string) => {
      const resource = resources.get(path);
      if (!resource) throw new Error(`no ${path} among ${[...resources.keys()].join(', ')}`);
      return resource.Properties as Shape;
    },
    text: (value) => textOf(value, paths),
  };
}

function textOf(value: unknown, paths: ReadonlyMap<string, string>): string {
  if (typeof value !== 'object' || value === null) return String(value);
  const [[intrinsic, operand] = ['', '']] = Object.entries(value);
  if (intrinsic === 'Ref') return paths.get(operand) ?? `<${operand}>`;
  if (intrinsic === 'Fn::GetAtt') return `${paths.get(operand[0])}.${operand[1]}`;
  if (intrinsic === 'Fn::Join') return operand[1].map((part: unknown) => textOf(part, paths)).join(operand[0]);
  if (intrinsic === 'Fn::Sub') return String(operand).replaceAll(/\$\{(.*?)\}/g, '<$1>');
  return JSON.stringify(value);
}

/** The logical ids that any part of a resource names: its properties, what it waits for, how its update is done. */
export function namedBy(part: unknown): string[] {
  if (typeof part !== 'object' || part === null) return [];
  return Object.entries(part).flatMap(([key, value]) => {
    if (key === 'Ref') return [String(value)];
    if (key === 'Fn::GetAtt') return [String([value].flat()[0]).split('.')[0] ?? ''];
    if (key === 'Fn::Sub') return [...String([value].flat()[0]).matchAll(/\$\{(\w+)/g)].map(([, id]) => id ?? '');
    if (key === 'DependsOn') return [value].flat().map(String);
    return namedBy(value);
  });
}
