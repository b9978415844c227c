// What holds of every verdict, whatever is on record: on each cell of the table, and on evidence that no cell has.
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { isTerminal, leaseLives, type ReminderEvidence } from '../../lambdas/core/reminder-evidence.ts';
import { knownStages, settingsOf } from '../../lambdas/core/settings.ts';
import { type Verdict, verdict } from '../../lambdas/core/verdict.ts';
import { explain, explanationText, printableJson, storyText, textColumns } from '../../lambdas/core/verdict-text.ts';
import { type OperatorVerb, operatorVerbs } from '../../lambdas/core/verdict-verbs.ts';
import { attemptOf, dimensions, evidenceOf, later, now, possibleCells, settings } from './cells.ts';
import { furtherEvidence } from './golden.ts';

const seconds = fc.integer({ min: -200_000, max: 200_000 });
const instant = seconds.map(later);
const maybe = <Value>(value: fc.Arbitrary<Value>) => fc.option(value, { nil: null });
const receipt = fc.record({ at: instant, messageId: fc.uuid(), queue: fc.constant('q'), visibleFrom: instant });
const exclusion = fc.record({
  ...{ at: instant, sqlState: fc.constant('XX001'), reason: fc.string(), readmittedAt: maybe(instant) },
});

/** A cell with anything else beside it, also what the table would refuse. */
const anyEvidence: fc.Arbitrary<ReminderEvidence> = fc
  .record({
    cell: fc.constantFrom(...possibleCells),
    more: fc.record(
      {
        ...{ dueAt: instant, nextAttemptAt: instant, expiresAt: maybe(instant), wakeAt: maybe(instant) },
        ...{
          stateSince: instant,
          firstInvitedAt: maybe(instant),
          unreviewedSince: maybe(instant),
          reviewedAt: maybe(instant),
        },
        ...{ archivedAt: maybe(instant), parked: fc.boolean(), lastError: maybe(fc.string({ unit: 'binary' })) },
        handoffs: fc.array(receipt, { maxLength: 4 }),
        exclusions: fc.array(exclusion, { maxLength: 2 }),
        deadLetter: fc.constantFrom('seen', 'not_seen', 'not_looked'),
        attempts: fc
          .array(fc.constantFrom(...dimensions.attempt), { maxLength: 4 })
          .map((kinds) => kinds.map((kind, place) => attemptOf(place + 1, kind))),
        lease: maybe(fc.record({ owner: fc.uuid(), until: instant })),
      },
      { requiredKeys: [] },
    ),
    window: maybe(fc.integer({ min: 1, max: 4000 })),
  })
  .map(({ cell, more, window }) => {
    const evidence = evidenceOf(cell, more as Partial<ReminderEvidence>);
    return { ...evidence, destination: { ...evidence.destination, dedupWindowSeconds: window } };
  });

const verbsOf = ({ verbs }: Verdict, allowed: boolean) =>
  (Object.keys(operatorVerbs) as OperatorVerb[]).filter((verb) => verbs[verb].allowed === allowed);
const optionsOf = ({ verbs }: Verdict, verb: OperatorVerb) => {
  const ruling = verbs[verb];
  return ruling.allowed ? ruling.needs.map(({ option }) => option) : [];
};
/** The verbs that lead to another send. */
const replays = ['requeue', 'release', 'republish', 'redrive'] as const;

/** Sentences that hold of a verdict; each throws where it does not. */
const properties: Readonly<Record<string, (evidence: ReminderEvidence, judged: Verdict) => void>> = {
  'is the same for the same evidence': (evidence, judged) => {
    const frozen = structuredClone(evidence);
    expect(verdict(evidence, now, settings)).toEqual(judged);
    expect(evidence).toEqual(frozen);
  },
  'allows or refuses each verb, with a sentence': (_, { verbs }) => {
    expect(Object.keys(verbs).sort()).toEqual(Object.keys(operatorVerbs).sort());
    for (const ruling of Object.values(verbs)) {
      expect(ruling.allowed ? ruling.effect : ruling.reason).toMatch(/\w{3}/);
      if (ruling.allowed) for (const { because } of ruling.needs) expect(because).toMatch(/\w{3}/);
    }
  },
  'has no verb with force on a live lease': (evidence, judged) => {
    if (!leaseLives(evidence, now)) return;
    const forcing: OperatorVerb[] = ['reclaim', 'republish'];
    if (!isTerminal(evidence) && evidence.state !== 'scheduled') forcing.push('redrive');
    if (evidence.state === 'delivering') forcing.push('hold', 'resolve', 'requeue', 'release');
    expect(verbsOf(judged, true).filter((verb) => forcing.includes(verb))).toEqual([]);
  },
  'requeues the dead alone, and releases the held alone': ({ state }, judged) => {
    if (verbsOf(judged, true).includes('requeue')) expect(state).toBe('dead');
    if (verbsOf(judged, true).includes('release')) expect(state).toBe('held');
  },
  'demands evidence for a replay where an attempt is unknown, open or a 2xx': (evidence, judged) => {
    const doubtful = evidence.attempts.some(({ outcomes }) => {
      const kinds = outcomes.map(({ outcome }) => outcome);
      return kinds.includes('delivered') || kinds.every((kind) => kind === 'unknown');
    });
    if (!doubtful) return;
    for (const verb of replays) {
      const ruling = judged.verbs[verb];
      // A message that is only removed sends nothing.
      if (ruling.allowed && !ruling.effect.startsWith('removes'))
        expect(optionsOf(judged, verb), verb).toContain('--evidence');
    }
  },
  'demands evidence for a replay past the time that the receiver remembers the key': (evidence, judged) => {
    const window = evidence.destination.dedupWindowSeconds;
    const [first] = evidence.attempts;
    if (window === null || first === undefined || Date.parse(first.startedAt) + window * 1000 > now) return;
    for (const verb of ['requeue', 'release', 'republish'] as const)
      if (judged.verbs[verb].allowed) expect(optionsOf(judged, verb), verb).toContain('--evidence');
  },
  'always demands evidence that a receiver has it': (_, judged) => {
    if (judged.verbs.resolve.allowed) expect(optionsOf(judged, 'resolve')).toEqual(['--evidence']);
  },
  'puts nothing back past its expiry without another one': (evidence, judged) => {
    if (evidence.expiresAt === null || Date.parse(evidence.expiresAt) > now) return;
    for (const verb of ['requeue', 'release'] as const)
      if (judged.verbs[verb].allowed) expect(optionsOf(judged, verb)).toContain('--expires');
    if (!isTerminal(evidence)) expect(judged.verbs.republish.allowed).toBe(false);
  },
  'is done only where a terminal state waits for no review': (evidence, { standing }) => {
    if (standing === 'done') expect(isTerminal(evidence) && evidence.unreviewedSince === null).toBe(true);
    if (evidence.state === 'delivered' && evidence.unreviewedSince === null) expect(standing).toBe('done');
  },
  'calls a time of the next step that has passed overdue, and no other': (_, { next, standing }) => {
    expect(next.overdue).toBe(next.by !== null && Date.parse(next.by) < now);
    if (next.overdue)
      expect(['late', 'handoff_lost', 'abandoned', 'expiring', 'waiting_for_lease']).toContain(standing);
  },
  'names a duty where an operator acts next, and only there': (_, { next }) => {
    expect(next.duty !== null).toBe(next.who === 'operator');
    expect(next.what).toMatch(/\w{3}/);
  },
  'leaves nobody to act where something has not come to its end, but in shadow': (evidence, { next }) => {
    if (next.who === 'nobody') expect(isTerminal(evidence) || evidence.state === 'shadow').toBe(true);
  },
  'is printed in the columns there are, without a character that moves a cursor': (evidence, judged) => {
    const explanation = explain(evidence, judged);
    for (const text of [explanationText(explanation), storyText(explanation)]) {
      for (const line of text.split('\n')) {
        expect(line.length).toBeLessThanOrEqual(textColumns);
        expect(line).not.toMatch(/[\p{C}\p{Zl}\p{Zp}]/u);
      }
    }
    const json = printableJson(explanation);
    expect(json.replaceAll('\n', '')).not.toMatch(/[\p{C}\p{Zl}\p{Zp}]/u);
    expect(JSON.parse(json)).toEqual(explanation);
  },
};

describe.each(Object.entries(properties))('it %s', (_, holds) => {
  test('in every cell and circumstance of the table', () => {
    for (const cell of possibleCells) holds(evidenceOf(cell), verdict(evidenceOf(cell), now, settings));
    for (const [, evidence] of furtherEvidence) holds(evidence, verdict(evidence, now, settings));
  });

  test('on any evidence', () => {
    fc.assert(
      fc.property(anyEvidence, (evidence) => holds(evidence, verdict(evidence, now, settings))),
      { numRuns: 400 },
    );
  });
});

test('it never throws, at no stage and at no time', () => {
  fc.assert(
    fc.property(anyEvidence, fc.constantFrom(...knownStages), seconds, (evidence, stage, offset) => {
      verdict(evidence, now + offset * 1000, settingsOf(stage));
    }),
    { numRuns: 1000 },
  );
});
