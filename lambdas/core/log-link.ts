// Links into the CloudWatch console: from an attempt to what its worker wrote.
import type { Worker } from './ports.ts';

/** Where a function's log is. */
export interface LogPlace {
  readonly region: string;
  readonly logGroup: string;
}

/** The console's domain by partition (AWS Fault Isolation Boundaries, "Partitions"); those of the first two were not tried. */
const consoles: readonly (readonly [region: RegExp, domain: string])[] = [
  [/^cn-/, 'console.amazonaws.cn'],
  [/^us-gov-/, 'console.amazonaws-us-gov.com'],
  [/^/, 'console.aws.amazon.com'],
];

/**
 * The page of the worker's log stream, with the lines of its request alone. AWS does not document these addresses: in the
 * fragment a name is percent-encoded twice, and `$` stands for `%`.
 */
export function logLink(
  { region, logGroup }: LogPlace,
  { logStream, requestId }: Pick<Worker, 'logStream' | 'requestId'>,
): string {
  const [, domain] = consoles.find(([pattern]) => pattern.test(region)) ?? ['', ''];
  const query = `${once('?filterPattern=')}${twice(`"${requestId}"`)}`;
  const page = `log-groups/log-group/${twice(logGroup)}/log-events/${twice(logStream)}${query}`;
  return `https://${encodeURIComponent(region)}.${domain}/cloudwatch/home?region=${encodeURIComponent(region)}#logsV2:${page}`;
}

const once = (text: string) => encodeURIComponent(text).replaceAll('%', '$');
const twice = (text: string) => once(encodeURIComponent(text));
