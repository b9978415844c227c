// The verdict on a run: what survived and is not known to be equivalent, and what is said to be equivalent and is not.
import type { Fate, Result } from './run-mutants.ts';

/** Something to answer for. */
export interface Fault {
  readonly name: string;
  readonly fault: 'survived' | 'broken' | 'stale equivalent';
  /** What the run saw. */
  readonly by: string;
}

export interface Verdict {
  readonly counts: Readonly<Record<Fate | 'equivalent', number>>;
  readonly faults: readonly Fault[];
}

/** @param equivalents reasons by the mutant's name */
export function verdictOn(results: readonly Result[], equivalents: Readonly<Record<string, string>>): Verdict {
  const counts = { killed: 0, hung: 0, survived: 0, broken: 0, equivalent: 0 };
  const faults: Fault[] = [];
  for (const { mutant, fate, by } of results) {
    const isEquivalent = mutant.name in equivalents;
    if (fate === 'survived' && isEquivalent) counts.equivalent += 1;
    else {
      counts[fate] += 1;
      if (fate === 'survived' || fate === 'broken') faults.push({ name: mutant.name, fault: fate, by });
      else if (isEquivalent) faults.push({ name: mutant.name, fault: 'stale equivalent', by });
    }
  }
  return { counts, faults };
}
