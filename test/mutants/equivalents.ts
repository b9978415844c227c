// Mutants that no test can see, and why: what else decides the same.

/** By the mutant's name: the reason, which names the guard that stands behind the condition. */
export const equivalents: Readonly<Record<string, string>> = {};
