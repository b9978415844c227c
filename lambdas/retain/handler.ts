// The retain function: one run of the retention policy.
import { bucketArchive } from '../archive/archive-bucket.ts';
import { archiveFinished } from '../core/archive-finished.ts';
import { functionHandler } from '../runtime/handler-stack.ts';
import { openDatabase } from '../store/data-api.ts';
import { postgresRetention } from '../store/retention.ts';
import { type RetainRequest, type RetainResponse, retainFunction, retentionPolicy } from './contract.ts';

/** Lambda's entry point. */
export const handler = functionHandler<RetainRequest, RetainResponse>(retainFunction, (environment) => {
  const tools = {
    ledger: postgresRetention(openDatabase(environment)),
    archive: bucketArchive({ bucket: environment.read('ARCHIVE_BUCKET') }),
    policy: retentionPolicy.parse(JSON.parse(environment.read('RETENTION_POLICY'))),
  };
  return (_day, run) => archiveFinished(tools, run);
});
