// The whole template of each stage as a text that a reviewer can read: what a change does to a deployment shows here.
import { expect, test } from 'vitest';
import { ReminderLedgerStack } from '../../lib/stack/reminder-ledger-stack.ts';
import { newApp, synthesized } from './synthesized.ts';

/** Hashes of bundles change with every line of code; what is deployed does not. */
function withoutHashes(text: string): string {
  return text.replaceAll(/[0-9a-f]{64}/g, '<hash>').replaceAll(/(CurrentVersion[0-9A-F]{8})[0-9a-f]{32}/g, '$1<hash>');
}

/** `a.b.c: value`, a line each; references by their place in the stack. */
function lines(value: unknown, path: string, text: (value: unknown) => string): string[] {
  if (typeof value !== 'object' || value === null) return [`  ${path}: ${value}`];
  const [key = '', ...more] = Object.keys(value);
  if (key === '') return path ? [`  ${path}: ${JSON.stringify(value)}`] : [];
  if (more.length === 0 && (key === 'Ref' || key.startsWith('Fn::'))) return [`  ${path}: ${text(value)}`];
  return Object.entries(value).flatMap(([name, part]) => lines(part, path ? `${path}.${name}` : name, text));
}

test.each(['production', 'dev'] as const)('stage %s deploys what the snapshot says', async (stage) => {
  const { resources, text } = synthesized(new ReminderLedgerStack(newApp(), 'ReminderLedger', { stage }));
  const blocks = [...resources].map(([path, { Type, Properties = {}, DependsOn = [], ...rest }]) => {
    const { Metadata: _, ...more } = rest as Record<string, unknown>;
    const waits = DependsOn.map((logicalId) => text({ Ref: logicalId })).toSorted();
    const after = waits.length > 0 ? [`  after: ${waits.join(', ')}`] : [];
    return [`${path} (${Type})`, ...lines(more, '', text), ...lines(Properties, '', text), ...after].join('\n');
  });
  const readable = `${blocks.toSorted().join('\n\n')}\n`;
  await expect(withoutHashes(readable)).toMatchFileSnapshot(`snapshots/${stage}.txt`);
});
