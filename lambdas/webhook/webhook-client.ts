// Sends webhooks over HTTPS with undici: one connection an attempt, every end a value.
import { Client } from 'undici';
import { atFaultPoint } from '../core/fault-points.ts';
import { judgeAttempt, type ResponseHead } from '../core/outcome-policy.ts';
import type { AttemptPhase, AttemptResult, Webhook, WebhookRequest, WebhookSession } from '../core/ports.ts';
import { checkWebhookUrl, type Lookup, systemLookup, type TrustedRange } from './address-wall.ts';
import { type Connection, dial } from './connection.ts';
import { redactor } from './redaction.ts';
import { type SigningRoots, signedHeaders } from './signing.ts';
import type { SigningKeys } from './signing-keys.ts';

/** How much of an answer's body is read before it is cut off. */
export const responseReadLimitBytes = 64 * 1024;
/** How much of a body is looked at for a line worth keeping. */
const excerptLimitBytes = 1024;
const responseHeaderLimitBytes = 16 * 1024;

export interface WebhookClientOptions {
  readonly signingKeys: SigningKeys;
  /** Ranges that are opened although they are not public. @default none */
  readonly trusted?: readonly TrustedRange[];
  /** @default the operating system's */
  readonly lookup?: Lookup;
}

/** How far one attempt has come: written while it runs, read once it has ended in whatever way. */
interface Progress {
  phase: AttemptPhase;
  response: ResponseHead | null;
  statusText: string;
  bodyBytes: number;
  readonly excerpt: Buffer[];
}

interface Failure {
  readonly code: string | null;
  readonly message: string;
}

/**
 * The webhook over HTTPS. `prepare` rejects when the signing keys cannot be had. `post` never rejects; when it resolves, its
 * socket is closed and nothing more is sent. Connections are not kept: one that a frozen function held would be stale, and
 * a POST into it ends as `unknown`.
 */
export function webhookClient(options: WebhookClientOptions): Webhook {
  const wall = { trusted: options.trusted ?? [], lookup: options.lookup ?? systemLookup };
  return {
    async prepare(): Promise<WebhookSession> {
      const roots = await options.signingKeys();
      const closing = new AbortController();
      const inFlight = new Set<Promise<AttemptResult>>();
      return {
        async post(request, signal) {
          const attempt = post(request, roots, wall, AbortSignal.any([signal, closing.signal]));
          inFlight.add(attempt);
          const result = await attempt;
          inFlight.delete(attempt);
          return result;
        },
        async close() {
          closing.abort();
          await Promise.all(inFlight);
        },
      };
    },
  };
}

async function post(
  request: WebhookRequest,
  roots: SigningRoots,
  wall: Required<Pick<WebhookClientOptions, 'trusted' | 'lookup'>>,
  cancelled: AbortSignal,
): Promise<AttemptResult> {
  const started = performance.now();
  const progress: Progress = { phase: 'none', response: null, statusText: '', bodyBytes: 0, excerpt: [] };
  let cut = cancelled;
  let failure: Failure | null = null;
  try {
    cut = AbortSignal.any([cancelled, AbortSignal.timeout(request.deadlineMs)]);
    cut.throwIfAborted();
    const url = checkWebhookUrl(request.url, wall.trusted);
    const headers = { ...contentHeaders(request.payload), ...signedHeaders(request, roots, new Date()) };
    const reached = (phase: AttemptPhase): void => {
      progress.phase = phase;
    };
    const effect = { point: 'dial', deliveryIds: () => [request.deliveryId] };
    const connection = await atFaultPoint(effect, () => dial(url, wall, reached, request.deadlineMs, cut));
    try {
      await exchange(url, headers, request.payload, connection, progress);
    } finally {
      await connection.close();
    }
  } catch (error) {
    failure = cut.aborted ? cutShort(cut.reason === cancelled.reason, request.deadlineMs) : described(error);
  }
  const verdict = judgeAttempt({ ...progress, errorCode: failure?.code ?? null });
  return {
    ...verdict,
    phase: progress.phase,
    detail: verdict.outcome === 'delivered' ? null : detailOf(request, progress, failure),
    latencyMs: Math.round(performance.now() - started),
  };
}

function contentHeaders(payload: string): Record<string, string> {
  return {
    'content-type': isJson(payload) ? 'application/json' : 'text/plain; charset=utf-8',
    'user-agent': 'reminder-ledger/1',
    // What is not compressed cannot unfold into gigabytes.
    'accept-encoding': 'identity',
  };
}

/** POSTs over the connection. Resolves when the answer is complete or was cut off at its limit; rejects when it broke. */
function exchange(
  url: URL,
  headers: Record<string, string>,
  payload: string,
  connection: Connection,
  progress: Progress,
): Promise<void> {
  const client = new Client(url.origin, {
    // undici dials again when a socket is lost before it is used. It gets this one or none.
    connect: (_options, callback) =>
      queueMicrotask(() =>
        connection.socket.destroyed
          ? callback(Object.assign(new Error('closed before it was used'), { code: 'ECONNRESET' }), null)
          : callback(null, connection.socket),
      ),
    maxHeaderSize: responseHeaderLimitBytes,
    // undici's time-outs count silence only; the deadline counts everything.
    headersTimeout: 0,
    bodyTimeout: 0,
  });
  return new Promise((resolve, reject) => {
    const request = { path: url.pathname + url.search, method: 'POST', headers, body: payload, reset: true } as const;
    client.dispatch(request, {
      // undici calls this in the same turn as, and right before, it hands the first byte to the socket.
      onRequestStart() {
        progress.phase = 'written';
      },
      onResponseStart(_controller, status, received, statusText) {
        if (status < 200) return;
        progress.phase = 'headers';
        progress.statusText = statusText ?? '';
        progress.response = {
          status,
          retryAfter: firstOf(received['retry-after']),
          date: firstOf(received.date),
          receivedAt: Date.now(),
        };
      },
      onResponseData(_controller, chunk) {
        progress.phase = 'body';
        if (progress.bodyBytes < excerptLimitBytes) progress.excerpt.push(chunk);
        progress.bodyBytes += chunk.length;
        if (progress.bodyBytes >= responseReadLimitBytes) resolve();
      },
      onResponseEnd() {
        progress.phase = 'body';
        resolve();
      },
      onResponseError(_controller, error) {
        reject(error);
      },
    });
  });
}

function firstOf(header: string | readonly string[] | undefined): string | null {
  return [header].flat()[0] ?? null;
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function cutShort(byCaller: boolean, deadlineMs: number): Failure {
  return byCaller
    ? { code: 'ABORTED', message: 'given up before it ended' }
    : { code: 'DEADLINE', message: `not done within ${deadlineMs} ms` };
}

function described(error: unknown): Failure {
  if (!(error instanceof Error)) return { code: null, message: String(error) };
  // undici's parser error comes without a code.
  const code = 'code' in error && typeof error.code === 'string' ? error.code : error.name;
  // Several addresses were tried: the error itself says nothing.
  const each = error instanceof AggregateError ? error.errors.map((one: unknown) => described(one).message) : [];
  return { code, message: each.length > 0 ? each.join('; ') : error.message };
}

/** What a person may want to read of an attempt that did not deliver, with nothing in it that was sent. */
function detailOf(request: WebhookRequest, progress: Progress, failure: Failure | null): string | null {
  const pathAndQuery = request.url.replace(/^[^/]*\/\/[^/?#]*/, '');
  const redact = redactor([request.payload, request.key, pathAndQuery]);
  if (progress.response === null) return redact(failure?.message ?? '') || null;
  const body = Buffer.concat(progress.excerpt).toString('utf8', 0, excerptLimitBytes).trimStart();
  return `${progress.response.status} ${redact(`${progress.statusText}: ${body}`)}`.replace(/[: ]+$/, '');
}
