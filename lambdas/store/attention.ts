// Who waits for a look, on PostgreSQL: one statement's lines by their kinds, in the domain's words.
import type { Attention, AttentionLedger, AttentionLine } from '../core/attention.ts';
import { instant } from './rows.ts';
import type { StatementRunner } from './statement.ts';
import { type AttentionRow, listAttention } from './statements/list-attention.ts';

/** Implements the port `AttentionLedger`. */
export function postgresAttention(database: StatementRunner): AttentionLedger {
  return { attention: async (limit) => attentionOf(await database.run(listAttention, { limit })) };
}

function attentionOf(rows: readonly AttentionRow[]): Attention {
  const lines = (kind: AttentionRow['answer']) =>
    rows.flatMap((row): AttentionLine[] =>
      row.answer === kind && row.answer !== 'read'
        ? [{ deliveryId: row.delivery_id, state: row.state, since: instant(row.since), why: row.why }]
        : [],
    );
  const [now = ''] = rows.flatMap((row) => (row.answer === 'read' ? [row.now] : []));
  return {
    readAt: instant(now),
    forPerson: lines('for_person'),
    overdue: lines('overdue'),
    setAside: lines('set_aside'),
  };
}
