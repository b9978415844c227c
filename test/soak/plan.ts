// What a soak asks for: its destinations, and every reminder with its key, bytes and due time, decided by the seed.
import { createHash } from 'node:crypto';
import { draw } from './draw.ts';

/** Where reminders go. The receiver behaves by the destination's name. */
export interface SoakDestination {
  readonly name: string;
  readonly contract: 'honours-key' | 'status-lookup' | 'none';
  /** The part of the reminders that go there; all together are 1. */
  readonly share: number;
}

export const destinations: readonly SoakDestination[] = [
  { name: 'prompt', contract: 'honours-key', share: 0.6 },
  { name: 'slow', contract: 'honours-key', share: 0.1 },
  { name: 'failing', contract: 'honours-key', share: 0.1 },
  { name: 'silent', contract: 'honours-key', share: 0.1 },
  { name: 'looked-up', contract: 'status-lookup', share: 0.05 },
  { name: 'unpromising', contract: 'none', share: 0.05 },
];

/** One reminder as a product asks for it. */
export interface Wish {
  readonly key: string;
  readonly destination: string;
  readonly payloadText: string;
  readonly payloadSha256: string;
  /** Epoch milliseconds. */
  readonly dueAt: number;
}

/** What one call of the product carries, and when it is made. */
export interface Call {
  /** Epoch milliseconds. */
  readonly at: number;
  readonly wishes: readonly Wish[];
}

/**
 * Plans the calls evenly over the spread. A reminder is due between a second and `aheadSeconds` after its call, so that
 * some go to the queue within the call and others wait for a tick.
 * @param begin epoch milliseconds of the first call
 */
export function planCalls(options: {
  seed: number;
  reminders: number;
  begin: number;
  spreadSeconds: number;
  aheadSeconds: number;
  callSize: number;
}): Call[] {
  const { seed, reminders, begin, spreadSeconds, aheadSeconds, callSize } = options;
  return Array.from({ length: Math.ceil(reminders / callSize) }, (_call, place) => {
    const first = place * callSize;
    const at = begin + (first / reminders) * spreadSeconds * 1000;
    const wishes = Array.from({ length: Math.min(callSize, reminders - first) }, (_wish, inside) => {
      const no = first + inside;
      const key = `soak-${seed}-${no}`;
      // Key order and a number beyond a double's precision: they must arrive as they are.
      const payloadText = `{"z":1,"of":"${key}","amount":12345678901234567890.10,"text":"Rechnung № ${no} ist fällig"}`;
      return {
        key,
        destination: destinationOf(draw(seed, 'destination', no)),
        payloadText,
        payloadSha256: createHash('sha256').update(payloadText).digest('hex'),
        dueAt: Math.round(at + 1000 + draw(seed, 'ahead', no) * (aheadSeconds - 1) * 1000),
      };
    });
    return { at, wishes };
  });
}

function destinationOf(drawn: number): string {
  let below = 0;
  for (const { name, share } of destinations) {
    below += share;
    if (drawn < below) return name;
  }
  return destinations[0]?.name ?? '';
}
