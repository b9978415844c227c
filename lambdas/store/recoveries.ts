// What makes reminders go on, on PostgreSQL.
import { v5 } from 'uuid';
import type { Recovered, RecoveryLedger } from '../core/recoveries.ts';
import { answerEach } from './answer-items.ts';
import { facts } from './rows.ts';
import type { StatementRunner } from './statement.ts';
import { readmit } from './statements/readmit.ts';
import { type ReclaimRow, reclaim } from './statements/reclaim.ts';
import { setAside } from './statements/set-aside.ts';

/** Implements the port `RecoveryLedger`. */
export function postgresRecoveries(database: StatementRunner): RecoveryLedger {
  return {
    async recover(recovery) {
      const items = recovery.reminders.map((one, item) => ({ ...one, item }));
      const rows = await answerEach(database, reclaim, (open) => ({ ...recovery, reminders: open }), items);
      return items.map(({ item, deliveryId }) => answerOf(rows.get(item), deliveryId));
    },

    async readmit({ token, deliveryIds, ...command }) {
      const answers = [];
      for (const deliveryId of deliveryIds) {
        const [row] = await database.run(readmit, {
          ...command,
          deliveryId,
          token: v5(`readmit ${deliveryId}`, token),
        });
        answers.push({ deliveryId, answer: row?.answer ?? 'not_excluded' });
      }
      return answers;
    },

    async setAside(command) {
      if (!command.dryRun && command.messages.length > 0) await database.run(setAside, command);
    },
  };
}

function answerOf(row: ReclaimRow | undefined, deliveryId: string): Recovered {
  if (row === undefined || row.answer === null) return { answer: 'unusable', deliveryId };
  return 'state' in row ? { answer: row.answer, ...facts(row) } : { answer: row.answer, deliveryId };
}
