// Breaks one promise on purpose, past the product's code, so that one can see the demo's verdict find it.
import pg from 'pg';

/** What can be broken, and the promise each breaks. */
export const sabotages = {
  early: 'P10 never before it is due',
  lose: 'P1 no loss',
  newkey: 'P2 one identity',
  twice: 'P3 terminal means terminal',
  noattempt: 'P5 ledger first',
} as const;
export type Sabotage = keyof typeof sabotages;

/** As the database's superuser, with its guards switched off: only so can it be done at all. */
const statements: Readonly<Record<Sabotage, string>> = {
  early: `UPDATE reminder_delivery SET next_attempt_at = now(), wake_at = now() - interval '1 hour'
          WHERE delivery_id = $1 AND state = 'scheduled'`,
  lose: `UPDATE reminder_delivery SET wake_at = 'infinity' WHERE delivery_id = $1 AND state = 'scheduled'`,
  newkey: `UPDATE reminder_delivery SET idempotency_key = idempotency_key || '-new' WHERE delivery_id = $1`,
  twice: `UPDATE reminder_delivery SET state = 'scheduled', delivered_at = NULL, wake_at = now(), next_attempt_at = now()
          WHERE delivery_id = $1 AND state = 'delivered'`,
  noattempt: `WITH outcomes AS (DELETE FROM attempt_outcome WHERE delivery_id = $1)
              DELETE FROM delivery_attempt WHERE delivery_id = $1`,
};

/** Whether this one is done to a reminder that has been delivered, or to one that waits. */
export const afterDelivery: Readonly<Record<Sabotage, boolean>> = {
  early: false,
  lose: false,
  newkey: false,
  twice: true,
  noattempt: true,
};

/** @throws {Error} when the reminder was not in the state for it, so that nothing was broken */
export async function breakPromise(databaseUrl: string, sabotage: Sabotage, deliveryId: string): Promise<void> {
  const client = new pg.Client(databaseUrl);
  await client.connect();
  try {
    await client.query('SET session_replication_role = replica');
    const { rowCount } = await client.query(statements[sabotage], [deliveryId]);
    if (rowCount === 0)
      throw new Error(`--sabotage ${sabotage}: ${deliveryId} was not in the state for it; run it again`);
  } finally {
    await client.end();
  }
}
