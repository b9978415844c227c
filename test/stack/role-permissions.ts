// What the roles of a template may do, as lines that a person can read.
import { expect } from 'vitest';
import type { Synthesized } from './synthesized.ts';

interface Statement {
  readonly Effect: string;
  readonly Action: string | string[];
  readonly Resource: unknown;
  readonly Condition?: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
}

/** All that each role may do, one line an action and resource, with `Deny` and conditions told. Fails on a negation. */
export function permissionsOf({ resources, text }: Synthesized): Record<string, string[]> {
  const lines = ({ Effect, Action, Resource, Condition = {}, ...more }: Statement): string[] => {
    expect(more).toEqual({});
    const conditions = Object.entries(Condition).flatMap(([how, keys]) =>
      Object.entries(keys).map(([key, value]) => ` if ${key} ${how} ${text(value)}`),
    );
    return [Action].flat().flatMap((action) =>
      [Resource].flat().map((resource) => {
        const line = `${action} on ${text(resource)}${conditions.join()}`;
        return Effect === 'Allow' ? line : `${Effect} ${line}`;
      }),
    );
  };
  const found: Record<string, string[]> = {};
  for (const [path, { Type, Properties }] of resources) {
    if (Type === 'AWS::IAM::Role') {
      const { ManagedPolicyArns = [], Policies = [] } = Properties as {
        ManagedPolicyArns?: unknown[];
        Policies?: { PolicyDocument: { Statement: Statement[] } }[];
      };
      found[path] ??= [];
      found[path].push(...ManagedPolicyArns.map((policy) => `policy ${text(policy)}`));
      for (const { PolicyDocument } of Policies) found[path].push(...PolicyDocument.Statement.flatMap(lines));
    }
    if (Type === 'AWS::IAM::Policy') {
      const { Roles, PolicyDocument } = Properties as { Roles: unknown[]; PolicyDocument: { Statement: Statement[] } };
      for (const role of Roles.map(text)) {
        found[role] ??= [];
        found[role].push(...PolicyDocument.Statement.flatMap(lines));
      }
    }
  }
  return Object.fromEntries(Object.entries(found).map(([role, can]) => [role, can.toSorted()]));
}
