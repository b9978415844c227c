// What tests of commands that name several reminders share: rows that nothing names, and short words for the rest.
import { v7 as uuid } from 'uuid';
import { expect } from 'vitest';
import type { Situation } from '../../lambdas/core/delivery-states.ts';
import { rowOf } from './one-reminder.ts';
import { type Arranged, arrange, type Circumstances } from './situations.ts';
import { type TestLedger, worker } from './test-ledger.ts';

export const live = 'delivering, lease live';
export const past = 'delivering, lease past';

export const ids = (...rows: Arranged[]): string[] => rows.map(({ deliveryId }) => deliveryId);
export const name = ({ deliveryId }: Arranged) => ({ deliveryId });

/** A row that no command of the test names, and what says later that nothing touched it. */
export async function bystander(ledger: TestLedger, situation: Situation, circumstances: Circumstances = {}) {
  const row = await arrange(ledger, situation, circumstances);
  const before = await rowOf(ledger, row.deliveryId);
  return { ...row, untouched: async () => expect(await rowOf(ledger, row.deliveryId)).toEqual(before) };
}

export async function stateOf(ledger: TestLedger, { deliveryId }: Arranged): Promise<unknown> {
  return (await rowOf(ledger, deliveryId)).state;
}

export function claimAll({ ledger }: TestLedger, limit = 10) {
  return ledger.claim({ token: uuid(), worker, limit, lowWater: null });
}

/** What was announced, such as `<id> delivered`. */
export async function ends({ sql }: TestLedger): Promise<string[]> {
  const rows = await sql<{ id: string; state: string }>('SELECT delivery_id AS id, state FROM lifecycle_event');
  return rows.map(({ id, state }) => `${id} ${state}`);
}
