// An execution environment of Lambda: one child process that is timed out, killed and frozen for real.
import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { writeSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { accountId, region } from './addresses.ts';

/** A function to host. */
export interface HostedFunction {
  readonly name: string;
  /** The folder with `index.mjs`, which exports `handler`. */
  readonly folder: string;
  readonly timeoutSeconds: number;
  readonly memoryMegabytes: number;
  /** How many environments may run at once; what comes beyond is throttled. */
  readonly concurrency: number;
  /** What the function reads, beside what Lambda itself sets. */
  readonly environment: Readonly<Record<string, string>>;
}

/** One call of a function. */
export interface Invocation {
  readonly requestId: string;
  /** With the alias it was called by. */
  readonly functionArn: string;
  /** JSON. */
  readonly payload: string;
}

/** What an invocation came to. With `functionError` the payload is `{errorType, errorMessage}`. */
export interface Outcome {
  readonly payload: string;
  readonly functionError: boolean;
}

/** Where an environment belongs. */
export interface EnvironmentOptions {
  readonly fn: HostedFunction;
  /** `host:port` of the Runtime API. */
  readonly api: string;
  /** A file descriptor for its output, opened to append. */
  readonly log: number;
  /** Where Node keeps compiled code, so that later cold starts cost less. */
  readonly compileCache: string;
  /** Environment variables that no function asked for: what a rehearsal loads into the process. */
  readonly preloads: Readonly<Record<string, string>>;
  /** How far its wall clock is ahead. Its time-outs are spans: it is told their ends by its own clock. */
  readonly clockSkewMs: number;
  /** Called once, as soon as it must get no more invocations. */
  readonly onEnd: () => void;
}

/** The longest answer, in bytes (AWS Lambda Developer Guide, "Lambda quotas"). */
const answerLimit = 6 * 1024 * 1024;
/** How long the init phase may take (AWS Lambda Developer Guide, "Lambda execution environment lifecycle"). */
const initLimitMs = 10_000;

const runtimeClient = fileURLToPath(new URL('./runtime-client.ts', import.meta.url));

/** One environment. It takes one invocation at a time and starts with its first. */
export class ExecutionEnvironment {
  readonly id = randomUUID();
  readonly fn: HostedFunction;
  readonly #options: EnvironmentOptions;
  readonly #child: ChildProcess;
  #invocation: (Invocation & { readonly settle: (outcome: Outcome) => void }) | undefined;
  /** Answers the child's held request for its next invocation. */
  #next: ((invocation: Invocation & { deadlineMs: number }) => void) | undefined;
  #timer: NodeJS.Timeout | undefined;
  #ended = false;

  constructor(options: EnvironmentOptions) {
    this.#options = options;
    this.fn = options.fn;
    const { name, memoryMegabytes, folder, environment } = options.fn;
    const date = new Date().toISOString().slice(0, 10).replaceAll('-', '/');
    // The file takes each write whole: lines of several environments do not mix, and our process is not in between.
    this.#child = spawn(process.execPath, [runtimeClient], {
      // A Ctrl-C in our terminal is for us alone.
      detached: true,
      stdio: ['ignore', options.log, options.log],
      env: {
        PATH: process.env.PATH,
        TZ: ':UTC',
        NODE_COMPILE_CACHE: options.compileCache,
        AWS_REGION: region,
        AWS_DEFAULT_REGION: region,
        AWS_ACCESS_KEY_ID: accountId,
        AWS_SECRET_ACCESS_KEY: 'local',
        AWS_EXECUTION_ENV: 'AWS_Lambda_nodejs24.x',
        AWS_LAMBDA_FUNCTION_NAME: name,
        AWS_LAMBDA_FUNCTION_VERSION: '$LATEST',
        AWS_LAMBDA_FUNCTION_MEMORY_SIZE: String(memoryMegabytes),
        AWS_LAMBDA_LOG_GROUP_NAME: `/aws/lambda/${name}`,
        AWS_LAMBDA_LOG_STREAM_NAME: `${date}/[$LATEST]${this.id.replaceAll('-', '')}`,
        AWS_LAMBDA_RUNTIME_API: `${options.api}/${this.id}`,
        LAMBDA_TASK_ROOT: folder,
        _HANDLER: 'index.handler',
        ...options.preloads,
        ...environment,
      },
    });
    this.#child.once('error', ({ message }) => this.#end('Runtime.ExitError', message));
    this.#child.once('exit', (code, signal) => {
      const how = signal === null ? `exit status ${code}` : `signal: ${signal}`;
      this.#end('Runtime.ExitError', `Runtime exited with error: ${how}`);
    });
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  /** The request it works at; undefined: it is free. */
  get requestId(): string | undefined {
    return this.#invocation?.requestId;
  }

  /** Gives it an invocation; it must be free. */
  run(invocation: Invocation): Promise<Outcome> {
    return new Promise((settle) => {
      this.#invocation = { ...invocation, settle };
      if (this.#next !== undefined) return this.#deliver();
      // It still loads, or has not come back from its last answer.
      this.#limit(initLimitMs + this.fn.timeoutSeconds * 1000);
    });
  }

  /** The Runtime API's `next`: resolves when there is an invocation, with the epoch time at which it is timed out. */
  next(): Promise<Invocation & { deadlineMs: number }> {
    return new Promise((resolve) => {
      this.#next = resolve;
      if (this.#invocation !== undefined) this.#deliver();
      // Lambda freezes an environment between invocations: its timers and sockets stand still.
      else this.#child.kill('SIGSTOP');
    });
  }

  /** The Runtime API's `response` and `error`. An answer to anything but the present invocation is ignored. */
  answer(requestId: string, outcome: Outcome): void {
    if (requestId !== this.requestId) return;
    const bytes = Buffer.byteLength(outcome.payload);
    const message = `Response payload size (${bytes} bytes) exceeded maximum allowed payload size (${answerLimit} bytes).`;
    this.#settle(bytes <= answerLimit ? outcome : failed('Function.ResponseSizeTooLarge', message));
  }

  /** The Runtime API's `init/error`: the process ends by itself. */
  initFailed(payload: string): void {
    this.#retire();
    this.#settle({ payload, functionError: true });
  }

  /** Its process has stopped itself: it goes on after so long, and its time-out is put off by that. */
  thawAfter(ms: number): void {
    this.#limit(ms + this.fn.timeoutSeconds * 1000);
    setTimeout(() => this.#child.kill('SIGCONT'), ms).unref();
  }

  /** SIGKILL, as when a machine is lost. */
  kill(): void {
    this.#child.kill('SIGKILL');
  }

  /** Kills it and waits until the process is gone. */
  async stop(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null || this.#child.pid === undefined) return;
    this.kill();
    await once(this.#child, 'exit');
  }

  #deliver(): void {
    const [invocation, next] = [this.#invocation, this.#next];
    if (invocation === undefined || next === undefined) return;
    this.#next = undefined;
    const limitMs = this.fn.timeoutSeconds * 1000;
    this.#limit(limitMs);
    this.#child.kill('SIGCONT');
    next({ ...invocation, deadlineMs: Date.now() + this.#options.clockSkewMs + limitMs });
  }

  #limit(ms: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#end('Sandbox.Timedout', `Task timed out after ${this.fn.timeoutSeconds.toFixed(2)} seconds`);
      this.kill();
    }, ms);
  }

  #settle(outcome: Outcome): void {
    clearTimeout(this.#timer);
    const invocation = this.#invocation;
    this.#invocation = undefined;
    invocation?.settle(outcome);
  }

  /** Before the process is gone: a killed environment does not count against the limit meanwhile. */
  #end(errorType: string, message: string): void {
    if (this.#ended) return;
    this.#retire();
    const { requestId } = this;
    if (requestId === undefined) return;
    const outcome = failed(errorType, `RequestId: ${requestId} Error: ${message}`);
    writeSync(this.#options.log, `${outcome.payload}\n`);
    this.#settle(outcome);
  }

  #retire(): void {
    if (!this.#ended) this.#options.onEnd();
    this.#ended = true;
  }
}

function failed(errorType: string, errorMessage: string): Outcome {
  return { payload: JSON.stringify({ errorType, errorMessage }), functionError: true };
}
