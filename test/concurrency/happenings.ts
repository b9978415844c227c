// What a happening of the model test is, and those that no statement is about: the passing of time, and what people do by hand.
import fc from 'fast-check';
import type { PostgresLedger } from '../../lambdas/store/ledger.ts';
import type { StatementRunner } from '../../lambdas/store/statement.ts';
import type { ReminderModel } from './reminder-model.ts';

/** The real side. */
export interface Real {
  readonly ledger: PostgresLedger;
  readonly runner: StatementRunner;
  readonly sql: (text: string, values?: unknown[]) => Promise<unknown>;
}

/** A command with all that it names, as it may be run again: by a retry under its token. */
export interface Act {
  readonly send: (real: Real) => Promise<unknown>;
  readonly expect: (model: ReminderModel) => unknown;
  /** Whether it can still be run again. @default always */
  readonly isPossible?: (model: ReminderModel) => boolean;
}

/** What may happen: drawn once, it becomes a command of whatever the model then holds. */
export interface Happening {
  readonly name: string;
  /** What was drawn for it. */
  readonly wish: unknown;
  /** Undefined when there is nothing yet that it could name. */
  readonly resolve: (model: ReminderModel, token: string, acts: readonly Act[]) => Act | undefined;
}

export function happening<Wish>(
  name: string,
  wishes: fc.Arbitrary<Wish>,
  act: (wish: Wish, model: ReminderModel, token: string, acts: readonly Act[]) => Act | undefined,
): fc.Arbitrary<Happening> {
  return wishes.map((wish) => ({
    name,
    wish,
    // Into an empty ledger something must come first.
    resolve: (model, ...where) =>
      model.reminders.size === 0 && !['schedule', 'get', 'add-destination'].includes(name)
        ? undefined
        : act(wish, model, ...where),
  }));
}

/** In the order of their making, as the ledger's ids are. */
export const idOf = (place: number): string => `00000000-0000-7000-9000-${String(place).padStart(12, '0')}`;
export const keyOf = (place: number) => `key-${place}`;
export const urlOf = (name: string) => `https://${name}.example/hook`;

/** Which reminder something is about. */
export const place = fc.nat(2);

/** A reminder that exists; as long as there is none, one that nobody knows. */
export function named({ reminders }: ReminderModel, wish: number) {
  const one = [...reminders.values()][wish % Math.max(reminders.size, 1)];
  return { one, deliveryId: one?.asked.deliveryId ?? idOf(wish), key: one?.asked.key ?? keyOf(wish) };
}
/** Operators pause and resume by hand, as long as there is no command for it. */
export const gate = happening('gate', fc.record({ paused: fc.boolean() }), ({ paused }) => ({
  send: ({ sql }) =>
    sql('UPDATE dispatch_gate SET paused = $1, paused_since = CASE WHEN $1 THEN now() END', [paused]).then(
      () => undefined,
    ),
  expect: (model) => void Object.assign(model, { paused }),
}));

export const destination = happening(
  'destination',
  fc.record({
    name: fc.constantFrom('keeps', 'promises-nothing', 'strict', 'late'),
    state: fc.constantFrom('active', 'paused'),
  }),
  ({ name, state }) => ({
    send: ({ sql }) =>
      sql('UPDATE destination SET state = $2, state_since = now() WHERE name = $1', [name, state]).then(
        () => undefined,
      ),
    expect: (model) => void Object.assign(model.destinations.find((one) => one.name === name) ?? {}, { state }),
  }),
);

/** Something of the world around: the statements meet it, and nobody asks for it. */
export const around = (change: Partial<Pick<ReminderModel, 'now' | 'chance'>>): Act => ({
  send: async () => undefined,
  expect: (model) => void Object.assign(model, change),
});

export const chance = happening('chance', fc.constantFrom(0, 0.5, 0.75), (part) => around({ chance: part }));
export const span = happening('seconds pass', fc.constantFrom(1, 30, 61, 150, 400, 4000), (more, { now }) =>
  around({ now: now + more * 1000 }),
);
/** To the very moment when something changes, one millisecond before it, or one after. */
export const moment = happening(
  'time passes until',
  fc.record({
    place,
    what: fc.constantFrom('wake', 'wake', 'lease', 'next', 'expires'),
    more: fc.constantFrom(-1, 0, 0, 1),
  }),
  ({ place: which, what, more }, before) => {
    const { one } = named(before, which);
    const times = { wake: one?.wake, lease: one?.lease?.until, next: one?.next, expires: one?.expires };
    const at = times[what] ?? 0;
    return Number.isFinite(at) && at + more > before.now ? around({ now: at + more }) : undefined;
  },
);
