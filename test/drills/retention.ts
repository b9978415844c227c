// Retention's boundaries: its process dies around each of its effects, and the next run leaves the same archive behind.
import { promisify } from 'node:util';
import { gunzip } from 'node:zlib';
import { GetObjectCommand, ListObjectsV2Command, S3Client } from '@aws-sdk/client-s3';
import { archivePrefix } from '../../lambdas/core/archive-finished.ts';
import type { FaultPlan } from '../../lib/local/fault-plans.ts';
import type { Cell, Reminder } from './cell.ts';
import type { Drill } from './drill.ts';
import { nearLife } from './kinds.ts';

const killedRetain = (name: string, rehearses: string, at: Pick<FaultPlan, 'point' | 'at'>): Drill => ({
  name,
  rehearses,
  endsIn: ['delivered'],
  bound: 'archived by the next run',
  until: 'archived',
  promises: ['P2', 'P4', 'P12'],
  points: [at.point],
  async run(cell) {
    const reminder = await nearLife(cell, () => undefined);
    await cell.untilSql(
      'SELECT FROM lifecycle_event WHERE delivery_id = $1 AND announced_at IS NOT NULL',
      reminder,
      60_000,
    );
    await cell.keepEvidence();
    await cell.sql(
      `UPDATE reminder_delivery SET next_attempt_at = next_attempt_at - interval '2 days',
         state_since = state_since - interval '2 days' WHERE delivery_id = $1`,
      [reminder.deliveryId],
    );
    const policy = { finishedDays: 90, byProducer: { [cell.producer]: 1 } };
    const own = await cell.stage.ownHost('retain', { environment: { RETENTION_POLICY: JSON.stringify(policy) } });
    cell.plan({ ...at, deliveryId: reminder.deliveryId, action: { kind: 'kill' } }, own.plans);
    await own.host.invoke('retain', '{}');
    const { functionError, payload } = await own.host.invoke('retain', '{}');
    if (functionError) throw new Error(`the next run failed: ${payload}`);
    await expectArchived(cell, reminder);
  },
});

export const retentionDrills: readonly Drill[] = [
  killedRetain(
    'retention killed before it writes',
    'Retention dies with a page in its hands: nothing is written and nothing taken, and the next run does both.',
    { point: 'put-archive', at: 'before' },
  ),
  killedRetain(
    'retention killed after it wrote',
    'Retention dies between the archive and the database: the next run writes the same page over itself.',
    { point: 'put-archive', at: 'after' },
  ),
  killedRetain(
    'retention killed before it takes',
    'Retention dies right before its statement: payload and evidence stay until the next run.',
    { point: 'archive', at: 'before' },
  ),
  killedRetain(
    'retention killed after it took',
    'Retention dies before it hears that the database has let go: the next run finds nothing left, and one page.',
    { point: 'archive', at: 'after' },
  ),
];

interface ArchivedRecord {
  readonly delivery_id: string;
  readonly payload: string;
  readonly attempts: readonly { readonly outcomes: readonly { readonly outcome: string }[] }[];
}

/** @throws {Error} unless the database has let go of the payload, and one page holds it with all the evidence that was kept */
async function expectArchived(cell: Cell, { deliveryId, payloadText }: Reminder): Promise<void> {
  const { endpoint, name: Bucket } = cell.stage.aws.archive;
  const credentials = { accessKeyId: 'drills', secretAccessKey: 'drills' };
  const s3 = new S3Client({ region: 'us-east-1', endpoint, credentials });
  try {
    const Prefix = `${archivePrefix}producer=${cell.producer}/`;
    const { Contents = [] } = await s3.send(new ListObjectsV2Command({ Bucket, Prefix }));
    const pages = Contents.flatMap(({ Key = '' }) => (Key.endsWith('.jsonl.gz') ? [Key] : []));
    const [Key] = pages;
    if (Key === undefined || pages.length > 1 || Contents.length !== 2) {
      throw new Error(`the archive has ${Contents.length} objects instead of a page and its manifest`);
    }
    const page = await s3.send(new GetObjectCommand({ Bucket, Key }));
    const bytes = await promisify(gunzip)((await page.Body?.transformToByteArray()) ?? new Uint8Array());
    const records: ArchivedRecord[] = bytes
      .toString('utf8')
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    const kept = records.map(({ delivery_id: id, payload, attempts }) => ({
      ...{ id, payload, outcomes: attempts.flatMap(({ outcomes }) => outcomes.map(({ outcome }) => outcome)) },
    }));
    const wanted = JSON.stringify([{ id: deliveryId, payload: payloadText, outcomes: ['delivered'] }]);
    if (JSON.stringify(kept) !== wanted) throw new Error(`the archive has ${JSON.stringify(kept)}, and not ${wanted}`);
  } finally {
    s3.destroy();
  }
  const left = `SELECT FROM reminder_delivery r WHERE delivery_id = $1 AND (payload IS NOT NULL OR archived_at IS NULL
    OR EXISTS (SELECT FROM delivery_attempt a WHERE a.delivery_id = r.delivery_id))`;
  if ((await cell.sql(left, [deliveryId])).length > 0) throw new Error('the database has not let go of it');
}
