// What the command line's arguments and options mean: instants, numbers, names of reminders, where logs are.
import type { LogPlace } from '../lambdas/core/log-link.ts';
import { UsageError } from './ledger-target.ts';

/** `2026-12-24T18:00:00+01:00` as it is; `+90s`, `+5m`, `+2h`, `+40d` from now. */
export function instant(field: string): (text: string) => string {
  return (text) => {
    const [, amount, unit] = /^\+(\d+)([smhd])$/.exec(text) ?? [];
    if (amount === undefined) return text;
    const seconds = { s: 1, m: 60, h: 3600, d: 86_400 }[unit as 's' | 'm' | 'h' | 'd'];
    const at = new Date(Date.now() + Number(amount) * seconds * 1000);
    if (Number.isNaN(at.getTime())) throw new UsageError(`${field}: got ${text}, which is out of range`);
    return at.toISOString();
  };
}

/** For an option that takes digits alone. */
export function wholeNumber(option: string): (text: string) => number {
  return (text) => {
    if (!/^\d{1,9}$/.test(text)) throw new UsageError(`${option}: got ${text}; give a whole number`);
    return Number(text);
  };
}

/** Whether it looks like a delivery id. */
export function isId(text: string): boolean {
  return /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text);
}

/** Exactly one way to name a reminder. */
export function nameOf(
  id: string | undefined,
  { key }: { readonly key?: string },
): { deliveryId: string } | { key: string } {
  if (id !== undefined && key === undefined) {
    if (!isId(id)) throw new UsageError(`ID: got ${JSON.stringify(id)}; give a delivery id, or --key KEY`);
    return { deliveryId: id };
  }
  if (id === undefined && key !== undefined) return { key };
  throw new UsageError('give either the ID of a reminder or --key KEY');
}

/** Where a log group lies that was named. @throws {UsageError} when no Region is set */
export function logPlace(logGroup: string | undefined): LogPlace | null {
  if (logGroup === undefined) return null;
  const region = process.env.AWS_REGION ?? process.env.AWS_DEFAULT_REGION;
  if (region === undefined) throw new UsageError('--log-group: got no Region for its link; set AWS_REGION');
  return { region, logGroup };
}
