// The archive in a bucket: a page as compressed JSON lines, and a manifest of it.
import { createHash } from 'node:crypto';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { PutObjectCommand, S3Client } from '@aws-sdk/client-s3';
import { type Archive, archivePrefix } from '../core/archive-finished.ts';
import { atFaultPoint, deliveryIdsIn } from '../core/fault-points.ts';

/** Of the records' shape: a reader refuses one that it does not know. */
const format = 1;

/** What {@link bucketArchive} needs. */
export interface BucketArchiveOptions {
  readonly bucket: string;
  /** How long one try of one call may take, in milliseconds. Each call is tried three times. @default 10000 */
  readonly requestTimeoutMs?: number;
}

/**
 * The archive on Amazon S3: `reminders/producer=<producer>/<last due>-<digest>.jsonl.gz`, one reminder a line, and beside
 * it `….manifest.json` with its size, its digest and what it holds. The digest is that of the lines, so a page
 * written twice is one object. S3 checks a SHA-256 of each object before it keeps it, and answers when it is durable.
 */
export function bucketArchive({ bucket, requestTimeoutMs = 10_000 }: BucketArchiveOptions): Archive {
  const s3 = new S3Client({
    maxAttempts: 3,
    requestHandler: { requestTimeout: requestTimeoutMs, throwOnRequestTimeout: true },
  });

  async function put(key: string, body: Uint8Array, contentType: string): Promise<void> {
    await s3.send(
      new PutObjectCommand({
        Bucket: bucket,
        Key: key,
        Body: body,
        ContentType: contentType,
        ChecksumSHA256: createHash('sha256').update(body).digest('base64'),
      }),
    );
  }

  return {
    async write({ producer, reminders, records, end }) {
      const lines = records.map((record) => `${JSON.stringify({ format, ...record })}\n`).join('');
      const digest = createHash('sha256').update(lines).digest('hex');
      const object = `${archivePrefix}producer=${encodeURIComponent(producer)}/${instantOf(end.nextAttemptAt)}-${digest}`;
      const body = await promisify(gzip)(lines);
      const manifest = {
        format,
        object: `${object}.jsonl.gz`,
        producer,
        reminders: reminders.length,
        bytes: body.length,
        sha256: createHash('sha256').update(body).digest('hex'),
        sha256OfLines: digest,
        last: end,
      };
      await atFaultPoint({ point: 'put-archive', deliveryIds: () => deliveryIdsIn(reminders) }, async () => {
        await put(manifest.object, body, 'application/gzip');
        await put(`${object}.manifest.json`, Buffer.from(JSON.stringify(manifest)), 'application/json');
      });
      return manifest.object;
    },
  };
}

/** So that names sort by time, and hold no character that a shell or a URL changes. */
function instantOf(time: string): string {
  return new Date(time).toISOString().replaceAll(/[-:.]/g, '');
}
