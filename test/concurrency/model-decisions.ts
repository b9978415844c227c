// Commands of the model test that people and retention give about what others have left: decisions, and the archive.
import fc from 'fast-check';
import { type Decision, decisionVerbs } from '../../lambdas/core/decisions.ts';
import { postgresDecisions } from '../../lambdas/store/decisions.ts';
import { archive as archiveStatement } from '../../lambdas/store/statements/archive.ts';
import { happening, named, place } from './happenings.ts';

/** How far what was seen lies from what is: mostly it is the same. */
const off = fc.constantFrom(0, 0, 0, 0, 0, 1, -1);

/** From a screen that is right or not, with evidence or without, as a dry run or in earnest; at times under the last one's token. */
export const decide = happening(
  'decide',
  fc.record({
    verb: fc.constantFrom(...decisionVerbs),
    seen: fc.uniqueArray(fc.record({ place, version: off, attempts: off }), {
      ...{ minLength: 1, maxLength: 2, selector: (one) => one.place },
    }),
    evidence: fc.constantFrom(null, 'the receiver was asked'),
    dryRun: fc.constantFrom(false, false, false, true),
    // Seconds from now.
    expires: fc.constantFrom(undefined, undefined, null, 3600, -30),
    // What is dead or held is mostly sent on.
    apt: fc.boolean(),
    tokenAgain: fc.constantFrom(false, false, false, false, false, true),
  }),
  ({ verb: drawn, apt, seen, evidence, dryRun, expires, tokenAgain }, before, token) => {
    const state = named(before, seen[0]?.place ?? 0).one?.state;
    const verb = apt && state === 'dead' ? 'requeue' : apt && state === 'held' ? 'release' : drawn;
    const reminders = seen.map((wish) => {
      const { one, deliveryId } = named(before, wish.place);
      const [versionSeen, attemptsSeen] = [(one?.version ?? 1) + wish.version, (one?.attempts ?? 0) + wish.attempts];
      return { deliveryId, versionSeen, attemptsSeen };
    });
    if (new Set(reminders.map(({ deliveryId }) => deliveryId)).size < reminders.length) return undefined;
    const expiresAt = typeof expires === 'number' ? new Date(before.now + expires * 1000).toISOString() : expires;
    const takesExpiry = (verb === 'requeue' || verb === 'release') && expiresAt !== undefined;
    const decision: Decision = {
      ...{ verb, actor: 'me', reason: `so it is ${verb}`, ticket: null, evidence, dryRun, reminders },
      token: tokenAgain ? (before.lastDecision ?? token) : token,
      ...(takesExpiry ? { expiresAt } : {}),
    };
    return {
      send: ({ runner }) => postgresDecisions(runner).decide(decision),
      expect: (model) => model.decide(decision),
    };
  },
);

/** What was written to the archive, as it is or as it was before something happened. */
export const archive = happening(
  'archive',
  fc.record({ place, version: off, outcomes: off, since: off }),
  (wish, before) => {
    const { one, deliveryId } = named(before, wish.place);
    const stateSince = new Date((one?.since ?? before.now) + wish.since).toISOString();
    const outcomes = before.outcomes.filter(({ id }) => id === deliveryId).length + wish.outcomes;
    const reminders = [{ deliveryId, version: (one?.version ?? 1) + wish.version, stateSince, outcomes }];
    return {
      send: ({ runner }) => runner.run(archiveStatement, { reminders }),
      expect: (model) => model.archive(reminders),
    };
  },
);
