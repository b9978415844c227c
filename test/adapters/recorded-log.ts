// A log that keeps its lines, for tests that ask what was said and what was kept back.
import type { Log } from '../../lambdas/core/ports.ts';

/** A {@link Log} and the lines it got: level, event, fields. */
export interface RecordedLog extends Log {
  readonly lines: [level: string, event: string, fields: Record<string, unknown> | undefined][];
}

/** An empty log. */
export function recordedLog(): RecordedLog {
  const lines: RecordedLog['lines'] = [];
  return {
    lines,
    info: (event, fields) => void lines.push(['info', event, fields]),
    warn: (event, fields) => void lines.push(['warn', event, fields]),
    error: (event, fields) => void lines.push(['error', event, fields]),
  };
}
