// What a sequence of the model test is made of: commands of products, senders, claims and operators.
import fc from 'fast-check';
import { addDestination } from '../../lambdas/store/statements/add-destination.ts';
import { readmit } from '../../lambdas/store/statements/readmit.ts';
import {
  type Act,
  around,
  chance,
  destination,
  gate,
  type Happening,
  happening,
  idOf,
  keyOf,
  moment,
  named,
  place,
  span,
  urlOf,
} from './happenings.ts';
import { archive, decide } from './model-decisions.ts';
import type { Attempt, Settlement } from './reminder-life.ts';
import type { ReminderModel } from './reminder-model.ts';

const worker = { functionVersion: '1', requestId: 'request', logStream: 'stream' };
const seconds = (ms: number, more: number) => new Date(ms + more * 1000).toISOString();

const somePlaces = fc.uniqueArray(place, { minLength: 1, maxLength: 3 });
const producer = fc.constantFrom('product', 'product', 'product', 'product', 'rival');
const back = fc.nat(3);

const idsOf = (model: ReminderModel, wishes: readonly number[]) => [
  ...new Set(wishes.map((wish) => named(model, wish).deliveryId)),
];

/** The value so many places from the end. */
function recent<Value>(values: readonly Value[], from: number): Value | undefined {
  return values[values.length - 1 - (from % Math.max(values.length, 1))];
}

const schedule = happening(
  'schedule',
  fc.record({
    place,
    producer,
    due: fc.constantFrom(-5, 0, 0, 10, 200, 4000),
    // Seconds after it is due.
    expires: fc.constantFrom(null, null, 1, 30, 300),
    destination: fc.constantFrom('keeps', 'keeps', 'promises-nothing', 'strict', 'unknown', 'late'),
    change: fc.constantFrom({}, {}, { userId: 'user-2' }, { payload: '{"n":2}' }, { destination: 'strict' }),
  }),
  (wish, { now, reminders }, token) => {
    const deliveryId = idOf(wish.place);
    const known = reminders.get(deliveryId)?.asked;
    const expiresAt = wish.expires === null ? null : seconds(now, wish.due + wish.expires);
    const asked = {
      ...{ key: keyOf(wish.place), destination: wish.destination, userId: 'user-1', payload: '{"n":1}' },
      ...{ dueAt: seconds(now, wish.due), expiresAt },
      ...(known === undefined ? {} : { ...known, ...wish.change }),
      // Whoever asks again does not know the id.
      deliveryId: known === undefined ? deliveryId : token,
    };
    return {
      send: async ({ ledger }) => (await ledger.schedule({ token, producer: wish.producer, reminders: [asked] }))[0],
      expect: (model) => model.schedule(token, wish.producer, asked),
    };
  },
);

/** One to three names in one call, one of them twice at times. */
const cancel = happening(
  'cancel',
  fc.record({ places: fc.array(place, { minLength: 1, maxLength: 3 }), producer, byKey: fc.boolean() }),
  (wish, before, token) => {
    const all = wish.places.map((which) => named(before, which));
    const reminders = all.map(({ key, deliveryId }) => (wish.byKey ? { key } : { deliveryId }));
    return {
      send: ({ ledger }) => ledger.cancel({ token, producer: wish.producer, reminders }),
      expect: (model) =>
        model.cancel(
          token,
          wish.producer,
          all.map(({ key }) => key),
        ),
    };
  },
);

const newTime = fc.record({
  place,
  due: fc.constantFrom(undefined, 0, 60, 400),
  expires: fc.constantFrom(undefined, undefined, null, 30, -30),
  version: fc.constantFrom(undefined, undefined, 0, 1),
});
const reschedule = happening(
  'reschedule',
  fc.record({ producer, times: fc.array(newTime, { minLength: 1, maxLength: 3 }) }),
  (wish, before, token) => {
    const reminders = wish.times.map(({ place: which, due, expires, version }) => {
      const { one, key } = named(before, which);
      const { now } = before;
      const dueAt = due === undefined ? seconds(one?.due ?? now, 0) : seconds(now, due);
      const expiresAt = typeof expires === 'number' ? seconds(Date.parse(dueAt), expires) : expires;
      return {
        ...{ name: { key }, dueAt },
        ...(expiresAt === undefined ? {} : { expiresAt }),
        ...(version === undefined ? {} : { expectedVersion: (one?.version ?? 1) + version }),
      };
    });
    return {
      send: ({ ledger }) => ledger.reschedule({ token, producer: wish.producer, reminders }),
      expect: (model) => model.reschedule(token, wish.producer, reminders),
    };
  },
);

const register = happening(
  'add-destination',
  fc.record({
    name: fc.constantFrom('late', 'late', 'keeps', 'strict'),
    contract: fc.constantFrom('honours-key', 'honours-key', 'none'),
    owner: fc.constantFrom('me', 'me', 'me', 'you'),
    deadlineMs: fc.constantFrom(null, null, 500),
  }),
  (wish, _, token) => {
    const asked = { ...wish, destinationId: token, url: urlOf(wish.name) };
    return {
      send: async ({ runner }) => (await runner.run(addDestination, asked))[0],
      expect: (model) => model.addDestination(asked),
    };
  },
);

const get = happening('get', fc.record({ place, producer }), (wish, before) => {
  const { key } = named(before, wish.place);
  return {
    send: async ({ ledger }) => (await ledger.get({ producer: wish.producer, reminders: [{ key }] }))[0],
    expect: (model) => model.get(wish.producer, key),
  };
});

const claimOf = (token: string, only?: readonly string[]): Act => ({
  send: ({ ledger }) =>
    ledger.claim({ token, worker, limit: 10, lowWater: null, ...(only === undefined ? {} : { only }) }),
  expect: (model) => model.claim(token, only),
});
const claim = happening('claim', fc.option(somePlaces, { freq: 5, nil: undefined }), (wish, before, token) =>
  claimOf(token, wish && idsOf(before, wish)),
);

const claimById = happening('claimById', somePlaces, (wish, before, token) => {
  const deliveryIds = idsOf(before, wish);
  return {
    send: ({ ledger }) => ledger.claimById({ token, worker, deliveryIds }),
    expect: (model) => model.claimById(token, deliveryIds),
  };
});

/** One of the latest claims that took something. */
const aClaim = ({ claims }: ReminderModel, from: number) =>
  recent(
    claims.filter(({ claimed }) => claimed.length > 0),
    from,
  );

const enqueueOf = (token: string, claimToken: string, ids: readonly string[]): Act => {
  const receipts = ids.map((deliveryId, number) => ({
    ...{ deliveryId, messageId: `${token}-${number}`, queue: 'invitations', delaySeconds: 0 },
  }));
  return {
    send: ({ ledger }) => ledger.enqueue({ claimToken, receipts }),
    expect: (model) => model.enqueue(claimToken, receipts),
  };
};
const enqueue = happening('enqueue', fc.record({ back, leftOut: fc.nat(2) }), (wish, before, token) => {
  const own = aClaim(before, wish.back);
  return own && enqueueOf(token, own.token, own.claimed.slice(0, 3 - wish.leftOut));
});

const release = happening('release', back, (from, model, token) => {
  const own = aClaim(model, from);
  if (own === undefined) return undefined;
  return {
    send: ({ ledger }) => ledger.release({ token, claimToken: own.token, deliveryIds: own.claimed }),
    expect: (current) => current.release(token, own.token, own.claimed),
  };
});

const unpark = happening('unpark', fc.constant(10), (limit, _, token) => ({
  send: ({ ledger }) => ledger.unpark({ token, limit }),
  expect: (model) => model.unpark(token),
}));

const openOf = (token: string, deliveryIds: readonly string[], alone: boolean): Act => ({
  send: ({ ledger }) => ledger.open({ token, worker, deliveryIds, alone }),
  expect: (model) => model.open(token, deliveryIds, alone),
});
const open = happening('open', fc.record({ places: somePlaces, alone: fc.boolean() }), (wish, before, token) =>
  openOf(token, idsOf(before, wish.places), wish.alone),
);

const result = {
  outcome: fc.constantFrom(...(['delivered', 'retry', 'retry', 'permanent', 'gone', 'unknown', 'not_sent'] as const)),
  retryAfterSeconds: fc.constantFrom(null, null, 40),
};
type Result = Pick<Settlement, 'outcome' | 'retryAfterSeconds'>;

const settleOf = (token: string, results: ReadonlyMap<Attempt, Result>): Act => {
  const settlements = [...results].map(([attempt, { outcome, retryAfterSeconds }]): Settlement => {
    const errorClass = outcome === 'delivered' ? null : `so it was ${outcome}`;
    return { attempt, outcome, errorClass, retryAfterSeconds };
  });
  const sent = settlements.map(({ attempt, ...one }) => ({
    ...{ deliveryId: attempt.id, attemptNo: attempt.no, openToken: attempt.token, phase: 'headers' as const },
    ...{ status: null, detail: null, latencyMs: 1, ...one },
  }));
  return {
    send: ({ ledger }) => ledger.settle({ token, outcomes: sent }),
    expect: (model) => model.settle(token, settlements),
    // What was archived has no attempt that an outcome could be of: the foreign key refuses it, as test/ledger/archive.test.ts shows.
    isPossible: ({ attempts }) => settlements.every(({ attempt }) => attempts.includes(attempt)),
  };
};
const settle = happening(
  'settle',
  fc.uniqueArray(fc.record({ back, ...result }), { minLength: 1, maxLength: 2, selector: (wish) => wish.back }),
  (wishes, { attempts }, token) => {
    const results = new Map<Attempt, Result>();
    for (const wish of wishes) {
      const attempt = recent(attempts, wish.back);
      if (attempt !== undefined) results.set(attempt, wish);
    }
    return results.size === 0 ? undefined : settleOf(token, results);
  },
);

const exclude = happening('exclude', place, (which, before, token) => {
  const { one, deliveryId } = named(before, which);
  if (one === undefined) return undefined;
  return {
    send: ({ ledger }) => ledger.exclude({ token, deliveryId, sqlState: '23514', reason: 'it fails' }),
    expect: (model) => model.exclude(token, deliveryId),
  };
});

const readmitted = happening('readmit', place, (which, before, token) => {
  const { deliveryId } = named(before, which);
  const asked = { token, deliveryId, actor: 'me', reason: 'it was mended', ticket: null };
  return {
    send: async ({ runner }) => (await runner.run(readmit, asked))[0],
    expect: (model) => model.readmit(token, deliveryId, asked.reason),
  };
});

const announce = happening('announce', fc.integer({ min: 1, max: 3 }), (limit) => ({
  async send({ ledger }) {
    const events = await ledger.unannounced({ limit });
    await ledger.announce({ eventNos: events.map(({ eventNo }) => eventNo) });
    return events.map(({ eventId }) => eventId);
  },
  expect(model) {
    const events = model.events.filter(({ announced }) => !announced).slice(0, limit);
    for (const event of events) event.announced = true;
    return events.map(({ id, version, state }) => `${id}:${version}:${state}`);
  },
}));

/** The next step in the life of a reminder that nothing goes wrong with, up to an outcome of any kind. */
const step = happening('next step of', fc.record({ place, ...result }), (wish, before, token) => {
  const { one, deliveryId } = named(before, wish.place);
  const until = (at: number | null | undefined) => around({ now: Math.max(before.now, at ?? 0) });
  switch (one?.state) {
    case 'scheduled':
      return one.parked || (one.wake ?? 0) > before.now ? until(one.next) : claimOf(token, [deliveryId]);
    case 'dispatching':
      return enqueueOf(token, one.lease?.owner ?? '', [deliveryId]);
    case 'queued':
      return one.next > before.now ? until(one.next) : openOf(token, [deliveryId], true);
    case 'delivering': {
      const attempt = before.attempts.findLast(({ id }) => id === deliveryId);
      return attempt && settleOf(token, new Map([[attempt, wish]]));
    }
    default:
      return undefined;
  }
});

/** The same command once more, under its token, however late. */
const again = happening('again', fc.nat(8), (from, before, _, acts) => {
  const act = acts[acts.length - 1 - from];
  return act?.isPossible?.(before) === false ? undefined : act;
});

/** All that may happen, in the proportion in which it shall. */
export const happenings: readonly fc.Arbitrary<Happening>[] = [
  ...Array.from({ length: 6 }, () => schedule),
  ...Array.from({ length: 12 }, () => step),
  ...[moment, moment, moment, moment],
  ...[claim, claim, open, open, settle, settle, cancel, reschedule, reschedule, get, claimById, enqueue, release],
  ...[decide, decide, decide, decide, archive, archive, announce],
  ...[unpark, again, again, exclude, readmitted, announce, gate, destination, register, chance, span],
];
