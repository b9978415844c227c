// The command that carries out what a verdict allows, ready to copy.
import type { Verdict } from './verdict.ts';
import { type OperatorVerb, operatorVerbs } from './verdict-verbs.ts';

/**
 * What to type for a verb, with `…` where a person must say something; a look only, until `--apply` is added.
 * @param attempts how many attempts were seen
 * @param stack the CloudFormation stack that the reminder is in; null: local AWS
 * @returns null when the verb is refused
 */
export function operatorCommand(
  { deliveryId, version, verbs }: Pick<Verdict, 'deliveryId' | 'version' | 'verbs'>,
  attempts: number,
  verb: OperatorVerb,
  stack: string | null,
): string | null {
  const ruling = verbs[verb];
  if (!ruling.allowed) return null;
  const target = stack === null ? [] : ['--stack', stack];
  const options = ['--reason', ...new Set(ruling.needs.map(({ option }) => option))];
  return [
    ...['npm run reminders --', ...target, operatorVerbs[verb], verb, ...named(verb, deliveryId, version, attempts)],
    ...options.map((option) => `${option} '…'`),
  ].join(' ');
}

/** A message is taken as it comes, whosever it is, and what is set aside changes no more. */
function named(verb: OperatorVerb, deliveryId: string, version: number, attempts: number): string[] {
  if (verb === 'redrive') return [];
  return [verb === 'readmit' ? deliveryId : `${deliveryId}@${version}.${attempts}`];
}
