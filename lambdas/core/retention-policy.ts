// How long what is finished keeps its payload and evidence in the database, and how that stands in a function's environment.

/** In whole days, from the later of a reminder's last due time and its end. */
export interface RetentionPolicy {
  readonly finishedDays: number;
  /** Instead of it, by producer. */
  readonly byProducer: Readonly<Record<string, number>>;
}

/** A text is no retention policy. */
export class RetentionPolicyError extends Error {
  override readonly name = 'RetentionPolicyError';
}

/** As {@link readRetentionPolicy} reads it. */
export function writeRetentionPolicy({ finishedDays, byProducer }: RetentionPolicy): string {
  return JSON.stringify({ finishedDays, byProducer });
}

/** @throws {RetentionPolicyError} naming the field, what was got and what to give */
export function readRetentionPolicy(text: string): RetentionPolicy {
  const { finishedDays, byProducer = {} } = parsed(text);
  if (typeof byProducer !== 'object' || byProducer === null || Array.isArray(byProducer)) {
    throw new RetentionPolicyError(`byProducer: got ${JSON.stringify(byProducer)}; give days by producer`);
  }
  const days = Object.entries(byProducer).map(([producer, value]) => [
    producer,
    wholeDays(`byProducer.${producer}`, value),
  ]);
  return { finishedDays: wholeDays('finishedDays', finishedDays), byProducer: Object.fromEntries(days) };
}

function parsed(text: string): { finishedDays?: unknown; byProducer?: unknown } {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && value !== null) return value;
  } catch {
    // Told below, as any other text that is no object.
  }
  throw new RetentionPolicyError(`retention policy: got ${JSON.stringify(text)}; give a JSON object`);
}

function wholeDays(field: string, value: unknown): number {
  if (typeof value === 'number' && Number.isInteger(value) && value >= 1 && value <= 36_500) return value;
  throw new RetentionPolicyError(`${field}: got ${JSON.stringify(value)}; give whole days, 1 to 36500`);
}
