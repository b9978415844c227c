// What several statements' rows and parameters have in common, and how rows become the domain's answers.
import type { DeliveryState } from '../core/delivery-states.ts';
import type { ClaimAnswer, Claimed, ReminderFacts, ReminderName } from '../core/ports.ts';

/** The facts of a reminder as PostgreSQL's JSON gives them: timestamps with the session's offset, microseconds. */
export interface FactsRow {
  readonly delivery_id: string;
  readonly state: DeliveryState;
  readonly due_at: string;
  readonly expires_at: string | null;
  readonly version: number;
}

/** One line of a claim's answer. */
export type ClaimRow =
  | { readonly answer: 'high_water'; readonly at: string }
  | {
      readonly answer: 'claimed';
      readonly delivery_id: string;
      readonly due_in_ms: number;
      readonly not_before: number;
    }
  | { readonly answer: 'recovered' | 'expired' | 'parked'; readonly delivery_id: string };

/** An instant as ISO 8601 in UTC. */
export function instant(text: string): string;
export function instant(text: string | null): string | null;
export function instant(text: string | null): string | null {
  return text === null ? null : new Date(text).toISOString();
}

/** The facts in the domain's words. */
export function facts(row: FactsRow): ReminderFacts {
  return {
    deliveryId: row.delivery_id,
    state: row.state,
    dueAt: instant(row.due_at),
    expiresAt: instant(row.expires_at),
    version: row.version,
  };
}

/** A claim's lines, sorted by what happened to each row. */
export function claimAnswer(rows: readonly ClaimRow[], askedAt: number): ClaimAnswer {
  const ids = (answer: 'recovered' | 'expired' | 'parked') =>
    rows.flatMap((row) => (row.answer === answer ? [row.delivery_id] : []));
  return {
    claimed: rows.flatMap((row): Claimed[] =>
      row.answer === 'claimed'
        ? [{ deliveryId: row.delivery_id, dueInMs: row.due_in_ms, notBefore: row.not_before }]
        : [],
    ),
    recovered: ids('recovered'),
    expired: ids('expired'),
    parked: ids('parked'),
    highWater: rows.find((row) => row.answer === 'high_water')?.at ?? null,
    askedAt,
  };
}

/** One item of a command that names a reminder. */
export interface NamedItem {
  readonly item: number;
  readonly name: ReminderName;
}

/** Named items as a JSON parameter, with whatever else each carries. */
export function namesJson<Item extends NamedItem>(
  items: readonly Item[],
  more: (item: Item) => Record<string, unknown> = () => ({}),
): string {
  return JSON.stringify(
    items.map((item) => ({
      item: item.item,
      key: 'key' in item.name ? item.name.key : null,
      delivery_id: 'deliveryId' in item.name ? item.name.deliveryId : null,
      ...more(item),
    })),
  );
}
