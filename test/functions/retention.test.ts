// The retain function as it deploys: what is long finished goes to the archive, and its key is remembered.
import { ListObjectsV2Command, S3Client } from '@aws-sdk/client-s3';
import { v7 as uuid } from 'uuid';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { eventually, type RunningLedger, startRunningLedger } from './running-ledger.ts';

let ledger: RunningLedger;
let ok: string;
beforeAll(async () => {
  ledger = await startRunningLedger();
  ok = await ledger.destination('/ok');
}, 60_000);
afterAll(() => ledger.stop());

test('delivered long ago: archived, and still a duplicate', async () => {
  const command = {
    ...{ verb: 'schedule', key: `key-${uuid()}`, destination: ok, userId: 'user-1', payload: { text: 'pay' } },
    dueAt: new Date(Date.now() + 1000).toISOString(),
  };
  const { deliveryId = '' } = (await ledger.command(command, 'shop')) as { deliveryId?: string };
  await eventually('it is delivered and announced', async () => {
    const events = await ledger.sql('SELECT FROM lifecycle_event WHERE announced_at IS NOT NULL');
    return (await ledger.row(deliveryId)).state === 'delivered' && events.length > 0;
  });
  expect(await ledger.aws.invoke('retain', {})).toEqual({ archived: 0, changed: 0, forgotten: 0, finished: true });

  await ledger.sql(
    `UPDATE reminder_delivery SET next_attempt_at = now() - interval '91 days', state_since = now() - interval '91 days'`,
  );
  expect(await ledger.aws.invoke('retain', {})).toMatchObject({ archived: 1, finished: true });
  expect(await ledger.row(deliveryId)).toMatchObject({ state: 'delivered', payload: null });
  expect(await ledger.sql('SELECT FROM delivery_attempt')).toEqual([]);
  const s3 = new S3Client({
    ...{ region: 'us-east-1', endpoint: ledger.aws.archive.endpoint },
    credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
  });
  const { Contents = [] } = await s3.send(new ListObjectsV2Command({ Bucket: ledger.aws.archive.name }));
  expect(Contents.map(({ Key }) => Key?.replace(/\/\d.*?\./, '/*.'))).toEqual([
    'reminders/producer=shop/*.jsonl.gz',
    'reminders/producer=shop/*.manifest.json',
  ]);
  expect(await ledger.command(command, 'shop')).toMatchObject({ answer: 'duplicate', deliveryId, state: 'delivered' });
});
