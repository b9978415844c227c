// Ends child processes when our own process dies, however it dies: a frozen or busy child would not notice.
import { spawn } from 'node:child_process';

/** Watches over child processes until it is ended. */
export interface DeathWatch {
  /** From now on these are the processes to end, and no others. */
  over(pids: readonly number[]): void;
  /** The processes are safe from now on. */
  end(): void;
}

/** @param signal what the processes get, such as `INT` */
export function deathWatch(signal: 'INT' | 'KILL'): DeathWatch {
  // Its standard input closes with our process; the line that came last then says whom to end.
  const script = 'while read -r line; do pids=$line; done; kill -s "$0" $pids';
  // detached: a Ctrl-C in our terminal is for us alone.
  const watcher = spawn('/bin/sh', ['-c', script, signal], { detached: true, stdio: ['pipe', 'ignore', 'ignore'] });
  watcher.stdin.on('error', () => undefined);
  return {
    over: (pids) => void watcher.stdin.write(`${pids.join(' ')}\n`),
    end: () => void watcher.kill('SIGKILL'),
  };
}
