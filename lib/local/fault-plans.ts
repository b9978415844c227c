// Fault plans: files that make the process of a function die, stand still or wait at a fault point. Each is taken once.
import { randomUUID } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { FaultPoint, Passage } from '../../lambdas/core/fault-points.ts';

/** Passages that undici publishes itself, of a webhook under way; its `bodySent` comes when all bytes are with the kernel. */
export const undiciPoints = {
  write: 'The request goes to the socket: before its first byte, and after its last.',
  headers: "The headers of the receiver's answer are here; nothing has been made of them. It has no before.",
  body: "The receiver's answer is complete, and its connection not yet closed. It has no before.",
} as const;

/** What shall happen to a process. */
export type FaultAction =
  /** SIGKILL, as when a machine is lost: what the process knew and had not sent is gone. */
  | { readonly kind: 'kill' }
  /**
   * SIGSTOP: it stands still for so long, whatever Lambda's time-out says, and goes on as if nothing had been. Between
   * two answers the host freezes every process, as Lambda does; that needs no plan.
   */
  | { readonly kind: 'freeze'; readonly ms: number }
  /** It waits there, and its time-out runs on. */
  | { readonly kind: 'delay'; readonly ms: number };

/** A fault at the n-th passage that fits. */
export interface FaultPlan {
  /** The function, such as `claim`. @default any */
  readonly functionName?: string;
  readonly point: FaultPoint | keyof typeof undiciPoints;
  readonly at: Passage['at'];
  /**
   * Only for this reminder: the passage names it, or names none and the same invocation had to do with it before.
   * @default any
   */
  readonly deliveryId?: string;
  /** Which of the passages that fit, counted over all processes. @default 1 */
  readonly pass?: number;
  readonly action: FaultAction;
}

/** That a plan was taken: by whom, and where its process stood. */
export interface FiredFault {
  readonly plan: FaultPlan;
  readonly pid: number;
  readonly functionName: string;
  /** Epoch milliseconds by the machine's clock. */
  readonly at: number;
  /** Every reminder that the invocation had to do with up to there. */
  readonly deliveryIds: readonly string[];
}

/** A plan that was made. */
export interface PlannedFault {
  /** Undefined: nobody has come by yet. A rehearsal whose fault did not fire has rehearsed nothing. */
  fired(): FiredFault | undefined;
  /** Takes it away if nobody has taken it. */
  withdraw(): void;
}

/** Where plans lie (`planned/<id>.<passes to go>`), taken ones (`taken`), and what became of them (`fired/<id>`). */
export class FaultPlans {
  readonly directory: string;

  /** @param directory made if it does not exist; the one that the functions' host was started with */
  constructor(directory: string) {
    this.directory = directory;
    for (const name of ['planned', 'taken', 'fired']) mkdirSync(join(directory, name), { recursive: true });
  }

  /** The folder in which a file appears when a plan fires, complete from the beginning. */
  get firedFolder(): string {
    return join(this.directory, 'fired');
  }

  /** Plans a fault: from now on every process of the host looks for it at each passage. */
  next(plan: FaultPlan): PlannedFault {
    const id = randomUUID();
    this.#write(join('planned', `${id}.${plan.pass ?? 1}`), plan);
    return {
      fired: () => this.readFired(id),
      withdraw: () => {
        for (const file of this.#planned(id)) rmSync(join(this.directory, 'planned', file), { force: true });
      },
    };
  }

  /** @param id the name of a file in {@link firedFolder} */
  readFired(id: string): FiredFault | undefined {
    const file = join(this.firedFolder, id);
    return existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : undefined;
  }

  /** For a process at a passage: takes the first plan that fits and is due, so that no other process can. */
  take(fits: (plan: FaultPlan) => boolean): { readonly id: string; readonly plan: FaultPlan } | undefined {
    for (const file of this.#planned()) {
      const id = file.replace(/\..*/, '');
      const plan = this.#read(join('planned', file));
      if (plan !== undefined && fits(plan) && this.#countDown(id)) return { id, plan };
    }
    return undefined;
  }

  /** Tells that a plan was taken, before it is carried out. */
  tell(id: string, fired: FiredFault): void {
    this.#write(join('fired', id), fired);
  }

  /** One passage less to go, counted by a rename, which is one process's alone. True: this was the one. */
  #countDown(id: string): boolean {
    for (;;) {
      const [file] = this.#planned(id);
      if (file === undefined) return false;
      const left = Number(file.split('.')[1]);
      const next = left > 1 ? join('planned', `${id}.${left - 1}`) : join('taken', id);
      try {
        renameSync(join(this.directory, 'planned', file), join(this.directory, next));
        return left <= 1;
      } catch {
        // Another process came by at the same time and counted first: this passage counts after it.
      }
    }
  }

  #planned(id = ''): string[] {
    return readdirSync(join(this.directory, 'planned')).filter((file) => file.startsWith(id) && !file.endsWith('.new'));
  }

  #read(file: string): FaultPlan | undefined {
    try {
      return JSON.parse(readFileSync(join(this.directory, file), 'utf8'));
    } catch {
      // Taken meanwhile.
      return undefined;
    }
  }

  /** Beside and renamed: nobody sees half of it. */
  #write(file: string, content: FaultPlan | FiredFault): void {
    const [draft, path] = [join(this.directory, `${randomUUID()}.new`), join(this.directory, file)];
    writeFileSync(draft, JSON.stringify(content));
    renameSync(draft, path);
  }
}
