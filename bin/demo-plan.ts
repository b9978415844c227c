// What the demo asks for: every reminder with its time, where it goes, and the part it plays.
import { createHash } from 'node:crypto';
import type { Settings } from '../lambdas/core/settings.ts';

/** The part a reminder plays. All but `plain` and `flaky` are single reminders or a handful. */
export type Part =
  | 'plain'
  | 'flaky'
  | 'killed'
  | 'lost'
  | 'duplicated'
  | 'cancelled'
  | 'rescheduled'
  | 'far'
  | 'sabotaged';

/** One reminder as it was asked for. The verdict knows nothing else of it. */
export interface Asked {
  readonly key: string;
  readonly part: Part;
  readonly destination: 'partner' | 'flaky-partner';
  readonly payloadText: string;
  readonly payloadSha256: string;
  readonly userId: string;
  /** Epoch milliseconds; moves with a reschedule. */
  dueAt: number;
  /** What the ledger called it. */
  deliveryId: string;
  /** The ledger answered `cancelled`: it must never arrive. */
  cancelled: boolean;
}

export interface Plan {
  readonly asked: readonly Asked[];
  /** How long the due times are spread over, from now. */
  readonly spreadSeconds: number;
  /** How long the demo waits for everything to end. */
  readonly limitSeconds: number;
}

/** How far due times are spread and how long recovery may take: it has to outlast an allowance, a lease and ticks. */
const spans = {
  rehearsal: { spreadSeconds: 40, limitSeconds: 100 },
  production: { spreadSeconds: 240, limitSeconds: 345 },
} as const;

/** A reminder that lies this far ahead stays in the calendar. */
const farDays = 40;

/** Plans `count` reminders from `now` on. What must recover within the demo is due early. */
export function planDemo(settings: Settings, count: number, now: number): Plan {
  const span = spans[settings.stage === 'rehearsal' ? 'rehearsal' : 'production'];
  const spread = span.spreadSeconds * 1000;
  const asked: Asked[] = [];
  const add = (part: Part, dueInMs: number, destination: Asked['destination'] = 'partner') => {
    const no = asked.length;
    // Key order and a number beyond a double's precision: they must arrive as they are.
    const payloadText = `{"z":1,"a":${no},"amount":12345678901234567890.10,"text":"Your bill no. ${no} is due"}`;
    asked.push({
      key: `demo-${now}-${no}`,
      part,
      destination,
      payloadText,
      payloadSha256: createHash('sha256').update(payloadText).digest('hex'),
      userId: `user-${no % 100}`,
      dueAt: now + Math.round(dueInMs),
      deliveryId: '',
      cancelled: false,
    });
  };
  add('far', farDays * 86_400_000);
  add('killed', 5000);
  add('lost', 6000);
  add('duplicated', 7000);
  add('sabotaged', spread * 0.7);
  for (let no = 0; no < 20; no += 1) add('flaky', 4000 + (no * spread) / 100, 'flaky-partner');
  for (let no = 0; no < 10; no += 1) add('cancelled', spread * 0.8 + no * 100);
  for (let no = 0; no < 10; no += 1) add('rescheduled', spread * 0.9 + no * 100);
  for (const plain = count - asked.length; asked.length < count; ) {
    add('plain', 3000 + ((asked.length - (count - plain)) * (spread - 3000)) / plain);
  }
  return { asked, ...span };
}
